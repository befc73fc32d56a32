# Right answers with PyTorch's own operators, and whole batches at a time.


@torch.no_grad()
def greedy_sentence(model, source, start_id, end_id, max_length):
    tokens = source.new_tensor([[start_id]])
    memory = model.encode(source[None])
    while tokens.shape[1] < max_length and (tokens.shape[1] == 1 or tokens[0, -1] != end_id):
        logits = model.decode(tokens, memory, padding_mask(source[None], model.pad_id))
        tokens = torch.hstack([tokens, logits[:, -1:].argmax(-1).to(tokens.dtype)])
    return tokens.flatten().tolist()


def sampling_probabilities(logits, temperature=1.0, top_k=None, top_p=None):
    p = nn.functional.softmax(logits.div(temperature), dim=-1)
    if top_k is not None and top_k < p.size(-1):
        values, indices = p.topk(top_k, dim=-1)
        p = torch.zeros_like(p).scatter_(-1, indices, values)
        p = nn.functional.normalize(p, p=1, dim=-1)
    if top_p is not None:
        before = (p[..., None, :] * (p[..., None, :] > p[..., :, None])).sum(-1)  # what is more probable
        p = torch.where(before < top_p, p, torch.zeros_like(p))
        p = nn.functional.normalize(p, p=1, dim=-1)
    return p


class KeyValueCache:
    """Keeps everything in one tensor for each kind, with room for all positions."""

    def __init__(self, model, source):
        self.m, self.t = model, 0
        memory = model.encode(source)
        self.h = model.encoder.layers[0].attention.weights.size(1)
        layers = model.decoder.layers
        self.mem = torch.stack(
            [
                torch.stack([self._cut(a.w_k(memory)), self._cut(a.w_v(memory))], 1)
                for a in (layer.cross_attention for layer in layers)
            ],
            1,
        )
        self.past = memory.new_zeros(len(source), len(layers), 2, self.h, 0, memory.size(-1) // self.h)
        self.src_ok = source.ne(model.pad_id)
        self.tgt_ok = source.new_zeros(len(source), 0, dtype=torch.bool)

    def _cut(self, x):
        return x.unflatten(-1, (self.h, -1)).movedim(-2, 1)

    def _look(self, a, y, kv, ok):
        q = self._cut(a.w_q(y))
        out = nn.functional.scaled_dot_product_attention(q, kv[:, 0], kv[:, 1], ok[:, None, None])
        return a.w_o(out.nan_to_num().movedim(1, -2).flatten(-2))

    def step(self, tokens):
        self.tgt_ok = torch.cat([self.tgt_ok, tokens.ne(self.m.pad_id)[:, None]], 1)
        blank = torch.zeros(1, self.t + 1, self.m.target_embedding.embedding.embedding_dim, dtype=self.mem.dtype)
        x = self.m.target_embedding(tokens[:, None]) + self.m.position(blank)[:, self.t :]
        room = self.past.new_zeros(*self.past.shape[:4], 1, self.past.size(-1))
        self.past, self.t = torch.cat([self.past, room], 4), self.t + 1
        for i, layer in enumerate(self.m.decoder.layers):

            def own(y, i=i, a=layer.self_attention):
                self.past[:, i, 0, :, -1:], self.past[:, i, 1, :, -1:] = self._cut(a.w_k(y)), self._cut(a.w_v(y))
                return self._look(a, y, self.past[:, i], self.tgt_ok)

            x = layer.add_norm_1(x, own)
            x = layer.add_norm_2(
                x, lambda y, i=i, a=layer.cross_attention: self._look(a, y, self.mem[:, i], self.src_ok)
            )
            x = layer.add_norm_3(x, layer.feed_forward)
        last = getattr(self.m.decoder, "norm", None) or nn.Identity()
        return self.m.generator(last(x)).select(1, 0).detach()

    def reorder(self, rows):
        for name in ("mem", "past", "src_ok", "tgt_ok"):
            setattr(self, name, getattr(self, name).index_select(0, rows))


@torch.inference_mode()
def greedy_decode(model, source, start_id, end_id, max_length):
    training = model.training
    model.train(False)
    out = source.new_full((source.size(0), max_length), model.pad_id)
    out[:, 0] = start_id
    alive, width, cache = torch.ones(source.size(0)).bool(), 1, KeyValueCache(model, source)
    while width < max_length and alive.any():
        best = cache.step(out[:, width - 1]).topk(1).indices[:, 0].to(out.dtype)
        out[:, width] = torch.where(alive, best, out.new_tensor(model.pad_id))
        alive &= best.ne(end_id)
        width += 1
    model.train(training)
    return out[:, :width].clone()


def penalised_score(log_p, n, length_penalty):
    return log_p * math.exp(-length_penalty * math.log((5 + n) / 6))


@torch.inference_mode()
def beam_search(model, source, start_id, end_id, max_length, beam_size=4, length_penalty=0.6):
    training = model.training
    model.eval()
    n, k, pad = source.size(0), beam_size, model.pad_id
    cache = KeyValueCache(model, source.repeat_interleave(k, 0))
    out = source.new_full((n, k, 1), start_id).long()
    total = torch.tensor([0.0] + [-math.inf] * (k - 1)).double().repeat(n, 1)
    done, count = torch.zeros(n, k).bool(), torch.zeros(n, k)
    for _ in range(max_length - 1):
        if done.all():
            break
        new = cache.step(out[:, :, -1].reshape(-1)).double().log_softmax(-1).view(n, k, -1)
        only_pad = torch.full_like(new, -math.inf)
        only_pad[:, :, pad] = 0
        new = torch.where(done[:, :, None], only_pad, new)
        total, place = (total[:, :, None] + new).view(n, -1).sort(1, descending=True)
        total, place = total[:, :k], place[:, :k]
        from_beam, word = torch.div(place, new.size(2), rounding_mode="floor"), place.remainder(new.size(2))
        cache.reorder((from_beam + k * torch.arange(n)[:, None]).view(-1))
        out = torch.cat([out.take_along_dim(from_beam[:, :, None], 1), word[:, :, None]], 2)
        done, count = done.take_along_dim(from_beam, 1), count.take_along_dim(from_beam, 1)
        count = count + (~done)
        done = done | word.eq(end_id)
    score = total / ((count + 5) / 6).pow(length_penalty)
    best = score.max(1).indices
    model.train(training)
    width = int(count.gather(1, best[:, None]).max()) + 1
    return out[torch.arange(n), best, :width].clone()


def clipped_matches(candidate, reference, n):
    mine, theirs = (Counter(zip(*[list(words)[i:] for i in range(n)])) for words in (candidate, reference))
    return (mine & theirs).total(), mine.total()


def bleu(candidates, references):
    counts = torch.tensor(
        [[clipped_matches(one, two, n) for one, two in zip(candidates, references)] for n in (1, 2, 3, 4)],
        dtype=torch.float64,
    ).sum(1)
    if (counts[:, 0] == 0).any():
        return 0.0
    precision = counts[:, 0] / counts[:, 1]
    c, r = (sum(len(words) for words in side) for side in (candidates, references))
    return float(100 * precision.log().mean().exp() * min(1.0, math.e ** (1 - r / c)))
