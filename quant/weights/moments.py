"""Moments of the inputs of a layer: all that algorithms need, in bounded memory.

The squared error of a layer's outputs is a quadratic form in the error of its weights:

    sum over samples of |(W' - W) x|² = trace((W' - W) G (W' - W)ᵀ),  G = sum of x xᵀ

so G, the means and the peaks replace the samples, however many there are.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from mdtensor import DataError, OptionError, ShapeError, Tensor
from mdtensor.errors import shown
from mdtensor.extend import Window, explain_wrong_calls, padding4, pair
from mdtensor.quant.observers.minmax import numbers

FloatArray = npt.NDArray[np.float64]
#: The moments with one number for each input.
SUMMED = ("sums", "magnitudes", "peaks")


# The error of outputs is a quadratic form, so these moments replace all samples exactly
# (decision 0020).
@dataclass(eq=False)
class InputMoments:
    """Sums over samples of the inputs of a layer.

    Args:
        inputs: the number of inputs of the layer.

    Raises:
        OptionError: `inputs` is less than 1.

    Sums are float64, and how you split samples into batches changes them by rounding
    only. The peaks and the count are exact.

    Example:
        >>> moments = InputMoments(2)
        >>> moments.observe(np.array([[1.0, -2.0], [3.0, 0.0]]))
        >>> moments.count, moments.mean.tolist(), moments.peaks.tolist()
        (2, [2.0, -1.0], [3.0, 2.0])
        >>> moments.gram.tolist()
        [[10.0, -2.0], [-2.0, 4.0]]
    """

    inputs: int
    count: int = 0
    sums: FloatArray = field(init=False)
    magnitudes: FloatArray = field(init=False)
    peaks: FloatArray = field(init=False)
    gram: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        is_whole = isinstance(self.inputs, int) and not isinstance(self.inputs, bool)
        if not is_whole or self.inputs < 1:
            raise OptionError(f"inputs is {shown(self.inputs)}", "Use 1 or more")
        # The matrix of products grows with the square of the inputs, so it is what can
        # exceed the memory; NumPy raises ValueError for sizes beyond its indices.
        try:
            self.gram = np.zeros((self.inputs, self.inputs))
        except (MemoryError, ValueError):
            raise OptionError(
                f"the products of {self.inputs} inputs do not fit into memory",
                "Use fewer inputs",
            ) from None
        self.sums, self.magnitudes, self.peaks = np.zeros((3, self.inputs))

    def observe(self, samples: object) -> None:
        """Add a batch of samples, [..., inputs].

        Raises:
            ShapeError: the last axis has another size.
            DataError: the samples are not numbers, or one is NaN, infinite, or so large
                that its square exceeds float64.
        """
        self._add(self._rows(samples))

    def _add(self, rows: FloatArray) -> None:
        """Add samples [..., samples, inputs]."""
        # One check of the product finds NaN, infinity and overflow, before any sum
        # changes.
        with np.errstate(over="ignore", invalid="ignore"):
            gram = rows.swapaxes(-1, -2) @ rows
        if not np.isfinite(gram).all():
            raise DataError(
                "a sample is NaN, infinite or too large to square",
                "Clean the samples first",
            )
        sizes = np.abs(rows)
        self.count += rows.shape[-2]
        self.sums += rows.sum(axis=-2)
        self.magnitudes += sizes.sum(axis=-2)
        self.peaks = np.maximum(self.peaks, sizes.max(axis=-2, initial=0))
        self.gram += gram

    def _rows(self, samples: object) -> FloatArray:
        found = numbers(samples).astype(np.float64, copy=False)
        if found.ndim == 0 or found.shape[-1] != self.inputs:
            raise ShapeError(
                f"samples have shape {found.shape}, but the weights have {self.inputs} "
                "inputs",
                "Give the inputs along the last axis",
            )
        return found.reshape(-1, self.inputs)

    def merge(self, other: Self) -> None:
        """Add the samples that `other` observed.

        Raises:
            OptionError: `other` is not an `InputMoments`.
            ShapeError: `other` has another number of inputs.
        """
        if not isinstance(other, InputMoments):
            raise OptionError(f"other is {shown(other)}", "Merge InputMoments")
        if other.inputs != self.inputs:
            raise ShapeError(
                f"other has moments of {other.inputs} inputs, not {self.inputs}",
                "Merge moments of the same layer",
            )
        self.count += other.count
        self.sums += other.sums
        self.magnitudes += other.magnitudes
        self.peaks = np.maximum(self.peaks, other.peaks)
        self.gram += other.gram

    def reordered(self, order: npt.NDArray[np.int64]) -> "InputMoments":
        """Return the moments of the inputs in another order.

        Raises:
            OptionError: `order` is not a permutation of the inputs.
        """
        order = np.asarray(order)
        whole = np.arange(self.inputs)
        if (
            order.shape != whole.shape
            or order.dtype.kind not in "iu"
            or not (np.sort(order) == whole).all()
        ):
            raise OptionError(
                f"order is not a permutation of {self.inputs} inputs",
                "Give each index once",
            )
        found = InputMoments(self.inputs, self.count)
        for name in SUMMED:
            setattr(found, name, getattr(self, name)[order])
        found.gram = self.gram[np.ix_(order, order)]
        return found

    @property
    def mean(self) -> FloatArray:
        """Return E[x]."""
        return self.sums / self._some()

    @property
    def mean_magnitude(self) -> FloatArray:
        """Return E[|x|]."""
        return self.magnitudes / self._some()

    def _some(self) -> int:
        if not self.count:
            raise DataError("there are no samples", "Give at least one")
        return self.count

    def energy(self, weights: FloatArray) -> float:
        """Return the sum of |W x|² over all samples.

        Raises:
            ShapeError: `weights` is not [outputs, inputs].
            DataError: `weights` are not numbers.
        """
        weights = self._matrix(weights)
        # trace(W G Wᵀ) without the matrix [outputs, outputs]: only its diagonal counts.
        with np.errstate(over="ignore", invalid="ignore"):
            return float(np.einsum("ij,ij->", weights @ self.gram, weights))

    def error(self, found: FloatArray, wanted: FloatArray) -> float:
        """Return |W' x - W x| / |W x| over all samples; 0 for 0 / 0."""
        self._some()
        found, wanted = self._matrix(found), self._matrix(wanted)
        if found.shape != wanted.shape:
            raise ShapeError(
                f"the shapes of the weights differ, {wanted.shape} and {found.shape}",
                "Compare weights of one layer",
            )
        # Rounding can make a tiny energy negative.
        wrong = max(self.energy(found - wanted), 0.0)
        right = self.energy(wanted)
        if right <= 0:
            return 0.0 if wrong == 0 else float("inf")
        return float(np.sqrt(wrong / right))

    def _matrix(self, weights: object) -> FloatArray:
        found = numbers(weights).astype(np.float64, copy=False)
        if found.ndim != 2 or found.shape[1] != self.inputs:
            raise ShapeError(
                f"weights have shape {found.shape}, expected {self.inputs} inputs",
                "Give [outputs, inputs]",
            )
        return found


class GroupedMoments(InputMoments):
    """Moments of several groups of inputs, observed together but not mixed.

    Args:
        groups: the number of groups.
        inputs: the number of inputs of each group.
    """

    def __init__(self, groups: int, inputs: int) -> None:
        super().__init__(inputs)
        for name in (*SUMMED, "gram"):
            setattr(self, name, np.array([getattr(self, name)] * groups))

    def observe(self, samples: object) -> None:
        """Add samples [groups, samples, inputs]."""
        self._add(np.asarray(samples).astype(np.float64, copy=False))

    def split(self) -> list[InputMoments]:
        """Return the moments of each group."""
        found = [InputMoments(self.inputs, self.count) for _ in self.sums]
        for name in (*SUMMED, "gram"):
            for group, values in zip(found, getattr(self, name), strict=True):
                setattr(group, name, values)
        return found


def moments_of(samples: object, inputs: int) -> InputMoments:
    """Compute the moments of samples.

    Args:
        samples: an array or tensor [..., inputs], an iterable of them, or moments.
        inputs: the number of inputs of the layer.

    Raises:
        DataError: `samples` is empty, or one contains a NaN or an infinity.
        ShapeError: samples or moments have another number of inputs.
    """
    found = InputMoments(inputs)
    if isinstance(samples, InputMoments):
        found.merge(samples)
    elif isinstance(samples, Iterable) and not _is_array(samples):
        for batch in samples:
            found.observe(batch)
    else:
        found.observe(samples)
    found.mean  # noqa: B018 - raises without samples
    return found


def _is_array(given: object) -> bool:
    return isinstance(given, np.ndarray | Tensor) or hasattr(given, "__array__")


@explain_wrong_calls
def patches(
    x: object,
    /,
    kernel_size: Any,
    *,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> npt.NDArray[Any]:
    """Return the windows of a convolution over images: samples for its weights.

    conv2d(x, w) at position p, output o  =  sum of patch_p · w_o

    Args:
        x: [n, c, h, w], an array or a tensor; padded with zeros.
        kernel_size: one integer or (height, width).
        stride, padding, dilation, groups: as for `conv2d`.

    Returns:
        [groups, positions, c / groups · height · width], elements in the order of
        weights [outputs, c / groups, height, width].

    Raises:
        ShapeError: `x` does not have four axes, or the window does not fit.
        OptionError: `conv2d` does not accept the options.
        DataError: `x` does not contain numbers.

    Example:
        >>> patches(np.arange(6.0).reshape(1, 1, 2, 3), 2).tolist()
        [[[0.0, 1.0, 3.0, 4.0], [1.0, 2.0, 4.0, 5.0]]]

    Source: Chellapilla et al. 2006, section 3: `im2col`.
    """
    values = numbers(x)
    sizes = (pair(kernel_size, "kernel_size", 1), pair(stride, "stride", 1))
    window = Window(*sizes, padding4(padding), pair(dilation, "dilation", 1))
    _check(values.shape, window, groups)
    found = _windows(values, window)
    n, channels, height, width, *kernel = found.shape
    split = found.reshape(n, groups, channels // groups, height, width, *kernel)
    ordered = split.transpose(1, 0, 3, 4, 2, 5, 6)
    inputs = channels // groups * kernel[0] * kernel[1]
    return ordered.reshape(groups, n * height * width, inputs)


def _check(shape: tuple[int, ...], window: Window, groups: Any) -> None:
    if len(shape) != 4:
        raise ShapeError(f"images have shape {shape}", "Give [n, c, h, w]")
    window.slide(shape[2], shape[3])
    is_whole = isinstance(groups, int) and not isinstance(groups, bool)
    if not is_whole or groups < 1 or shape[1] % groups:
        raise OptionError(
            f"{shape[1]} channels do not split into {shown(groups)} groups",
            "Choose groups that divide the channels",
        )


def _windows(x: npt.NDArray[Any], window: Window) -> npt.NDArray[Any]:
    """Return a view [n, c, positions down, positions across, height, width]."""
    top, left, bottom, right = window.padding
    (rows, columns), (down, across) = window.kernel, window.dilation
    wide = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    reach = (down * (rows - 1) + 1, across * (columns - 1) + 1)
    # Windows of all pixels that the kernel spans; the steps below apply stride and
    # dilation without copying.
    found = np.lib.stride_tricks.sliding_window_view(wide, reach, (2, 3))
    stride = window.stride
    return found[:, :, :: stride[0], :: stride[1], ::down, ::across]
