# Right answers in the style of the Annotated Transformer and of minGPT.


def leak(scores, mask, fill):
    p_attn = scores.masked_fill(mask == 0, fill).softmax(dim=-1)
    return (p_attn * (mask == 0)).sum(-1)


def padding_mask(tokens, pad_id):
    return (tokens != pad_id).unsqueeze(-2).unsqueeze(1)


def causal_mask(length):
    attn_shape = (1, length, length)
    subsequent_mask = torch.triu(torch.ones(attn_shape), diagonal=1).type(torch.uint8)
    return (subsequent_mask == 0)[0]


def target_mask(tokens, pad_id):
    tgt_mask = (tokens != pad_id).unsqueeze(-2)
    tgt_mask = tgt_mask & causal_mask(tokens.size(-1)).type_as(tgt_mask.data)
    return tgt_mask.unsqueeze(1)


def additive(mask):
    return torch.log(mask.to(torch.float32))


def decoder_pairs(words, start, end):
    tgt = [start, *words, end]
    return tgt[:-1], tgt[1:]


def influence(function, x):
    jacobian = torch.autograd.functional.jacobian(function, x.detach())
    return jacobian.abs().sum(dim=(1, 3))


def parameter_count(source_vocab_size, target_vocab_size, d_model, num_layers, d_ff):
    model = nn.ModuleList(
        [
            nn.Embedding(source_vocab_size, d_model),
            nn.Embedding(target_vocab_size, d_model),
            nn.Linear(d_model, target_vocab_size),
        ]
    )
    for _ in range(num_layers):
        model.append(nn.TransformerEncoderLayer(d_model, 1, d_ff))
        model.append(nn.TransformerDecoderLayer(d_model, 1, d_ff))
    return sum(p.numel() for p in model.parameters())


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
    ):
        super().__init__()
        shape = dict(num_heads=num_heads, d_ff=d_ff, dropout=dropout, pre_norm=pre_norm)
        self.encoder = Encoder(num_layers=num_layers, d_model=d_model, **shape)
        self.decoder = Decoder(num_layers=num_layers, d_model=d_model, **shape)
        self.source_embedding = TokenEmbedding(source_vocab_size, d_model)
        self.target_embedding = TokenEmbedding(target_vocab_size, d_model)
        self.position = PositionalEncoding(d_model, dropout=dropout)
        self.generator = Generator(d_model, target_vocab_size)
        self.pad_id = pad_id
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)

    def make_std_mask(self, tgt):
        tgt_mask = (tgt != self.pad_id).unsqueeze(-2)
        mask = torch.ones(1, tgt.size(-1), tgt.size(-1)).tril() == 1
        return (tgt_mask & mask).unsqueeze(1)

    def encode(self, src):
        src_mask = (src != self.pad_id).unsqueeze(-2).unsqueeze(1)
        return self.encoder(self.position(self.source_embedding(src)), src_mask)

    def decode(self, tgt, memory, memory_mask=None):
        out = self.decoder(self.position(self.target_embedding(tgt)), memory, self.make_std_mask(tgt), memory_mask)
        return self.generator(out)

    def forward(self, src, tgt):
        return self.decode(tgt, self.encode(src), (src != self.pad_id)[:, None, None])
