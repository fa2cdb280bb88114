"""(x1 - x2)², an operation that mdtensor does not have."""

from typing import Any

import mdtensor as md
from mdtensor import extend
from mdtensor.quant import QuantizedTensor, dequantize


@md.generic(deduce=extend.arithmetic)
def squared_difference(x1: Any, x2: Any, /) -> Any:
    """(x1 - x2)².

    Args:
        x1: numbers, any shape.
        x2: broadcasts against `x1`.

    Returns:
        The promoted type; integers wrap, floats of 16 bits or less round once.
    """


@md.method(squared_difference, anywhere=True)
def squared_difference(x1: extend.Number, x2: extend.Number, /) -> md.Tensor:
    return extend.compute(squared_difference, _squared_difference, x1, x2)


def _squared_difference(a: Any, b: Any) -> Any:
    difference = a - b
    return difference * difference


def _real(x1: Any, x2: Any) -> Any:
    """Of quantized tensors: their numbers are float32."""
    shape = md.broadcast_shapes(x1.shape, x2.shape)
    return md.TensorSpec(md.Float32Tensor, shape)


@md.method(squared_difference, deduce=_real)
def squared_difference(x1: QuantizedTensor, x2: QuantizedTensor, /) -> Any:
    return squared_difference(dequantize(x1), dequantize(x2))
