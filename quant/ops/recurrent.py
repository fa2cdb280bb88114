"""Recurrent layers of floats with quantized weights.

Weights of 8 bits with zero points of 0, and one scale or one for each row, stay codes.
The inputs and the hidden states are rounded to 16-bit words, on a grid for each row, so
that products are sums of integers; see `kernels/numpy/row_words.py`. That changes a
result by less than a hundredth of what 8-bit weights do.

Weights on other grids are dequantized, and so are those of narrow and wide floats.
"""

from collections.abc import Mapping
from typing import Any, Union

import numpy as np
import numpy.typing as npt

from mdtensor import (
    FloatingTensor,
    IntegerTensor,
    Tensor,
    TensorSpec,
    dtypes,
    gru,
    leaf,
    lstm,
    method,
    rnn,
)
from mdtensor.errors import checked
from mdtensor.extend import recurrent_word_states, recurrent_word_step, shape_rule
from mdtensor.kernels.cpu.program.recurrent import Recurrent
from mdtensor.quant.deduction import weight_only
from mdtensor.quant.dtypes import qint8
from mdtensor.quant.ops.kernels import NotCompiled
from mdtensor.quant.ops.weight_only import compute_on_numbers
from mdtensor.quant.tensor import ShortTensor, spec_of

State = Union[FloatingTensor, None]
Lengths = Union[IntegerTensor, None]
Array = npt.NDArray[Any]


def row_scales(w: Any) -> Array | None:
    """Return the float32 scales of the rows of weights; None if they become floats."""
    if isinstance(w, TensorSpec) or w.dtype is not qint8:
        return None
    if not isinstance(w.buffer, np.ndarray):
        return None
    if not w.qparams.is_along(None, 0) or w.qparams.zero_point.any():
        return None
    # A grid of 8 bits has scales that are normal float32.
    scales: Array = w.qparams.scale.astype(np.float32)
    return scales


def lstm_step(*given: Any, **options: Any) -> Recurrent:
    """Return the step of an LSTM with constant weights."""
    return _step("lstm", given, options)


def gru_step(*given: Any, **options: Any) -> Recurrent:
    """Return the step of a GRU with constant weights."""
    return _step("gru", given, options)


def rnn_step(*given: Any, **options: Any) -> Recurrent:
    """Return the step of a plain recurrent layer with constant weights."""
    return _step("rnn", given, options)


def _step(name: str, given: tuple[Any, ...], options: Mapping[str, Any]) -> Recurrent:
    scales = [row_scales(one) for one in given[1:3]]
    if any(one is None for one in scales):
        raise NotCompiled("kernels need constant 8-bit weights with zero points of 0")
    step: Recurrent = recurrent_word_step(name, _with_codes(given), scales, options)
    return step


def _with_codes(given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the operands, with the codes of both weights in their place."""
    x, w, r, *rest = given
    return (x, w.codes, r.codes, *rest)


def _states(operation: Any, given: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
    """Return the result of a layer."""
    specs = [None if one is None else spec_of(one) for one in given]
    named = tuple(one for one in given if one is not None)
    rule = weight_only(shape_rule(operation))
    checked(operation.__name__, named, lambda: rule(*specs, **options))
    scales = [row_scales(one) for one in given[1:3]]
    floats = [x for x in (given[0], *given[3:-1]) if x is not None]
    is_single = all(x.dtype is dtypes.float32 for x in floats)
    if not is_single or any(one is None for one in scales):
        return compute_on_numbers(operation, *given, **options)
    found = recurrent_word_states(operation, _with_codes(given), scales, options)
    return leaf(dtypes.float32).wrap(found)


@method(lstm, deduce=weight_only(shape_rule(lstm)), prepare=lstm_step)
def lstm(
    x: FloatingTensor,
    w: ShortTensor,
    r: ShortTensor,
    b: State,
    h: State,
    c: State,
    p: State,
    lengths: Lengths,
    /,
    *,
    activations: object,
    clip: float | None,
    coupled: bool,
) -> Tensor:
    options = {"activations": activations, "clip": clip, "coupled": coupled}
    found: Tensor = _states(lstm, (x, w, r, b, h, c, p, lengths), options)
    return found


@method(gru, deduce=weight_only(shape_rule(gru)), prepare=gru_step)
def gru(
    x: FloatingTensor,
    w: ShortTensor,
    r: ShortTensor,
    b: State,
    h: State,
    lengths: Lengths,
    /,
    *,
    activations: object,
    clip: float | None,
    reset_after: bool,
) -> Tensor:
    options = {"activations": activations, "clip": clip, "reset_after": reset_after}
    found: Tensor = _states(gru, (x, w, r, b, h, lengths), options)
    return found


@method(rnn, deduce=weight_only(shape_rule(rnn)), prepare=rnn_step)
def rnn(
    x: FloatingTensor,
    w: ShortTensor,
    r: ShortTensor,
    b: State,
    h: State,
    lengths: Lengths,
    /,
    *,
    activations: object,
    clip: float | None,
) -> Tensor:
    options = {"activations": activations, "clip": clip}
    found: Tensor = _states(rnn, (x, w, r, b, h, lengths), options)
    return found
