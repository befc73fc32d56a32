# In the style of the Annotated Transformer, adapted to the names and promises of the course.


def one_hot(tokens, vocab_size):
    return torch.zeros(*tokens.shape, vocab_size).scatter_(-1, tokens.unsqueeze(-1), 1.0)


class TokenEmbedding(nn.Module):
    def __init__(self, vocab, d_model):
        super().__init__()
        self.embedding = nn.Embedding(vocab, d_model)
        self.d_model = d_model

    def forward(self, x):
        return self.embedding(x) * math.sqrt(self.d_model)


def binary_code(length, bits):
    return (torch.arange(length).unsqueeze(1) >> torch.arange(bits)) & 1


def wavelengths(d_model):
    div_term = torch.exp(torch.arange(0, d_model, 2) * -(math.log(10000.0) / d_model))
    return (2 * math.pi / div_term).double()


def sinusoidal_encoding(max_len, d_model):
    pe = torch.zeros(max_len, d_model)
    position = torch.arange(0, max_len).unsqueeze(1)
    div_term = torch.exp(torch.arange(0, d_model, 2) * -(math.log(10000.0) / d_model))
    pe[:, 0::2] = torch.sin(position * div_term)
    pe[:, 1::2] = torch.cos(position * div_term)[:, : d_model // 2]
    return pe


def similarity(offset, d_model):
    pe = sinusoidal_encoding(abs(offset) + 1, d_model)
    return torch.dot(pe[0], pe[abs(offset)])


def shift_matrix(offset, d_model):
    div_term = torch.exp(torch.arange(0, d_model, 2) * -(math.log(10000.0) / d_model))
    angle = (offset * div_term).double()
    m = torch.zeros(d_model, d_model, dtype=torch.float64)
    even, odd = torch.arange(0, d_model, 2), torch.arange(1, d_model, 2)
    m[even, even] = torch.cos(angle)
    m[odd, odd] = torch.cos(angle)
    m[even, odd] = torch.sin(angle)
    m[odd, even] = -torch.sin(angle)
    return m


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_length=5000, dropout=0.0):
        super().__init__()
        self.dropout = nn.Dropout(p=dropout)
        pe = torch.zeros(max_length, d_model)
        position = torch.arange(0, max_length).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * -(math.log(10000.0) / d_model))
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term[: d_model // 2])
        self.register_buffer("pe", pe, persistent=False)

    def forward(self, x):
        if x.size(-2) > self.pe.size(0):
            raise ValueError("the sequence is longer than max_length")
        x = x + self.pe[: x.size(-2)].requires_grad_(False)
        return self.dropout(x)
