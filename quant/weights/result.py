"""What quantizing weights gives, and how far it is off."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor import DataError, ShapeError, Tensor, asarray, dtypes
from mdtensor.quant.generics import dequantize
from mdtensor.quant.observers.minmax import numbers
from mdtensor.quant.tensor import QuantizedTensor
from mdtensor.quant.weights.format import FloatArray, matrix
from mdtensor.quant.weights.moments import moments_of

#: Numbers beyond this have no scale that is a float32.
LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, repr=False, eq=False)
class QuantizedWeights:
    """Weights on their grid, and what that costs.

    Args:
        tensor: the quantized weights, in the shape of the float ones.
        method: the algorithm.
        input_scale: what the inputs are to be divided by, one number an input; None
            for nothing. The layer before can absorb it.
        weight_error: |W' - W| / |W|. Says little: the methods that are best for
            outputs are worse here.
        output_error: |W' x - W x| / |W x| over the samples; None without any. On
            samples that the method has not seen it is a little larger, see
            `output_error`.
    """

    tensor: Any
    method: str
    input_scale: npt.NDArray[np.float32] | None
    weight_error: float
    output_error: float | None

    def numbers(self) -> FloatArray:
        """The weights that the layer computes with, as its real inputs see them:
        dequantized, and divided by `input_scale`; the shape of the tensor."""
        found = dequantized(self.tensor)
        if self.input_scale is None:
            return found
        flat = found.reshape(found.shape[0], -1) / self.input_scale.astype(np.float64)
        return flat.reshape(found.shape)

    def __repr__(self) -> str:
        told = f"{self.method}, {self.tensor!r}, weights off by {self.weight_error:.2%}"
        if self.output_error is not None:
            told += f", outputs by {self.output_error:.2%}"
        return f"QuantizedWeights({told})"


def dequantized(tensor: QuantizedTensor) -> FloatArray:
    """The numbers of codes, as float32 has them."""
    return np.asarray(dequantize(tensor)).astype(np.float64)


def real_weights(given: Any) -> FloatArray:
    """Weights of any kind as numbers.

    Raises:
        DataError: they are no numbers, or NaN, infinite or beyond float32.
    """
    if isinstance(given, QuantizedWeights):
        return given.numbers()
    if isinstance(given, QuantizedTensor):
        return dequantized(given)
    found = numbers(given).astype(np.float64, copy=False)
    if not (np.abs(found) <= LARGEST).all():
        raise DataError(
            "a weight is NaN, infinite or beyond float32", "Look where it comes from"
        )
    return found


def alike(found: FloatArray, given: Any) -> Any:
    """`found` as what `given` is: an array or a tensor of its floating type."""
    if isinstance(given, Tensor):
        dtype = given.dtype if given.dtype.is_floating else dtypes.float32
        return asarray(found, dtype=dtype)
    kind = getattr(given, "dtype", np.dtype(np.float64))
    return found.astype(kind if kind.kind == "f" else np.float64)


def output_error(weights: Any, found: Any, samples: Any) -> float:
    """|W' x - W x| / |W x|, over all samples.

    Args:
        weights: W, [outputs, inputs, ...]: an array or a tensor.
        found: W', of the same shape: what `quantize_weights` gave, a quantized tensor,
            or numbers.
        samples: x: an array or tensor [..., inputs], an iterable of such, or
            `InputMoments`.

    Raises:
        ShapeError: shapes that do not fit.
        DataError: no samples; a NaN or an infinity.

    Example:
        >>> w = np.array([[1.0, 2.0], [3.0, 4.0]])
        >>> round(output_error(w, w * 1.01, np.eye(2)), 6)
        0.01
    """
    wanted, real = matrix(real_weights(weights)), matrix(real_weights(found))
    if wanted.shape != real.shape:
        raise ShapeError(f"weights of {wanted.shape} compared with {real.shape}")
    return moments_of(samples, wanted.shape[1]).error(real, wanted)
