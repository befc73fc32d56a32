# Right answers that lean on PyTorch's operators, in the style of well-known listings (view, transpose, contiguous).


def diagonal_weight(scores, factor):
    return torch.diagonal(torch.nn.functional.softmax(scores.mul(factor), dim=1)).mean()


def loop_over_heads(x, w_q, w_k, w_v, w_o):
    import torch.nn.functional as F

    return torch.cat(
        [F.scaled_dot_product_attention(x @ q, x @ k, x @ v) for q, k, v in zip(w_q, w_k, w_v)], -1
    ).matmul(w_o)


def sum_over_heads(heads, w_o):
    return torch.bmm(heads, torch.stack(torch.split(w_o, heads.shape[-1]))).sum(dim=0)


def split_heads(x, num_heads):
    *leading, length, d_model = x.size()
    if d_model % num_heads > 0:
        raise ValueError("d_model % num_heads != 0")
    x = x.contiguous().view(-1, length, num_heads, d_model // num_heads).transpose(1, 2)
    return x.contiguous().view(*leading, num_heads, length, d_model // num_heads)


def merge_heads(x):
    return torch.cat(torch.unbind(x, dim=-3), dim=-1)


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError
        self.d_k = d_model // num_heads
        self.h = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.attn = None
        self.dropout = nn.Dropout(p=dropout)

    @property
    def weights(self):
        return self.attn.detach()

    def forward(self, query, key, value, mask=None):
        nbatches = query.size(0)
        query, key, value = [
            lin(x).view(nbatches, -1, self.h, self.d_k).transpose(1, 2)
            for lin, x in zip((self.w_q, self.w_k, self.w_v), (query, key, value))
        ]
        scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        p_attn = scores.softmax(dim=-1)
        if mask is not None:
            p_attn = p_attn.masked_fill(mask == 0, 0)
        self.attn = p_attn
        x = torch.matmul(self.dropout(p_attn), value)
        x = x.transpose(1, 2).contiguous().view(nbatches, -1, self.h * self.d_k)
        return self.w_o(x)


def from_pytorch(state):
    w_q, w_k, w_v = torch.tensor_split(state["in_proj_weight"], 3)
    b_q, b_k, b_v = torch.tensor_split(state["in_proj_bias"], 3)
    return {
        "w_q.weight": w_q, "w_q.bias": b_q, "w_k.weight": w_k, "w_k.bias": b_k, "w_v.weight": w_v, "w_v.bias": b_v,
        "w_o.weight": state["out_proj.weight"], "w_o.bias": state["out_proj.bias"],
    }  # fmt: skip


def attention_parameters(d_model, num_heads, d_k, d_v):
    layers = [nn.Linear(d_model, d, bias=False, device="meta") for d in (d_k, d_k, d_v)]
    one_head = sum(parameter.numel() for layer in layers for parameter in layer.parameters())
    return num_heads * one_head + nn.Linear(num_heads * d_v, d_model, bias=False, device="meta").weight.numel()


def remove_head(weight, num_heads, head):
    blocks = list(weight.chunk(num_heads, dim=1))
    blocks[head] = torch.zeros_like(blocks[head])
    return torch.hstack(blocks)
