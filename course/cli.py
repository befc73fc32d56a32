"""The command line, `python -m course`. By argparse: it is to run where nothing but the trainer's packages are."""

import argparse
import dataclasses
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from course import corpus, package
from course.run import Run, RunError, Settings
from course.train import PRESETS, TrainingError, processes, train
from course.translation import SHIPPED, Translator, score

PROBLEMS = (corpus.CorpusError, package.PackageError, RunError, TrainingError)


def main(arguments: list[str] | None = None) -> None:
    """Run one command; a known problem is said in a sentence, and the exit status is 1."""
    options = _parser().parse_args(arguments)
    try:
        options.command(options)
    except PROBLEMS as problem:
        sys.exit(f"error: {problem}")
    except KeyboardInterrupt:
        sys.exit("stopped. A training run goes on with --resume.")
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m course", description="Train a Transformer to translate, and use it.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    t = commands.add_parser("train", help="train a model", formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    t.set_defaults(command=_train)
    t.add_argument(
        "--preset", choices=PRESETS, default="tiny", help="sizes and steps: " + "; ".join(map(_words, PRESETS))
    )
    t.add_argument("--folder", type=Path, help="folder for checkpoints and curves; runs/PRESET if not given")
    t.add_argument(
        "--resume", action="store_true", help="go on from the last checkpoint of --folder, with its settings"
    )
    t.add_argument(
        "--data",
        help=f"{corpus.TEMPLATES}, {corpus.SEGOND}, {corpus.BIBLE_ALL}, or a file FILE.tsv: source, TAB, target",
    )
    t.add_argument(
        "--compile", action=argparse.BooleanOptionalAction, help="compile the model (needs a C++ compiler on a CPU)"
    )
    t.add_argument(
        "--precision", choices=["auto", "fp32", "bf16"], default="auto", help="auto: bf16 on a GPU, else fp32"
    )
    t.add_argument(
        "--attention", choices=["explicit", "fused"], help="the package's own, or PyTorch's operator with its weights"
    )
    t.add_argument("--accumulate", type=int, metavar="N", help="batches in one step")
    for field in dataclasses.fields(Settings):  # every size can be changed
        if field.type in (int, float, "int", "float") and field.name != "accumulate":
            kind = {"int": int, "float": float}.get(str(field.type), field.type)
            t.add_argument("--" + field.name.replace("_", "-"), type=kind, metavar="N", help="in place of the preset's")  # type: ignore[arg-type]
    _common(t)

    t = commands.add_parser("translate", help="translate sentences, a file, or standard input")
    t.set_defaults(command=_translate)
    t.add_argument("sentences", nargs="*", help="sentences; without any, lines of --file or of standard input")
    t.add_argument("--file", type=Path, help="a text file with one sentence a line")
    _decoding(t)

    t = commands.add_parser("score", help="BLEU and chrF on held-out sentences")
    t.set_defaults(command=_score)
    t.add_argument(
        "--data", help="a TSV file, source TAB target, scored as a whole; otherwise what the run's corpus held out"
    )
    t.add_argument("--show", type=int, default=5, metavar="N", help="print the first N translations (5)")
    _decoding(t)

    t = commands.add_parser("show-attention", help="draw the cross-attention of one translation")
    t.set_defaults(command=_show_attention)
    t.add_argument("sentence")
    t.add_argument("--to", type=Path, default=Path("attention.png"), help="the picture to write (attention.png)")
    _decoding(t)
    return parser


def _words(name: str) -> str:
    s = PRESETS[name]
    return f"{name} = {s.data}, d_model {s.d_model}, {s.num_layers}+{s.num_layers} layers, {s.steps:,} steps"


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--package",
        default="auto",
        help="auto: your own mytransformer where there is one, else the reference; reference; or a folder",
    )
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, mps")


def _decoding(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--folder", type=Path, default=SHIPPED, help="a run's folder; without it the small model of the course"
    )
    parser.add_argument("--beam", type=int, default=1, metavar="N", help="beam size; 1 is greedy (1)")
    parser.add_argument("--length-penalty", type=float, default=0.6, metavar="A", help="for beam search (0.6)")
    _common(parser)


def _train(options: argparse.Namespace) -> None:
    run = Run(options.folder or Path("runs") / options.preset)
    with processes(options.device) as device:
        precision = options.precision
        if precision == "auto":
            precision = "bf16" if device.type == "cuda" else "fp32"
        names = {field.name for field in dataclasses.fields(Settings)} - {"precision"}
        given: dict[str, Any] = {name: getattr(options, name, None) for name in sorted(names)}
        given = {name: value for name, value in given.items() if value is not None}
        if options.resume:
            settings = run.settings()
            if given.keys() - {"steps"}:
                changed = ", ".join("--" + name.replace("_", "-") for name in sorted(given.keys() - {"steps"}))
                raise RunError(f"A run goes on with the settings it began with; {changed} cannot be changed.")
            settings = dataclasses.replace(settings, **given)
        else:
            settings = dataclasses.replace(PRESETS[options.preset], precision=precision, **given)
            if run.last_checkpoint(lambda text: None):
                raise RunError(
                    f"{run.folder} holds a run already. Go on with --resume, or name another folder with --folder."
                )
        began = time.perf_counter()
        train(settings, run, package.use(options.package), device, options.resume)
    minutes = (time.perf_counter() - began) / 60
    _say(f'trained in {minutes:.1f} minutes. Use it: python -m course translate --folder {run.folder} "…"')


def _load(options: argparse.Namespace) -> Translator:
    import torch

    kind = options.device if options.device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    return Translator.load(Run(options.folder), package.use(options.package), torch.device(kind))


def _translate(options: argparse.Namespace) -> None:
    sentences = options.sentences
    if not sentences:
        try:
            text = options.file.read_text(encoding="utf-8") if options.file else sys.stdin.read()
        except (OSError, UnicodeDecodeError) as error:
            raise RunError(f"{options.file or 'standard input'} cannot be read: {error}") from None
        sentences = text.splitlines()
    for line in _load(options).translate(sentences, options.beam, options.length_penalty):
        print(line)


def _score(options: argparse.Namespace) -> None:
    translator = _load(options)
    if options.data:
        data = corpus.read_tsv(Path(options.data))
        pairs = data.train + data.held_out
    else:
        pairs = corpus.load(Run(options.folder).settings().data).held_out
    began = time.perf_counter()
    translations = translator.translate([source for source, _ in pairs], options.beam, options.length_penalty)
    for (source, reference), translation in list(zip(pairs, translations, strict=True))[: options.show]:
        print(f"{source}\n  {translation}\n  ({reference})")
    found = score(translations, [reference for _, reference in pairs])
    print(json.dumps({"sentences": len(pairs), **found, "seconds": round(time.perf_counter() - began, 1)}))


def _show_attention(options: argparse.Namespace) -> None:
    from course import plots

    source, target, weights = _load(options).attention(options.sentence)
    plots.cross_attention(weights, source, target)
    plots.plt.savefig(options.to, dpi=150)
    _say(f"{options.to}: rows are the words that were chosen, columns the source; one picture for each head")


def _say(text: str) -> None:
    print(text, file=sys.stderr)
