# Right answers in the manner of the Annotated Transformer, with names and signatures adapted.


def token_batches(lengths, max_tokens):
    minibatch, found, largest = [], [], 0
    for size, number in sorted((size, number) for number, size in enumerate(lengths)):
        largest = max(largest, size)
        if minibatch and largest * (len(minibatch) + 1) > max_tokens:
            found.append(minibatch)
            minibatch, largest = [], size
        minibatch.append(number)
    return [*found, minibatch] if minibatch else found


def shift_right(target, start_id):
    starts = target.new_full((target.size(0), 1), start_id)
    return torch.hstack((starts, target[:, :-1]))


def smoothed_labels(target, num_classes, epsilon, form):
    confidence = 1.0 - epsilon
    true_dist = torch.zeros(target.numel(), num_classes)
    if form == "lecture":
        true_dist.fill_(epsilon / (num_classes - 1))
        true_dist.scatter_(1, target.reshape(-1, 1).long(), confidence)
    else:
        true_dist.scatter_(1, target.reshape(-1, 1).long(), confidence)
        true_dist += epsilon / num_classes
    return true_dist.view(*target.shape, num_classes)


def pytorch_epsilon(epsilon, num_classes):
    return (num_classes * epsilon) / (num_classes - 1)


def label_smoothed_loss(logits, target, epsilon, pad_id):
    x = nn.functional.log_softmax(logits, dim=-1).contiguous().view(-1, logits.size(-1))
    y = target.contiguous().view(-1).long()
    true_dist = torch.full_like(x.detach(), epsilon / x.size(1))
    true_dist.scatter_add_(1, y.unsqueeze(1), torch.full_like(x.detach()[:, :1], 1.0 - epsilon))
    mask = torch.nonzero(y == pad_id)
    if mask.dim() > 0:
        true_dist.index_fill_(0, mask.squeeze(-1), 0.0)
    n_tokens = max(1, int((y != pad_id).sum()))
    return -(true_dist * x).sum() / n_tokens


def adam_step(weight, gradient, mean, square, step, rate, betas=(0.9, 0.98), eps=1e-9):
    beta1, beta2 = betas
    exp_avg = mean.clone().mul_(beta1).add_(gradient, alpha=1 - beta1)
    exp_avg_sq = square.clone().mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
    bias_correction1 = 1 - beta1**step
    bias_correction2 = 1 - beta2**step
    denom = (exp_avg_sq.sqrt() / bias_correction2**0.5).add_(eps)
    return weight.clone().addcdiv_(exp_avg, denom, value=-rate / bias_correction1), exp_avg, exp_avg_sq


def warmup_rate(step, d_model, warmup_steps):
    if not step >= 1:
        raise ValueError(f"step {step}")
    factor = 1.0
    return factor * (d_model ** (-0.5) * min(step ** (-0.5), step * warmup_steps ** (-1.5)))


def train_step(model, optimizer, batch, start_id, pad_id=0, epsilon=0.1, max_norm=1.0, parts=1):
    src, tgt_y = batch
    tgt = shift_right(tgt_y, start_id)
    n_tokens = (tgt_y != pad_id).data.sum()
    model.train()
    total_loss = 0
    for src_part, tgt_part, y_part in zip(src.chunk(parts), tgt.chunk(parts), tgt_y.chunk(parts), strict=True):
        out = model.forward(src_part, tgt_part)
        norm = (y_part != pad_id).data.sum()
        loss_node = label_smoothed_loss(out, y_part, epsilon, pad_id) * norm / n_tokens
        if total_loss == 0:
            optimizer.zero_grad(set_to_none=True)
        loss_node.backward()
        total_loss += float(loss_node.detach())
    nn.utils.clip_grad_norm_([p for p in model.parameters() if p.grad is not None], max_norm, norm_type=2)
    optimizer.step()
    return total_loss


def fit(model, optimizer, batches, steps, rate_of, one_step, report=None):
    losses = []
    for i, batch in enumerate(batches):
        if i == steps:
            break
        for p in optimizer.param_groups:
            p["lr"] = rate_of(i + 1)
        losses.append(one_step(model, optimizer, batch))
        if report is not None:
            report(i + 1, losses[-1])
    model.eval()
    return losses
