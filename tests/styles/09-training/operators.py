# Right answers that lean on PyTorch's own operators.


def token_batches(lengths, max_tokens):
    order = torch.tensor(lengths, dtype=torch.long).argsort(stable=True).tolist()
    result = []
    for number in order:
        if not result or (len(result[-1]) + 1) * lengths[number] > max_tokens:
            result.append([])
        result[-1].append(number)
    return result


def shift_right(target, start_id):
    return nn.functional.pad(target, (1, -1), value=start_id)


def smoothed_labels(target, num_classes, epsilon, form):
    off = epsilon / (num_classes - 1) if form == "lecture" else epsilon / num_classes
    on = 1 - epsilon if form == "lecture" else 1 - epsilon + epsilon / num_classes
    labels = torch.full((*target.shape, num_classes), off)
    return labels.scatter_(-1, target.long().unsqueeze(-1), on)


def pytorch_epsilon(epsilon, num_classes):
    return epsilon / (1 - 1 / num_classes)


def label_smoothed_loss(logits, target, epsilon, pad_id):
    loss = nn.functional.cross_entropy(
        logits.reshape(-1, logits.size(-1)),
        target.reshape(-1).long(),
        ignore_index=pad_id,
        label_smoothing=epsilon,
        reduction="sum",
    )
    return loss / (target != pad_id).sum().clamp_min(1)


def adam_step(weight, gradient, mean, square, step, rate, betas=(0.9, 0.98), eps=1e-9):
    beta1, beta2 = betas
    mean = torch.lerp(gradient, mean, beta1)
    square = torch.lerp(gradient.square(), square, beta2)
    denominator = (square / (1 - beta2**step)).sqrt().add(eps)
    return torch.addcdiv(weight, mean, denominator, value=-rate / (1 - beta1**step)), mean, square


def warmup_rate(step, d_model, warmup_steps):
    if step < 1:
        raise ValueError("step")
    numbers = torch.tensor([step**-0.5, step * warmup_steps**-1.5], dtype=torch.float64)
    return (numbers.min() * d_model**-0.5).item()


def train_step(model, optimizer, batch, start_id, pad_id=0, epsilon=0.1, max_norm=1.0, parts=1):
    model = model.train(True)
    model.zero_grad(set_to_none=True)
    source, target = batch
    criterion = nn.CrossEntropyLoss(ignore_index=pad_id, label_smoothing=epsilon, reduction="sum")
    count = target.ne(pad_id).sum().item()
    losses = []
    for a, b in zip(torch.chunk(source, parts), torch.chunk(target, parts), strict=True):
        loss = criterion(model(a, shift_right(b, start_id)).transpose(1, 2), b) / count
        loss.backward()
        losses.append(loss.detach())
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=max_norm)
    optimizer.step()
    return torch.stack(losses).sum().item()


def fit(model, optimizer, batches, steps, rate_of, one_step, report=None):
    def one(step, batch):
        for group in optimizer.param_groups:
            group.update(lr=rate_of(step))
        loss = one_step(model, optimizer, batch)
        if report is not None:
            report(step, loss)
        return loss

    losses = [one(step, batch) for step, batch in zip(range(1, steps + 1), batches, strict=False)]
    model.train(False)
    return losses
