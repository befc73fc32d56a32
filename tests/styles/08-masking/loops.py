# Right answers by somebody who thinks in loops.


def leak(scores, mask, fill):
    if scores.dim() > 1:
        return torch.stack([leak(row, seen, fill) for row, seen in zip(scores, mask, strict=True)])
    values = [
        score if seen else torch.tensor(fill, dtype=scores.dtype) for score, seen in zip(scores, mask, strict=True)
    ]
    top = max(values)
    powers = [torch.exp(value - top) for value in values]
    hidden = [power for power, seen in zip(powers, mask, strict=True) if not seen]
    return sum(hidden, torch.zeros((), dtype=scores.dtype)) / sum(powers)


def padding_mask(tokens, pad_id):
    rows = []
    for sentence in tokens:
        rows.append([[[bool(token != pad_id) for token in sentence]]])
    return torch.tensor(rows)


def causal_mask(length):
    mask = torch.zeros(length, length, dtype=torch.bool)
    for i in range(length):
        for j in range(i + 1):
            mask[i, j] = True
    return mask


def target_mask(tokens, pad_id):
    batch, length = tokens.shape
    mask = torch.zeros(batch, 1, length, length, dtype=torch.bool)
    for b in range(batch):
        for i in range(length):
            for j in range(length):
                mask[b, 0, i, j] = j <= i and tokens[b, j].item() != pad_id
    return mask


def additive(mask):
    result = torch.empty(mask.numel())
    for place, seen in enumerate(mask.flatten().tolist()):
        result[place] = 0.0 if seen else float("-inf")
    return result.view(mask.shape)


def decoder_pairs(words, start, end):
    inputs, labels = [], []
    previous = start
    for word in words:
        inputs.append(previous)
        labels.append(word)
        previous = word
    inputs.append(previous)
    labels.append(end)
    return inputs, labels


def influence(function, x):
    rows = []
    leaf = x.detach().clone()
    leaf.requires_grad = True
    y = function(leaf)
    for row in y:
        total = torch.zeros(x.shape[0], dtype=x.dtype)
        for component in row:
            leaf.grad = None
            component.backward(retain_graph=True)
            total = total + leaf.grad.abs().sum(1)
        rows.append(total)
    return torch.stack(rows)


def parameter_count(source_vocab_size, target_vocab_size, d_model, num_layers, d_ff):
    def linear(a, b):
        return a * b + b

    total = source_vocab_size * d_model + target_vocab_size * d_model + linear(d_model, target_vocab_size)
    for _ in range(num_layers):
        for attentions, norms in [(1, 2), (2, 3)]:
            for _ in range(attentions):
                total += 4 * linear(d_model, d_model)
            total += linear(d_model, d_ff) + linear(d_ff, d_model)
            total += norms * 2 * d_model
    return total


class Transformer(nn.Module):
    def __init__(
        self,
        source_vocab_size,
        target_vocab_size,
        d_model=512,
        num_heads=8,
        num_layers=6,
        d_ff=2048,
        dropout=0.1,
        pad_id=0,
        pre_norm=False,
    ):
        super().__init__()
        self.generator = Generator(d_model, target_vocab_size)
        self.decoder = Decoder(num_layers, d_model, num_heads, d_ff, dropout=dropout, pre_norm=pre_norm)
        self.encoder = Encoder(num_layers, d_model, num_heads, d_ff, dropout=dropout, pre_norm=pre_norm)
        self.position = PositionalEncoding(d_model, 5000, dropout)
        self.target_embedding = TokenEmbedding(target_vocab_size, d_model)
        self.source_embedding = TokenEmbedding(source_vocab_size, d_model)
        self.pad_id = pad_id
        for name, parameter in self.named_parameters():
            if len(parameter.shape) == 2:
                bound = (6 / (parameter.shape[0] + parameter.shape[1])) ** 0.5
                with torch.no_grad():
                    parameter.uniform_(-bound, bound)

    def encode(self, source):
        batch, length = source.shape
        mask = torch.zeros(batch, 1, 1, length, dtype=torch.bool)
        for b in range(batch):
            for j in range(length):
                mask[b, 0, 0, j] = source[b, j].item() != self.pad_id
        return self.encoder(self.position(self.source_embedding(source)), mask)

    def decode(self, target, memory, memory_mask=None):
        embedded = self.position(self.target_embedding(target))
        batch, length = target.shape
        mask = torch.zeros(batch, 1, length, length, dtype=torch.bool)
        for b in range(batch):
            for i in range(length):
                for j in range(i + 1):
                    mask[b, 0, i, j] = target[b, j].item() != self.pad_id
        for layer in self.decoder.layers:
            embedded = layer(embedded, memory, mask, memory_mask)
        return self.generator(self.decoder.norm(embedded))

    def forward(self, source, target):
        memory = self.encode(source)
        mask = torch.stack([(row != self.pad_id).reshape(1, 1, -1) for row in source])
        return self.decode(target, memory, mask)
