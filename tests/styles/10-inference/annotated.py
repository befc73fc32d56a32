# Right answers in the style of the Annotated Transformer, minGPT and Hugging Face.


@torch.no_grad()
def greedy_sentence(model, source, start_id, end_id, max_length):
    src = source.view(1, -1)
    src_mask = (src != model.pad_id).unsqueeze(-2).unsqueeze(1)
    memory = model.encode(src)
    ys = torch.zeros(1, 1).fill_(start_id).type_as(src.data)
    for _ in range(max_length - 1):
        out = model.decode(ys, memory, src_mask)
        prob = torch.log_softmax(out[:, -1], dim=-1)
        _, next_word = torch.max(prob, dim=1)
        next_word = next_word.data[0]
        ys = torch.cat([ys, torch.zeros(1, 1).type_as(src.data).fill_(next_word)], dim=1)
        if next_word == end_id:
            break
    return ys[0].tolist()


def sampling_probabilities(logits, temperature=1.0, top_k=None, top_p=None):
    scores = logits / temperature
    if top_k is not None:
        top_k = min(top_k, scores.size(-1))
        indices_to_remove = scores < torch.topk(scores, top_k)[0][..., -1, None]
        scores = scores.masked_fill(indices_to_remove, -float("Inf"))
    if top_p is not None:
        sorted_logits, sorted_indices = torch.sort(scores, descending=True)
        cumulative_probs = sorted_logits.softmax(dim=-1).cumsum(dim=-1)
        sorted_indices_to_remove = cumulative_probs > top_p
        sorted_indices_to_remove[..., 1:] = sorted_indices_to_remove[..., :-1].clone()
        sorted_indices_to_remove[..., 0] = False
        indices_to_remove = sorted_indices_to_remove.scatter(-1, sorted_indices, sorted_indices_to_remove)
        scores = scores.masked_fill(indices_to_remove, -float("Inf"))
    return nn.functional.softmax(scores, dim=-1)


class KeyValueCache:
    def __init__(self, model: Transformer, source: Tensor):
        self.model, self.heads = model, None
        self.source_mask = (source != model.pad_id)[:, None, None]
        memory = model.encode(source)
        self.heads = model.encoder.layers[0].attention.num_heads
        self.layer_past = [None for _ in model.decoder.layers]
        self.cross_past = [
            (self.shape(layer.cross_attention.w_k(memory)), self.shape(layer.cross_attention.w_v(memory)))
            for layer in model.decoder.layers
        ]
        self.attention_mask = None

    def shape(self, x):
        return x.view(x.size(0), -1, self.heads, x.size(-1) // self.heads).transpose(1, 2)

    def sdpa(self, module, hidden, past, mask):
        q = self.shape(module.w_q(hidden))
        att = (q @ past[0].transpose(-2, -1)) * (1.0 / math.sqrt(past[0].size(-1)))
        att = att.masked_fill(mask == 0, torch.finfo(att.dtype).min)
        att = nn.functional.softmax(att, dim=-1) * mask.any(-1, keepdim=True)
        return module.w_o((att @ past[1]).transpose(1, 2).contiguous().view(hidden.shape))

    def step(self, tokens):
        mask = (tokens != self.model.pad_id)[:, None, None, None]
        self.attention_mask = mask if self.attention_mask is None else torch.cat((self.attention_mask, mask), dim=-1)
        t = self.attention_mask.size(-1)
        embedded = self.model.target_embedding(tokens.unsqueeze(-1))
        hidden = self.model.position(embedded.repeat(1, t, 1))[:, -1:]
        for index, layer in enumerate(self.model.decoder.layers):

            def self_attn(y):
                present = self.shape(layer.self_attention.w_k(y)), self.shape(layer.self_attention.w_v(y))
                if self.layer_past[index] is not None:
                    past = self.layer_past[index]
                    present = torch.cat((past[0], present[0]), dim=-2), torch.cat((past[1], present[1]), dim=-2)
                self.layer_past[index] = present
                return self.sdpa(layer.self_attention, y, present, self.attention_mask)

            def cross_attn(y):
                return self.sdpa(layer.cross_attention, y, self.cross_past[index], self.source_mask)

            hidden = layer.add_norm_3(
                layer.add_norm_2(layer.add_norm_1(hidden, self_attn), cross_attn), layer.feed_forward
            )
        last = getattr(self.model.decoder, "norm", None) or nn.Identity()
        return self.model.generator(last(hidden))[:, -1, :]

    def reorder(self, rows):
        def select(past):
            return None if past is None else tuple(state.index_select(0, rows) for state in past)

        self.layer_past = [select(past) for past in self.layer_past]
        self.cross_past = [select(past) for past in self.cross_past]
        self.source_mask = self.source_mask.index_select(0, rows)
        if self.attention_mask is not None:
            self.attention_mask = self.attention_mask.index_select(0, rows)


@torch.no_grad()
def greedy_decode(model, source, start_id, end_id, max_length):
    mode = model.training
    model.eval()
    memory, src_mask = model.encode(source), padding_mask(source, model.pad_id)
    ys = torch.full((source.size(0), 1), start_id)
    unfinished = torch.ones(source.size(0), dtype=torch.long)
    for _ in range(max_length - 1):
        next_tokens = model.decode(ys, memory, src_mask)[:, -1, :].argmax(dim=-1)
        next_tokens = next_tokens * unfinished + model.pad_id * (1 - unfinished)
        ys = torch.cat([ys, next_tokens[:, None]], dim=-1)
        unfinished = unfinished * (next_tokens != end_id).long()
        if unfinished.max() == 0:
            break
    model.train(mode)
    return ys


def penalised_score(log_p, n, length_penalty):
    lp = ((5.0 + n) ** length_penalty) / ((5.0 + 1.0) ** length_penalty)
    return log_p / lp


@torch.no_grad()
def beam_search(model, source, start_id, end_id, max_length, beam_size=4, length_penalty=0.6):
    mode = model.training
    model.eval()
    outputs = []
    for row in source.split(1):
        cache = KeyValueCache(model, row)
        alive = [(0.0, (start_id,))]
        finished = []
        while alive and len(alive[0][1]) < max_length:
            log_probs = nn.functional.log_softmax(cache.step(torch.tensor([tokens[-1] for _, tokens in alive])), dim=-1)
            pool = [(score, tokens, None) for score, tokens in finished]
            for i, (score, tokens) in enumerate(alive):
                pool.extend((score + lp, (*tokens, w), i) for w, lp in enumerate(log_probs[i].tolist()))
            pool = sorted(pool, key=lambda item: item[0], reverse=True)[:beam_size]
            finished = [(score, tokens) for score, tokens, i in pool if i is None or tokens[-1] == end_id]
            going = [item for item in pool if item[2] is not None and item[1][-1] != end_id]
            alive = [(score, tokens) for score, tokens, _ in going]
            if going:
                cache.reorder(torch.tensor([i for _, _, i in going]))
        ranked = [
            (penalised_score(score, max(len(tokens) - 1, 1), length_penalty), tokens)
            for score, tokens in finished + alive
        ]
        outputs.append(torch.tensor(max(ranked)[1]))
    model.train(mode)
    return nn.utils.rnn.pad_sequence(outputs, batch_first=True, padding_value=model.pad_id)


def clipped_matches(candidate, reference, n):
    def ngrams(segment):
        counts = Counter()
        for i in range(0, len(segment) - n + 1):
            counts[tuple(segment[i : i + n])] += 1
        return counts

    mine, theirs = ngrams(candidate), ngrams(reference)
    overlap = {gram: min(count, theirs.get(gram, 0)) for gram, count in mine.items()}
    return sum(overlap.values()), max(len(candidate) - n + 1, 0)


def bleu(candidates, references):
    matches_by_order, possible_by_order = [0] * 4, [0] * 4
    for candidate, reference in zip(candidates, references):
        for order in range(4):
            matches, possible = clipped_matches(candidate, reference, order + 1)
            matches_by_order[order] += matches
            possible_by_order[order] += possible
    precisions = [m / p if p > 0 else 0.0 for m, p in zip(matches_by_order, possible_by_order)]
    if min(precisions) == 0:
        return 0.0
    geo_mean = math.exp(sum(0.25 * math.log(p) for p in precisions))
    ratio = sum(map(len, candidates)) / sum(map(len, references))
    bp = 1.0 if ratio > 1.0 else math.exp(1 - 1.0 / ratio)
    return 100 * geo_mean * bp
