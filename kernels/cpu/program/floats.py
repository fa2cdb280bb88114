"""Steps on float32 that a Program can hold; images are channels last.

Every step rounds as its kernel says. An activation, and for a product a second input of
the shape of the result, may follow in the same step, see `fuse.py`.
"""

from math import prod

import numpy as np

from mdtensor.kernels.cpu.generic.float_packing import (
    padded_columns,
    padded_lines,
    padded_width,
)
from mdtensor.kernels.cpu.generic.packing import joined_lines, window
from mdtensor.kernels.cpu.program import kinds, steps
from mdtensor.kernels.cpu.program.attention import matrix_places
from mdtensor.kernels.cpu.program.elementwise import (
    Elementwise as Elementwise,
    Instruction as Instruction,
    Where as Where,
)
from mdtensor.kernels.cpu.program.filters import Filters
from mdtensor.kernels.cpu.program.kinds import ITEM
from mdtensor.kernels.cpu.program.step import Constants, Plan, Step
from mdtensor.kernels.cpu.program.steps import (
    F32,
    Concat as Concat,
    Move as Move,
    Take as Take,
    pixel_shuffle as pixel_shuffle,
    pixel_unshuffle as pixel_unshuffle,
)

#: Bytes that im2col copies at once; they stay in the second cache.
STRIP_BYTES = 1 << 17
#: Bytes of padded lines that stay in the second cache next to the weights.
PADDED_BYTES = 1 << 18
#: Columns of whole panels for each column that a convolution has, at most.
MOST_PADDED = 1.25
#: Rows that im2col copies at least, so that tiles are full.
LEAST_ROWS = 24


class FloatStep(Step):
    """A step from float32 to float32."""

    input_types: tuple = (F32,)
    output_type = F32


class Convolution(FloatStep):
    """A convolution of a shape: out = x convolved with w + bias, without w and bias.

    Args:
        shape: of the weights, [oc, ic / groups, kh, kw].
        padding: (top, left, bottom, right), filled with 0.
    """

    #: A call brings its own, by `filters.pack`.
    constants = Constants().array()

    def __init__(
        self,
        shape,
        *,
        stride=(1, 1),
        padding=(0, 0, 0, 0),
        dilation=(1, 1),
        groups=1,
    ):
        self.weight_shape, self.filters = shape, Filters(shape, groups)
        self.window = (shape[2:], stride, padding, dilation)
        if self.filters.is_depthwise:
            self.kind, self.kernels = kinds.DEPTHWISE_F32, ("depthwise_f32",)
        elif self._has_windows(shape[0] // groups):
            self.kind, self.kernels = kinds.WINDOWS_F32, ("windows_act_f32",)
        else:
            self.kind, self.kernels = kinds.CONV_F32, ("gemm_act_f32",)

    def _has_windows(self, columns):
        """Return whether the sums are products of windows, or else of im2col."""
        kernel, _, _, dilation = self.window
        # Tiles of windows have whole panels; tiles of im2col may have a part of one.
        is_filled = padded_columns(columns) <= MOST_PADDED * columns
        is_dense = prod(kernel) > 1 and dilation[1] == 1
        return self.on.MULTIPLIES_WINDOWS and is_dense and is_filled

    def output_shape(self, shape):
        """Return the shape of the result."""
        return (shape[0], *window(shape, *self.window)[-2:], self.weight_shape[0])

    def plan(self, shape):
        """Return the `Plan` for this input shape."""
        joined = joined_lines(shape, *self.window)
        seen = window(joined, *self.window)
        kernel, stride, padding, _ = self.window
        fields = {**self.filters.fields, "images": joined[0], "window": seen}
        scratch = 0
        is_pointwise = kernel == (1, 1) and stride == (1, 1) and not any(padding)
        if self.kind == kinds.CONV_F32 and not is_pointwise:
            pitch = int(self.on.im2col_pitch(self.filters.depth * ITEM))
            most = max(LEAST_ROWS, STRIP_BYTES // pitch)
            lines = max(1, min(most // seen.out_w, seen.out_h))
            columns = seen.out_w if lines > 1 else min(most, seen.out_w)
            fields |= {"strip": lines, "rows": columns}
            scratch = lines * columns * pitch + kinds.SLACK
        if self.kind == kinds.WINDOWS_F32:
            fields["strip"], scratch = self._strip(seen)
        return Plan(fields, self.constants, self.output_shape(shape), scratch)

    def _strip(self, seen):
        """Return the lines of outputs of one padded copy, and the bytes of the copy."""
        size = padded_width(seen) * self.weight_shape[1] * ITEM
        reach = (seen.kernel_h - 1) * seen.dilation_h + 1
        lines = (PADDED_BYTES // size - reach) // seen.stride_h + 1
        lines = max(1, min(lines, seen.out_h))
        return lines, padded_lines(seen, lines) * size + kinds.SLACK

    def macs(self, shape):
        """Return the multiply-accumulates of one call."""
        return prod(self.output_shape(shape)) * self.filters.depth

    @property
    def bytes(self):
        """Return the bytes of the packed constants."""
        return self.constants.size


class Conv2d(Convolution):
    """A convolution with constant weights.

    Args:
        weight: float32 [oc, ic / groups, kh, kw].
        bias: float32 [oc], or None.
        options: see `Convolution`.
    """

    def __init__(self, weight, bias=None, **options):
        super().__init__(weight.shape, **options)
        self.constants = self.filters.pack(weight, bias)


class Linear(Conv2d):
    """A linear layer: out[..., n] = x @ weight.T + bias.

    Args: weight: float32 [n, k]; bias: float32 [n], or None; x is [..., k].
    """

    def __init__(self, weight, bias=None):
        super().__init__(weight[:, :, None, None], bias)

    def output_shape(self, shape):
        """Return the shape of the result."""
        return (*shape[:-1], self.weight_shape[0])

    def plan(self, shape):
        """Return the `Plan` for this input shape."""
        plan = super().plan((1, 1, prod(shape[:-1]), shape[-1]))
        return plan._replace(shape=self.output_shape(shape))


class MaxPool(FloatStep, steps.MaxPool):
    """Max pooling: the largest element of each window; padding never wins."""

    kind = kinds.MAX_POOL_F32
    kernels = ("max_pool_f32",)


class AvgPool(MaxPool):
    """Average pooling: the sum of each window, divided by its number of elements.

    Args: count_include_pad: divide by kh * kw, not by the elements inside the input.
    """

    kind = kinds.AVG_POOL_F32
    kernels = ("avg_pool_f32",)

    def __init__(
        self, kernel, stride, padding=(0, 0, 0, 0), *, count_include_pad=False
    ):
        super().__init__(kernel, stride, padding)
        self._counts_padding = int(count_include_pad)

    def plan(self, shape):
        """Return the `Plan` for this input shape."""
        plan = super().plan(shape)
        return plan._replace(
            fields=plan.fields | {"counts_padding": self._counts_padding}
        )


class Mean(FloatStep, steps.Mean):
    """A mean over all axes but the first and the last, which keep length 1."""

    kind = kinds.MEAN_F32
    kernels = ("mean_f32",)

    def __init__(self, keepdims=True):
        self.keepdims = keepdims

    def plan(self, shape):
        """Return the `Plan` for this input shape."""
        fields = {"images": shape[0], "pixels": prod(shape[1:-1])}
        fields["channels"] = shape[-1]
        return Plan(fields, Constants().array(), self.output_shape(shape), 0)


class Softmax(FloatStep):
    """Softmax along an axis, which counts from the last: -1."""

    kind = kinds.SOFTMAX_F32
    kernels = ("softmax_f32",)

    def __init__(self, axis=-1):
        self._axis = axis

    def output_shape(self, shape):
        """Return the shape of the result."""
        return shape

    def plan(self, shape):
        """Return the `Plan` for this input shape."""
        # Outside of a program nothing else sets the bytes of the result.
        fields = {"length": shape[self._axis], "out_bytes": prod(shape) * ITEM}
        fields["inner"] = prod(shape[len(shape) + self._axis + 1 :])
        return Plan(fields, Constants().array(), shape, 0)


class Normalize(FloatStep):
    """Layer norm or RMS norm over the last `length` elements.

        out = y / sqrt(mean of y * y + eps) * weight + bias

    Args:
        is_centered: y is x minus its mean, or else x.
        weight, bias: float32 [length], or None.
    """

    kind = kinds.NORMALIZE_F32
    kernels = ("normalize_f32",)

    def __init__(self, length, is_centered, eps, weight=None, bias=None):
        constants = Constants()
        # Something is always at place 0, so a bias at 0 is none.
        size = constants.add(np.zeros(1) if weight is None else weight)[1]
        self._fields = {"length": length, "is_centered": int(is_centered), "low": eps}
        self._fields["weight_bytes"] = 0 if weight is None else size
        self._fields["bias"] = 0 if bias is None else constants.add(bias)[0]
        self.constants = constants.array()

    def output_shape(self, shape):
        """Return the shape of the result."""
        return shape

    def plan(self, shape):
        """Return the `Plan` for this input shape."""
        fields = self._fields | {"out_bytes": prod(shape) * ITEM}
        return Plan(fields, self.constants, shape, 0)


class MatMul(FloatStep):
    """Products of stacked matrices, x [.., m, k] and y [.., k, n]; y is packed anew.

    The axes before the last two are broadcast.

    Args: has_bias: x is [.., m, 1 + k], and sums start at its first column.
    """

    kind = kinds.MATMUL_F32
    kernels = ("gemm_act_f32",)
    input_types = (F32, F32)

    def __init__(self, has_bias=False):
        self._ones = int(has_bias)

    def output_shape(self, x, y):
        """Return the shape of the result."""
        fits = x[-1] == y[-2] + self._ones
        assert fits, f"MatMul: expected [.., m, k] and [.., k, n]: {x}, {y}"
        return (*np.broadcast_shapes(x[:-2], y[:-2]), x[-2], y[-1])

    def plan(self, x, y):
        """Return the `Plan` for these input shapes."""
        shape, constants = self.output_shape(x, y), Constants()
        constants.add(matrix_places(shape, x, y))
        (m, k), n, padded = x[-2:], y[-1], padded_columns(y[-1])
        fields = {"images": prod(shape[:-2]), "rows": m, "depth": k, "columns": n}
        fields |= {"padded_columns": padded, "bias": self._ones}
        scratch = (k + 1) * padded * ITEM + kinds.SLACK
        return Plan(fields, constants.array(), shape, scratch)

    def macs(self, x, y):
        """Return the multiply-accumulates of one call."""
        return prod(self.output_shape(x, y)) * x[-1]


class Transpose(FloatStep):
    """The other order of an image: [n, c, h, w] from [n, h, w, c], or the reverse.

    Args: to_images: whether the result is channels last.
    """

    kind = kinds.TRANSPOSE_F32
    kernels = ("transpose_f32",)

    def __init__(self, to_images):
        self._to_images = to_images

    def output_shape(self, shape):
        """Return the shape of the result."""
        if self._to_images:
            return (shape[0], *shape[2:], shape[1])
        return (shape[0], shape[-1], *shape[1:-1])

    def plan(self, shape):
        """Return the `Plan` for this input shape."""
        rows, columns = prod(shape[1:-1]), shape[-1]
        if self._to_images:
            rows, columns = shape[1], prod(shape[2:])
        fields = {"images": shape[0], "pixels": rows, "channels": columns}
        return Plan(fields, Constants().array(), self.output_shape(shape), 0)


class Turn(FloatStep):
    """The transpose of each matrix: [..., n, k] from [..., k, n].

    Args: stack: None, or sizes for the result [*stack, m, k] of one matrix; their
        product times m is n.
    """

    kind, kernels = kinds.TRANSPOSE_F32, ("transpose_f32",)

    def __init__(self, stack=None):
        self._stack = stack

    def output_shape(self, shape):
        """Return the shape of the result."""
        if self._stack is None:
            return (*shape[:-2], shape[-1], shape[-2])
        return (*self._stack, shape[-1] // prod(self._stack), shape[-2])

    def plan(self, shape):
        """Return the `Plan` for this input shape."""
        fields = {"images": prod(shape[:-2]), "pixels": shape[-2]}
        fields["channels"] = shape[-1]
        return Plan(fields, Constants().array(), self.output_shape(shape), 0)


# Kernels have packed weights on the right; a turn takes a fraction of the product
# (decision 0113).
class LeftLinear(FloatStep):
    """A constant matrix times others, such as a bank of filters: weight @ x.

    Args: weight: float32 [m, k], and x is [..., k, n]; or [..., m, k] and [k, n],
        such as the two banks of a spectrum.
    """

    def __init__(self, weight):
        self._stack = weight.shape[:-2] or None
        self.weight = weight.reshape(-1, weight.shape[-1])
        self._linear = Linear(self.weight)
        self.kind, self.kernels = self._linear.kind, self._linear.kernels

    @property
    def parts(self):
        """Return the steps that a Program stores in place of this step, in order."""
        return Turn(), self._linear, Turn(self._stack)

    def output_shape(self, shape):
        """Return the shape of the result."""
        turned = (*shape[:-2], shape[-1], len(self.weight))
        return Turn(self._stack).output_shape(turned)

    def macs(self, shape):
        """Return the multiply-accumulates of one call."""
        return prod(shape) * len(self.weight)

    @property
    def bytes(self):
        """Return the bytes of the packed weights."""
        return self._linear.bytes
