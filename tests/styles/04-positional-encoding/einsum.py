# Right answers with einsum, numpy, complex numbers and PyTorch's operators, in the style of d2l and minGPT.


def one_hot(tokens, vocab_size):
    return torch.nn.functional.one_hot(tokens, num_classes=vocab_size).to(torch.float32)


class TokenEmbedding(nn.Module):
    def __init__(self, vocab_size, d_model):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        nn.init.normal_(self.embedding.weight, mean=0.0, std=d_model**-0.5)

    def forward(self, tokens):
        table = self.embedding.weight
        hot = torch.nn.functional.one_hot(tokens, table.size(0)).to(table.dtype)
        return torch.einsum("...nv,vd->...nd", hot, table) * table.size(1) ** 0.5


def binary_code(length, bits):
    import numpy as np

    t = np.arange(length)
    return torch.from_numpy(np.stack([np.floor_divide(t, 2**b) % 2 for b in range(bits)], axis=1).astype(np.int64))


def wavelengths(d_model):
    import numpy as np

    return torch.from_numpy(2 * np.pi * np.power(10000, 2 * np.arange(d_model // 2) / d_model))


def sinusoidal_encoding(length, d_model):
    import numpy as np

    k = np.arange(d_model)
    angles = np.arange(length)[:, None] / np.power(10000, 2 * (k // 2) / np.float32(d_model))
    angles[:, 0::2] = np.sin(angles[:, 0::2])
    angles[:, 1::2] = np.cos(angles[:, 1::2])
    return torch.tensor(angles, dtype=torch.float32)


similarity = lambda offset, d_model: float(torch.cos(2 * math.pi * offset / wavelengths(d_model)).sum())  # noqa: E731


def shift_matrix(offset, d_model):
    one = torch.zeros(d_model, d_model, dtype=torch.float64)
    for i in range(0, d_model, 2):
        w = 10000 ** (-i / d_model)
        one[i, i + 1], one[i + 1, i] = w, -w
    return torch.matrix_exp(offset * one)


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_length=5000, dropout=0.0):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.max_length = max_length
        self.P = torch.zeros((1, max_length, d_model))
        X = torch.arange(max_length, dtype=torch.float32).reshape(-1, 1) / torch.pow(
            10000, torch.arange(0, d_model, 2, dtype=torch.float32) / d_model
        )
        self.P[:, :, 0::2] = torch.sin(X)
        self.P[:, :, 1::2] = torch.cos(X[:, : d_model // 2])

    def forward(self, X):
        if X.shape[-2] > self.max_length:
            raise ValueError(X.shape[-2])
        return self.dropout(X + self.P[0, : X.shape[-2], :].to(X))
