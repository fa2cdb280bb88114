"""The operations that a Program can hold, made from plain arrays and Fractions.

Codes are uint8, NHWC. `ratios` and `ratio` are exact: the real input scale (times the
weight scale) over the real output scale. `clamp` = (lo, hi) in output codes fuses an
activation.
"""

from fractions import Fraction
from math import prod

import numpy as np

from mdtensor.kernels.cpu.generic.packing import window
from mdtensor.kernels.cpu.program import AXES, kinds
from mdtensor.kernels.cpu.program.checked_sums import checked_multipliers
from mdtensor.kernels.cpu.program.slopes import fit_slopes
from mdtensor.kernels.cpu.program.step import Constants, Plan, Step
from mdtensor.kernels.rescale import rescale, rescale_pair

U8 = np.dtype(np.uint8)
S32 = np.dtype(np.int32)
F32 = np.dtype(np.float32)


def rounding(zero_point, clamp):
    """Return the fields of a record that rounding to codes needs."""
    return {"zero_point": zero_point, "lo": clamp[0], "hi": clamp[1]}


def places(constants, *arrays):
    """Add arrays to the constants; return the fields that place them there."""
    names = "multipliers", "limbs", "guard"
    return {
        name: constants.add(array)[0]
        for name, array in zip(names, arrays, strict=False)
    }


class Lookup(Step):
    """A lookup table: out = table[x]; table uint8 [256].

    Every unary function of codes is such a step.
    """

    kind = kinds.LOOKUP
    # An ISA may implement it under another name.
    kernel = "lookup_u8"
    kernels = ("lookup_u8",)

    def __init__(self, table):
        assert table.shape == (256,) and table.dtype == U8, "table: uint8 [256]"
        constants = Constants()
        constants.add(table)
        self.constants = constants.array()

    def output_shape(self, shape):
        return shape

    def plan(self, shape):
        return Plan({}, self.constants, shape, 0)

    @property
    def bytes(self):
        return 256


class LookupChannels(Step):
    """A lookup table for each channel: out[.., j, ..] = tables[j][x[.., j, ..]].

    Args:
        tables: uint8 [channels, 256].
        axis: the axis of the channels.
        zeros: the codes of 0 in x and out, if the tables may be lines through it; two
            products take half the time of a table, and give the same bytes.
    """

    kind = kinds.LOOKUP_CHANNELS
    kernels = ("lookup_channels_u8", "slopes_u8")

    def __init__(self, tables, axis=-1, zeros=None):
        assert tables.shape[1:] == (256,) and tables.dtype == U8, "tables: uint8"
        # Behind another axis the table of a plane is as fast.
        is_last = axis == -1 and zeros is not None
        self.slopes = fit_slopes(tables, *zeros) if is_last else None
        constants = Constants()
        constants.add(self.slopes.factors if self.slopes else tables)
        self.constants, self.axis = constants.array(), axis
        self.channels = len(tables)

    @property
    def kernel(self):
        """Return the name of the kernel that does the work."""
        return self.kernels[1 if self.slopes else 0]

    def output_shape(self, shape):
        assert shape[self.axis] == self.channels, f"{self.channels} tables for {shape}"
        return shape

    def plan(self, shape):
        inner = prod(shape[self.axis % len(shape) + 1 :])
        fields = {"channels": self.channels, "inner": inner}
        if self.slopes:
            fields["columns"] = self.slopes.factors.shape[1]
            fields["x_zero_point"] = self.slopes.x_zero_point
            fields["zero_point"] = self.slopes.zero_point
        return Plan(fields, self.constants, self.output_shape(shape), 0)

    @property
    def bytes(self):
        return self.slopes.factors.nbytes if self.slopes else 256 * self.channels


class Add(Step):
    """A sum of two inputs of the same shape.

    out = clamp(round((a - za) * ratios[0] + (b - zb) * ratios[1]) + zero_point)
    """

    kind = kinds.ADD
    kernels = ("add_u8u8u8",)
    input_types = (U8, U8)

    def __init__(self, ratios, zero_points, zero_point=0, clamp=(0, 255)):
        multipliers, limbs, guard = rescale_pair(*ratios)
        if guard != 0 and self.on.SUMS_TAKE_CHECKED_MULTIPLIERS:
            given = tuple(map(Fraction, ratios)), tuple(zero_points), zero_point
            found = checked_multipliers(*given)
            multipliers, guard = found or (multipliers, guard)
        constants = Constants()
        arrays = (multipliers, limbs, np.array([guard], np.float32))
        self._fields = places(constants, *arrays) | rounding(zero_point, clamp)
        self._fields |= {"x_zero_point": zero_points[0], "y_zero_point": zero_points[1]}
        self.constants = constants.array()

    def output_shape(self, a, b):
        assert a == b, f"Add: expected equal shapes, got {a} and {b}"
        return a

    def plan(self, a, b):
        return Plan(self._fields, self.constants, self.output_shape(a, b), 0)


#: The table of the codes as far from the other end: zero point z becomes 255 - z, and
#: each number its negative.
REFLECTED = np.arange(255, -1, -1, dtype=np.uint8)


class Sub(Add):
    """A difference, as a sum: out = x + the negative of y, whose codes are reflected.

    Only a Program runs it: the reflection is a step of its own, and exact.
    """

    def __init__(self, ratios, zero_points, zero_point=0, clamp=(0, 255)):
        first, second = zero_points
        super().__init__(ratios, (first, 255 - second), zero_point, clamp)

    def lead_in(self, program, x, y):
        """Append the reflection of y; return x and the result."""
        return x, program.append(Lookup(REFLECTED), y)


#: The table that leaves codes as they are.
IDENTITY = np.arange(256, dtype=np.uint8)


# Rounding to a grid is monotone, so a table for each input may come before the choice
# (decision 0056).
class Extreme(Step):
    """The larger or the smaller code of two inputs of one shape, behind tables.

        out = last[max(first[x], second[y])]

    Args:
        is_maximum: whether the larger code is taken.
        tables: first, second and last, each uint8 [256]; None leaves codes as they are.
    """

    kind = kinds.EXTREME
    kernels = ("choose_u8",)
    input_types = (U8, U8)

    def __init__(self, is_maximum, tables=(None, None, None)):
        constants = Constants()
        self._fields = {"is_maximum": int(is_maximum), "tables": 0}
        for number, table in enumerate(tables):
            own = IDENTITY if table is None else table
            constants.add(own)
            is_used = not np.array_equal(own, IDENTITY)
            self._fields["tables"] |= int(is_used) << number
        self.constants = constants.array()

    def output_shape(self, x, y):
        assert x == y, f"Extreme: expected equal shapes, got {x} and {y}"
        return x

    def plan(self, x, y):
        scratch = 3 * kinds.STRIP + kinds.SLACK
        return Plan(self._fields, self.constants, self.output_shape(x, y), scratch)

    @property
    def bytes(self):
        return 256 * self._fields["tables"].bit_count()


class Mul(Step):
    """A product: out = clamp(round((a - za) * (b - zb) * ratio) + zero_point).

    b has the shape of a, or [n, 1, ..., 1, c]: one factor for each image and channel.
    """

    kind = kinds.MUL
    kernels = ("mul_u8u8u8",)
    input_types = (U8, U8)

    def __init__(self, ratio, zero_points, zero_point=0, clamp=(0, 255)):
        constants = Constants()
        self._fields = places(constants, *rescale([ratio]))
        self._fields |= rounding(zero_point, clamp)
        self._fields |= {"x_zero_point": zero_points[0], "y_zero_point": zero_points[1]}
        self.constants = constants.array()

    def output_shape(self, a, b):
        is_factor = b[0] == a[0] and b[-1] == a[-1] and set(b[1:-1]) <= {1}
        assert a == b or is_factor, (
            f"Mul: expected b like a {a} or one factor per channel, got {b}"
        )
        return a

    def plan(self, a, b):
        shape = self.output_shape(a, b)
        if a == b:
            # Equal shapes are one image, whatever their axes.
            images, pixels, channels = 1, int(np.prod(a)), 1
        else:
            images, pixels, channels = a[0], int(np.prod(a[1:-1])), a[-1]
        fields = {**self._fields, "images": images, "pixels": pixels}
        fields |= {"channels": channels, "has_factors": int(a != b)}
        return Plan(fields, self.constants, shape, 0)


class Mean(Step):
    """A mean: out = clamp(round(mean of (x - x_zero_point) * ratio) + zero_point).

    The mean is over all axes but the first and the last. With `keepdims` the reduced
    axes keep length 1, else they are removed.
    """

    kind = kinds.MEAN
    kernels = ("mean_u8u8",)

    def __init__(
        self, ratio, x_zero_point, zero_point=0, clamp=(0, 255), keepdims=True
    ):
        self.ratio, self.x_zero_point = Fraction(ratio), x_zero_point
        self._rounding, self.keepdims = rounding(zero_point, clamp), keepdims

    def output_shape(self, shape):
        middle = (1,) * (len(shape) - 2) if self.keepdims else ()
        return (shape[0], *middle, shape[-1])

    def plan(self, shape):
        pixels = int(np.prod(shape[1:-1]))
        constants = Constants()
        # The ratio includes the division, so that the mean is rounded once.
        arrays = rescale([self.ratio / pixels])
        fields = places(constants, *arrays) | self._rounding
        fields |= {"images": shape[0], "pixels": pixels, "channels": shape[-1]}
        fields["x_zero_point"] = self.x_zero_point
        return Plan(fields, constants.array(), self.output_shape(shape), 0)


class MaxPool(Step):
    """Max pooling: out = max of the codes in each window; padding never wins."""

    kind = kinds.MAX_POOL
    kernels = ("max_pool_u8",)

    def __init__(self, kernel, stride, padding=(0, 0, 0, 0), dilation=(1, 1)):
        self.window = (kernel, stride, padding, dilation)

    def output_shape(self, shape):
        return (shape[0], *window(shape, *self.window)[-2:], shape[3])

    def plan(self, shape):
        fields = {"images": shape[0], "window": window(shape, *self.window)}
        return Plan(fields, Constants().array(), self.output_shape(shape), 0)


class AvgPool(Step):
    """Average pooling.

        out = clamp(round(mean of (x - x_zero_point) in a window * ratio) + zero_point)

    Args:
        count_include_pad: divide by kh * kw, with padding as zero, rather than by the
            number of pixels inside the input.
    """

    kind = kinds.AVG_POOL
    kernels = ("avg_pool_u8",)

    def __init__(
        self,
        kernel,
        stride,
        padding=(0, 0, 0, 0),
        *,
        ratio,
        x_zero_point,
        zero_point=0,
        clamp=(0, 255),
        count_include_pad=False,
    ):
        self.window = (kernel, stride, padding, (1, 1))
        counts = range(1, kernel[0] * kernel[1] + 1)
        constants = Constants()
        # Windows at borders hold fewer pixels, so each count has a ratio.
        arrays = rescale([Fraction(ratio) / count for count in counts])
        self._fields = places(constants, *arrays) | rounding(zero_point, clamp)
        self._fields |= {"counts_padding": int(count_include_pad)}
        self._fields["x_zero_point"] = x_zero_point
        self.constants = constants.array()

    def output_shape(self, shape):
        return (shape[0], *window(shape, *self.window)[-2:], shape[3])

    def plan(self, shape):
        fields = {**self._fields, "images": shape[0]}
        fields["window"] = window(shape, *self.window)
        return Plan(fields, self.constants, self.output_shape(shape), 0)


class Quantize(Step):
    """Quantization of float32: out = clamp(round(x / scale) + zero_point).

    Args:
        channels_first: x is [n, c, h, w], out [n, h, w, padded_channels]; the added
            channels hold zero_point. Otherwise the shape stays.
    """

    kind = kinds.QUANTIZE
    kernels = ("quantize_f32u8",)
    input_types = (F32,)

    def __init__(
        self,
        scale,
        zero_point,
        clamp=(0, 255),
        *,
        channels_first=False,
        padded_channels=None,
    ):
        self.channels_first, self.padded_channels = channels_first, padded_channels
        if channels_first:
            self.kind = kinds.QUANTIZE_NCHW
            self.kernels = ("quantize_nchw_f32u8",)
        constants = Constants()
        constants.add(np.array([scale], np.float32).astype(np.float64))
        self.constants = constants.array()
        self._rounding = rounding(zero_point, clamp)

    def output_shape(self, shape):
        if not self.channels_first:
            return shape
        return (shape[0], *shape[2:], self.padded_channels or shape[1])

    def plan(self, shape):
        out = self.output_shape(shape)
        fields = {**self._rounding, "elements": int(np.prod(shape))}
        if self.channels_first:
            fields |= {"images": shape[0], "pixels": int(np.prod(shape[2:]))}
            fields |= {"channels": shape[1], "out_channels": out[-1]}
        return Plan(fields, self.constants, out, 0)


class Dequantize(Step):
    """Dequantization: out = (x - zero_point) * scale in float32."""

    kind = kinds.DEQUANTIZE
    kernels = ("dequantize_u8f32",)
    output_type = F32

    def __init__(self, scale, zero_point):
        constants = Constants()
        constants.add(np.array([scale], np.float32).astype(np.float64))
        self.constants, self.zero_point = constants.array(), zero_point

    def output_shape(self, shape):
        return shape

    def plan(self, shape):
        fields = {"x_zero_point": self.zero_point}
        return Plan(fields, self.constants, shape, 0)


# Steps that only move codes.


class Move(Step):
    """A view: out = the view of x that `look` returns, in row-major order.

    Args:
        look: function from an array to a view of it, by NumPy; the view may depend on
            the shape of the array.
        shape: function from the shape of the view to the shape of the result; None
            keeps the shape.
        dtype: element type of x, uint8 or float32.

    Raises:
        ValueError: `look` returns a copy, or a view with too many axes.
    """

    kind = kinds.MOVE
    kernels = ("move_u8",)

    def __init__(self, look, shape=None, dtype=U8):
        self.look, self.shape = look, shape or tuple
        self.input_types, self.output_type = (dtype,), dtype

    def output_shape(self, shape):
        return self.shape(self.look(np.empty(shape, np.uint8)).shape)

    def plan(self, shape):
        x = np.empty(shape, self.output_type)
        view = self.look(x)
        if view.size and not np.may_share_memory(view, x):
            raise ValueError("expected `look` to return a view, but it returned a copy")
        start = view.ctypes.data - x.ctypes.data if view.size else 0
        # The bytes of an element are the last axis.
        sizes = (*view.shape, self.output_type.itemsize)
        *axes, run = _merge_axes(sizes, (*view.strides, 1))
        if len(axes) > AXES:
            raise ValueError(
                f"expected at most {AXES} separate axes, got {len(axes)}. "
                "Move or slice fewer axes in one call."
            )
        # Compiled loops have a fixed number of axes, so axes of length 1 come first.
        axes = [(1, 0)] * (AXES - len(axes)) + axes
        sizes, strides = zip(*axes, strict=True)
        fields = {"start": start, "lengths": sizes, "jumps": strides, "run": run}
        fields["is_single"] = int(self.output_type == F32)
        # Outside of a program nothing else sets the bytes of x and the result.
        itemsize = self.output_type.itemsize
        fields["x_bytes"] = prod(shape) * itemsize
        fields["out_bytes"] = prod(view.shape) * itemsize
        return Plan(fields, Constants().array(), self.shape(view.shape), 0)


def pixel_shuffle(factor, dtype=U8):
    """Return the step from [n, h, w, c * r * r] to [n, h * r, w * r, c]."""

    def pixels(image):
        n, h, w, c = image.shape
        parts = image.reshape(n, h, w, c // factor**2, factor, factor)
        return parts.transpose(0, 1, 4, 2, 5, 3)

    def join_axes(shape):
        n, h, _, w, _, c = shape
        return n, h * factor, w * factor, c

    return Move(pixels, join_axes, dtype)


def pixel_unshuffle(factor, dtype=U8):
    """Return the step from [n, h * r, w * r, c] to [n, h, w, c * r * r]."""

    def channels(image):
        n, h, w, c = image.shape
        parts = image.reshape(n, h // factor, factor, w // factor, factor, c)
        return parts.transpose(0, 1, 3, 5, 2, 4)

    def join_axes(shape):
        n, h, w, c, *_ = shape
        return n, h, w, c * factor**2

    return Move(channels, join_axes, dtype)


def _merge_axes(shape, strides):
    """Return (size, stride) of axes with neighbours merged, then the run length.

    The run length is how many bytes lie in a row.
    """
    axes = []
    for size, stride in zip(shape, strides, strict=True):
        # Axes that are contiguous in memory are one axis for the copy.
        if axes and axes[-1][1] == size * stride:
            axes[-1] = (axes[-1][0] * size, stride)
        elif size != 1:
            axes.append((size, stride))
    run = axes.pop()[0] if axes and axes[-1][1] == 1 else 1
    return [*axes, run]


class Take(Step):
    """A selection: out = x at `indices` along `axis`.

    Args:
        indices: int64 1-D; negative indices count from the end.
        dtype: element type of x, uint8 or float32.
    """

    kind = kinds.TAKE
    kernels = ("take_u8",)

    def __init__(self, indices, axis, dtype=U8):
        self.indices, self.axis = np.asarray(indices, np.int64), axis
        self.input_types, self.output_type = (dtype,), dtype

    def output_shape(self, shape):
        at = self.axis % len(shape)
        return (*shape[:at], len(self.indices), *shape[at + 1 :])

    def plan(self, shape):
        at = self.axis % len(shape)
        size = shape[at]
        indices = np.where(self.indices < 0, self.indices + size, self.indices)
        is_inside = (indices >= 0) & (indices < size)
        assert is_inside.all(), f"Take: an index is outside 0 .. {size - 1}"
        constants = Constants()
        # Consecutive indices are copied at once.
        constants.add(np.stack([indices, _runs(indices)], axis=1))
        fields = {"outer": prod(shape[:at]), "length": size}
        inner = prod(shape[at + 1 :]) * self.output_type.itemsize
        fields |= {"inner": inner, "indices": len(indices)}
        return Plan(fields, constants.array(), self.output_shape(shape), 0)


def _runs(indices):
    """Return for each index how many consecutive indices start there."""
    ends = np.flatnonzero(np.diff(indices, append=-1) != 1)
    places = np.arange(len(indices))
    return ends[np.searchsorted(ends, places)] + 1 - places


class Concat(Step):
    """A concatenation: out = x followed by y along `axis`.

    Args: dtype: element type of all three, uint8 or float32.
    """

    kind = kinds.CONCAT
    kernels = ("concat_u8",)

    def __init__(self, axis, dtype=U8):
        self.axis = axis
        self.input_types, self.output_type = (dtype, dtype), dtype

    def output_shape(self, x, y):
        before, after = x[: self.axis], x[self.axis + 1 :]
        same = (y[: self.axis], y[self.axis + 1 :]) == (before, after)
        assert same, f"Concat: expected shapes equal but for one axis, got {x} and {y}"
        return (*before, x[self.axis] + y[self.axis], *after)

    def plan(self, x, y):
        size = self.output_type.itemsize
        fields = {"outer": prod(x[: self.axis])}
        fields["x_run"] = prod(x[self.axis :]) * size
        fields["y_run"] = prod(y[self.axis :]) * size
        return Plan(fields, Constants().array(), self.output_shape(x, y), 0)
