"""The operations a Program can hold, each made from plain arrays and Fractions.

Codes are uint8, NHWC. `ratios` and `ratio` are exact: real input step (times weight
step) over real output step. `clamp` = (lo, hi) in output codes fuses an activation.
"""

from fractions import Fraction

import numpy as np

from mdtensor.kernels.cpu import invoke
from mdtensor.kernels.cpu.conv import window
from mdtensor.kernels.cpu.plan import Constants, Plan, Step
from mdtensor.kernels.rescale import rescale, rescale_pair

U8 = np.dtype(np.uint8)
S32 = np.dtype(np.int32)
F32 = np.dtype(np.float32)


class Lookup(Step):
    """out = table[x]: every unary function of codes; table uint8 [256]."""

    kind = invoke.LOOKUP
    kernel = "lookup_u8"  # a runway may implement it under another name
    kernels = ("lookup_u8",)

    def __init__(self, table):
        assert table.shape == (256,) and table.dtype == U8, "table: uint8 [256]"
        constants = Constants()
        constants.add(table)
        self.constants = constants.array()

    def output_shape(self, shape):
        return shape

    def plan(self, shape):
        return Plan([], self.constants, shape, 0)

    @property
    def bytes(self):
        return 256


class Add(Step):
    """out = clamp(round((a - za) * ratios[0] + (b - zb) * ratios[1]) + zero_point).

    Both inputs have one shape.
    """

    kind = invoke.ADD
    kernels = ("add_u8u8u8",)
    input_types = (U8, U8)

    def __init__(self, ratios, zero_points, zero_point=0, clamp=(0, 255)):
        multipliers, limbs, guard = rescale_pair(*ratios)
        constants = Constants()
        arrays = (multipliers, limbs, np.array([guard], np.float32))
        places = [constants.add(array)[0] for array in arrays]
        self._parameters = [*zero_points, zero_point, *clamp, *places]
        self.constants = constants.array()

    def output_shape(self, a, b):
        assert a == b, "the shapes of an Add differ"
        return a

    def plan(self, a, b):
        return Plan(self._parameters, self.constants, self.output_shape(a, b), 0)


class Mul(Step):
    """out = clamp(round((a - za) * (b - zb) * ratio) + zero_point).

    b has the shape of a, or a factor per image and channel: [n, 1, ..., 1, c].
    """

    kind = invoke.MUL
    kernels = ("mul_u8u8u8",)
    input_types = (U8, U8)

    def __init__(self, ratio, zero_points, zero_point=0, clamp=(0, 255)):
        constants = Constants()
        places = [constants.add(array)[0] for array in rescale([ratio])]
        self._parameters = [*zero_points, zero_point, *clamp, *places]
        self.constants = constants.array()

    def output_shape(self, a, b):
        is_factor = b[0] == a[0] and b[-1] == a[-1] and set(b[1:-1]) <= {1}
        assert a == b or is_factor, "b is neither like a nor one factor per channel"
        return a

    def plan(self, a, b):
        shape = self.output_shape(a, b)
        if a == b:
            head = [1, int(np.prod(a)), 1, 0]
        else:
            head = [a[0], int(np.prod(a[1:-1])), a[-1], 1]
        return Plan([*head, *self._parameters], self.constants, shape, 0)


class Mean(Step):
    """out = clamp(round(mean of (x - x_zero_point) * ratio) + zero_point).

    Over all axes but the first and the last, which stay; they keep length 1 if
    `keepdims`, else they go.
    """

    kind = invoke.MEAN
    kernels = ("mean_u8u8",)

    def __init__(
        self, ratio, x_zero_point, zero_point=0, clamp=(0, 255), keepdims=True
    ):
        self.ratio, self.x_zero_point = Fraction(ratio), x_zero_point
        self._rest, self.keepdims = [zero_point, *clamp], keepdims

    def output_shape(self, shape):
        middle = (1,) * (len(shape) - 2) if self.keepdims else ()
        return (shape[0], *middle, shape[-1])

    def plan(self, shape):
        pixels = int(np.prod(shape[1:-1]))
        constants = Constants()
        arrays = rescale([self.ratio / pixels])
        places = [constants.add(array)[0] for array in arrays]
        head = [shape[0], pixels, shape[-1], self.x_zero_point]
        parameters = [*head, *self._rest, *places]
        return Plan(parameters, constants.array(), self.output_shape(shape), 0)


class MaxPool(Step):
    """out = max of the codes in each window; the padding never wins."""

    kind = invoke.MAX_POOL
    kernels = ("max_pool_u8",)

    def __init__(self, kernel, stride, padding=(0, 0, 0, 0), dilation=(1, 1)):
        self.window = (kernel, stride, padding, dilation)

    def output_shape(self, shape):
        return (shape[0], *window(shape, *self.window)[-2:], shape[3])

    def plan(self, shape):
        geometry = window(shape, *self.window)
        empty = Constants().array()
        return Plan([shape[0], *geometry], empty, self.output_shape(shape), 0)


class AvgPool(Step):
    """out = clamp(round(mean of (x - x_zero_point) in a window * ratio) + zero_point).

    Args: count_include_pad: divide by kh * kw, padding counting as zero, rather than
    by the pixels inside the input.
    """

    kind = invoke.AVG_POOL
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
        arrays = rescale([Fraction(ratio) / count for count in counts])
        places = [constants.add(array)[0] for array in arrays]
        head = [int(count_include_pad), x_zero_point]
        self._tail = [*head, zero_point, *clamp, *places]
        self.constants = constants.array()

    def output_shape(self, shape):
        return (shape[0], *window(shape, *self.window)[-2:], shape[3])

    def plan(self, shape):
        parameters = [shape[0], *window(shape, *self.window), *self._tail]
        return Plan(parameters, self.constants, self.output_shape(shape), 0)


class Quantize(Step):
    """out = clamp(round(x / scale) + zero_point), float32 to codes.

    Args:
        channels_first: x is [n, c, h, w], out [n, h, w, padded_channels]; the added
            channels hold zero_point. Otherwise the shape stays.
    """

    kind = invoke.QUANTIZE
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
            self.kind = invoke.QUANTIZE_NCHW
            self.kernels = ("quantize_nchw_f32u8",)
        constants = Constants()
        constants.add(np.array([scale], np.float32).astype(np.float64))
        self.constants, self._rest = constants.array(), [zero_point, *clamp]

    def output_shape(self, shape):
        if not self.channels_first:
            return shape
        return (shape[0], *shape[2:], self.padded_channels or shape[1])

    def plan(self, shape):
        out = self.output_shape(shape)
        parameters = [int(np.prod(shape)), *self._rest]
        if self.channels_first:
            pixels = int(np.prod(shape[2:]))
            parameters = [shape[0], *self._rest, shape[1], pixels, out[-1]]
        return Plan(parameters, self.constants, out, 0)


class Dequantize(Step):
    """out = (x - zero_point) * scale in float32."""

    kind = invoke.DEQUANTIZE
    kernels = ("dequantize_u8f32",)
    output_type = F32

    def __init__(self, scale, zero_point):
        constants = Constants()
        constants.add(np.array([scale], np.float32).astype(np.float64))
        self.constants, self.zero_point = constants.array(), zero_point

    def output_shape(self, shape):
        return shape

    def plan(self, shape):
        return Plan([self.zero_point], self.constants, shape, 0)
