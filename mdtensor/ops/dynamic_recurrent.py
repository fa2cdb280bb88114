"""The method of an LSTM with dynamic grids, for dense tensors on the host."""

from typing import Any, Union

import numpy as np

from mdtensor.dispatch.operation import method
from mdtensor.generics.dynamic_recurrent import dynamic_lstm
from mdtensor.generics.recurrent import functions_of
from mdtensor.kernels.numpy import recurrent as kernel
from mdtensor.ops.dynamic_quantization import Product
from mdtensor.ops.operands import deduced
from mdtensor.ops.packed_bytes import PackedWeights
from mdtensor.ops.recurrent import buffer_of, sizes_of
from mdtensor.ops.recurrent_steps import dynamic_lstm_step, limit_of
from mdtensor.tensor import Tensor
from mdtensor.types import FloatingTensor, IntegerTensor

State = Union[FloatingTensor, None]
Lengths = Union[IntegerTensor, None]


@method(dynamic_lstm, prepare=dynamic_lstm_step)
def dynamic_lstm(
    x: FloatingTensor,
    w: IntegerTensor,
    w_scale: FloatingTensor,
    r: IntegerTensor,
    r_scale: FloatingTensor,
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
    given = (x, w, w_scale, r, r_scale, b, h, c, p)
    deduced(dynamic_lstm, *given, lengths, **options)
    sizes = sizes_of(dynamic_lstm, given, lengths)
    functions, limit = functions_of(activations, 3), limit_of(clip)
    start = np.zeros((x.shape[1], r.shape[1]), np.float32) if h is None else h.buffer
    states = buffer_of(b), start, buffer_of(c), buffer_of(p), sizes
    products = _rows(w, w_scale), _rows(r, r_scale)
    found = kernel.lstm_of_products(
        x.buffer, *products, *states, functions, limit, coupled
    )
    return x.wrap(found)


def _rows(w: Tensor, scale: Tensor) -> Any:
    """Return what multiplies float rows by the rows of int8 weights."""
    if 0 in w.shape:
        return lambda x: np.zeros((len(x), len(w.buffer)), np.float32)
    product = Product(PackedWeights(w.buffer.T, None), scale.buffer, None)
    # No rows have no grid.
    return lambda x: product(x) if len(x) else np.zeros((0, len(w.buffer)), np.float32)
