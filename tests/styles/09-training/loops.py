# Right answers by somebody who thinks in loops.


def token_batches(lengths, max_tokens):
    remaining = list(range(len(lengths)))
    remaining.sort(key=lambda number: (lengths[number], number))
    result = []
    current = []
    for number in remaining:
        longest = max([lengths[other] for other in current] + [lengths[number]])
        if current and longest * (len(current) + 1) > max_tokens:
            result.append(current)
            current = []
        current.append(number)
    if current:
        result.append(current)
    return result


def shift_right(target, start_id):
    result = torch.empty_like(target)
    for b in range(target.shape[0]):
        previous = start_id
        for t in range(target.shape[1]):
            result[b, t] = previous
            previous = target[b, t].item()
    return result


def smoothed_labels(target, num_classes, epsilon, form):
    rows = []
    for label in target.flatten().tolist():
        row = []
        for i in range(num_classes):
            if form == "lecture":
                row.append(1 - epsilon if i == label else epsilon / (num_classes - 1))
            else:
                row.append((1 - epsilon if i == label else 0.0) + epsilon / num_classes)
        rows.append(row)
    return torch.tensor(rows).reshape(*target.shape, num_classes)


def pytorch_epsilon(epsilon, num_classes):
    share = epsilon / (num_classes - 1)
    return share * num_classes


def label_smoothed_loss(logits, target, epsilon, pad_id):
    total = logits.new_zeros(())
    count = 0
    classes = logits.shape[-1]
    for b in range(target.shape[0]):
        for t in range(target.shape[1]):
            label = int(target[b, t])
            if label == pad_id:
                continue
            log_p = logits[b, t] - torch.logsumexp(logits[b, t], dim=0)
            total = total - (1 - epsilon) * log_p[label]
            for i in range(classes):
                total = total - epsilon / classes * log_p[i]
            count += 1
    return total / count if count else total


def adam_step(weight, gradient, mean, square, step, rate, betas=(0.9, 0.98), eps=1e-9):
    new = [torch.empty(weight.numel(), dtype=weight.dtype) for _ in range(3)]
    columns = zip(*(tensor.flatten().tolist() for tensor in (weight, gradient, mean, square)), strict=True)
    for place, (w, g, m, v) in enumerate(columns):
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g * g
        m_hat = m / (1 - betas[0] ** step)
        v_hat = v / (1 - betas[1] ** step)
        new[0][place], new[1][place], new[2][place] = w - rate * m_hat / (v_hat**0.5 + eps), m, v
    return tuple(tensor.reshape(weight.shape) for tensor in new)


def warmup_rate(step, d_model, warmup_steps):
    if step <= 0:
        raise ValueError("no such step")
    if step <= warmup_steps:
        return step / (d_model**0.5 * warmup_steps**1.5)
    return 1 / (d_model * step) ** 0.5


def train_step(model, optimizer, batch, start_id, pad_id=0, epsilon=0.1, max_norm=1.0, parts=1):
    source, target = batch
    model.train()
    for parameter in model.parameters():
        parameter.grad = None
    number = len(source)
    size = -(-number // parts)
    count = int((target != pad_id).sum())
    total = 0.0
    for first in range(0, number, size):
        some_target = target[first : first + size]
        decoder_input = torch.cat([torch.full_like(some_target[:, :1], start_id), some_target[:, :-1]], dim=1)
        logits = model(source[first : first + size], decoder_input)
        loss = 0
        for b in range(len(some_target)):
            for t in range(some_target.shape[1]):
                label = int(some_target[b, t])
                if label != pad_id:
                    log_p = torch.log_softmax(logits[b, t], dim=-1)
                    loss = loss - (1 - epsilon) * log_p[label] - epsilon * log_p.mean()
        loss = loss / count
        loss.backward()
        total += loss.item()
    squares = 0.0
    for parameter in model.parameters():
        if parameter.grad is not None:
            squares += (parameter.grad**2).sum().item()
    length = squares**0.5
    if length > max_norm:
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.grad *= max_norm / length
    optimizer.step()
    return total


def fit(model, optimizer, batches, steps, rate_of, one_step, report=None):
    losses = []
    step = 0
    while step < steps:
        step += 1
        rate = rate_of(step)
        for number in range(len(optimizer.param_groups)):
            optimizer.param_groups[number]["lr"] = rate
        loss = one_step(model, optimizer, next(batches))
        losses.append(loss)
        if report:
            report(step, loss)
    model.eval()
    return losses
