"""Compiled steps of recurrent layers on float32, for plans of models.

Functions raise OptionError for what no step computes; a plan then calls the operation.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mdtensor.errors import OptionError
from mdtensor.generics.recurrent import functions_of
from mdtensor.ops.steps import (
    require_constant,
    require_constant_integers,
    require_float32,
    require_sizes,
)
from mdtensor.spec.options import flag, number
from mdtensor.spec.spec import TensorSpec


def lstm_step(
    x: Any,
    w: Any,
    r: Any,
    b: Any,
    h: Any,
    c: Any,
    p: Any,
    lengths: Any,
    /,
    *,
    activations: object,
    clip: float | None,
    coupled: bool,
) -> Any:
    """Return the step of an LSTM with constant weights, peepholes and lengths."""
    options = {"functions": known_functions(activations, 3), "limit": limit_of(clip)}
    options["flag"] = flag(coupled, "coupled")
    return layer_step("lstm", (x, w, r, b, p), (h, c), lengths, options)


def dynamic_lstm_step(
    x: Any,
    w: Any,
    w_scale: Any,
    r: Any,
    r_scale: Any,
    b: Any,
    h: Any,
    c: Any,
    p: Any,
    lengths: Any,
    /,
    *,
    activations: object,
    clip: float | None,
    coupled: bool,
) -> Any:
    """Return the step of an LSTM with constant int8 weights, and codes of each step."""
    require_constant(w_scale, r_scale)
    options = {"functions": known_functions(activations, 3), "limit": limit_of(clip)}
    options |= {"flag": flag(coupled, "coupled")}
    # One number for all rows has shape () or (1,), and broadcasts either way.
    options["scales"] = (w_scale.buffer, r_scale.buffer)
    return layer_step("lstm", (x, w, r, b, p), (h, c), lengths, options)


def gru_step(
    x: Any,
    w: Any,
    r: Any,
    b: Any,
    h: Any,
    lengths: Any,
    /,
    *,
    activations: object,
    clip: float | None,
    reset_after: bool,
) -> Any:
    """Return the step of a GRU with constant weights and lengths."""
    options = {"functions": known_functions(activations, 2), "limit": limit_of(clip)}
    options["flag"] = flag(reset_after, "reset_after")
    return layer_step("gru", (x, w, r, b, None), (h,), lengths, options)


def rnn_step(
    x: Any,
    w: Any,
    r: Any,
    b: Any,
    h: Any,
    lengths: Any,
    /,
    *,
    activations: object,
    clip: float | None,
) -> Any:
    """Return the step of a plain recurrent layer with constant weights and lengths."""
    options = {"functions": known_functions(activations, 1), "limit": limit_of(clip)}
    return layer_step("rnn", (x, w, r, b, None), (h,), lengths, options)


def layer_step(
    name: str, operands: Any, states: Any, lengths: Any, options: dict[str, Any]
) -> Any:
    """Return the step of a layer.

    Args:
        name: lstm, gru or rnn.
        operands: x, w, r, b and the peepholes, or None.
        states: the first ones, or None.
        options: of `Recurrent`.
    """
    x, *weights = operands
    if not isinstance(x, TensorSpec):
        raise OptionError("a compiled recurrent layer has a computed sequence")
    require_float32(x, *(one for one in states if one is not None))
    if "scales" in options:
        require_constant_integers(*weights[:2])
        require_constant(*(one for one in weights[2:] if one is not None))
    else:
        require_constant(*(one for one in weights if one is not None))
    require_sizes(x, *weights[:2])
    # The step reads all states from one place, and computed lengths behind them, see
    # `graph/plain_steps.py`.
    are_moving = {isinstance(one, TensorSpec) for one in states}
    if len(are_moving) > 1 and not isinstance(lengths, int):
        raise OptionError("a compiled LSTM computes both of its first states, or none")
    is_moving = True in are_moving or isinstance(lengths, int)
    fixed = None if is_moving else _fixed_states(x, weights[1], states)
    w, r, b, holes = (None if one is None else one.buffer for one in weights)
    places = _lengths(lengths, x.shape[0])
    made = program().Recurrent
    return made(name, w, r, b, holes, fixed, places, reads=is_moving, **options)


def _fixed_states(x: TensorSpec, r: Any, states: Any) -> Any:
    """Return constant first states as one array, or None if all are 0."""
    if all(one is None for one in states):
        return None
    zeros = np.zeros((x.shape[1], r.shape[1]), np.float32)
    return np.stack([zeros if one is None else one.buffer for one in states])


def _lengths(lengths: Any, steps: int) -> Any:
    """Return constant lengths as an array, or None if there are none.

    What says that they are one more input of the step stays as it is.
    """
    if lengths is None or isinstance(lengths, int):
        return lengths
    if isinstance(lengths, TensorSpec):
        raise OptionError("a compiled recurrent layer has constant lengths")
    found = np.asarray(lengths.buffer)
    if ((found < 0) | (found > steps)).any():
        raise OptionError("compiled lengths are at most the steps of the sequence")
    return found


def known_functions(activations: object, count: int) -> Any:
    """Return the functions of a layer; raise unless the kernels know them."""
    found = functions_of(activations, count)
    known = program().FUNCTIONS
    if any(name not in known for name, _, _ in found):
        listed = ", ".join(known)
        raise OptionError(f"the functions of a compiled recurrent layer are {listed}")
    return found


def limit_of(clip: float | None) -> float | None:
    """Return the limit of arguments as a number; None for none."""
    return None if clip is None else number(clip, "clip")


def program() -> Any:
    """Return the module of the steps; it loads numba, so it loads on use."""
    from mdtensor.kernels.cpu.program import recurrent

    return recurrent
