"""Floats beside quantized weights: the weights become numbers, nothing else does."""

from typing import Any

from mdtensor import astype
from mdtensor.quant.deduction import type_of_floats
from mdtensor.quant.generics import dequantize
from mdtensor.quant.tensor import QuantizedTensor


def of_numbers(operation: Any, *arguments: Any, **options: Any) -> Any:
    """The operation of dequantized arguments, in the type of those that are floats.

    Narrow floats are computed in float32 and rounded once, as everywhere.
    """
    numbers = [
        dequantize(x) if isinstance(x, QuantizedTensor) else x for x in arguments
    ]
    found = operation(*numbers, **options)
    dtype = type_of_floats(*arguments)
    # An infinity where it is too large, as float arithmetic gives.
    return found if found.dtype is dtype else astype(found, dtype, casting="wrap")
