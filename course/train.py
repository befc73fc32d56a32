"""Train a Transformer to translate: on a CPU, a GPU, or several. Read it from top to bottom."""

import contextlib
import dataclasses
import math
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from tqdm import tqdm

from course import batches, corpus
from course.fused import fuse
from course.package import Package
from course.run import Run, RunError, Settings
from course.tokens import END_ID, PAD_ID, START_ID, Tokenizer

PRESETS = {
    "tiny": Settings(
        corpus.TEMPLATES, vocab_size=1000, d_model=128, num_heads=4, num_layers=2, d_ff=512, dropout=0.1,
        steps=600, warmup=200, max_tokens=2048, checkpoint_every=100,
    ),
    "small": Settings(
        corpus.SEGOND, vocab_size=2000, d_model=128, num_heads=4, num_layers=2, d_ff=512, dropout=0.15,
        steps=5500, warmup=800, max_tokens=1024, pre_norm=True, checkpoint_every=250,
    ),
    # The paper's table 3: 100,000 steps of 25,000 source and 25,000 target tokens; for "big" 300,000.
    "base": Settings(
        corpus.BIBLE_ALL, vocab_size=16_000, d_model=512, num_heads=8, num_layers=6, d_ff=2048, dropout=0.1,
        steps=100_000, warmup=4000, max_tokens=25_000, checkpoint_every=1000,
    ),
    "big": Settings(
        corpus.BIBLE_ALL, vocab_size=16_000, d_model=1024, num_heads=16, num_layers=6, d_ff=4096, dropout=0.3,
        steps=300_000, warmup=4000, max_tokens=25_000, checkpoint_every=1000, average=20,
    ),
}  # fmt: skip


class TrainingError(RuntimeError):
    """Training cannot go on. The message says why, and what to try."""


# 1. The model


def make_model(settings: Settings, vocab_size: int, package: Package, attention: str = "explicit") -> nn.Module:
    """The package's `Transformer` with the settings' sizes, and its attention replaced if `attention` is "fused"."""
    s = settings
    torch.manual_seed(s.seed)
    optional = {"pre_norm": True} if s.pre_norm else {}
    model = package.module("model").Transformer(
        vocab_size, vocab_size, s.d_model, s.num_heads, s.num_layers, s.d_ff, s.dropout, PAD_ID, **optional
    )
    if s.share_embeddings:
        shared = model.target_embedding.embedding.weight
        nn.init.normal_(shared, std=s.d_model**-0.5)  # as an output matrix it gives logits of size 1
        model.source_embedding.embedding.weight = shared
        model.generator.linear.weight = shared
    if attention == "fused":
        fuse(model, package.module("attention").MultiHeadAttention, s.num_heads, s.dropout)
    return model


def parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters by name; a shared one once, by its first name in the alphabet."""
    named = sorted(model.named_parameters(remove_duplicate=False), reverse=True)
    first = {id(parameter): name for name, parameter in named}
    return {name: parameter for name, parameter in reversed(named) if first[id(parameter)] == name}


def load_state(model: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Put back the tensors that `parameters` gave.

    Raises:
        RunError: names or shapes of another model.
    """
    own = parameters(model)
    different = sorted(set(own) ^ set(tensors)) or [n for n in own if own[n].shape != tensors[n].shape]
    if different:
        raise RunError(
            f"The checkpoint is of another model: {different[0]} does not fit. Use the package and the settings that "
            "it was trained with."
        )
    with torch.no_grad():
        for name, parameter in own.items():
            parameter.copy_(tensors[name])


# 2. The data


def encode(pairs: Sequence[tuple[str, str]], tokenizer: Tokenizer, longest: int) -> tuple[list[batches.Example], int]:
    """Token ids of each pair with the end token, and how many pairs were too long."""
    made = [([*tokenizer.encode(a), END_ID], [*tokenizer.encode(b), END_ID]) for a, b in pairs]
    kept = [example for example in made if max(map(len, example)) <= longest]
    return kept, len(made) - len(kept)


def real_tokens(examples: Sequence[batches.Example], batch: Sequence[int]) -> int:
    """Target tokens that are not padding: what speed is counted in."""
    return sum(len(examples[i][1]) for i in batch)


# 3. One step


def step_loss(
    model: nn.Module, package: Package, examples: Sequence[batches.Example], batch: Sequence[int], settings: Settings,
    device: torch.device,
) -> Tensor:  # fmt: skip
    """The sum of the smoothed losses of a batch's real tokens."""
    training = package.module("training")
    source, target = (side.to(device, non_blocking=True) for side in batches.collate(examples, batch, PAD_ID))
    with torch.autocast(device.type, torch.bfloat16, enabled=settings.precision == "bf16"):
        logits = model(source, training.shift_right(target, START_ID))
    mean = training.label_smoothed_loss(logits.float(), target, settings.epsilon, PAD_ID)
    return mean * (target != PAD_ID).sum()


def train(
    settings: Settings, run: Run, package: Package, device: torch.device, resume: bool, quiet: bool = False
) -> Run:
    """Train from the first step, or from the last checkpoint, to the last step.

    Args:
        resume: go on where the run's last checkpoint is; otherwise the run's folder is begun anew.

    Raises:
        CorpusError, PackageError, RunError, TrainingError: with what to do.
    """
    rank, world = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    first = rank == 0
    say = (lambda text: tqdm.write(text, file=sys.stderr)) if first and not quiet else (lambda text: None)

    say(f"package: {package.describe()}")
    data = corpus.load(settings.data)
    say(f"corpus {data.name}: {len(data.train):,} pairs to train on, {len(data.held_out):,} held out")
    for reason, count in data.skipped.items():
        say(f"  skipped {count:,}: {reason}")
    if resume:
        tokenizer = run.tokenizer()
    else:
        tokenizer = Tokenizer.train((side for pair in data.train for side in pair), settings.vocab_size)
        if first:
            run.begin(settings, tokenizer, package.describe())
    examples, too_long = encode(data.train, tokenizer, settings.longest)
    unseen, _ = encode(data.held_out, tokenizer, settings.longest)
    if too_long:
        say(f"  skipped {too_long:,}: more than {settings.longest} tokens")

    model = make_model(settings, len(tokenizer), package, settings.attention).to(device)
    say(f"model: {sum(p.numel() for p in model.parameters()):,} parameters, {len(tokenizer):,} tokens, on {device}")
    # β₂ and ε are the paper's, section 5.3.
    optimizer = torch.optim.Adam(model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9, fused=device.type == "cuda")
    done = 0
    if resume and (found := run.last_checkpoint(say)):
        done, weights, moments = found
        load_state(model, weights)
        _load_moments(optimizer, model, moments, done)
        say(f"going on after step {done:,}")
    if first:
        run.cut_log(done)
    trained: nn.Module = model
    if settings.compile:
        trained = torch.compile(trained, dynamic=True)  # type: ignore[assignment]
    if world > 1:
        trained = nn.parallel.DistributedDataParallel(
            trained, device_ids=[device.index] if device.type == "cuda" else None
        )

    events = _events(run) if first else None
    warmup_rate = package.module("training").warmup_rate
    order = batches.epochs(examples, settings.max_tokens, settings.seed, settings.buckets)
    group = settings.accumulate * world
    for _ in range(done * group):  # the batches of the steps that are done
        next(order)
    bar = tqdm(total=settings.steps, initial=done, unit="step", disable=not first or quiet, dynamic_ncols=True)
    tokens, began, recent = 0, time.perf_counter(), 0.0
    step = done

    def checkpoint() -> None:
        if first:
            run.save_checkpoint(
                step, dict(parameters(model)), _moments(optimizer, model), keep=max(settings.average, 2)
            )

    try:
        while step < settings.steps:
            group_of_batches = [next(order) for _ in range(group)]
            total = sum(real_tokens(examples, batch) for batch in group_of_batches)
            own = group_of_batches[rank::world]
            # The same dropout after a restart, and another on each process.
            torch.manual_seed(settings.seed + 1_000_003 * step + rank)
            rate = settings.rate * warmup_rate(step + 1, settings.d_model, settings.warmup)
            for options in optimizer.param_groups:
                options["lr"] = rate
            trained.train()
            optimizer.zero_grad(set_to_none=True)
            loss = torch.zeros((), device=device)
            for number, batch in enumerate(own):
                last = number == len(own) - 1
                with trained.no_sync() if world > 1 and not last else contextlib.nullcontext():  # type: ignore[operator]
                    part = step_loss(trained, package, examples, batch, settings, device) / total
                    (part * world).backward()  # DDP averages over the processes; we want the sum
                loss += part.detach()
            if world > 1:
                dist.all_reduce(loss)
            norm = nn.utils.clip_grad_norm_(model.parameters(), settings.max_norm)
            value = loss.item()
            if not (math.isfinite(value) and math.isfinite(norm.item())):
                raise TrainingError(
                    f"Step {step + 1}: the loss is {value} and the gradient's norm {norm.item()}. The last "
                    "checkpoint is whole. Try a smaller --rate, a longer --warmup, or --precision fp32."
                )
            optimizer.step()
            step += 1
            tokens += total
            recent = value if step == done + 1 else 0.95 * recent + 0.05 * value
            seconds = time.perf_counter() - began
            bar.set_postfix_str(f"loss {recent:.3f}, {tokens / seconds:,.0f} tokens/s", refresh=False)
            bar.update()
            if first:
                run.log(step=step, loss=value, rate=rate, norm=norm.item(), tokens=total, seconds=round(seconds, 3))
            if step % settings.checkpoint_every == 0 or step == settings.steps:
                checkpoint()
                if first and unseen:
                    held_out = held_out_loss(model, package, unseen, settings, device)
                    run.log(step=step, held_out=held_out)
                    say(f"step {step:,}: loss {recent:.3f}, on held-out sentences {held_out:.3f}")
                    draw_curves(run)
                    _add_events(events, run, step)
    except KeyboardInterrupt:
        checkpoint()
        raise
    finally:
        bar.close()
        if events:
            events.close()
    if first:
        run.save_model(run.average(settings.average), tokenizer)
    if world > 1:
        dist.barrier()
    return run


@torch.no_grad()
def held_out_loss(
    model: nn.Module, package: Package, examples: Sequence[batches.Example], settings: Settings, device: torch.device
) -> float:
    """Cross-entropy per token, without smoothing and dropout, in nats."""
    model.eval()
    plain = dataclasses.replace(settings, epsilon=0.0)
    total, tokens = 0.0, 0
    for batch in batches.plan(examples, settings.max_tokens, seed=0):
        total += step_loss(model, package, examples, batch, plain, device).item()
        tokens += real_tokens(examples, batch)
    model.train()
    return total / tokens


# 4. What is kept


def _moments(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """Adam's two running means of each parameter, by the parameter's name."""
    found = {}
    for name, parameter in parameters(model).items():
        for key in ("exp_avg", "exp_avg_sq"):
            if parameter in optimizer.state:
                found[f"{name}.{key}"] = optimizer.state[parameter][key]
    return found


def _load_moments(optimizer: torch.optim.Optimizer, model: nn.Module, moments: dict[str, Tensor], step: int) -> None:
    for name, parameter in parameters(model).items():
        if f"{name}.exp_avg" in moments:
            on_device = parameter.device if optimizer.defaults["fused"] else "cpu"
            optimizer.state[parameter] = {
                "step": torch.tensor(float(step), device=on_device),
                "exp_avg": moments[f"{name}.exp_avg"].to(parameter.device),
                "exp_avg_sq": moments[f"{name}.exp_avg_sq"].to(parameter.device),
            }


def _events(run: Run):  # type: ignore[no-untyped-def]
    """TensorBoard's writer, or None where TensorBoard is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(run.folder / "events"))


def _add_events(events, run: Run, step: int) -> None:  # type: ignore[no-untyped-def]
    """Write what was logged since the last time."""
    if events is None:
        return
    last = getattr(events, "last_step", 0)
    for entry in run.read_log():
        if last < entry["step"] <= step:
            for name in entry.keys() - {"step"}:
                events.add_scalar(name, entry[name], entry["step"])
    events.last_step = step
    events.flush()


def draw_curves(run: Run) -> Path | None:
    """`curves.png`: loss on the training and the held-out sentences; None where Matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    log = run.read_log()
    losses = [(entry["step"], entry["loss"]) for entry in log if "loss" in entry]
    held_out = [(entry["step"], entry["held_out"]) for entry in log if "held_out" in entry]
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    axes.plot(*zip(*losses, strict=True), linewidth=0.8, label="training (smoothed labels, dropout)")
    if held_out:
        axes.plot(*zip(*held_out, strict=True), marker="o", markersize=3, label="held-out sentences")
    axes.set(xlabel="step", ylabel="loss per token (nats)")
    axes.legend()
    path = run.folder / "curves.png"
    temporary = path.with_name("curves.part.png")
    figure.savefig(temporary, dpi=120)
    temporary.replace(path)
    return path


# 5. Several processes: torchrun sets RANK, LOCAL_RANK and WORLD_SIZE


@contextlib.contextmanager
def processes(device: str) -> Iterator[torch.device]:
    """Join the other processes, if torchrun started this one, and give this one's device."""
    kind = device if device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    if "RANK" not in os.environ:
        yield torch.device(kind)
        return
    if kind == "cuda":
        kind = f"cuda:{os.environ['LOCAL_RANK']}"
        torch.cuda.set_device(kind)
    dist.init_process_group("nccl" if kind.startswith("cuda") else "gloo")
    try:
        yield torch.device(kind)
    finally:
        dist.destroy_process_group()
