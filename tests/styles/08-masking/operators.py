# Right answers with other operators and type hints, and with the earlier functions.


def leak(scores: Tensor, mask: Tensor, fill: float) -> Tensor:
    replaced = torch.where(mask, scores, torch.full_like(scores, fill))
    visible = torch.where(mask, replaced, torch.full_like(scores, -math.inf)).logsumexp(dim=-1)
    return 1 - torch.exp(visible - replaced.logsumexp(dim=-1))


def padding_mask(tokens: Tensor, pad_id: int) -> Tensor:
    batch, key = tokens.shape
    return tokens.ne(pad_id).reshape(batch, 1, 1, key)


def causal_mask(length: int) -> Tensor:
    place = torch.arange(length)
    return place.unsqueeze(0) <= place.unsqueeze(1)


def target_mask(tokens: Tensor, pad_id: int) -> Tensor:
    hidden = additive(padding_mask(tokens, pad_id)) + nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
    return hidden == 0


def additive(mask: Tensor) -> Tensor:
    return torch.where(mask, 0.0, -math.inf)


def decoder_pairs(words: list[str], start: str, end: str) -> tuple[list[str], list[str]]:
    inputs, labels = words.copy(), words.copy()
    inputs.insert(0, start)
    labels.append(end)
    return inputs, labels


def influence(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    with torch.enable_grad():
        leaf = x.detach().clone().requires_grad_(True)
        y = function(leaf)
        slopes = []
        for t in range(y.shape[0]):
            total = 0
            for c in range(y.shape[1]):
                chosen = torch.zeros_like(y)
                chosen[t, c] = 1
                (slope,) = torch.autograd.grad(y, leaf, grad_outputs=chosen, retain_graph=True)
                total = total + slope.abs()
            slopes.append(torch.einsum("sd->s", total))
    return torch.stack(slopes)


def parameter_count(source_vocab_size: int, target_vocab_size: int, d_model: int, num_layers: int, d_ff: int) -> int:
    square, vector = (d_model, d_model), (d_model,)
    attention = [square, vector] * 4
    feed_forward = [(d_ff, d_model), (d_ff,), (d_model, d_ff), vector]
    layers = attention * 3 + feed_forward * 2 + [vector] * 10
    words = [
        (source_vocab_size, d_model),
        (target_vocab_size, d_model),
        (target_vocab_size, d_model),
        (target_vocab_size,),
    ]
    return sum(math.prod(shape) for shape in words + layers * num_layers)


class Transformer(nn.Module):
    def __init__(
        self,
        source_vocab_size: int,
        target_vocab_size: int,
        d_model: int = 512,
        num_heads: int = 8,
        num_layers: int = 6,
        d_ff: int = 2048,
        dropout: float = 0.1,
        pad_id: int = 0,
        pre_norm: bool = False,
    ) -> None:
        nn.Module.__init__(self)
        stack = (num_layers, d_model, num_heads, d_ff, dropout, pre_norm)
        for name, part in {
            "source_embedding": TokenEmbedding(source_vocab_size, d_model),
            "target_embedding": TokenEmbedding(target_vocab_size, d_model),
            "position": PositionalEncoding(d_model, dropout=dropout),
            "encoder": Encoder(*stack),
            "decoder": Decoder(*stack),
            "generator": Generator(d_model, target_vocab_size),
        }.items():
            self.add_module(name, part)
        self.register_buffer("pad", torch.tensor(pad_id), persistent=False)
        self.apply(self._start)

    @property
    def pad_id(self) -> int:
        return int(self.pad)

    @staticmethod
    def _start(module: nn.Module) -> None:
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.xavier_uniform_(module.weight)

    def encode(self, source: Tensor) -> Tensor:
        return self.encoder(self.position(self.source_embedding(source)), mask=padding_mask(source, pad_id=self.pad_id))

    def decode(self, target: Tensor, memory: Tensor, memory_mask: Tensor | None = None) -> Tensor:
        hidden = self.decoder(
            self.position(self.target_embedding(target)),
            memory=memory,
            target_mask=target_mask(target, self.pad_id),
            memory_mask=memory_mask,
        )
        return self.generator(hidden)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return self.decode(target, memory=self.encode(source), memory_mask=source.ne(self.pad_id)[:, None, None, :])
