"""Steps on float32 that a Program can hold; images are channels last.

Every step rounds as its kernel says. An activation, and for a product a second input of
the shape of the result, may follow in the same step, see `fuse.py`.
"""

from math import prod
from typing import NamedTuple

import numpy as np

from mdtensor.kernels.cpu.generic import float_elementwise
from mdtensor.kernels.cpu.generic.conv import window
from mdtensor.kernels.cpu.generic.float_elementwise import BINARY, INPUTS
from mdtensor.kernels.cpu.generic.float_matmul import padded_columns
from mdtensor.kernels.cpu.program import interpret, steps
from mdtensor.kernels.cpu.program.attention import matrix_places
from mdtensor.kernels.cpu.program.interpret_floats import ITEM
from mdtensor.kernels.cpu.program.products import pad_groups
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
#: Rows that im2col copies at least, so that tiles are full.
LEAST_ROWS = 24


class FloatStep(Step):
    """A step from float32 to float32."""

    input_types: tuple = (F32,)
    output_type = F32
    has_bytes_of_call = False


class Conv2d(FloatStep):
    """A convolution: out = x convolved with w + bias.

    Args:
        weight: float32 [oc, ic / groups, kh, kw].
        bias: float32 [oc], or None.
        padding: (top, left, bottom, right), filled with 0.
    """

    def __init__(
        self,
        weight,
        bias=None,
        *,
        stride=(1, 1),
        padding=(0, 0, 0, 0),
        dilation=(1, 1),
        groups=1,
    ):
        self.weight_shape, self.groups = weight.shape, groups
        self.window = (weight.shape[2:], stride, padding, dilation)
        is_depthwise = groups > 1 and weight.shape[1] == 1 and groups == len(weight)
        self.kind = interpret.DEPTHWISE_F32 if is_depthwise else interpret.CONV_F32
        self.kernels = ("depthwise_f32",) if is_depthwise else ("gemm_act_f32",)
        given = np.zeros(len(weight), np.float32) if bias is None else bias
        self._pack(weight, np.asarray(given, np.float32), is_depthwise)

    def _pack(self, weight, bias, is_depthwise):
        """Pack weights and bias into the constants."""
        groups = 1 if is_depthwise else self.groups
        n = len(weight) // groups
        padded = padded_columns(n)
        if is_depthwise:
            parts = [self.on.pack_depthwise_f32(np.ascontiguousarray(weight[:, 0]))]
        else:
            # k counts taps before channels, as in the rows of im2col.
            rows = weight.transpose(0, 2, 3, 1).reshape(groups, n, -1)
            parts = [self.on.pack_f32(part) for part in rows]
        constants = Constants()
        place, size = constants.add(np.concatenate(parts))
        rows = pad_groups(bias, groups, n, padded)
        self._fields = {"weights": place, "weight_bytes": size // groups}
        self._fields |= {"bias": constants.add(rows)[0], "columns": n}
        self._fields |= {"padded_columns": padded, "groups": self.groups}
        self._fields |= {"out_channels": len(weight)}
        self._fields["depth"] = prod(weight.shape[1:])
        self.constants = constants.array()

    def output_shape(self, shape):
        """Return the shape of the result."""
        return (shape[0], *window(shape, *self.window)[-2:], self.weight_shape[0])

    def plan(self, shape):
        """Return the `Plan` for this input shape."""
        seen = window(shape, *self.window)
        kernel, stride, padding, _ = self.window
        fields = {**self._fields, "images": shape[0], "window": seen}
        scratch = 0
        is_pointwise = kernel == (1, 1) and stride == (1, 1) and not any(padding)
        if self.kind == interpret.CONV_F32 and not is_pointwise:
            pitch = int(self.on.im2col_pitch(self._fields["depth"] * ITEM))
            most = max(LEAST_ROWS, STRIP_BYTES // pitch)
            lines = max(1, min(most // seen.out_w, seen.out_h))
            columns = seen.out_w if lines > 1 else min(most, seen.out_w)
            fields |= {"strip": lines, "rows": columns}
            scratch = lines * columns * pitch + interpret.SLACK
        return Plan(fields, self.constants, self.output_shape(shape), scratch)

    def macs(self, shape):
        """Return the multiply-accumulates of one call."""
        return prod(self.output_shape(shape)) * self._fields["depth"]

    @property
    def bytes(self):
        """Return the bytes of the packed constants."""
        return self.constants.size


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

    kind = interpret.MAX_POOL_F32
    kernels = ("max_pool_f32",)
    has_bytes_of_call = True


class AvgPool(MaxPool):
    """Average pooling: the sum of each window, divided by its number of elements.

    Args: count_include_pad: divide by kh * kw, not by the elements inside the input.
    """

    kind = interpret.AVG_POOL_F32
    kernels = ("avg_pool_f32",)
    has_bytes_of_call = False

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

    kind = interpret.MEAN_F32
    kernels = ("mean_f32",)

    def __init__(self, keepdims=True):
        self.keepdims = keepdims

    def plan(self, shape):
        """Return the `Plan` for this input shape."""
        fields = {"images": shape[0], "pixels": prod(shape[1:-1])}
        fields["channels"] = shape[-1]
        return Plan(fields, Constants().array(), self.output_shape(shape), 0)


class Softmax(FloatStep):
    """Softmax along the last axis."""

    kind = interpret.SOFTMAX_F32
    kernels = ("softmax_f32",)

    def output_shape(self, shape):
        """Return the shape of the result."""
        return shape

    def plan(self, shape):
        """Return the `Plan` for this input shape."""
        # Outside of a program nothing else sets the bytes of the result.
        fields = {"length": shape[-1], "out_bytes": prod(shape) * ITEM}
        return Plan(fields, Constants().array(), shape, 0)


class Normalize(FloatStep):
    """Layer norm or RMS norm over the last `length` elements.

        out = y / sqrt(mean of y * y + eps) * weight + bias

    Args:
        is_centered: y is x minus its mean, or else x.
        weight, bias: float32 [length], or None.
    """

    kind = interpret.NORMALIZE_F32
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
    """

    kind = interpret.MATMUL_F32
    kernels = ("gemm_act_f32",)
    input_types = (F32, F32)

    def output_shape(self, x, y):
        """Return the shape of the result."""
        assert x[-1] == y[-2], f"MatMul: expected [.., m, k] and [.., k, n]: {x}, {y}"
        return (*np.broadcast_shapes(x[:-2], y[:-2]), x[-2], y[-1])

    def plan(self, x, y):
        """Return the `Plan` for these input shapes."""
        shape, constants = self.output_shape(x, y), Constants()
        constants.add(matrix_places(shape, x, y))
        (m, k), n, padded = x[-2:], y[-1], padded_columns(y[-1])
        fields = {"images": prod(shape[:-2]), "rows": m, "depth": k, "columns": n}
        fields["padded_columns"] = padded
        scratch = (k + 1) * padded * ITEM + interpret.SLACK
        return Plan(fields, constants.array(), shape, scratch)

    def macs(self, x, y):
        """Return the multiply-accumulates of one call."""
        return prod(self.output_shape(x, y)) * x[-1]


class Transpose(FloatStep):
    """The other order of an image: [n, c, h, w] from [n, h, w, c], or the reverse.

    Args: to_images: whether the result is channels last.
    """

    kind = interpret.TRANSPOSE_F32
    kernels = ("transpose_f32",)
    has_bytes_of_call = True

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


class Instruction(NamedTuple):
    """One operation of an Elementwise on earlier values.

    Args:
        operation: see `generic/float_elementwise.py` and `generic/activation.py`.
        first, second: 0 and 1 are the inputs, 2 + i is the result of instruction i.
        low, high: numbers that the operation reads.
    """

    operation: int
    first: int = 0
    second: int = 0
    low: float = 0.0
    high: float = 0.0


class Elementwise(FloatStep):
    """Instructions on each element of one or two inputs; the last gives the result.

    The second input has the shape of the first, or [n, 1, ..., 1, c]: one factor for
    each image and channel.
    """

    kind = interpret.ELEMENTWISE_F32
    kernels = ("elementwise_f32",)

    def __init__(self, *instructions):
        self.instructions = instructions
        is_binary = any(self._reads(one, 1) for one in instructions)
        self.input_types = (F32, F32) if is_binary else (F32,)

    @property
    def has_bytes_of_call(self):
        """Return whether NumPy computes every instruction in the same way."""
        operations = {one.operation for one in self.instructions}
        return operations.isdisjoint(float_elementwise.OWN_FUNCTIONS)

    @staticmethod
    def _reads(instruction, value):
        """Return whether an instruction reads a value."""
        reads = [instruction.first]
        reads += [instruction.second] if instruction.operation in BINARY else []
        return value in reads

    def output_shape(self, x, y=None):
        """Return the shape of the result."""
        if y not in (None, x):
            is_factor = y[0] == x[0] and y[-1] == x[-1] and set(y[1:-1]) <= {1}
            assert is_factor, f"expected y like x {x}, or one factor a channel, got {y}"
        return x

    def plan(self, x, y=None):
        """Return the `Plan` for these input shapes."""
        shape, constants = self.output_shape(x, y), Constants()
        constants.add(self._program())
        numbers = [(one.low, one.high) for one in self.instructions]
        fields = {"numbers": constants.add(np.array(numbers, np.float32))[0]}
        count = len(self.instructions)
        has_factors = y is not None and y != x
        images, pixels, channels = 1, prod(x), 1
        if has_factors:
            images, pixels, channels = x[0], prod(x[1:-1]), x[-1]
        # A block holds whole pixels, so that factors repeat in every block.
        size = max(1, float_elementwise.BLOCK // channels) * channels
        fields |= {"images": images, "pixels": pixels, "channels": channels}
        fields |= {"strip": size, "registers": count, "instructions": count}
        fields["has_factors"] = int(has_factors)
        scratch = (1 + count) * size * ITEM + interpret.SLACK
        return Plan(fields, constants.array(), shape, scratch)

    def _program(self):
        """Return int64 [instructions, 4]: operation, target, and the values read."""
        rows = [
            (one.operation, INPUTS + i, one.first, one.second)
            for i, one in enumerate(self.instructions)
        ]
        program = np.array(rows, np.int64)
        # The last instruction writes the result.
        program[-1, 1] = 0
        return program
