"""Methods of recurrent layers for dense tensors on the host."""

from typing import Any, Union

from mdtensor.dispatch.operation import method
from mdtensor.errors import BoundsError, describe
from mdtensor.generics.recurrent import functions_of, gru, lstm, rnn
from mdtensor.kernels.numpy import recurrent as kernel
from mdtensor.ops import recurrent_steps as steps
from mdtensor.ops.operands import deduced
from mdtensor.tensor import Tensor
from mdtensor.types import FloatingTensor, IntegerTensor

State = Union[FloatingTensor, None]
Lengths = Union[IntegerTensor, None]


@method(lstm, prepare=steps.lstm_step)
def lstm(
    x: FloatingTensor,
    w: FloatingTensor,
    r: FloatingTensor,
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
    given = (x, w, r, b, h, c, p)
    result: type[Tensor] = deduced(lstm, *given, lengths, **options).type
    sizes = sizes_of(lstm, given, lengths)
    functions, limit = functions_of(activations, 3), steps.limit_of(clip)
    states = buffer_of(b), buffer_of(h), buffer_of(c), buffer_of(p), sizes
    operands = x.buffer, w.buffer, r.buffer, *states
    storage = result.dtype.storage
    return result.wrap(kernel.lstm(*operands, functions, limit, coupled, storage))


@method(gru, prepare=steps.gru_step)
def gru(
    x: FloatingTensor,
    w: FloatingTensor,
    r: FloatingTensor,
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
    given = (x, w, r, b, h)
    result: type[Tensor] = deduced(gru, *given, lengths, **options).type
    sizes = sizes_of(gru, given, lengths)
    functions, limit = functions_of(activations, 2), steps.limit_of(clip)
    operands = x.buffer, w.buffer, r.buffer, buffer_of(b), buffer_of(h), sizes
    storage = result.dtype.storage
    return result.wrap(kernel.gru(*operands, functions, limit, reset_after, storage))


@method(rnn, prepare=steps.rnn_step)
def rnn(
    x: FloatingTensor,
    w: FloatingTensor,
    r: FloatingTensor,
    b: State,
    h: State,
    lengths: Lengths,
    /,
    *,
    activations: object,
    clip: float | None,
) -> Tensor:
    options = {"activations": activations, "clip": clip}
    given = (x, w, r, b, h)
    result: type[Tensor] = deduced(rnn, *given, lengths, **options).type
    sizes = sizes_of(rnn, given, lengths)
    functions, limit = functions_of(activations, 1), steps.limit_of(clip)
    operands = x.buffer, w.buffer, r.buffer, buffer_of(b), buffer_of(h), sizes
    storage = result.dtype.storage
    return result.wrap(kernel.rnn(*operands, functions, limit, storage))


def sizes_of(operation: Any, given: tuple[Any, ...], lengths: Any) -> Any:
    """Return the lengths as an array; raise if one is outside of the sequence."""
    if lengths is None:
        return None
    steps = given[0].shape[0]
    if kernel.is_outside(lengths.buffer, steps):
        raise BoundsError(
            f"a length is outside of 0 to {steps}, the steps of x",
            "Use the number of steps of each sample",
            describe(operation.__name__, *(x for x in given if x is not None), lengths),
        )
    return lengths.buffer


def buffer_of(x: Any) -> Any:
    """Return the buffer of a tensor; None for None."""
    return None if x is None else x.buffer
