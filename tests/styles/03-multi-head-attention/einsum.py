# Right answers in einsum, with lambdas.

diagonal_weight = lambda scores, factor: torch.einsum("ii->", (factor * scores).softmax(-1)) / scores.size(0)  # noqa: E731


def loop_over_heads(x, w_q, w_k, w_v, w_o):
    q, k, v = (torch.einsum("...nd,hde->...hne", x, w) for w in (w_q, w_k, w_v))
    weights = torch.einsum("...qe,...ke->...qk", q, k).div(math.sqrt(k.size(-1))).softmax(-1)
    heads = torch.einsum("...hqk,...hke->...hqe", weights, v)
    return torch.einsum("...hqe,hed->...qd", heads, w_o.reshape(w_v.size(0), w_v.size(2), -1))


def sum_over_heads(heads, w_o):
    return torch.einsum("hne,hed->nd", heads, w_o.reshape(heads.size(0), heads.size(2), -1))


def split_heads(x, num_heads):
    try:
        return torch.einsum("...nhd->...hnd", x.unflatten(-1, (num_heads, x.size(-1) // num_heads)))
    except RuntimeError as error:
        raise ValueError("num_heads does not divide d_model") from error


def merge_heads(x):
    return torch.einsum("...hnd->...nhd", x).reshape(*x.shape[:-3], x.size(-2), -1)


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        d_k, rest = divmod(d_model, num_heads)
        if rest:
            raise ValueError(f"{d_model} / {num_heads} is no integer")
        self.heads, self.d_k = num_heads, d_k
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))
        self.drop = nn.Dropout(p=dropout)

    def forward(self, query, key, value, mask=None):
        def heads(layer, x):
            return torch.einsum(
                "bnd,hed->bhne", x, layer.weight.unflatten(0, (self.heads, self.d_k))
            ) + layer.bias.view(1, self.heads, 1, self.d_k)

        q, k, v = heads(self.w_q, query), heads(self.w_k, key), heads(self.w_v, value)
        _, weights = scaled_dot_product_attention(q, k, v, mask)
        with torch.no_grad():
            self.weights = weights.clone()
        mixed = torch.einsum("bhqk,bhke->bqhe", self.drop(weights), v)
        return (
            torch.einsum("bqhe,dhe->bqd", mixed, self.w_o.weight.unflatten(1, (self.heads, self.d_k))) + self.w_o.bias
        )


def from_pytorch(state):
    weight, bias = state["in_proj_weight"].unflatten(0, (3, -1)), state["in_proj_bias"].unflatten(0, (3, -1))
    both = {f"w_{c}.weight": weight[i] for i, c in enumerate("qkv")} | {
        f"w_{c}.bias": bias[i] for i, c in enumerate("qkv")
    }
    return both | {"w_o.weight": state["out_proj.weight"], "w_o.bias": state["out_proj.bias"]}


attention_parameters = lambda d_model, num_heads, d_k, d_v: 2 * d_model * num_heads * (d_k + d_v)  # noqa: E731


def remove_head(weight, num_heads, head):
    keep = torch.ones(num_heads, dtype=weight.dtype)
    keep[head] = 0
    return torch.einsum("ohd,h->ohd", weight.reshape(len(weight), num_heads, -1), keep).reshape(weight.shape)
