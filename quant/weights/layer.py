"""Layers to quantize, the grids and codes of algorithms, and their errors."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor import DataError, OptionError, ShapeError, Tensor, asarray, dtypes, leaf
from mdtensor.extend import explain_wrong_calls
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
        scale: float32 numbers as float64, [outputs, groups].
        zero: zero points, integers as float64, [outputs, groups].
        groups: the groups of weights that share a scale.
        format: the format of the codes.
    """

    scale: FloatArray
    zero: FloatArray
    groups: Groups
    format: WeightFormat

    def codes(self, weights: FloatArray) -> FloatArray:
        """Return clamp(round_half_even(w / scale) + zero)."""
        scale, zero = self.groups.spread(self.scale), self.groups.spread(self.zero)
        found = np.rint(weights / scale) + zero
        return np.clip(found, self.format.low, self.format.high)

    def numbers(self, codes: FloatArray) -> FloatArray:
        """Return scale · (code - zero)."""
        scale, zero = self.groups.spread(self.scale), self.groups.spread(self.zero)
        return scale * (codes - zero)

    def nearest(self, weights: FloatArray) -> FloatArray:
        """Return the numbers of the nearest codes."""
        return self.numbers(self.codes(weights))

    def replace_where(self, where: npt.NDArray[np.bool_], other: "Grids") -> "Grids":
        """Return these grids, with the grids of `other` for the groups in `where`."""
        scale = np.where(where, other.scale, self.scale)
        zero = np.where(where, other.zero, self.zero)
        return Grids(scale, zero, self.groups, self.format)

    def qparams(self) -> QParams:
        """Return the grid of the tensor of codes."""
        form, zero = self.format, self.zero.astype(np.int64)
        options: dict[str, Any] = {"dtype": form.dtype, "narrow_range": form.symmetric}
        if form.axis is None:
            return QParams(self.scale[0, 0], zero[0, 0], **options)
        if form.block_size is None:
            return QParams(self.scale[:, 0], zero[:, 0], axis=0, **options)
        # Blocks divide the inputs, so the axis of their grid is 1.
        options |= {"axis": 1, "block_size": form.block_size}
        return QParams(self.scale, zero, **options)


@dataclass(frozen=True)
class Layer:
    """The weights to quantize, and the moments of their inputs.

    Args:
        weights: [outputs, inputs].
        format: the format of the codes.
        inputs: moments of the inputs, or None without samples.
        floor: the smallest allowed scale; one number, or one for each output.
    """

    weights: FloatArray
    format: WeightFormat
    inputs: InputMoments | None = None
    floor: float | FloatArray = 0.0

    @property
    def groups(self) -> Groups:
        """Return the groups of weights that share a scale."""
        return Groups((self.weights.shape[0], self.weights.shape[1]), self.format)

    def grids_of_range(
        self, weights: FloatArray, share: float | FloatArray = 1.0
    ) -> Grids:
        """Return grids for the part `share` of the range of each group; 1 is all of it.

        Symmetric: scale = share · max|w| / high. Otherwise the range is widened to
        include 0, and scale = share · (max - min) / (high - low).
        """
        groups, form = self.groups, self.format
        if form.symmetric:
            scale = groups.reduce(np.maximum, np.abs(weights)) * share / form.high
            return self.grids_from_scales(scale)
        # The zero point must be a code, so the range has to include 0.
        low = np.minimum(groups.reduce(np.minimum, weights), 0) * share
        high = np.maximum(groups.reduce(np.maximum, weights), 0) * share
        grids = self.grids_from_scales((high - low) / (form.high - form.low))
        zero = form.low + np.rint(-low / grids.scale)
        return self.grids_from_scales(grids.scale, np.minimum(zero, form.high))

    def grids_from_scales(
        self, scale: FloatArray, zero: FloatArray | float = 0.0
    ) -> Grids:
        """Return grids with these scales, rounded up to float32; 1 in place of 0."""
        # Rounded up, because with a smaller scale the largest weight would saturate.
        floor = np.reshape(self.floor, (-1, 1))
        wide = np.maximum(scale, floor.max() if self.format.axis is None else floor)
        wide = np.where(wide == 0, 1.0, np.clip(wide, TINY, HUGE))
        near = wide.astype(np.float32)
        # The next float32 after the largest is infinite; `minimum` below undoes that.
        with np.errstate(over="ignore"):
            up = np.where(near < wide, np.nextafter(near, np.float32(np.inf)), near)
        scale = np.minimum(up.astype(np.float64), HUGE)
        zero = np.broadcast_to(np.asarray(zero, np.float64), scale.shape)
        return Grids(scale, zero, self.groups, self.format)


@dataclass(frozen=True)
class Rounded:
    """The result of an algorithm.

    Args:
        codes: integers as float64, [outputs, inputs].
        grids: the grids of the codes.
        input_scale: you must divide the inputs by this; None for no division.
    """

    codes: FloatArray
    grids: Grids
    input_scale: FloatArray | None = None

    @property
    def numbers(self) -> FloatArray:
        """Return the effective weights: dequantized, and divided by `input_scale`."""
        found = self.grids.numbers(self.codes)
        return found if self.input_scale is None else found / self.input_scale

    def tensor(self, shape: tuple[int, ...]) -> Any:
        """Return the codes as a quantized tensor of this shape."""
        grid = self.grids.qparams()
        codes = self.codes.astype(grid.dtype.storage).reshape(shape)
        found: Any = leaf(grid.dtype)
        return found(codes, grid)


def require_inputs(layer: Layer, method: str) -> InputMoments:
    """Return the moments of the inputs of a layer.

    Raises:
        OptionError: `method` needs samples, and they are missing.
    """
    if layer.inputs is None:
        raise OptionError(
            f"{method} needs samples of the inputs of the layer", "Give samples"
        )
    return layer.inputs


#: The largest weight: float32 cannot represent the scale of larger ones.
LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, repr=False, eq=False)
class QuantizedWeights:
    """Quantized weights, and the errors that rounding causes.

    Args:
        tensor: the quantized weights, in the shape of the float weights.
        method: the name of the algorithm.
        input_scale: you must divide the inputs by this, one number for each input, or
            let the layer before do it; None for no division.
        weight_error: |W' - W| / |W|. Do not choose methods by it: the methods with the
            best outputs have larger errors here.
        output_error: |W' x - W x| / |W x| over the samples; None without samples. On
            other samples it is a little larger; measure it with `output_error`.
    """

    tensor: Any
    method: str
    input_scale: npt.NDArray[np.float32] | None
    weight_error: float
    output_error: float | None

    def numbers(self) -> FloatArray:
        """Return the effective weights: dequantized, and divided by `input_scale`.

        The weights have the shape of the tensor, and apply to inputs that are not
        divided.
        """
        found = dequantize_to_float64(self.tensor)
        if self.input_scale is None:
            return found
        flat = found.reshape(found.shape[0], -1) / self.input_scale.astype(np.float64)
        return flat.reshape(found.shape)

    def __repr__(self) -> str:
        text = f"{self.method}, {self.tensor!r}, weights off by {self.weight_error:.2%}"
        if self.output_error is not None:
            text += f", outputs by {self.output_error:.2%}"
        return f"QuantizedWeights({text})"


def dequantize_to_float64(tensor: QuantizedTensor) -> FloatArray:
    """Return the numbers of codes, rounded to float32, as float64."""
    return np.asarray(dequantize(tensor)).astype(np.float64)


def real_weights(given: object) -> FloatArray:
    """Return float or quantized weights as float64 numbers.

    Raises:
        DataError: the weights are not numbers, or one is NaN, infinite or too large for
            float32.
    """
    if isinstance(given, QuantizedWeights):
        return given.numbers()
    if isinstance(given, QuantizedTensor):
        return dequantize_to_float64(given)
    found = numbers(given).astype(np.float64, copy=False)
    # Written so that a NaN fails, too.
    if not (np.abs(found) <= LARGEST).all():
        raise DataError(
            "a weight is NaN, infinite or beyond float32", "Check the weights"
        )
    return found


def cast_like(found: FloatArray, given: object) -> Any:
    """Convert `found` to an array or a tensor, of the floating type of `given`."""
    if isinstance(given, Tensor):
        dtype = given.dtype if given.dtype.is_floating else dtypes.float32
        return asarray(found, dtype=dtype)
    kind = getattr(given, "dtype", np.dtype(np.float64))
    return found.astype(kind if kind.kind == "f" else np.float64)


@explain_wrong_calls
def output_error(weights: object, found: object, samples: object) -> float:
    """Compute |W' x - W x| / |W x| over all samples.

    Args:
        weights: W, [outputs, inputs, ...]: an array or a tensor.
        found: W', of the same shape: a result of `quantize_weights`, a quantized
            tensor, or numbers.
        samples: x: an array or tensor [..., inputs], an iterable of them, or
            `InputMoments`.

    Raises:
        ShapeError: the shapes do not fit.
        DataError: `samples` is empty, or one contains a NaN or an infinity.

    Example:
        >>> w = np.array([[1.0, 2.0], [3.0, 4.0]])
        >>> round(output_error(w, w * 1.01, np.eye(2)), 6)
        0.01
    """
    wanted, real = matrix(real_weights(weights)), matrix(real_weights(found))
    if wanted.shape != real.shape:
        raise ShapeError(
            f"the shapes of the weights differ, {wanted.shape} and {real.shape}",
            "Compare weights of one layer",
        )
    return moments_of(samples, wanted.shape[1]).error(real, wanted)
