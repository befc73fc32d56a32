"""Wrong answers as people write them. Each must lose the points of its exercise, and of no other."""

import torch
from torch import nn

from autograder.misconceptions import misconception, wrong_edit


@misconception(
    "token_batches",
    "padding-not-counted",
    "You add up the lengths. A batch is a rectangle: its places are its number of sentences times its longest length.",
)
def token_batches(lengths, max_tokens):
    found, filled = [], 0
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if found and filled + lengths[i] <= max_tokens:
            found[-1].append(i)
            filled += lengths[i]
        else:
            found.append([i])
            filled = lengths[i]
    return found


@misconception(
    "token_batches",
    "not-sorted",
    "You take the sentences as they come. Go from short to long, so that padding is rare.",
)
def token_batches(lengths, max_tokens):
    found = []
    for i in range(len(lengths)):
        if found and max(lengths[i], *(lengths[j] for j in found[-1])) * (len(found[-1]) + 1) <= max_tokens:
            found[-1].append(i)
        else:
            found.append([i])
    return found


@misconception(
    "token_batches",
    "newest-not-counted",
    "You look at the batch before the new sentence is in it. It is one sentence more, and the new one is the longest.",
)
def token_batches(lengths, max_tokens):
    found = []
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if found and lengths[i] * len(found[-1]) < max_tokens:
            found[-1].append(i)
        else:
            found.append([i])
    return found


@misconception(
    "token_batches", "limit-not-reached", "A batch may have exactly max_tokens places. Compare with <= instead of <."
)
def token_batches(lengths, max_tokens):
    found = []
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if found and lengths[i] * (len(found[-1]) + 1) < max_tokens:
            found[-1].append(i)
        else:
            found.append([i])
    return found


@misconception(
    "token_batches",
    "too-long-is-left-out",
    "You leave out sentences that are longer than max_tokens. Each of them gets a batch of its own.",
)
def token_batches(lengths, max_tokens):
    found = []
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if lengths[i] > max_tokens:
            continue
        if found and lengths[i] * (len(found[-1]) + 1) <= max_tokens:
            found[-1].append(i)
        else:
            found.append([i])
    return found


@misconception(
    "shift_right", "shifted-left", "You shifted to the left. The input at each place is the word *before* the label."
)
def shift_right(target, start_id):
    shifted = target.roll(-1, dims=-1)
    shifted[:, -1] = start_id
    return shifted


@misconception(
    "shift_right",
    "start-token-fixed",
    "You put 2 at the beginning. The number of the start token is the argument start_id.",
)
def shift_right(target, start_id):
    shifted = target.roll(1, dims=-1)
    shifted[:, 0] = 2
    return shifted


@misconception(
    "shift_right", "not-shifted", "You replaced the first word. Put the start token before it, and drop the last token."
)
def shift_right(target, start_id):
    shifted = target.clone()
    shifted[:, 0] = start_id
    return shifted


@misconception(
    "shift_right", "target-changed", "You changed the labels themselves. Make a new tensor, for example with clone()."
)
def shift_right(target, start_id):
    target[:, 1:] = target[:, :-1].clone()
    target[:, 0] = start_id
    return target


@misconception(
    "shift_right",
    "sentences-shifted-together",
    "You shifted the batch as one long row, so a sentence begins with the end of another one.",
)
def shift_right(target, start_id):
    shifted = target.roll(1)
    shifted[0, 0] = start_id
    return shifted


@misconception(
    "smoothed_labels",
    "forms-exchanged",
    "The two forms are exchanged. The lecture divides epsilon among the K - 1 other classes, PyTorch among all K.",
)
def smoothed_labels(target, num_classes, epsilon, form):
    off = epsilon / (num_classes if form == "lecture" else num_classes - 1)
    one_hot = nn.functional.one_hot(target.long(), num_classes).float()
    return off + (1 - num_classes * off) * one_hot


@misconception(
    "smoothed_labels",
    "does-not-sum-to-one",
    "In PyTorch's form the right class gets a part of epsilon as well. Your labels do not sum to 1.",
)
def smoothed_labels(target, num_classes, epsilon, form):
    off = epsilon / (num_classes - 1 if form == "lecture" else num_classes)
    one_hot = nn.functional.one_hot(target.long(), num_classes).float()
    return off + (1 - epsilon - off) * one_hot


@misconception(
    "smoothed_labels",
    "one-form-only",
    "You return the same labels for both forms. The argument form says which one is wanted.",
)
def smoothed_labels(target, num_classes, epsilon, form):
    off = epsilon / num_classes
    one_hot = nn.functional.one_hot(target.long(), num_classes).float()
    return off + (1 - epsilon) * one_hot


@misconception(
    "smoothed_labels",
    "epsilon-is-a-tenth",
    "You use 0.1 whatever epsilon is. It is an argument.",
)
def smoothed_labels(target, num_classes, epsilon, form):
    off = 0.1 / (num_classes - 1 if form == "lecture" else num_classes)
    one_hot = nn.functional.one_hot(target.long(), num_classes).float()
    return off + (1 - num_classes * off) * one_hot


@misconception(
    "pytorch_epsilon",
    "factor-upside-down",
    "The factor is upside down. PyTorch's epsilon is the larger one: multiply by K and divide by K - 1.",
)
def pytorch_epsilon(epsilon, num_classes):
    return epsilon * (num_classes - 1) / num_classes


@misconception(
    "pytorch_epsilon", "one-more-class", "You divide K + 1 by K. Set epsilon / (K - 1) equal to the other form's share."
)
def pytorch_epsilon(epsilon, num_classes):
    return epsilon * (num_classes + 1) / num_classes


@misconception(
    "pytorch_epsilon", "only-for-five", "The factor 1.25 is right for five classes only. Compute it from num_classes."
)
def pytorch_epsilon(epsilon, num_classes):
    return epsilon * 1.25


@misconception(
    "label_smoothed_loss",
    "padding-counts",
    "Your mean is over all places. Divide by the number of tokens that are not padding.",
)
def label_smoothed_loss(logits, target, epsilon, pad_id):
    log_p = torch.log_softmax(logits, dim=-1)
    losses = -(1 - epsilon) * log_p.gather(-1, target[..., None].long())[..., 0] - epsilon * log_p.mean(dim=-1)
    return losses.masked_fill(target == pad_id, 0.0).mean()


@misconception(
    "label_smoothed_loss",
    "padding-not-left-out",
    "You train the model to predict padding. Leave those places out of the sum and out of the number.",
)
def label_smoothed_loss(logits, target, epsilon, pad_id):
    log_p = torch.log_softmax(logits, dim=-1)
    losses = -(1 - epsilon) * log_p.gather(-1, target[..., None].long())[..., 0] - epsilon * log_p.mean(dim=-1)
    return losses.mean()


@misconception(
    "label_smoothed_loss",
    "mean-of-sentences",
    "You average each sentence first, so tokens of short sentences weigh more. Take one mean over all tokens.",
)
def label_smoothed_loss(logits, target, epsilon, pad_id):
    log_p = torch.log_softmax(logits, dim=-1)
    losses = -(1 - epsilon) * log_p.gather(-1, target[..., None].long())[..., 0] - epsilon * log_p.mean(dim=-1)
    real = target != pad_id
    return (losses.masked_fill(~real, 0.0).sum(dim=1) / real.sum(dim=1).clamp(min=1)).mean()


@misconception(
    "label_smoothed_loss",
    "loss-in-the-lectures-form",
    "This is the lecture's form, epsilon / (K - 1). The exercise asks for PyTorch's, epsilon / K over all classes.",
)
def label_smoothed_loss(logits, target, epsilon, pad_id):
    log_p = torch.log_softmax(logits, dim=-1)
    of_label = log_p.gather(-1, target[..., None].long())[..., 0]
    others = (log_p.sum(dim=-1) - of_label) / (logits.shape[-1] - 1)
    real = target != pad_id
    losses = -(1 - epsilon) * of_label - epsilon * others
    return losses.masked_fill(~real, 0.0).sum() / real.sum().clamp(min=1)


@misconception(
    "label_smoothed_loss",
    "logarithm-of-softmax",
    "The softmax of a far lower logit is 0, and its logarithm is -inf. Use torch.log_softmax, which never takes it.",
)
def label_smoothed_loss(logits, target, epsilon, pad_id):
    log_p = torch.log(torch.softmax(logits, dim=-1))
    losses = -(1 - epsilon) * log_p.gather(-1, target[..., None].long())[..., 0] - epsilon * log_p.mean(dim=-1)
    real = target != pad_id
    return losses.masked_fill(~real, 0.0).sum() / real.sum().clamp(min=1)


@misconception(
    "label_smoothed_loss",
    "zero-is-padding",
    "You compare the labels with 0. The number of the padding token is the argument pad_id.",
)
def label_smoothed_loss(logits, target, epsilon, pad_id):
    log_p = torch.log_softmax(logits, dim=-1)
    losses = -(1 - epsilon) * log_p.gather(-1, target[..., None].long())[..., 0] - epsilon * log_p.mean(dim=-1)
    real = target != 0
    return losses.masked_fill(~real, 0.0).sum() / real.sum().clamp(min=1)


@misconception(
    "label_smoothed_loss",
    "nothing-but-padding",
    "Where all is padding you divide 0 by 0. The loss is 0 there: divide by at least 1.",
)
def label_smoothed_loss(logits, target, epsilon, pad_id):
    flat, labels = logits.flatten(0, 1), target.flatten().long()
    return nn.functional.cross_entropy(flat, labels, ignore_index=pad_id, label_smoothing=epsilon)


@misconception(
    "label_smoothed_loss",
    "epsilon-times-the-sum",
    "Each class gets epsilon / K. You multiply the sum over the classes by epsilon: take the mean.",
)
def label_smoothed_loss(logits, target, epsilon, pad_id):
    log_p = torch.log_softmax(logits, dim=-1)
    losses = -(1 - epsilon) * log_p.gather(-1, target[..., None].long())[..., 0] - epsilon * log_p.sum(dim=-1)
    real = target != pad_id
    return losses.masked_fill(~real, 0.0).sum() / real.sum().clamp(min=1)


@misconception(
    "adam_step", "no-correction", "You do not divide by 1 - beta^step. In the first steps both means are far too small."
)
def adam_step(weight, gradient, mean, square, step, rate, betas=(0.9, 0.98), eps=1e-9):
    mean = betas[0] * mean + (1 - betas[0]) * gradient
    square = betas[1] * square + (1 - betas[1]) * gradient**2
    return weight - rate * mean / (square.sqrt() + eps), mean, square


@misconception(
    "adam_step",
    "corrected-means-returned",
    "You return the means after the division by 1 - beta^step. The next step would divide them once more.",
)
def adam_step(weight, gradient, mean, square, step, rate, betas=(0.9, 0.98), eps=1e-9):
    mean = (betas[0] * mean + (1 - betas[0]) * gradient) / (1 - betas[0] ** step)
    square = (betas[1] * square + (1 - betas[1]) * gradient**2) / (1 - betas[1] ** step)
    return weight - rate * mean / (square.sqrt() + eps), mean, square


@misconception("adam_step", "eps-under-the-root", "You add eps under the square root. It is added to the root.")
def adam_step(weight, gradient, mean, square, step, rate, betas=(0.9, 0.98), eps=1e-9):
    mean = betas[0] * mean + (1 - betas[0]) * gradient
    square = betas[1] * square + (1 - betas[1]) * gradient**2
    root = (square / (1 - betas[1] ** step) + eps).sqrt()
    return weight - rate * (mean / (1 - betas[0] ** step)) / root, mean, square


@misconception("adam_step", "no-root", "You divide by the mean of the squares. Divide by its square root.")
def adam_step(weight, gradient, mean, square, step, rate, betas=(0.9, 0.98), eps=1e-9):
    mean = betas[0] * mean + (1 - betas[0]) * gradient
    square = betas[1] * square + (1 - betas[1]) * gradient**2
    return weight - rate * (mean / (1 - betas[0] ** step)) / (square / (1 - betas[1] ** step) + eps), mean, square


@misconception(
    "adam_step",
    "corrected-as-in-the-first-step",
    "You divide by 1 - beta in every step. The power is the step's number.",
)
def adam_step(weight, gradient, mean, square, step, rate, betas=(0.9, 0.98), eps=1e-9):
    mean = betas[0] * mean + (1 - betas[0]) * gradient
    square = betas[1] * square + (1 - betas[1]) * gradient**2
    return weight - rate * (mean / (1 - betas[0])) / ((square / (1 - betas[1])).sqrt() + eps), mean, square


@misconception(
    "warmup_rate", "larger-of-the-two", "You take the larger of the two terms. In the warm-up the smaller one grows."
)
def warmup_rate(step, d_model, warmup_steps):
    if step < 1:
        raise ValueError("steps count from 1")
    return d_model**-0.5 * max(step**-0.5, step * warmup_steps**-1.5)


@misconception(
    "warmup_rate", "no-error-for-step-zero", "A step below 1 must raise a ValueError, because steps count from 1."
)
def warmup_rate(step, d_model, warmup_steps):
    step = max(step, 1)
    return d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)


@misconception(
    "warmup_rate", "width-of-the-paper", "You use the paper's 512. The width of the model is the argument d_model."
)
def warmup_rate(step, d_model, warmup_steps):
    if step < 1:
        raise ValueError("steps count from 1")
    return 512**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)


@misconception(
    "warmup_rate",
    "decay-without-a-root",
    "After the warm-up you divide by the step. The decay has a square root in it.",
)
def warmup_rate(step, d_model, warmup_steps):
    if step < 1:
        raise ValueError("steps count from 1")
    peak = (d_model * warmup_steps) ** -0.5
    return peak * min(step / warmup_steps, warmup_steps / step)


@misconception(
    "warmup_rate",
    "stays-at-the-peak",
    "After the warm-up your rate stays the same. It falls with the root of the step.",
)
def warmup_rate(step, d_model, warmup_steps):
    if step < 1:
        raise ValueError("steps count from 1")
    return (d_model * warmup_steps) ** -0.5 * min(1.0, step / warmup_steps)


wrong_edit(
    "train_step",
    "gradients-not-cleared",
    "You never clear old gradients, and backward adds to them. Call zero_grad().",
    {"    optimizer.zero_grad()\n": ""},
)


wrong_edit(
    "train_step",
    "parts-weigh-the-same",
    "You divide by the number of parts. A part counts by its share of the tokens, and parts hold different numbers.",
    {"epsilon, pad_id) * share": "epsilon, pad_id) / parts"},
)


wrong_edit(
    "train_step",
    "no-clipping",
    "You do not clip the gradient. Call clip_grad_norm_ between backward and the update.",
    {"    nn.utils.clip_grad_norm_(model.parameters(), max_norm)\n": ""},
)


wrong_edit(
    "train_step",
    "clipped-value-by-value",
    "You clip each number by itself, which turns the gradient. clip_grad_norm_ shortens it as a whole.",
    {"clip_grad_norm_": "clip_grad_value_"},
)


wrong_edit(
    "train_step",
    "clipped-too-late",
    "You clip after the update, when it changes nothing any more. Clip between backward and step.",
    {
        "nn.utils.clip_grad_norm_(model.parameters(), max_norm)": "optimizer.step()",
        "optimizer.step()": "nn.utils.clip_grad_norm_(model.parameters(), max_norm)",
    },
)


wrong_edit(
    "train_step",
    "input-not-shifted",
    "You give the decoder the labels themselves, so it only has to copy. Shift them right.",
    {"shift_right(some_target, start_id)": "some_target"},
)


@misconception(
    "train_step",
    "update-for-each-part",
    "You update the weights after each part. Parts together are one batch: one update, after the last of them.",
)
def train_step(model, optimizer, batch, start_id, pad_id=0, epsilon=0.1, max_norm=1.0, parts=1):
    source, target = batch
    model.train()
    tokens, total = (target != pad_id).sum(), 0.0
    for a, b in zip(source.chunk(parts), target.chunk(parts)):
        optimizer.zero_grad()
        loss = label_smoothed_loss(model(a, shift_right(b, start_id)), b, epsilon, pad_id)
        loss = loss * (b != pad_id).sum() / tokens
        loss.backward()
        total += loss.item()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
    return total


wrong_edit(
    "train_step",
    "not-in-training-mode",
    "You leave the mode of the model as it is. After an evaluation dropout would stay off: call model.train().",
    {"    model.train()\n": ""},
)


wrong_edit(
    "train_step",
    "parts-ignored",
    "You run the whole batch at once, whatever parts says. With parts=4 the model must be called four times.",
    {"source.chunk(parts), target.chunk(parts)": "[source], [target]"},
)


wrong_edit(
    "train_step",
    "last-part-returned",
    "You return the loss of the last part. The loss of the batch is the sum of shares.",
    {"total += loss.item()": "total = loss.item() / share.item()"},
)


wrong_edit(
    "fit",
    "counted-from-zero",
    "Your steps count from 0. The first step is number 1, for rate_of and for report.",
    {"range(1, steps + 1)": "range(steps)"},
)


@misconception(
    "fit",
    "rate-after-the-step",
    "You set the rate after the step, so each step is made with the rate of the one before.",
)
def fit(model, optimizer, batches, steps, rate_of, one_step, report=None):
    losses = []
    for step in range(1, steps + 1):
        losses.append(one_step(model, optimizer, next(batches)))
        for group in optimizer.param_groups:
            group["lr"] = rate_of(step)
        if report:
            report(step, losses[-1])
    model.eval()
    return losses


wrong_edit(
    "fit",
    "first-group-only",
    "You set the rate of the first parameter group. An optimizer may have several.",
    {"optimizer.param_groups:": "optimizer.param_groups[:1]:"},
)


wrong_edit(
    "fit",
    "same-batch",
    "Every step of yours gets the first batch. Take the next one for each step.",
    {"losses = []": "losses, batch = [], next(batches)", "optimizer, next(batches))": "optimizer, batch)"},
)


wrong_edit(
    "fit",
    "left-in-training-mode",
    "After the last step the model is to be in evaluation mode: call model.eval().",
    {"    model.eval()\n": ""},
)


wrong_edit(
    "fit",
    "one-step-too-few",
    "You make one step too few. range(1, n) ends before n: write range(1, steps + 1).",
    {"range(1, steps + 1)": "range(1, steps)"},
)


wrong_edit(
    "fit",
    "never-reported",
    "You never call report. After each step it is given the step's number and its loss.",
    {"        if report is not None:\n            report(step, losses[-1])\n": ""},
)
