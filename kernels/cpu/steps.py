"""The operations a Program can hold, each made from plain arrays and Fractions.

Codes are uint8, NHWC. `ratios` and `ratio` are exact: real input step (times weight
step) over real output step. `clamp` = (lo, hi) in output codes fuses an activation.
"""

from fractions import Fraction

import numpy as np

from mdtensor.kernels.cpu import invoke, runway
from mdtensor.kernels.cpu.conv import MOST_SUM
from mdtensor.kernels.cpu.plan import Constants, Plan, Step
from mdtensor.kernels.rescale import rescale, rescale_pair

STRIP_BYTES = 1 << 16  # an im2col strip stays in the first cache levels
U8 = np.dtype(np.uint8)
S32 = np.dtype(np.int32)
F32 = np.dtype(np.float32)


def window(shape, kernel, stride, padding, dilation):
    """geometry of `cpu/conv.py` for an input [n, h, w, c]; padding (t, l, b, r)."""
    _, h, w, c = shape
    top, left, bottom, right = padding
    oh = (h + top + bottom - dilation[0] * (kernel[0] - 1) - 1) // stride[0] + 1
    ow = (w + left + right - dilation[1] * (kernel[1] - 1) - 1) // stride[1] + 1
    assert oh > 0 and ow > 0, "the window does not fit the padded input"
    return [h, w, c, *kernel, *stride, top, left, *dilation, oh, ow]


def padded_scales(ratios, groups, n, padded):
    """(multiplier, limbs) of `rescale`, each group of n padded with zero ratios."""
    multiplier = np.zeros((groups, padded), np.float32)
    limbs = np.zeros((groups, padded, 8), np.int64)
    multipliers, rows = rescale(ratios)
    multiplier[:, :n] = multipliers.reshape(groups, n)
    limbs[:, :n] = rows.reshape(groups, n, 8)
    return multiplier, limbs


def is_depthwise(weight, groups):
    """Do the depthwise kernels of this CPU take weights [oc, ic / groups, kh, kw]?"""
    if weight.shape[1] != 1 or groups != len(weight) or groups == 1:
        return False
    limit = 1 << (runway.DEPTHWISE_BITS - 1)
    sizes = np.abs(weight.astype(np.int64)).sum(axis=(1, 2, 3))
    is_held = weight.min() >= -limit and weight.max() < limit
    return is_held and 255 * sizes.max() <= MOST_SUM


class Conv2d(Step):
    """out = clamp(round((sum of (x - x_zero_point) * w + bias) * ratio) + zero_point).

    Args:
        weight: int8 [oc, ic / groups, kh, kw], or integers that are `is_depthwise`.
        bias: int32 [oc] in accumulator steps, or None.
        padding: (top, left, bottom, right), filled with x_zero_point.
        ratios: Fraction per output channel, or None for the exact int32 sums.
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
        x_zero_point=0,
        ratios=None,
        zero_point=0,
        clamp=(0, 255),
    ):
        self.is_depthwise = is_depthwise(weight, groups)
        assert self.is_depthwise or weight.dtype == np.int8, "weight: int8"
        self.weight_shape = weight.shape
        self.window = (weight.shape[2:], stride, padding, dilation)
        self.groups, self.x_zero_point = groups, x_zero_point
        self.kind = invoke.DEPTHWISE if self.is_depthwise else invoke.CONV
        self.output_type = U8 if ratios is not None else S32
        self.kernels = self._kernels(ratios is not None)
        total = x_zero_point * weight.astype(np.int64).sum(axis=(1, 2, 3))
        shifted = (0 if bias is None else np.asarray(bias, np.int64)) - total
        assert np.abs(shifted).max(initial=0) < 2**31, "the bias leaves int32"
        self._pack(weight, shifted.astype(np.int32), ratios)
        self._tail += [zero_point, *clamp, len(weight)]

    def _kernels(self, is_rounded):
        if self.is_depthwise:
            rounded, exact = runway.depthwise_u8s8u8, runway.depthwise_u8s8s32
        else:
            rounded, exact = runway.gemm_u8s8u8, runway.gemm_u8s8s32
        return (rounded if is_rounded else exact,)

    def _pack(self, weight, bias, ratios):
        oc = len(weight)
        groups = 1 if self.is_depthwise else self.groups
        n = oc // groups
        padded = runway.padded_columns(n)
        if self.is_depthwise:
            packed = [runway.pack_depthwise(np.ascontiguousarray(weight[:, 0]))]
        else:
            rows = weight.transpose(0, 2, 3, 1).reshape(groups, n, -1)
            packed = [runway.pack_s8(np.ascontiguousarray(part)) for part in rows]
        wide = np.zeros((groups, padded), np.int32)
        wide[:, :n] = bias.reshape(groups, n)
        constants = Constants()
        places = [constants.add(np.concatenate(packed))[0], len(packed[0])]
        places.append(constants.add(wide)[0])
        if ratios is not None:
            assert len(ratios) == oc, "one ratio per output channel"
            for array in padded_scales(ratios, groups, n, padded):
                places.append(constants.add(array)[0])
        else:
            places += [0, 0]
        self._tail = [n, padded, int(ratios is None), *places]
        self.constants = constants.array()

    def output_shape(self, shape):
        oh, ow = window(shape, *self.window)[-2:]
        return (shape[0], oh, ow, self.weight_shape[0])

    def plan(self, shape):
        _, per_group, kh, kw = self.weight_shape
        assert len(shape) == 4 and shape[3] == per_group * self.groups, "channels"
        geometry = window(shape, *self.window)
        pitch = int(runway.im2col_pitch(per_group * kh * kw))
        _, stride, padding, _ = self.window
        is_pixelwise = (kh, kw) == (1, 1) and (*stride, *padding) == (1, 1, 0, 0, 0, 0)
        ow = geometry[-1]
        strip = 0 if is_pixelwise else max(1, STRIP_BYTES // (ow * pitch))
        strip = min(strip, geometry[-2])
        scratch = strip * ow * pitch if strip else 2 * shape[3] + invoke.SLACK
        if self.is_depthwise:
            scratch = 0
        first = [shape[0], strip, self.groups, self.x_zero_point]
        parameters = [*first, *geometry, *self._tail]
        return Plan(parameters, self.constants, self.output_shape(shape), scratch)

    def macs(self, shape):
        _, per_group, kh, kw = self.weight_shape
        return int(np.prod(self.output_shape(shape))) * per_group * kh * kw

    @property
    def bytes(self):
        return self.constants.size


class Linear(Conv2d):
    """out[..., n] = rounded (x - x_zero_point) @ weight.T + bias; weight int8 [n, k].

    Args: as `Conv2d`. x: [..., k].
    """

    def __init__(self, weight, bias=None, **options):
        super().__init__(weight[:, :, None, None], bias, **options)
        # one column of weights is a matrix product too, not a depthwise convolution
        assert self.groups == 1, "Linear has no groups"

    def output_shape(self, shape):
        return (*shape[:-1], self.weight_shape[0])

    def plan(self, shape):
        rows = int(np.prod(shape[:-1]))
        plan = super().plan((rows, 1, 1, shape[-1]))
        return plan._replace(shape=self.output_shape(shape))

    def macs(self, shape):
        return int(np.prod(shape)) * self.weight_shape[0]


class Lookup(Step):
    """out = table[x]: every unary function of codes; table uint8 [256]."""

    kind = invoke.LOOKUP
    kernel = "lookup_u8"  # a runway may implement it under another name
    kernels = (runway.lookup_u8,)

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
    kernels = (runway.add_u8u8u8,)
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
    kernels = (runway.mul_u8u8u8,)
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
    kernels = (runway.mean_u8u8,)

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
    kernels = (runway.max_pool_u8,)

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
    kernels = (runway.avg_pool_u8,)

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
    kernels = (runway.quantize_f32u8,)
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
            self.kernels = (runway.quantize_nchw_f32u8,)
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
    kernels = (runway.dequantize_u8f32,)
    output_type = F32

    def __init__(self, scale, zero_point):
        constants = Constants()
        constants.add(np.array([scale], np.float32).astype(np.float64))
        self.constants, self.zero_point = constants.array(), zero_point

    def output_shape(self, shape):
        return shape

    def plan(self, shape):
        return Plan([self.zero_point], self.constants, shape, 0)
