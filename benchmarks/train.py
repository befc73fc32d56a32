"""Training and decoding speed as ratios, measured in turns in one run. The last line is one JSON object.

python benchmarks/train.py [--rounds 5]
"""

import argparse
import dataclasses
import itertools
import json
import math
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

import mytransformer
from course import batches, corpus
from course.package import Package
from course.run import Settings
from course.tokens import END_ID, PAD_ID, START_ID, Tokenizer
from course.train import PRESETS, encode, make_model, real_tokens, step_loss
from mytransformer.decoding import beam_search, greedy_decode
from mytransformer.embedding import PositionalEncoding, TokenEmbedding
from mytransformer.masks import padding_mask

REFERENCE = Package(Path(mytransformer.__path__[0]), None)
NOT_MEASURED = "not measured"
SIZES = dataclasses.replace(
    PRESETS["small"], d_model=256, num_heads=8, num_layers=3, d_ff=1024, dropout=0.1, pre_norm=False
)


class Torch(nn.Module):
    """`torch.nn.Transformer` with the same embeddings, positions and output, called like the course's model."""

    def __init__(self, s: Settings, vocab_size: int):
        super().__init__()
        self.transformer = nn.Transformer(
            s.d_model,
            s.num_heads,
            s.num_layers,
            s.num_layers,
            s.d_ff,
            s.dropout,
            norm_first=s.pre_norm,
            batch_first=True,
        )
        if not s.pre_norm:  # ours has no norm after the last layer, in the manner of the paper
            self.transformer.encoder.norm = self.transformer.decoder.norm = None
        self.source_embedding = TokenEmbedding(vocab_size, s.d_model)
        self.target_embedding = TokenEmbedding(vocab_size, s.d_model)
        self.position = PositionalEncoding(s.d_model, dropout=s.dropout)
        self.output = nn.Linear(s.d_model, vocab_size)
        self.source_embedding.embedding.weight = self.target_embedding.embedding.weight
        self.output.weight = self.target_embedding.embedding.weight

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        future = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool, device=target.device).triu(1)
        hidden = self.transformer(
            self.position(self.source_embedding(source)),
            self.position(self.target_embedding(target)),
            tgt_mask=future,
            src_key_padding_mask=source == PAD_ID,
            tgt_key_padding_mask=target == PAD_ID,
            memory_key_padding_mask=source == PAD_ID,
            tgt_is_causal=True,
        )
        return self.output(hidden)


def in_turns(contenders: dict[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Run each contender once to warm up, then all of them in turn, `rounds` times. Each returns its own measure."""
    for contender in contenders.values():
        contender()
    found: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds):
        for name, contender in contenders.items():
            found[name].append(contender())
        print(f"  round {number + 1} of {rounds}", file=sys.stderr, flush=True)
    return found


def ratio(found: dict[str, list[float]], one: str, other: str) -> float:
    """Median of the ratios of each round: what slows down a round slows down both."""
    return round(statistics.median(a / b for a, b in zip(found[one], found[other], strict=True)), 3)


def training(rounds: int, device: torch.device) -> dict[str, object]:
    """Real target tokens a second: PyTorch's model, ours with both attentions, ours without buckets."""
    s = SIZES
    data = corpus.load(corpus.SEGOND)
    tokenizer = Tokenizer.train((side for pair in data.train for side in pair), 4000)
    examples, _ = encode(data.train[:4000], tokenizer, s.longest)
    planned = {buckets: batches.plan(examples, s.max_tokens, seed=0, buckets=buckets)[:12] for buckets in (True, False)}

    def contender(model: nn.Module, buckets: bool) -> Callable[[], float]:
        model.to(device).train()
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)

        def run() -> float:
            tokens, began = 0, time.perf_counter()
            for batch in planned[buckets]:
                optimizer.zero_grad()
                step_loss(model, REFERENCE, examples, batch, s, device).backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                tokens += real_tokens(examples, batch)
            if device.type == "cuda":
                torch.cuda.synchronize()
            return tokens / (time.perf_counter() - began)

        return run

    found = in_turns(
        {
            "nn.Transformer": contender(Torch(s, len(tokenizer)), True),
            "fused": contender(make_model(s, len(tokenizer), REFERENCE, "fused"), True),
            "explicit": contender(make_model(s, len(tokenizer), REFERENCE, "explicit"), True),
            "naive": contender(make_model(s, len(tokenizer), REFERENCE, "fused"), False),
        },
        rounds,
    )
    return {
        "tokens_per_second": {name: round(statistics.median(speeds)) for name, speeds in found.items()},
        "model_vs_nn_transformer": ratio(found, "fused", "nn.Transformer"),
        "explicit_vs_nn_transformer": ratio(found, "explicit", "nn.Transformer"),
        "buckets_vs_naive": ratio(found, "fused", "naive"),
    }


@torch.no_grad()
def without_cache(model: nn.Module, source: Tensor, length: int) -> Tensor:
    """Greedy decoding that computes all earlier positions again at each step."""
    memory, mask = model.encode(source), padding_mask(source, PAD_ID)  # type: ignore[operator]
    tokens = torch.full((len(source), 1), START_ID, device=source.device)
    while tokens.shape[1] < length:
        best = model.decode(tokens, memory, mask)[:, -1].argmax(-1, keepdim=True)  # type: ignore[operator]
        tokens = torch.cat([tokens, best], dim=1)
    return tokens


def decoding(rounds: int, device: torch.device) -> dict[str, object]:
    """Seconds for 16 sentences of 64 tokens: with and without cache, and with a beam of 4."""
    s = dataclasses.replace(SIZES, share_embeddings=False, dropout=0.0)
    model = make_model(s, 4000, REFERENCE).to(device).eval()
    source = torch.randint(4, 4000, (16, 32), generator=torch.Generator().manual_seed(0)).to(device)
    never = -1  # no sentence ends before all 64 tokens are there
    tokens: dict[str, Tensor] = {}

    def timed(name: str, decode: Callable[[], Tensor]) -> Callable[[], float]:
        def run() -> float:
            began = time.perf_counter()
            tokens[name] = decode()
            if device.type == "cuda":
                torch.cuda.synchronize()
            return time.perf_counter() - began

        return run

    found = in_turns(
        {
            "cache": timed("cache", lambda: greedy_decode(model, source, START_ID, never, 65)),
            "no cache": timed("no cache", lambda: without_cache(model, source, 65)),
            "beam 4": timed("beam 4", lambda: beam_search(model, source, START_ID, never, 65, 4, 0.6)),
        },
        rounds,
    )
    return {
        "decoding_seconds": {name: round(statistics.median(seconds), 2) for name, seconds in found.items()},
        "cache_speedup": ratio(found, "no cache", "cache"),
        "cache_equal": torch.equal(tokens["cache"], tokens["no cache"]),
        "beam4_vs_greedy": ratio(found, "beam 4", "cache"),
    }


def memory_of_step(attention: str, length: int, device: torch.device) -> float:
    """MiB that one step needs at its highest, beyond what model, gradients and optimizer hold."""
    s = dataclasses.replace(PRESETS["base"], num_layers=2, d_model=256, d_ff=512, num_heads=8, dropout=0.0)
    model = make_model(s, 100, REFERENCE, attention).to(device)
    if length > model.position.encoding.shape[0]:  # type: ignore[union-attr, operator]
        raise ValueError("longer than the positional encoding")
    example = [([5] * (length - 1) + [END_ID], [6] * (length - 1) + [END_ID])]

    def step(examples: list[batches.Example]) -> None:
        step_loss(model, REFERENCE, examples, [0], s, device).backward()

    step([([5, END_ID], [6, END_ID])])  # gradients, and the libraries' own buffers
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        step(example)
        return (torch.cuda.max_memory_allocated() - before) / 2**20
    # What the process takes from the system says little: it gives nothing back, and takes nothing it has already.
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        step(example)
    allocations = [event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"]
    allocations.sort(key=lambda event: event.start_ns())
    return max(itertools.accumulate(event.nbytes() for event in allocations)) / 2**20


def memory(device: torch.device) -> dict[str, object]:
    """Each measure in a process of its own, because a process does not give memory back."""
    found: dict[str, dict[str, float]] = {}
    for length in (128, 512, 2048):
        found[str(length)] = {}
        for attention in ("explicit", "fused"):
            command = [sys.executable, __file__, "--memory", attention, str(length), "--device", str(device)]
            answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            found[str(length)][attention] = round(float(answer), 1)
    return {"memory_of_a_step_mib": found}


def base_on_gpu() -> dict[str, object]:
    """The base preset in bfloat16, fused and compiled: its share of the card's matrix rate, and against PyTorch's."""
    if not torch.cuda.is_available():
        return {"gpu": NOT_MEASURED, "base_share_of_matrix_rate": NOT_MEASURED, "base_vs_nn_transformer": NOT_MEASURED}
    device = torch.device("cuda")
    a = torch.randn(8192, 8192, device=device, dtype=torch.bfloat16)
    for _ in range(3):
        a @ a
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(20):
        a @ a
    torch.cuda.synchronize()
    rate = 20 * 2 * 8192**3 / (time.perf_counter() - began)

    s = dataclasses.replace(PRESETS["base"], precision="bf16")
    length, vocab_size = 32, s.vocab_size
    sentences = s.max_tokens // length
    examples = [([5] * (length - 1) + [END_ID], [6] * (length - 1) + [END_ID])] * sentences
    batch = list(range(sentences))

    def seconds(model: nn.Module) -> float:
        model = model.to(device).train()
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
        compiled = torch.compile(model)
        times = []
        for _ in range(30):
            torch.cuda.synchronize()
            began = time.perf_counter()
            optimizer.zero_grad()
            step_loss(compiled, REFERENCE, examples, batch, s, device).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            torch.cuda.synchronize()
            times.append(time.perf_counter() - began)
        return statistics.median(times[10:])

    ours = make_model(s, vocab_size, REFERENCE, "fused")
    # Operations of the matrix products, forward and twice that backward; n² terms are small at 32 tokens.
    weights = sum(p.numel() for name, p in ours.named_parameters() if p.dim() == 2 and "embedding" not in name)
    weights += vocab_size * s.d_model  # the shared output matrix
    operations = 3 * 2 * weights * sentences * length
    mine, theirs = seconds(ours), seconds(Torch(s, vocab_size))
    return {
        "gpu": torch.cuda.get_device_name(),
        "base_share_of_matrix_rate": round(operations / mine / rate, 3),
        "base_vs_nn_transformer": round(theirs / mine, 3),
        "paper_hours": round(100_000 * mine / 3600, 1),  # 100,000 steps of 25,000 tokens on each side
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="how often each contender is measured (5)")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--memory", nargs=2, metavar=("ATTENTION", "LENGTH"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    device = torch.device(options.device)
    if options.memory:
        print(memory_of_step(options.memory[0], int(options.memory[1]), device))
        return
    result: dict[str, object] = {
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads, {device}, PyTorch {torch.__version__}"
    }
    for name, measure in {
        "training": lambda: training(options.rounds, device),
        "decoding": lambda: decoding(max(1, options.rounds // 2), device),
        "memory": lambda: memory(device),
        "base preset on a GPU": base_on_gpu,
    }.items():
        print(name, file=sys.stderr, flush=True)
        result |= measure()
    assert all(math.isfinite(v) for v in result.values() if isinstance(v, float))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
