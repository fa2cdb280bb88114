"""Recurrent layers: LSTM, GRU and the plain one, over the steps of a sequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mdtensor.dispatch.operation import generic
from mdtensor.errors import OptionError, ShapeError, shown
from mdtensor.promotion import result_type
from mdtensor.spec.options import flag, number
from mdtensor.spec.shapes import DYNAMIC, Shape, are_like, entries
from mdtensor.spec.spec import TensorSpec

#: Functions of gates and states, with their default alpha and beta.
ACTIVATIONS: dict[str, tuple[float, float]] = {
    "affine": (1.0, 0.0),
    "elu": (1.0, 0.0),
    "hardsigmoid": (0.2, 0.5),
    "leaky_relu": (0.01, 0.0),
    "relu": (0.0, 0.0),
    "scaled_tanh": (1.0, 1.0),
    "sigmoid": (0.0, 0.0),
    "softplus": (0.0, 0.0),
    "softsign": (0.0, 0.0),
    "tanh": (0.0, 0.0),
    "thresholded_relu": (1.0, 0.0),
}

# Shape rules of recurrent layers.


def infer_lstm(
    x: TensorSpec,
    w: TensorSpec,
    r: TensorSpec,
    b: TensorSpec | None = None,
    h: TensorSpec | None = None,
    c: TensorSpec | None = None,
    p: TensorSpec | None = None,
    lengths: TensorSpec | None = None,
    *,
    activations: Sequence[str | tuple[str, float, float]] = ("sigmoid", "tanh", "tanh"),
    clip: float | None = None,
    coupled: bool = False,
) -> TensorSpec:
    """Infer the promoted type and [t + 2, n, k]."""
    flag(coupled, "coupled")
    check_options(activations, 3, clip)
    return _infer(4, 2, (x, w, r, b, h, c, p), lengths)


def infer_gru(
    x: TensorSpec,
    w: TensorSpec,
    r: TensorSpec,
    b: TensorSpec | None = None,
    h: TensorSpec | None = None,
    lengths: TensorSpec | None = None,
    *,
    activations: Sequence[str | tuple[str, float, float]] = ("sigmoid", "tanh"),
    clip: float | None = None,
    reset_after: bool = False,
) -> TensorSpec:
    """Infer the promoted type and [t + 1, n, k]."""
    flag(reset_after, "reset_after")
    check_options(activations, 2, clip)
    return _infer(3, 1, (x, w, r, b, h), lengths)


def infer_rnn(
    x: TensorSpec,
    w: TensorSpec,
    r: TensorSpec,
    b: TensorSpec | None = None,
    h: TensorSpec | None = None,
    lengths: TensorSpec | None = None,
    *,
    activations: Sequence[str | tuple[str, float, float]] = ("tanh",),
    clip: float | None = None,
) -> TensorSpec:
    """Infer the promoted type and [t + 1, n, k]."""
    check_options(activations, 1, clip)
    return _infer(1, 1, (x, w, r, b, h), lengths)


def _infer(
    gates: int,
    states: int,
    given: tuple[TensorSpec | None, ...],
    lengths: TensorSpec | None,
) -> TensorSpec:
    """Infer the result of a layer with so many gates, and rows for its last states."""
    x, w, r = (spec for spec in given[:3] if spec is not None)
    if (x.ndim, w.ndim, r.ndim) != (3, 2, 2):
        raise ShapeError(
            f"x, w and r have {x.ndim}, {w.ndim} and {r.ndim} axes",
            f"Give x [t, n, i], w [{gates} * k, i] and r [{gates} * k, k]",
        )
    (t, n, i), k = x.shape, r.shape[1]
    rows = DYNAMIC if int(k) == DYNAMIC else gates * k
    wanted = {"w": (rows, i), "r": (rows, k), "b": (2, rows), "h": (n, k)}
    wanted |= {"c": (n, k), "p": (3, k)}
    for name, spec in zip(("w", "r", "b", "h", "c", "p"), given[1:], strict=False):
        if spec is not None:
            _check_shape(name, spec.shape, wanted[name])
    if lengths is not None:
        _check_shape("lengths", lengths.shape, (n,))
    steps = DYNAMIC if int(t) == DYNAMIC else t + states
    found = [spec for spec in given if spec is not None]
    return x.with_dtype(result_type(*found)).with_shape((steps, n, k))


def _check_shape(name: str, shape: Shape, wanted: Shape) -> None:
    if not are_like(shape, wanted):
        raise ShapeError(f"{name} has shape {shape}", f"Give it shape {wanted}")


def check_options(activations: object, count: int, clip: object) -> None:
    """Raise unless there are `count` functions and the limit is above 0."""
    functions_of(activations, count)
    if clip is not None and not number(clip, "clip", least=0) > 0:
        raise OptionError("clip is 0", "Use a number above 0, or None")


def functions_of(
    activations: object, count: int
) -> tuple[tuple[str, float, float], ...]:
    """Return name, alpha and beta of each function.

    Raises:
        OptionError: there are not `count` functions, or one is unknown.
    """
    listed = entries(activations) if not isinstance(activations, str) else None
    if listed is None or len(listed) != count:
        raise OptionError(
            f"activations is {shown(activations)}",
            f"Give {count} names, or (name, alpha, beta) instead of a name",
        )
    found = []
    for entry in listed:
        parts = (entry,) if isinstance(entry, str) else entries(entry)
        name, factors = (parts[0], list(parts[1:])) if parts else ("", [])
        if not isinstance(name, str) or name not in ACTIVATIONS or len(factors) > 2:
            known = ", ".join(map(repr, ACTIVATIONS))
            problem = f"activations contains {shown(entry)}"
            raise OptionError(problem, f"Use one of {known}, or (name, alpha, beta)")
        default = ACTIVATIONS[name]
        both: list[Any] = [*factors, *default[len(factors) :]]
        alpha, beta = both
        found.append((name, number(alpha, "alpha"), number(beta, "beta")))
    return tuple(found)


@generic(deduce=infer_lstm)
def lstm(
    x: object,
    w: object,
    r: object,
    b: object = None,
    h: object = None,
    c: object = None,
    p: object = None,
    lengths: object = None,
    /,
    *,
    activations: Sequence[str | tuple[str, float, float]] = ("sigmoid", "tanh", "tanh"),
    clip: float | None = None,
    coupled: bool = False,
) -> Any:
    """Return the states of a long short-term memory after each step.

        i = f(x·wᵀ + h·rᵀ + b + p · c), o and the forget gate f alike
        c' = f · c + i · g(x·wᵀ + h·rᵀ + b),  h' = o · q(c')

    Args:
        x: [t, n, i], a sequence of t steps for each of n samples.
        w: [4 * k, i], the rows of the gates i, o, f and of the cell.
        r: [4 * k, k], in the same order.
        b: [2, 4 * k], the biases of w and of r, which are added; or None.
        h, c: [n, k], the states before the first step; None is 0.
        p: [3, k], the peepholes of i, o and f; o reads the new c. None is 0.
        lengths: [n], integers from 0 to t: the steps of each sample; None is t.
        activations: the functions f of the gates, g of the cell, q of its state. A
            name, or (name, alpha, beta).
        clip: the arguments of f and g are limited to -clip to clip. The argument of q
            is not limited, as in ONNX Runtime.
        coupled: the forget gate is 1 - i.

    Returns:
        [t + 2, n, k]: the hidden state after each step, 0 from `lengths` on; then the
        last hidden state and the last state of the cell.

    Raises:
        ShapeError: the shapes do not fit each other.
        OptionError: a function is unknown, or an option is invalid.
        BoundsError: a length is below 0 or above t.

    Example:
        >>> import mdtensor as md
        >>> x, w, r = md.ones((3, 1, 1)), md.zeros((4, 1)), md.zeros((4, 1))
        >>> md.lstm(x, w, r, None, None, md.ones((1, 1)))[-1].tolist()
        [[0.125]]

    Source: ONNX `LSTM`; Hochreiter and Schmidhuber 1997.
    """


@generic(deduce=infer_gru)
def gru(
    x: object,
    w: object,
    r: object,
    b: object = None,
    h: object = None,
    lengths: object = None,
    /,
    *,
    activations: Sequence[str | tuple[str, float, float]] = ("sigmoid", "tanh"),
    clip: float | None = None,
    reset_after: bool = False,
) -> Any:
    """Return the state of a gated recurrent unit after each step.

        z = f(x·wᵀ + h·rᵀ + b), the reset gate s alike
        h' = (1 - z) · g(x·wᵀ + (s · h)·rᵀ + b) + z · h

    Args:
        x: [t, n, i], a sequence of t steps for each of n samples.
        w: [3 * k, i], the rows of z, s and of the new state.
        r: [3 * k, k], in the same order.
        b: [2, 3 * k], the biases of w and of r; or None.
        h: [n, k], the state before the first step; None is 0.
        lengths: [n], integers from 0 to t: the steps of each sample; None is t.
        activations: the functions f of the gates and g of the new state. A name, or
            (name, alpha, beta).
        clip: the arguments of all functions are limited to -clip to clip.
        reset_after: multiply s · (h·rᵀ + b of r) instead of (s · h)·rᵀ, as PyTorch
            does.

    Returns:
        [t + 1, n, k]: the state after each step, 0 from `lengths` on; then the last
        state.

    Raises:
        ShapeError: the shapes do not fit each other.
        OptionError: a function is unknown, or an option is invalid.
        BoundsError: a length is below 0 or above t.

    Example:
        >>> import mdtensor as md
        >>> x, w, r = md.ones((2, 1, 1)), md.zeros((3, 1)), md.zeros((3, 1))
        >>> md.gru(x, w, r, None, md.ones((1, 1))).tolist()
        [[[0.5]], [[0.25]], [[0.25]]]

    Source: ONNX `GRU`; Cho et al. 2014.
    """


@generic(deduce=infer_rnn)
def rnn(
    x: object,
    w: object,
    r: object,
    b: object = None,
    h: object = None,
    lengths: object = None,
    /,
    *,
    activations: Sequence[str | tuple[str, float, float]] = ("tanh",),
    clip: float | None = None,
) -> Any:
    """Return the state of a plain recurrent layer after each step.

        h' = f(x·wᵀ + h·rᵀ + b)

    Args:
        x: [t, n, i], a sequence of t steps for each of n samples.
        w: [k, i].
        r: [k, k].
        b: [2, k], the biases of w and of r, which are added; or None.
        h: [n, k], the state before the first step; None is 0.
        lengths: [n], integers from 0 to t: the steps of each sample; None is t.
        activations: the function f. A name, or (name, alpha, beta).
        clip: the argument of f is limited to -clip to clip.

    Returns:
        [t + 1, n, k]: the state after each step, 0 from `lengths` on; then the last
        state.

    Raises:
        ShapeError: the shapes do not fit each other.
        OptionError: a function is unknown, or an option is invalid.
        BoundsError: a length is below 0 or above t.

    Example:
        >>> import mdtensor as md
        >>> x, w, r = md.ones((3, 1, 1)), md.ones((1, 1)), md.ones((1, 1))
        >>> md.rnn(x, w, r, activations=["relu"]).tolist()
        [[[1.0]], [[2.0]], [[3.0]], [[3.0]]]

    Source: ONNX `RNN`; Elman 1990.
    """
