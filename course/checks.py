"""What a graded cell calls: comparisons whose messages say what to do, and seeded random numbers."""

import hashlib
import os
from collections.abc import Callable

import torch
from torch import Tensor


def check_close(got: object, expected: Tensor, what: str, rtol: float | None = None) -> None:
    """Compare a tensor with the expected one.

    Args:
        got: what the student's code returned.
        expected: tensor of any shape.
        what: what was computed, in words or code, e.g. ``"softmax(x, dim=-1)"``.
        rtol: relative tolerance; by default what the dtype allows after some sums: 1e-4, or 1e-7 in float64.

    Raises:
        AssertionError: another type, shape or value; the message shows both, to four decimals.
    """
    if not isinstance(got, Tensor):
        raise AssertionError(f"{what} should be a tensor of shape {shape(expected)}, but it is a {type(got).__name__}.")
    if got.shape != expected.shape:
        raise AssertionError(f"{what} should have shape {shape(expected)}, but it has shape {shape(got)}.")
    if got.dtype != expected.dtype:
        raise AssertionError(f"{what} should have dtype {expected.dtype}, but it has dtype {got.dtype}.")
    double = expected.dtype == torch.float64
    rtol = rtol if rtol is not None else 1e-7 if double else 1e-4
    if not torch.allclose(got, expected, rtol=rtol, atol=1e-9 if double else 1e-5):
        difference = (got - expected).abs()
        raise AssertionError(
            f"{what} is not right.\nexpected:\n{show(expected)}\ngot:\n{show(got)}\n"
            f"largest difference: {difference.max().item():.4g}"
        )


def generator(name: str) -> torch.Generator:
    """A random generator that depends on `name` and on the grader's seed (COURSE_SEED in the environment)."""
    seed = hashlib.sha256(f"{os.environ.get('COURSE_SEED', '')}/{name}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(seed[:6], "big"))


def shape(tensor: Tensor) -> str:
    return str(tuple(tensor.shape))


def show(tensor: Tensor) -> str:
    """A tensor in plain numbers, long ones shortened."""
    with torch.no_grad():
        text = str(tensor.detach().to("cpu", torch.float64).round(decimals=4).add(0.0).tolist())
    return text if len(text) <= 600 else text[:600] + " …"


def check_choice(name: str, answer: object, letters: str) -> set[str]:
    """The letters chosen in a quiz answer, such as ``"b"`` or ``"a, c"``.

    Raises:
        AssertionError: not a string, empty, or with a letter that is not among `letters`.
    """
    chosen = set(answer.lower()) - set(" ,;()") if isinstance(answer, str) else set()
    if not chosen or not chosen <= set(letters):
        raise AssertionError(f'{name} should name one or more of {", ".join(letters)}, for example {name} = "b".')
    return chosen


def check_follows(got: Callable[[], Tensor], expected: Tensor, own: Callable[[], Tensor], what: str) -> bool:
    """Compare a result that is built on an earlier exercise, whose errors must not be charged twice.

    Args:
        got: computes the result to be marked.
        expected: the right result.
        own: computes what follows from the student's own earlier function.
        what: what was computed, in words or code.

    Returns:
        False when the earlier function fails on this input, so that it says nothing about the later one.

    Raises:
        AssertionError: the result is neither right nor what follows from the earlier function.
    """
    try:
        follows = own()
        alike = isinstance(follows, Tensor) and follows.shape == expected.shape and follows.dtype == expected.dtype
        # What is not finite, or all the same, does not depend on the input, and anything would follow from it.
        usable = (
            alike
            and bool(follows.isfinite().all())
            and (follows.numel() < 2 or bool((follows != follows.flatten()[0]).any()))
        )
    except Exception:
        usable = False
    try:
        result = got()
    except Exception:
        if usable:
            raise
        return False
    alike = isinstance(result, Tensor) and result.shape == expected.shape and result.dtype == expected.dtype
    if usable and alike and torch.allclose(result, follows, rtol=1e-4, atol=1e-5, equal_nan=True):
        return True
    try:
        check_close(result, expected, what)
    except AssertionError:
        if usable:
            raise
        return False
    return True
