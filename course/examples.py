"""The numbers of the running examples. Only inputs are stored (`examples.json`); what follows from them is computed."""

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

STORED = json.loads((Path(__file__).parent / "examples.json").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Sentence:
    """A sentence, its embeddings (one row a token) and the projections of one attention head (`x @ w_q`)."""

    tokens: list[str]
    x: Tensor
    w_q: Tensor
    w_k: Tensor
    w_v: Tensor
    printed: dict[str, Tensor]  # as the lecture prints them, to compare with


def lucas(dtype: torch.dtype = torch.float64) -> Sentence:
    """ "Lucas will travel in December", the sentence of the INF721 lecture notes."""
    stored = STORED["lucas"]
    inputs = {name: torch.tensor(stored[name], dtype=dtype) for name in ("x", "w_q", "w_k", "w_v")}
    printed = {name: torch.tensor(matrix, dtype=dtype) for name, matrix in stored["printed"].items()}
    return Sentence(tokens=list(stored["tokens"]), **inputs, printed=printed)


def thinking_machines(dtype: torch.dtype = torch.float64) -> tuple[Tensor, int]:
    """The dot products of the query of "Thinking" with the keys of "Thinking" and "Machines", and d_k."""
    stored = STORED["thinking_machines"]
    return torch.tensor(stored["scores"], dtype=dtype), stored["d_k"]


def lucas_heads(dtype: torch.dtype = torch.float64) -> Sentence:
    """ "Lucas will travel" with three heads. The projections have one matrix a head: (num_heads, d_model, d_k).

    The lecture notes print the queries, keys and values, and not the weight matrices. Those here are the smallest ones
    that give them: the pseudo-inverse of x times what is printed.
    """
    stored = STORED["lucas_heads"]
    printed = {name: torch.tensor(matrix, dtype=torch.float64) for name, matrix in stored["printed"].items()}
    x = torch.tensor(stored["x"], dtype=torch.float64)
    w_q, w_k, w_v = (torch.linalg.pinv(x) @ printed[name] for name in ("query", "key", "value"))
    return Sentence(
        tokens=list(stored["tokens"]),
        x=x.to(dtype),
        w_q=w_q.to(dtype),
        w_k=w_k.to(dtype),
        w_v=w_v.to(dtype),
        printed={name: matrix.to(dtype) for name, matrix in printed.items()},
    )


def printed_positions(dtype: torch.dtype = torch.float64) -> Tensor:
    """The positional encoding of five positions in four dimensions, as the INF721 lecture notes print it."""
    return torch.tensor(STORED["positions"]["printed"], dtype=dtype)


def word_and_position(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """The word vector and the position vector that a lecture adds (S2-39)."""
    stored = STORED["positions"]
    return torch.tensor(stored["word"], dtype=dtype), torch.tensor(stored["position"], dtype=dtype)


@dataclass(frozen=True)
class FeedForwardExample:
    """Three tokens and the weights of a feed-forward network (`relu(c @ w_1 + b_1) @ w_2 + b_2`)."""

    tokens: list[str]
    c: Tensor
    w_1: Tensor
    b_1: Tensor
    w_2: Tensor
    b_2: Tensor
    printed: dict[str, Tensor]  # as the lecture prints them: `inner`, `relu`, `output`


def feed_forward(dtype: torch.dtype = torch.float64) -> FeedForwardExample:
    """The feed-forward example of the INF721 lecture notes, "Lucas will travel", with weights that reproduce it."""
    stored = STORED["feed_forward"]
    c, w_1, w_2 = (torch.tensor(stored[name], dtype=dtype) for name in ("c", "w_1", "w_2"))
    b_1, b_2 = torch.zeros(w_1.shape[1], dtype=dtype), torch.zeros(w_2.shape[1], dtype=dtype)
    printed = {name: torch.tensor(matrix, dtype=dtype) for name, matrix in stored["printed"].items()}
    return FeedForwardExample(list(stored["tokens"]), c, w_1, b_1, w_2, b_2, printed)


def padded_sentences() -> tuple[list[list[str]], int]:
    """The two sentences of lecture item S4-98, and the length to which they are padded."""
    stored = STORED["padded_sentences"]
    return [list(words) for words in stored["sentences"]], stored["length"]


def china() -> tuple[list[str], list[str]]:
    """The source and the target of lecture item S4-87."""
    return list(STORED["china"]["source"]), list(STORED["china"]["target"])


def length_ten() -> tuple[int, int, int, dict[str, list[int]]]:
    """Lecture item S4-104: maximum length, words in the sentence, time step, and the masks as printed."""
    stored = STORED["length_ten"]
    return stored["length"], stored["words"], stored["step"], {k: list(v) for k, v in stored["printed"].items()}


def label_smoothing(dtype: torch.dtype = torch.float64) -> tuple[Tensor, int, float]:
    """Logits of five classes, the right class, and epsilon (lecture item S4-128)."""
    stored = STORED["label_smoothing"]
    return torch.tensor(stored["logits"], dtype=dtype), stored["target"], stored["epsilon"]


def student() -> list[tuple[str, str]]:
    """What the decoder reads, and the word that it predicts, at each step of lecture item S4-124."""
    return [(read, predicted) for read, predicted in STORED["student"]["steps"]]
