"""The folder of one training run: settings, tokenizer, checkpoints, log, and the finished model."""

import dataclasses
import hashlib
import json
import platform
import shutil
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from course import tensors
from course.tokens import Tokenizer

MODEL, TOKENIZER, SETTINGS, LOG = "model.safetensors", "tokenizer.model", "settings.json", "log.jsonl"


class RunError(RuntimeError):
    """A run that cannot be read or written. The message says what to do."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """Everything that decides what is trained. Two runs with equal settings on one CPU give equal numbers."""

    data: str
    vocab_size: int
    d_model: int
    num_heads: int
    num_layers: int
    d_ff: int
    dropout: float
    steps: int
    warmup: int
    rate: float = 1.0  # factor on the paper's learning rate
    max_tokens: int = 4096  # in one batch, padding included
    accumulate: int = 1  # batches in one step
    epsilon: float = 0.1  # label smoothing
    max_norm: float = 1.0  # gradients are clipped to it
    pre_norm: bool = False
    share_embeddings: bool = True  # one matrix for both embeddings and the output, as in the paper, section 3.4
    average: int = 5  # the finished model is the mean of so many last checkpoints
    checkpoint_every: int = 200
    longest: int = 250  # tokens in a sentence; longer ones are left out, and counted
    buckets: bool = True
    seed: int = 0
    precision: str = "fp32"
    attention: str = "fused"
    compile: bool = False

    def digest(self) -> str:
        return hashlib.sha256(json.dumps(dataclasses.asdict(self), sort_keys=True).encode()).hexdigest()


class Run:
    """Reads and writes one folder. Each file appears complete or not at all."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.checkpoints = folder / "checkpoints"

    def begin(self, settings: Settings, tokenizer: Tokenizer, package: str) -> None:
        """Make the folder, with settings, tokenizer and environment."""
        self.checkpoints.mkdir(parents=True, exist_ok=True)
        _write(self.folder / SETTINGS, json.dumps(dataclasses.asdict(settings), indent=2) + "\n")
        temporary = self.folder / f"{TOKENIZER}.part"
        temporary.write_bytes(tokenizer.model)
        temporary.replace(self.folder / TOKENIZER)
        device = (
            torch.cuda.get_device_name() if torch.cuda.is_available() else platform.processor() or platform.machine()
        )
        environment = {
            "package": package,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "device": device,
            "threads": torch.get_num_threads(),
        }
        _write(self.folder / "environment.json", json.dumps(environment, indent=2) + "\n")

    def settings(self) -> Settings:
        """What the run was begun with.

        Raises:
            RunError: no run, or settings that cannot be read.
        """
        path = self.folder / SETTINGS
        try:
            return Settings(**json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise RunError(f"{self.folder} holds no run: {SETTINGS} is missing.") from None
        except (ValueError, TypeError) as error:
            raise RunError(f"{path} is damaged: {error}") from None

    def tokenizer(self) -> Tokenizer:
        try:
            return Tokenizer((self.folder / TOKENIZER).read_bytes())
        except FileNotFoundError:
            raise RunError(f"{self.folder} holds no run: {TOKENIZER} is missing.") from None
        except ValueError as error:
            raise RunError(f"{self.folder / TOKENIZER} is damaged: {error}") from None

    # Checkpoints: all that is needed to go on with the next step.

    def save_checkpoint(self, step: int, model: dict[str, Tensor], optimizer: dict[str, Tensor], keep: int) -> None:
        """Write the state after `step` steps, then remove all but the last `keep` checkpoints.

        Raises:
            RunError: it could not be written. The earlier checkpoints stay.
        """
        final = self.checkpoints / f"step-{step:07d}"
        temporary = self.checkpoints / "writing.part"
        try:
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir(parents=True)
            tensors.save(temporary / "model.safetensors", model, {"step": str(step)})
            tensors.save(temporary / "optimizer.safetensors", optimizer, {"step": str(step)})
            shutil.rmtree(final, ignore_errors=True)
            temporary.replace(final)
        except OSError as error:
            shutil.rmtree(temporary, ignore_errors=True)
            last = [path.name for path in self._checkpoint_folders()][-1:]
            advice = f"{last[0]} is complete: make room, then go on with --resume." if last else "There is no other."
            raise RunError(
                f"The checkpoint of step {step} could not be written: {error.strerror or error}. {advice}"
            ) from None
        for old in self._checkpoint_folders()[:-keep]:
            shutil.rmtree(old, ignore_errors=True)

    def last_checkpoint(self, report: Any = print) -> tuple[int, dict[str, Tensor], dict[str, Tensor]] | None:
        """Step, model and optimizer of the newest checkpoint that is whole; None when there is none."""
        for folder in reversed(self._checkpoint_folders()):
            try:
                model, _ = tensors.load(folder / "model.safetensors")
                optimizer, _ = tensors.load(folder / "optimizer.safetensors")
                return int(folder.name.removeprefix("step-")), model, optimizer
            except (tensors.DamagedFile, OSError) as error:
                report(f"{folder.name} is left out: {error}")
        return None

    def average(self, count: int) -> dict[str, Tensor]:
        """The mean of the models of the last `count` whole checkpoints (section 6.1 of the paper averages 5, or 20)."""
        models = []
        for folder in self._checkpoint_folders()[-count:]:
            try:
                models.append(tensors.load(folder / "model.safetensors")[0])
            except (tensors.DamagedFile, OSError):
                continue
        if not models:
            raise RunError(f"{self.checkpoints} holds no whole checkpoint.")
        return {name: torch.stack([model[name].double() for model in models]).mean(0).float() for name in models[0]}

    def _checkpoint_folders(self) -> list[Path]:
        return sorted(path for path in self.checkpoints.glob("step-*") if path.is_dir())

    # The finished model, in half precision: what `translate` needs, together with settings and tokenizer.

    def save_model(self, model: dict[str, Tensor], tokenizer: Tokenizer) -> None:
        half = {name: tensor.half() for name, tensor in model.items()}
        try:
            tensors.save(self.folder / MODEL, half, {"tokenizer": _digest(tokenizer)})
        except OSError as error:
            raise RunError(f"{self.folder / MODEL} could not be written: {error.strerror or error}.") from None

    def model(self) -> dict[str, Tensor]:
        """The finished model's tensors, in float32.

        Raises:
            RunError: not finished, damaged, or made with another tokenizer.
        """
        path = self.folder / MODEL
        if not path.is_file():
            raise RunError(f"{path} is missing: the run is not finished. Go on with --resume.")
        try:
            model, metadata = tensors.load(path)
        except tensors.DamagedFile as error:
            raise RunError(f"{error}. Train again, or take a copy.") from None
        if metadata.get("tokenizer") != _digest(self.tokenizer()):
            raise RunError(f"{path} was made with another tokenizer than {self.folder / TOKENIZER}.")
        return {name: tensor.float() for name, tensor in model.items()}

    # The log: one JSON object a line.

    def log(self, **values: Any) -> None:
        with (self.folder / LOG).open("a", encoding="utf-8") as file:
            file.write(json.dumps(values) + "\n")

    def read_log(self) -> list[dict[str, Any]]:
        path = self.folder / LOG
        lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
        found = []
        for line in lines:
            try:
                found.append(json.loads(line))
            except ValueError:
                continue  # the line that was being written when the run was killed
        return found

    def cut_log(self, step: int) -> None:
        """Forget what was logged after `step`: it is computed again."""
        kept = [entry for entry in self.read_log() if entry.get("step", 0) <= step]
        _write(self.folder / LOG, "".join(json.dumps(entry) + "\n" for entry in kept))


def _digest(tokenizer: Tokenizer) -> str:
    return hashlib.sha256(tokenizer.model).hexdigest()


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(path.name + ".part")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
