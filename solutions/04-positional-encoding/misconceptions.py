"""Wrong answers as people write them. Each must lose the points of its exercise, and of no other."""

import math

import torch
from torch import nn

from autograder.misconceptions import misconception, wrong_edit

wrong_edit(
    "one_hot",
    "one-hot-columns",
    "Your one-hot vectors are columns. Tokens are rows: the vocabulary is the last dimension.",
    {"(tokens[..., None] == torch.arange(vocab_size)).float()": "torch.eye(vocab_size)[tokens].transpose(-1, -2)"},
)


@misconception(
    "one_hot",
    "one-hot-one-sentence",
    "This works for one sentence only: len(tokens) is the size of the batch when there is one. Use tokens.shape for "
    "the shape of the result.",
)
def one_hot(tokens, vocab_size):
    vectors = torch.zeros(len(tokens), vocab_size)
    for row in range(len(tokens)):
        vectors[row, tokens[row]] = 1
    return vectors


wrong_edit(
    "one_hot",
    "one-hot-largest-id",
    "The number of columns is vocab_size, not the largest id of this sentence plus one.",
    {"tokens[..., None] == torch.arange(vocab_size)": "torch.nn.functional.one_hot(tokens)"},
)
wrong_edit(
    "one_hot",
    "one-hot-integers",
    "torch.nn.functional.one_hot returns integers. A matrix product with the table needs floats: add .float().",
    {"(tokens[..., None] == torch.arange(vocab_size)).float()": "torch.nn.functional.one_hot(tokens, vocab_size)"},
)

wrong_edit(
    "TokenEmbedding",
    "embedding-no-scaling",
    "The factor is missing: the vectors are multiplied by the square root of d_model.",
    {" * math.sqrt(self.embedding.embedding_dim)": ""},
)
wrong_edit(
    "TokenEmbedding",
    "embedding-divided",
    "You divide by the square root of d_model. That belongs to attention, where scores are divided. Embeddings are "
    "multiplied.",
    {" * math.sqrt(": " / math.sqrt("},
)
wrong_edit(
    "TokenEmbedding",
    "embedding-scales-table",
    "You multiply the stored table in every call, so it grows from call to call. Multiply the result instead.",
    {
        "return self.embedding(tokens) * math.sqrt(self.embedding.embedding_dim)": (
            "self.embedding.weight.data *= math.sqrt(self.embedding.embedding_dim)\nreturn self.embedding(tokens)"
        )
    },
)
wrong_edit(
    "TokenEmbedding",
    "embedding-padding-row",
    "padding_idx=0 keeps row 0 from being trained. All rows can be trained here, so leave the argument out.",
    {
        "self.embedding = nn.Embedding(vocab_size, d_model)": (
            "self.embedding = nn.Embedding(vocab_size, d_model, padding_idx=0)"
        )
    },
)
wrong_edit(
    "TokenEmbedding",
    "embedding-frozen",
    ".weight.data cuts the table off from the gradient, so it is never trained. Call self.embedding(tokens).",
    {"self.embedding(tokens)": "self.embedding.weight.data[tokens]"},
)

wrong_edit(
    "binary_code",
    "highest-digit-first",
    "Your highest digit stands first, as numbers are written. Here column 0 is the lowest digit, the fast wheel.",
    {"torch.arange(bits)": "torch.arange(bits - 1, -1, -1)"},
)


@misconception(
    "binary_code",
    "format-width",
    'f"{t:04b}" has more digits when the number needs more, so rows differ in length. Keep the lowest digits only.',
)
def binary_code(length, bits):
    return torch.tensor([[int(digit) for digit in reversed(format(t, f"0{bits}b"))] for t in range(length)])


@misconception(
    "binary_code",
    "digit-without-modulo",
    "Dividing by 2 ** b removes the lower digits. The higher ones are still there: take the remainder modulo 2.",
)
def binary_code(length, bits):
    return torch.arange(length)[:, None] // 2 ** torch.arange(bits)


@misconception(
    "wavelengths",
    "divisor-as-wavelength",
    "These are the divisors. A full turn is an angle of 2π, so a wavelength is 2π times the divisor.",
)
def wavelengths(d_model):
    return 10000.0 ** (torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)


@misconception(
    "wavelengths",
    "wavelengths-with-end",
    "You let the last wavelength be 2π · 10000. The last exponent is (d_model - 2) / d_model, which is less than 1.",
)
def wavelengths(d_model):
    return 2 * math.pi * torch.logspace(0, 4, d_model // 2, dtype=torch.float64)


@misconception(
    "wavelengths", "wavelengths-hard-coded", "100 ** i is right for d_model = 4 only. The exponent is 2i / d_model."
)
def wavelengths(d_model):
    return 2 * math.pi * 100.0 ** torch.arange(d_model // 2, dtype=torch.float64)


@misconception(
    "wavelengths",
    "frequency-as-wavelength",
    "A large divisor means a slow wave, and so a long one. You divide 2π by the divisor; multiply instead.",
)
def wavelengths(d_model):
    return 2 * math.pi / 10000.0 ** (torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)


wrong_edit(
    "sinusoidal_encoding",
    "i-is-the-dimension",
    "You use the dimension k in the exponent. i numbers the pairs: sine and cosine of a pair share the exponent 2i / "
    "d_model.",
    {
        "-torch.arange(0, d_model, 2, ": "-torch.arange(0, d_model, 1, ",
        "torch.sin(position * frequency)": "torch.sin(position * frequency[0::2])",
        "frequency[: d_model // 2]": "frequency[1::2]",
    },
)


@misconception(
    "sinusoidal_encoding",
    "twice-the-dimension",
    "You use 2k for the dimension k in the exponent. In 2i, i is already the number of the pair: i = k // 2.",
)
def sinusoidal_encoding(length, d_model):
    encoding = torch.zeros(length, d_model)
    for t in range(length):
        for k in range(d_model):
            angle = t / 10000 ** (2 * k / d_model)
            encoding[t, k] = math.sin(angle) if k % 2 == 0 else math.cos(angle)
    return encoding


@misconception(
    "sinusoidal_encoding",
    "half-and-half",
    "Your sines stand in the first half and your cosines in the second. They alternate: even columns are sines, odd "
    "columns cosines.",
)
def sinusoidal_encoding(length, d_model):
    position = torch.arange(length, dtype=torch.float64)[:, None]
    angle = position / 10000.0 ** (torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    return torch.cat([angle.sin(), angle.cos()], dim=-1)[:, :d_model].float()


wrong_edit(
    "sinusoidal_encoding",
    "cosine-first",
    "Sines and cosines are exchanged. Even dimensions hold sines.",
    {
        "encoding[:, 0::2] = torch.sin(": "encoding[:, 0::2] = torch.cos(",
        "encoding[:, 1::2] = torch.cos(": "encoding[:, 1::2] = torch.sin(",
    },
)
wrong_edit(
    "sinusoidal_encoding",
    "positions-from-one",
    "Your positions begin at 1. The first position is 0, where every sine is 0 and every cosine is 1.",
    {"torch.arange(length, ": "torch.arange(1, length + 1, "},
)
wrong_edit(
    "sinusoidal_encoding",
    "starts-at-omega-one",
    "Your first pair is i = 1. The pairs run from i = 0 to d_model / 2 - 1, so the first divisor is 1.",
    {"torch.arange(0, d_model, 2, ": "torch.arange(2, d_model + 2, 2, "},
)


@misconception(
    "sinusoidal_encoding",
    "sine-for-even-positions",
    "You choose sine or cosine by the position. The dimension decides: even dimensions hold sines.",
)
def sinusoidal_encoding(length, d_model):
    encoding = torch.zeros(length, d_model)
    for t in range(length):
        for k in range(d_model):
            angle = t / 10000 ** (2 * (k // 2) / d_model)
            encoding[t, k] = math.sin(angle) if t % 2 == 0 else math.cos(angle)
    return encoding


wrong_edit(
    "sinusoidal_encoding",
    "even-d-model-only",
    "This fails when d_model is odd: there is one sine more than cosines. Give the odd columns the first d_model // 2 "
    "angles only.",
    {"frequency[: d_model // 2]": "frequency"},
)
wrong_edit(
    "sinusoidal_encoding",
    "base-100-powers",
    "100 ** i is right for d_model = 4 only. The exponent 2i / d_model gets finer steps as d_model grows.",
    {
        "10000.0 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)": (
            "100.0 ** -torch.arange((d_model + 1) // 2, dtype=torch.float64)"
        )
    },
)


@misconception(
    "similarity",
    "no-frequencies",
    "You count every pair with the same angle. The angle of pair i is the offset divided by 10000 ** (2i / d_model).",
)
def similarity(offset, d_model):
    return d_model / 2 * math.cos(offset)


@misconception(
    "similarity",
    "all-dimensions",
    "You add a cosine for each dimension. Two dimensions form a pair, and each pair adds one cosine.",
)
def similarity(offset, d_model):
    return sum(math.cos(offset / 10000 ** (2 * (k // 2) / d_model)) for k in range(d_model))


@misconception(
    "similarity",
    "similarity-four-only",
    "These are the two pairs of d_model = 4. For another d_model there are d_model / 2 pairs, with other divisors.",
)
def similarity(offset, d_model):
    return math.cos(offset) + math.cos(offset / 100)


@misconception(
    "similarity",
    "cosine-similarity",
    "You divide by the lengths of the vectors. The dot product keeps them: at offset 0 it is d_model / 2.",
)
def similarity(offset, d_model):
    pairs = d_model // 2
    return sum(math.cos(offset / 10000 ** (2 * i / d_model)) for i in range(pairs)) / pairs


wrong_edit(
    "shift_matrix",
    "turned-back",
    "Your matrix shifts in the other direction: it is the transpose. The minus sign stands below the diagonal.",
    {"= cosine, sine": "= cosine, -sine", "= -sine, cosine": "= sine, cosine"},
)


@misconception(
    "shift_matrix",
    "one-angle",
    "All your blocks turn by the same angle. Pair i turns by offset / 10000 ** (2i / d_model).",
)
def shift_matrix(offset, d_model):
    c, s = math.cos(offset), math.sin(offset)
    block = torch.tensor([[c, s], [-s, c]], dtype=torch.float64)
    return torch.block_diag(*[block] * (d_model // 2))


@misconception(
    "shift_matrix",
    "forwards-only",
    "You forgot negative offsets: the loop makes no step for them. A negative offset turns back.",
)
def shift_matrix(offset, d_model):
    one = torch.zeros(d_model, d_model, dtype=torch.float64)
    for i in range(d_model // 2):
        angle = 1 / 10000 ** (2 * i / d_model)
        c, s = math.cos(angle), math.sin(angle)
        one[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = torch.tensor([[c, s], [-s, c]], dtype=torch.float64)
    matrix = torch.eye(d_model, dtype=torch.float64)
    for _ in range(offset):
        matrix = one @ matrix
    return matrix


wrong_edit(
    "shift_matrix",
    "shift-float32",
    "The result is in float32. Make the matrix with dtype=torch.float64.",
    {"torch.zeros(d_model, d_model, dtype=torch.float64)": "torch.zeros(d_model, d_model)"},
)

wrong_edit(
    "PositionalEncoding",
    "positions-stored",
    "The table is stored in state_dict. Register the buffer with persistent=False.",
    {", persistent=False)": ")"},
)
wrong_edit(
    "PositionalEncoding",
    "positions-trained",
    "nn.Parameter makes the table trainable and stores it. Use self.register_buffer(..., persistent=False).",
    {'self.register_buffer("encoding", ': "self.encoding = nn.Parameter(", ", persistent=False)": ")"},
)
wrong_edit(
    "PositionalEncoding",
    "no-dropout",
    "The argument dropout has no effect. Apply nn.Dropout(dropout) to the sum.",
    {"self.dropout(x + self.encoding[:length])": "x + self.encoding[:length]"},
)
wrong_edit(
    "PositionalEncoding",
    "dropout-on-positions",
    "You drop parts of the encoding only. Add first, then apply dropout to the sum.",
    {"self.dropout(x + self.encoding[:length])": "x + self.dropout(self.encoding[:length])"},
)


@misconception(
    "PositionalEncoding",
    "positions-along-the-batch",
    "x.size(0) is the batch when there is one. The sequence is the last dimension but one: x.shape[-2].",
)
class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_length=5000, dropout=0.0):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("pe", sinusoidal_encoding(max_length, d_model), persistent=False)

    def forward(self, x):
        length = x.size(0)
        if length > len(self.pe):
            raise ValueError("too long")
        encoding = self.pe[:length]
        while encoding.dim() < x.dim():
            encoding = encoding.unsqueeze(1)
        return self.dropout(x + encoding)


wrong_edit(
    "PositionalEncoding",
    "input-changed",
    "x += … changes the input of the caller, and the embedding with it. Write x + … and use the new tensor.",
    {"return self.dropout(x + self.encoding[:length])": "x += self.encoding[:length]\nreturn self.dropout(x)"},
)
wrong_edit(
    "PositionalEncoding",
    "positions-left-behind",
    "An ordinary attribute does not move when the module does. Use self.register_buffer(..., persistent=False).",
    {'self.register_buffer("encoding", ': "self.encoding = (", ", persistent=False)": ")"},
)
wrong_edit(
    "PositionalEncoding",
    "one-too-few",
    "max_length positions fit into the table. Refuse a sequence only if it is longer: use > instead of >=.",
    {"if length > len(": "if length >= len("},
)
wrong_edit(
    "PositionalEncoding",
    "scales-again",
    "You multiply by the square root of d_model here. TokenEmbedding does that already; this layer only adds.",
    {"self.dropout(x + ": "self.dropout(x * math.sqrt(x.shape[-1]) + "},
)
