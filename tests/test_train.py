"""The trainer: killed and resumed, on two processes, with every fault that a run can meet."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from torch import nn

import mytransformer
from course import tensors
from course.fused import FusedAttention
from course.package import Package, PackageError, use
from course.run import Run, RunError, Settings
from course.tokens import Tokenizer
from course.train import PRESETS, TrainingError, load_state, make_model, parameters, train
from course.translation import SHIPPED, Translator, score
from mytransformer.attention import MultiHeadAttention
from mytransformer.training import warmup_rate

ROOT = Path(__file__).parent.parent
REFERENCE = Package(Path(mytransformer.__path__[0]), None)
CPU = torch.device("cpu")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def corpus_file(tmp_path_factory):
    """Sentences that are quickly learnt: numbers, digit by digit."""
    names = [("un", "one"), ("deux", "two"), ("trois", "three"), ("quatre", "four"), ("cinq", "five"), ("six", "six")]
    lines = [
        "\t".join(" ".join(names[int(digit)][side] for digit in digits) for side in (0, 1))
        for digits in {f"{n % 6}{n // 6 % 6}{n // 36 % 6}{n // 216 % 6}"[: 2 + n % 3] for n in range(900)}
    ]
    path = tmp_path_factory.mktemp("corpus") / "digits.tsv"
    path.write_text("\n".join(sorted(lines)) + "\n", encoding="utf-8")
    return path


def settings(corpus_file, **changes):
    small = {
        "data": str(corpus_file), "vocab_size": 60, "d_model": 16, "num_heads": 2, "num_layers": 1, "d_ff": 32,
        "dropout": 0.2,
        "steps": 12, "warmup": 4, "max_tokens": 300, "checkpoint_every": 4, "average": 2,
    }  # fmt: skip
    return Settings(**small | changes)


def losses(folder):
    return {entry["step"]: entry["loss"] for entry in Run(folder).read_log() if "loss" in entry}


def arguments(s):
    given = ["--data", s.data, "--attention", s.attention, "--accumulate", str(s.accumulate)]
    for name in (
        "vocab_size", "d_model", "num_heads", "num_layers", "d_ff", "dropout", "steps", "warmup", "max_tokens",
        "checkpoint_every", "average",
    ):  # fmt: skip
        given += ["--" + name.replace("_", "-"), str(getattr(s, name))]
    return given


def course(*words, cwd=ROOT, **options):
    command = [sys.executable, "-m", "course", *map(str, words)]
    return subprocess.run(command, cwd=cwd, env=ENVIRONMENT, text=True, capture_output=True, **options)


@pytest.fixture(scope="module")
def finished(corpus_file, tmp_path_factory):
    """A run from the first step to the last."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    train(settings(corpus_file), Run(folder), REFERENCE, CPU, resume=False, quiet=True)
    return folder


def test_a_run_leaves_what_is_promised(finished):
    names = {path.name for path in finished.iterdir()}
    assert {"settings.json", "environment.json", "tokenizer.model", "model.safetensors", "log.jsonl"} <= names
    assert (finished / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert list((finished / "events").glob("events.out.tfevents.*"))
    assert sorted(path.name for path in (finished / "checkpoints").iterdir()) == ["step-0000008", "step-0000012"]
    assert list(losses(finished)) == list(range(1, 13))


def test_the_rate_follows_the_formula(finished, corpus_file):
    for entry in Run(finished).read_log():
        if "rate" in entry:
            assert entry["rate"] == pytest.approx(warmup_rate(entry["step"], 16, 4))


def test_a_killed_run_goes_on_with_the_same_losses(finished, corpus_file, tmp_path):
    """SIGKILL at some moment, three times over; the numbers are those of the run that was never killed."""
    folder = tmp_path / "killed"
    # Longer, so that it is killed in the middle: the first 12 steps are the same as those of the fixture.
    s = settings(corpus_file, steps=12)
    command = [sys.executable, "-m", "course", "train", "--folder", str(folder), "--package", "reference"]
    process = subprocess.Popen([*command, *arguments(s)], cwd=ROOT, env=ENVIRONMENT, stderr=subprocess.DEVNULL)
    for wanted in (6, 10):
        waited = time.monotonic()
        while max(losses(folder), default=0) < wanted and process.poll() is None:
            assert time.monotonic() - waited < 120, "the run does not get on"
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.wait()
        if wanted == 6:
            process = subprocess.Popen([*command, "--resume"], cwd=ROOT, env=ENVIRONMENT, stderr=subprocess.DEVNULL)
    result = course("train", "--folder", folder, "--package", "reference", "--resume")
    assert result.returncode == 0, result.stderr
    assert losses(folder) == losses(finished)
    one, other = Run(folder).model(), Run(finished).model()
    assert all(torch.equal(one[name], other[name]) for name in other)


def test_a_damaged_checkpoint_is_left_out(finished, corpus_file, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(finished, folder)
    damaged = folder / "checkpoints" / "step-0000012" / "model.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-50])
    said = []
    step, _, _ = Run(folder).last_checkpoint(said.append)
    assert step == 8
    assert "step-0000012 is left out" in said[0]
    train(settings(corpus_file), Run(folder), REFERENCE, CPU, resume=True, quiet=True)
    assert losses(folder) == losses(finished)


def test_accumulated_batches_are_one_large_batch(corpus_file, tmp_path):
    """Two batches in one step give the gradient of both together: the loss is the mean over all their tokens."""
    together, plain = tmp_path / "together", tmp_path / "plain"
    train(settings(corpus_file, accumulate=2, dropout=0.0, steps=1), Run(together), REFERENCE, CPU, False, quiet=True)
    train(settings(corpus_file, dropout=0.0, steps=2, rate=0.0), Run(plain), REFERENCE, CPU, False, quiet=True)
    first, second = [entry for entry in Run(plain).read_log() if "loss" in entry]
    mean = (first["loss"] * first["tokens"] + second["loss"] * second["tokens"]) / (first["tokens"] + second["tokens"])
    assert losses(together)[1] == pytest.approx(mean, rel=1e-6)


def test_two_processes_compute_what_one_does(corpus_file, tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    s = settings(corpus_file, dropout=0.0, steps=6, accumulate=2)
    train(s, Run(one), REFERENCE, CPU, resume=False, quiet=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    result = subprocess.run(
        [
            sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(port),
            "-m", "course", "train", "--folder", str(two), "--package", "reference", "--device", "cpu",
            *arguments(settings(corpus_file, dropout=0.0, steps=6, accumulate=1)),
        ],
        cwd=ROOT, env=ENVIRONMENT, text=True, capture_output=True, timeout=300,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr[-3000:]
    assert list(losses(two)) == list(losses(one))
    for step, loss in losses(one).items():
        assert losses(two)[step] == pytest.approx(loss, rel=1e-5)


@pytest.mark.parametrize("pre_norm", [False, True])
def test_fused_attention_computes_the_same(pre_norm):
    s = settings("x", pre_norm=pre_norm, dropout=0.0, num_heads=4)
    explicit, fused = (make_model(s, 30, REFERENCE, attention).double() for attention in ("explicit", "fused"))
    assert sum(isinstance(m, FusedAttention) for m in fused.modules()) == 3
    assert not any(isinstance(m, MultiHeadAttention) for m in fused.modules())
    assert parameters(fused).keys() == parameters(explicit).keys()
    load_state(fused, dict(parameters(explicit)))
    source = torch.tensor([[5, 6, 7, 3], [8, 3, 0, 0], [0, 0, 0, 0]])
    target = torch.tensor([[2, 9, 4], [2, 0, 0], [2, 5, 6]])
    assert torch.allclose(fused(source, target), explicit(source, target), atol=1e-10)
    for model in (fused, explicit):
        model(source, target).square().sum().backward()
    for name, parameter in parameters(fused).items():
        assert torch.allclose(parameter.grad, parameters(explicit)[name].grad, atol=1e-9), name


def test_presets_have_the_sizes_of_the_paper():
    base, big = PRESETS["base"], PRESETS["big"]
    assert (base.d_model, base.num_heads, base.num_layers, base.d_ff, base.warmup) == (512, 8, 6, 2048, 4000)
    assert (big.d_model, big.num_heads, big.num_layers, big.d_ff, big.dropout) == (1024, 16, 6, 4096, 0.3)


def test_embeddings_are_shared_and_stored_once():
    model = make_model(settings("x"), 30, REFERENCE)
    assert model.generator.linear.weight is model.source_embedding.embedding.weight
    names = [name for name, parameter in parameters(model).items() if parameter is model.generator.linear.weight]
    assert names == ["generator.linear.weight"]
    assert len(parameters(model)) == len(list(model.parameters()))


# Faults


def test_a_loss_that_is_no_number_stops_the_run(corpus_file, tmp_path):
    run = Run(tmp_path / "run")
    with pytest.raises(TrainingError, match=r"(?s)the loss is (nan|inf).*smaller --rate"):
        train(settings(corpus_file, rate=1e30, max_norm=1e30), run, REFERENCE, CPU, resume=False, quiet=True)


def test_a_full_disk_stops_the_run_and_keeps_the_last_checkpoint(corpus_file, tmp_path, monkeypatch):
    run = Run(tmp_path / "run")
    write, calls = os.fsync, []

    def full_after_the_first_checkpoint(file):
        calls.append(file)
        if len(calls) > 3:
            raise OSError(28, "No space left on device")
        write(file)

    monkeypatch.setattr("os.fsync", full_after_the_first_checkpoint)
    with pytest.raises(RunError, match=r"step 8 .*No space left.*step-0000004 is complete: make room"):
        train(settings(corpus_file), run, REFERENCE, CPU, resume=False, quiet=True)
    monkeypatch.undo()
    assert run.last_checkpoint()[0] == 4
    assert [path.name for path in run.checkpoints.iterdir()] == ["step-0000004"]


def test_a_model_of_another_tokenizer_is_refused(finished, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(finished, folder)
    (folder / "tokenizer.model").write_bytes(Tokenizer.train(["something else altogether"] * 9, 40).model)
    with pytest.raises(RunError, match="made with another tokenizer"):
        Translator.load(Run(folder), REFERENCE, CPU)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("model.safetensors", b"nothing", "model.safetensors is damaged"),
        ("model.safetensors", None, "is not finished"),
        ("tokenizer.model", b"nothing", "tokenizer.model is damaged"),
        ("tokenizer.model", None, "holds no run"),
        ("settings.json", b"{", "settings.json is damaged"),
        ("settings.json", b'{"data": 1}', "settings.json is damaged"),
        ("settings.json", None, "holds no run"),
    ],
)
def test_a_damaged_run_is_named(finished, tmp_path, name, content, message):
    folder = tmp_path / "copy"
    shutil.copytree(finished, folder)
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_bytes(content)
    with pytest.raises(RunError, match=message):
        Translator.load(Run(folder), REFERENCE, CPU)


def test_a_checkpoint_of_other_sizes_is_refused():
    model = make_model(settings("x"), 30, REFERENCE)
    larger = make_model(settings("x", d_model=32), 30, REFERENCE)
    with pytest.raises(RunError, match="of another model"):
        load_state(model, dict(parameters(larger)))


def test_problems_are_said_in_a_sentence(finished, corpus_file, tmp_path):
    for words, message in [
        (["train", "--data", "nothing.tsv", "--folder", tmp_path / "a"], "nothing.tsv: no such file"),
        (["train", "--folder", finished, "--data", corpus_file], "holds a run already"),
        (["train", "--folder", finished, "--resume", "--d-model", "32"], "--d-model cannot be changed"),
        (["train", "--folder", tmp_path / "none", "--resume"], "holds no run"),
        (["translate", "--folder", tmp_path / "none", "Bonjour."], "holds no run"),
        (["translate", "--folder", finished, "--package", tmp_path, "un"], "holds no Python files"),
    ]:
        result = course(*words)
        assert result.returncode == 1, words
        assert message in result.stderr.replace("\n", " "), (words, result.stderr)
        assert "Traceback" not in result.stderr


def test_ctrl_c_leaves_a_checkpoint(corpus_file, tmp_path):
    folder = tmp_path / "run"
    s = settings(corpus_file, steps=100_000, checkpoint_every=90_000)
    command = [
        sys.executable,
        "-m",
        "course",
        "train",
        "--folder",
        str(folder),
        "--package",
        "reference",
        *arguments(s),
    ]
    # A shell's background job ignores Ctrl-C; a foreground one has the default.
    process = subprocess.Popen(
        command, cwd=ROOT, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    while len(losses(folder)) < 5 and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert "goes on with --resume" in errors
    assert "Traceback" not in errors
    step, _, _ = Run(folder).last_checkpoint()
    assert step >= 5


# The package


def test_the_student_s_package_is_used_where_there_is_one(tmp_path):
    own = tmp_path / "mytransformer"
    shutil.copytree(REFERENCE.folder, own, ignore=shutil.ignore_patterns("__pycache__"))
    for module in own.glob("*.py"):
        module.write_text(module.read_text().replace("# Exported from solutions/", "# Exported from "))
    (own / "decoding.py").unlink()
    (own / "training.py").write_text("# Exported from training.ipynb\n1/0\n")
    script = (
        "from course import package; p = package.use(); [p.module(n) for n in ('model', 'training', 'decoding')]; "
        "print(p.is_reference, p.said)"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=ENVIRONMENT, text=True, capture_output=True, check=True
    )
    assert result.stdout.startswith("False")
    assert "'model': 'yours'" in result.stdout
    assert "yours cannot be imported: ZeroDivisionError" in result.stdout
    assert "'decoding': 'reference, because yours is missing'" in result.stdout


def test_a_folder_without_a_package_is_refused(tmp_path):
    with pytest.raises(PackageError, match="is no package"):
        use(str(tmp_path))


def test_the_trainer_runs_with_few_packages(corpus_file, tmp_path):
    """Where only torch, numpy, sentencepiece, jaxtyping, tqdm and sacrebleu are, there are no curves, and all else."""
    script = """
import importlib.abc, sys
class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, *_):
        if name.split(".")[0] in ("matplotlib", "tensorboard", "safetensors", "typer", "rich", "yaml", "nbformat",
                                  "beartype", "nbdev", "nbgrader", "babel", "num2words", "IPython"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
from course.cli import main
main(sys.argv[1:])
"""
    folder = tmp_path / "run"
    for words in (
        ["train", "--folder", folder, "--package", "reference", *arguments(settings(corpus_file, steps=4))],
        ["translate", "--folder", folder, "un deux"],
        ["score", "--folder", folder],
    ):
        result = subprocess.run(
            [sys.executable, "-c", script, *map(str, words)], cwd=ROOT, env=ENVIRONMENT, text=True, capture_output=True
        )
        assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout.splitlines()[-1])["sentences"] > 0
    assert not (folder / "curves.png").exists()


# Use


@pytest.fixture(scope="module")
def learnt(corpus_file, tmp_path_factory):
    """A run that is long enough to count in two languages."""
    folder = tmp_path_factory.mktemp("learnt") / "run"
    sizes = {"d_model": 32, "d_ff": 64, "dropout": 0.0, "max_tokens": 600}
    s = settings(corpus_file, steps=500, warmup=100, checkpoint_every=100, **sizes)
    train(s, Run(folder), REFERENCE, CPU, resume=False, quiet=True)
    return folder


def test_it_learns(learnt):
    translator = Translator.load(Run(learnt), REFERENCE, CPU)
    sentences = ["un deux", "six cinq quatre", "trois trois un deux"]
    expected = ["one two", "six five four", "three three one two"]
    assert translator.translate(sentences) == expected
    assert translator.translate(sentences, beam_size=4) == expected


def test_long_and_short_sentences_come_back_in_their_order(learnt):
    translator = Translator.load(Run(learnt), REFERENCE, CPU)
    sentences = ["six cinq quatre trois", "un", "", "deux un", "?"]
    together = translator.translate(sentences, max_tokens=12)
    assert together == [translator.translate([sentence])[0] for sentence in sentences]


def test_translate_reads_arguments_a_file_and_standard_input(learnt, tmp_path):
    lines = tmp_path / "lines.txt"
    lines.write_text("un deux\nsix cinq\n", encoding="utf-8")
    expected = "one two\nsix five\n"
    assert course("translate", "--folder", learnt, "un deux", "six cinq").stdout == expected
    assert course("translate", "--folder", learnt, "--file", lines).stdout == expected
    assert course("translate", "--folder", learnt, input="un deux\nsix cinq\n").stdout == expected


def test_score_and_attention(learnt, tmp_path):
    result = course("score", "--folder", learnt)
    found = json.loads(result.stdout.splitlines()[-1])
    assert found["bleu"] > 50
    assert "tok:13a" in found["signature"]
    picture = tmp_path / "attention.png"
    assert course("show-attention", "--folder", learnt, "un deux six", "--to", picture).returncode == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    translator = Translator.load(Run(learnt), REFERENCE, CPU)
    source, target, weights = translator.attention("un deux six")
    assert weights.shape == (1, 2, len(target), len(source))
    assert torch.allclose(weights.sum(-1), torch.ones(1, 2, len(target)))


def test_scores_of_equal_and_of_other_sentences():
    same = ["the cat sat on the mat today", "a dog barks at the moon"]
    assert score(same, same)["bleu"] == 100.0
    assert score(["x y z w v", "q"], same)["bleu"] < 1


def test_the_shipped_model_is_small_and_knows_the_example():
    assert sum(path.stat().st_size for path in SHIPPED.iterdir()) <= 3_000_000
    sentences = ["Jane visite l'Afrique en septembre.", "Je suis étudiant.", "Lucas voyagera en décembre."]
    result = course("translate", *sentences)
    assert result.stdout.splitlines() == [
        "Jane visits Africa in September.",
        "I am a student.",
        "Lucas will travel in December.",
    ]
    loaded, _ = tensors.load(SHIPPED / "model.safetensors")
    assert all(tensor.dtype == torch.float16 for tensor in loaded.values())
    assert isinstance(make_model(Run(SHIPPED).settings(), 1000, REFERENCE), nn.Module)
