# Right answers by somebody who thinks in loops.


def one_hot(tokens, vocab_size):
    if tokens.dim() > 1:
        return torch.stack([one_hot(part, vocab_size) for part in tokens])
    rows = []
    for number in tokens.tolist():
        row = [0.0] * vocab_size
        row[number] = 1.0
        rows.append(row)
    return torch.tensor(rows)


class TokenEmbedding(nn.Module):
    def __init__(self, vocab_size, d_model):
        super().__init__()
        self.add_module("embedding", nn.Embedding(num_embeddings=vocab_size, embedding_dim=d_model))
        self.factor = d_model**0.5

    def forward(self, tokens):
        if tokens.dim() > 1:
            return torch.stack([self.forward(part) for part in tokens])
        return torch.stack([self.embedding.weight[number] * self.factor for number in tokens])


def binary_code(length, bits):
    rows = []
    for t in range(length):
        digits = []
        for _ in range(bits):
            t, digit = divmod(t, 2)
            digits.append(digit)
        rows.append(digits)
    return torch.tensor(rows)


def wavelengths(d_model):
    result = []
    for i in range(d_model // 2):
        result.append(2 * math.pi * math.pow(10000, 2 * i / d_model))
    return torch.tensor(result, dtype=torch.float64)


def sinusoidal_encoding(length, d_model):
    pe = torch.zeros(length, d_model)
    for t in range(length):
        for k in range(d_model):
            i = k // 2
            angle = t / math.pow(10000, 2 * i / d_model)
            pe[t, k] = math.sin(angle) if k % 2 == 0 else math.cos(angle)
    return pe


def similarity(offset, d_model):
    total = 0.0
    for k in range(0, d_model, 2):
        total += math.cos(offset * 10000 ** (-k / d_model))
    return total


def shift_matrix(offset, d_model):
    rows = []
    for r in range(d_model):
        angle = offset / 10000 ** (2 * (r // 2) / d_model)
        row = [0.0] * d_model
        row[r] = math.cos(angle)
        if r % 2 == 0:
            row[r + 1] = math.sin(angle)
        else:
            row[r - 1] = -math.sin(angle)
        rows.append(row)
    return torch.tensor(rows, dtype=torch.double)


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_length=5000, dropout=0.0):
        super().__init__()
        self.d_model, self.max_length, self.p = d_model, max_length, dropout

    def forward(self, x):
        if x.size(-2) > self.max_length:
            raise ValueError(f"at most {self.max_length} positions, not {x.size(-2)}")
        encoding = torch.zeros(x.size(-2), self.d_model, dtype=x.dtype, device=x.device)
        for t in range(x.size(-2)):
            for k in range(self.d_model):
                angle = t / 10000 ** (2 * (k // 2) / self.d_model)
                encoding[t, k] = math.sin(angle) if k % 2 == 0 else math.cos(angle)
        return nn.functional.dropout(x + encoding, self.p, training=self.training)
