"""A layer whose weights are to be quantized, and what an algorithm makes of it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor import DataError, OptionError, ShapeError, Tensor, asarray, dtypes, leaf
from mdtensor.quant.generics import dequantize
from mdtensor.quant.observers.minmax import numbers
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import QuantizedTensor
from mdtensor.quant.weights.format import FloatArray, Groups, WeightFormat, matrix
from mdtensor.quant.weights.moments import InputMoments, moments_of

#: The normal numbers of float32.
TINY, HUGE = (float(x) for x in (np.finfo(np.float32).tiny, np.finfo(np.float32).max))


@dataclass(frozen=True)
class Grids:
    """A scale and a zero point for each group of weights.

    Args:
        scale: float32 numbers, [outputs, groups].
        zero: integers as float64, the same.
        groups: which weights they are of.
        format: which codes there are.
    """

    scale: FloatArray
    zero: FloatArray
    groups: Groups
    format: WeightFormat

    def codes(self, weights: FloatArray) -> FloatArray:
        """clamp(round_half_even(w / scale) + zero)"""
        scale, zero = self.groups.spread(self.scale), self.groups.spread(self.zero)
        found = np.rint(weights / scale) + zero
        return np.clip(found, self.format.low, self.format.high)

    def numbers(self, codes: FloatArray) -> FloatArray:
        """scale · (code - zero)"""
        scale, zero = self.groups.spread(self.scale), self.groups.spread(self.zero)
        return scale * (codes - zero)

    def nearest(self, weights: FloatArray) -> FloatArray:
        """The numbers of the nearest codes."""
        return self.numbers(self.codes(weights))

    def replaced(self, where: npt.NDArray[np.bool_], other: "Grids") -> "Grids":
        """These grids, those of `other` for the groups `where` is true."""
        scale = np.where(where, other.scale, self.scale)
        zero = np.where(where, other.zero, self.zero)
        return Grids(scale, zero, self.groups, self.format)

    def qparams(self) -> QParams:
        """The grid of the tensor of codes."""
        form, zero = self.format, self.zero.astype(np.int64)
        options: dict[str, Any] = {"dtype": form.dtype, "narrow_range": form.symmetric}
        if form.axis is None:
            return QParams(self.scale[0, 0], zero[0, 0], **options)
        if form.block_size is None:
            return QParams(self.scale[:, 0], zero[:, 0], axis=0, **options)
        options |= {"axis": 1, "block_size": form.block_size}
        return QParams(self.scale, zero, **options)


@dataclass(frozen=True)
class Layer:
    """Weights to be quantized, and what is known about their inputs.

    Args:
        weights: [outputs, inputs].
        format: the codes.
        inputs: None if nothing is known.
        floor: scales are at least this large; a number or one an output.
    """

    weights: FloatArray
    format: WeightFormat
    inputs: InputMoments | None = None
    floor: float | FloatArray = 0.0

    @property
    def groups(self) -> Groups:
        return Groups((self.weights.shape[0], self.weights.shape[1]), self.format)

    def covering(self, weights: FloatArray, share: float | FloatArray = 1.0) -> Grids:
        """Grids for `share` of the range of each group; 1 covers it.

        Symmetric: scale = share · max|w| / high. Otherwise the range is widened to
        hold 0 and scale = share · (max - min) / (high - low).
        """
        groups, form = self.groups, self.format
        if form.symmetric:
            step = groups.reduce(np.maximum, np.abs(weights)) * share / form.high
            return self.on(step)
        low = np.minimum(groups.reduce(np.minimum, weights), 0) * share
        high = np.maximum(groups.reduce(np.maximum, weights), 0) * share
        grids = self.on((high - low) / (form.high - form.low))
        zero = form.low + np.rint(-low / grids.scale)
        return self.on(grids.scale, np.minimum(zero, form.high))

    def on(self, step: FloatArray, zero: FloatArray | float = 0.0) -> Grids:
        """Grids with these steps, rounded up to float32; 1 in place of 0."""
        floor = np.reshape(self.floor, (-1, 1))
        step = np.maximum(step, floor.max() if self.format.axis is None else floor)
        step = np.where(step == 0, 1.0, np.clip(step, TINY, HUGE))
        near = step.astype(np.float32)
        with np.errstate(over="ignore"):  # beyond the largest, which is taken then
            up = np.where(near < step, np.nextafter(near, np.float32(np.inf)), near)
        scale = np.minimum(up.astype(np.float64), HUGE)
        zero = np.broadcast_to(np.asarray(zero, np.float64), scale.shape)
        return Grids(scale, zero, self.groups, self.format)


@dataclass(frozen=True)
class Rounded:
    """What an algorithm found.

    Args:
        codes: integers as float64, [outputs, inputs].
        grids: what they mean.
        input_scale: what the inputs are to be divided by; None for nothing.
    """

    codes: FloatArray
    grids: Grids
    input_scale: FloatArray | None = None

    @property
    def numbers(self) -> FloatArray:
        """The weights that the layer computes with, as seen by its real inputs."""
        found = self.grids.numbers(self.codes)
        return found if self.input_scale is None else found / self.input_scale

    def tensor(self, shape: tuple[int, ...]) -> Any:
        """The quantized tensor."""
        grid = self.grids.qparams()
        codes = self.codes.astype(grid.dtype.storage).reshape(shape)
        found: Any = leaf(grid.dtype)
        return found(codes, grid)


def seen(layer: Layer, method: str) -> InputMoments:
    """What is known about the inputs.

    Raises:
        OptionError: nothing.
    """
    if layer.inputs is None:
        raise OptionError(
            f"{method} needs samples of what the layer reads", "Give samples"
        )
    return layer.inputs


# What quantizing weights gives, and how far it is off.

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
