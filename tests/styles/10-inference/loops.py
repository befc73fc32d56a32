# Right answers by somebody who thinks in loops, and does without a cache where it is allowed.


@torch.no_grad()
def greedy_sentence(model, source, start_id, end_id, max_length):
    tokens = [start_id]
    batch = source.unsqueeze(0)
    for _ in range(max_length - 1):
        scores = model(batch, torch.tensor([tokens]))[0, -1].tolist()
        best = 0
        for word in range(1, len(scores)):
            if scores[word] > scores[best]:
                best = word
        tokens.append(best)
        if best == end_id:
            return tokens
    return tokens


def sampling_probabilities(logits, temperature=1.0, top_k=None, top_p=None):
    if logits.dim() > 1:
        return torch.stack([sampling_probabilities(row, temperature, top_k, top_p) for row in logits])
    p = torch.softmax(logits / temperature, dim=0).tolist()
    order = sorted(range(len(p)), key=lambda word: -p[word])
    if top_k is not None:
        order = order[:top_k]
    total = sum(p[word] for word in order)
    kept, reached = [], 0.0
    for word in order:
        if top_p is not None and reached >= top_p:
            break
        kept.append(word)
        reached += p[word] / total
    total = sum(p[word] for word in kept)
    result = torch.zeros_like(logits)
    for word in kept:
        result[word] = p[word] / total
    return result


class KeyValueCache:
    def __init__(self, model, source):
        self.model = model
        self.layers = list(model.decoder.layers)
        self.memory = model.encode(source)
        self.hidden_source = source == model.pad_id
        self.is_word = []
        self.cross_keys, self.cross_values, self.keys, self.values = [], [], [], []
        for layer in self.layers:
            self.cross_keys.append(layer.cross_attention.w_k(self.memory))
            self.cross_values.append(layer.cross_attention.w_v(self.memory))
            self.keys.append([])
            self.values.append([])
        self.num_heads = model.encoder.layers[-1].attention.weights.size(1)

    def attention(self, module, x, keys, values, visible):
        query, size = module.w_q(x), x.size(-1) // self.num_heads
        parts = []
        for head in range(self.num_heads):
            block = slice(head * size, (head + 1) * size)
            scores = (keys[..., block] * query[..., block]).sum(-1) / math.sqrt(size)
            scores = scores.masked_fill(~visible, -math.inf)
            weights = torch.nan_to_num(torch.softmax(scores, dim=-1))
            parts.append((weights.unsqueeze(-1) * values[..., block]).sum(1, keepdim=True))
        return module.w_o(torch.cat(parts, dim=-1))

    def step(self, tokens):
        position = len(self.is_word)
        self.is_word.append(tokens != self.model.pad_id)
        x = self.model.target_embedding(tokens.unsqueeze(1))
        blank = torch.zeros(x.size(0), position + 1, x.size(2), dtype=x.dtype)
        x = x + self.model.position(blank)[:, position : position + 1]
        for number, layer in enumerate(self.layers):

            def look_back(y, number=number, layer=layer):
                self.keys[number].append(layer.self_attention.w_k(y))
                self.values[number].append(layer.self_attention.w_v(y))
                keys, values = torch.cat(self.keys[number], 1), torch.cat(self.values[number], 1)
                return self.attention(layer.self_attention, y, keys, values, torch.stack(self.is_word, 1))

            def look_over(y, number=number, layer=layer):
                keys, values = self.cross_keys[number], self.cross_values[number]
                return self.attention(layer.cross_attention, y, keys, values, ~self.hidden_source)

            x = layer.add_norm_1(x, look_back)
            x = layer.add_norm_2(x, look_over)
            x = layer.add_norm_3(x, layer.feed_forward)
        last = getattr(self.model.decoder, "norm", None) or nn.Identity()
        return self.model.generator(last(x)).squeeze(1)

    def reorder(self, rows):
        self.hidden_source = self.hidden_source[rows]
        self.is_word = [column[rows] for column in self.is_word]
        for number in range(len(self.layers)):
            self.cross_keys[number] = self.cross_keys[number][rows]
            self.cross_values[number] = self.cross_values[number][rows]
            self.keys[number] = [key[rows] for key in self.keys[number]]
            self.values[number] = [value[rows] for value in self.values[number]]


def greedy_decode(model, source, start_id, end_id, max_length):
    training = model.training
    model.eval()
    rows = [greedy_sentence(model, sentence, start_id, end_id, max_length) for sentence in source]
    model.train(training)
    longest = max(len(row) for row in rows)
    for row in rows:
        while len(row) < longest:
            row.append(model.pad_id)
    return torch.tensor(rows)


def penalised_score(log_p, n, length_penalty):
    penalty = pow(5 + n, length_penalty) / pow(6, length_penalty)
    return log_p / penalty


@torch.no_grad()
def beam_search(model, source, start_id, end_id, max_length, beam_size=4, length_penalty=0.6):
    training = model.training
    model.eval()
    winners = []
    for sentence in source:
        beams = [(0.0, [start_id], False)]
        for _ in range(max_length - 1):
            grown = []
            for log_p, tokens, done in beams:
                if done:
                    grown.append((log_p, tokens, True))
                else:
                    row = torch.log_softmax(model(sentence.unsqueeze(0), torch.tensor([tokens]))[0, -1], 0)
                    for word, value in enumerate(row.tolist()):
                        grown.append((log_p + value, [*tokens, word], word == end_id))
            grown.sort(key=lambda beam: beam[0], reverse=True)
            beams = grown[:beam_size]
            if all(done for _, _, done in beams):
                break
        best = max(beams, key=lambda beam: beam[0] / ((5 + max(1, len(beam[1]) - 1)) / 6) ** length_penalty)
        winners.append(best[1])
    model.train(training)
    longest = max(len(row) for row in winners)
    return torch.tensor([row + [model.pad_id] * (longest - len(row)) for row in winners])


def clipped_matches(candidate, reference, n):
    left = [list(reference[i : i + n]) for i in range(len(reference) - n + 1)]
    found = total = 0
    for i in range(len(candidate) - n + 1):
        gram = list(candidate[i : i + n])
        total += 1
        if gram in left:
            left.remove(gram)
            found += 1
    return found, total


def bleu(candidates, references):
    total = 0.0
    for n in range(1, 5):
        matches = grams = 0
        for candidate, reference in zip(candidates, references):
            found, count = clipped_matches(candidate, reference, n)
            matches += found
            grams += count
        if not matches:
            return 0.0
        total += math.log(matches) - math.log(grams)
    written = sum(len(candidate) for candidate in candidates)
    wanted = sum(len(reference) for reference in references)
    return 100.0 * math.exp(min(0.0, 1 - wanted / written) + total / 4)
