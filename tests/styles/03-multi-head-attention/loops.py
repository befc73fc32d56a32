# Right answers in plain loops, head by head and row by row.


def diagonal_weight(scores, factor):
    total = 0.0
    for i in range(len(scores)):
        row = scores[i] * factor
        powers = (row - row.max()).exp()
        total = total + powers[i] / powers.sum()
    return total / len(scores)


def loop_over_heads(x, w_q, w_k, w_v, w_o):
    num_heads, d_v = w_v.shape[0], w_v.shape[2]
    result = 0
    for i in range(num_heads):
        q, k, v = x @ w_q[i], x @ w_k[i], x @ w_v[i]
        weights = torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, dim=-1)
        result = result + weights @ v @ w_o[i * d_v : (i + 1) * d_v, :]
    return result


def sum_over_heads(heads, w_o):
    result = torch.zeros(heads.shape[1], w_o.shape[1], dtype=heads.dtype)
    row = 0
    for head in heads:
        for column in range(head.shape[1]):
            result += torch.outer(head[:, column], w_o[row])
            row += 1
    return result


def split_heads(x, num_heads):
    if x.shape[-1] % num_heads != 0:
        raise ValueError("the features cannot be divided among the heads")
    width = x.shape[-1] // num_heads
    heads = []
    for h in range(num_heads):
        heads.append(x[..., h * width : (h + 1) * width])
    return torch.stack(heads, dim=-3)


def merge_heads(x):
    parts = []
    for h in range(x.shape[-3]):
        parts.append(x[..., h, :, :])
    return torch.cat(parts, dim=-1)


class MultiHeadAttention(nn.Module):
    """One head after the other, without split_heads and merge_heads."""

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError("d_model must be a multiple of num_heads")
        self.h = num_heads
        self.d_k = d_model // num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.p = dropout

    def forward(self, query, key, value, mask=None):
        q, k, v = self.w_q(query), self.w_k(key), self.w_v(value)
        if mask is not None:
            mask = mask.expand(query.shape[0], self.h, query.shape[1], key.shape[1])
        heads, kept = [], []
        for h in range(self.h):
            block = slice(h * self.d_k, (h + 1) * self.d_k)
            scores = torch.bmm(q[..., block], k[..., block].transpose(1, 2)) / math.sqrt(self.d_k)
            if mask is not None:
                visible = mask[:, h]
                scores = scores.masked_fill(~visible, -1e9)
                weights = torch.softmax(scores, dim=-1) * visible
            else:
                weights = torch.softmax(scores, dim=-1)
            kept.append(weights.detach())
            if self.training and self.p > 0:
                weights = torch.nn.functional.dropout(weights, self.p)
            heads.append(torch.bmm(weights, v[..., block]))
        self.weights = torch.stack(kept, dim=1)
        return self.w_o(torch.cat(heads, dim=-1))


def from_pytorch(state):
    d = state["out_proj.bias"].shape[0]
    result = {"w_o.weight": state["out_proj.weight"].clone(), "w_o.bias": state["out_proj.bias"].clone()}
    for position, letter in enumerate("qkv"):
        result["w_" + letter + ".weight"] = state["in_proj_weight"][position * d : (position + 1) * d, :].clone()
        result["w_" + letter + ".bias"] = state["in_proj_bias"][position * d : (position + 1) * d].clone()
    return result


def attention_parameters(d_model, num_heads, d_k, d_v):
    total = num_heads * d_v * d_model
    for _ in range(num_heads):
        total += d_model * d_k + d_model * d_k + d_model * d_v
    return total


def remove_head(weight, num_heads, head):
    width = weight.shape[0] // num_heads
    columns = []
    for c in range(weight.shape[1]):
        columns.append(torch.zeros_like(weight[:, c]) if c // width == head else weight[:, c])
    return torch.stack(columns, dim=1)
