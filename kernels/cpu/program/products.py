"""Steps for products of codes with weights: convolutions and linear layers.

See `steps.py` for codes, ratios and clamps.
"""

from math import prod

import numpy as np

from mdtensor.kernels.cpu import kernel_set
from mdtensor.kernels.cpu.generic.packing import MOST_SUM, joined_lines, window
from mdtensor.kernels.cpu.multipliers import (
    NO_EXCEPTION_SUMS,
    NONE,
    choose_multipliers,
    multiples,
)
from mdtensor.kernels.cpu.program import kinds
from mdtensor.kernels.cpu.program.code_windows import Groups, group_weights, strip_of
from mdtensor.kernels.cpu.program.step import Constants, Plan, Step, as_bytes
from mdtensor.kernels.cpu.program.steps import S32, U8, Take, rounding
from mdtensor.kernels.rescale import rescale

#: Fields of the record that `Conv2d` sets while it packs its constants.
PLACES = "weights", "weight_bytes", "bias", "multipliers", "limbs", "exception_sums"
#: A linear layer multiplies pairs from so many rows and codes on.
LEAST_ROWS, LEAST_CODES = 4, 1 << 10
# An im2col strip of this size stays in the first cache levels.
STRIP_BYTES = 1 << 16


def pad_groups(array, groups, n, padded, value=0):
    """Return the rows of `array`, with each group of n rows padded by `value`."""
    wide = np.full((groups, padded, *array.shape[1:]), value, array.dtype)
    wide[:, :n] = array.reshape(groups, n, *array.shape[1:])
    return wide


def product_constants(weight, bias, ratios, zero_point):
    """Return the constants by which a kernel rounds sums.

    They are (weight, bias, multiplier, limbs, exception sums).
    """
    known = kernel_set.CHOSEN.get().PRODUCTS_TAKE_EXCEPTION_SUMS
    return weight, bias, *scales_of(weight, bias, ratios, zero_point, known)


def depthwise_constants(weight, bias, ratios, zero_point):
    """Return constants as `product_constants` does, for depthwise kernels.

    If `multiples` finds exact multipliers, limbs are 0, since no sum needs integers.
    """
    on, given = kernel_set.CHOSEN.get(), (weight, bias, ratios, zero_point)
    found = multiples(*given, on.MOST_FACTOR) if on.MOST_FACTOR else None
    if found is not None:
        return *found, np.zeros((len(weight), 8), np.int64), NO_EXCEPTION_SUMS
    return weight, bias, *scales_of(*given, on.DEPTHWISE_TAKES_EXCEPTION_SUMS)


def scales_of(weight, bias, ratios, zero_point, takes_exception_sums):
    """Return (multiplier, limbs, exception sums), with which a kernel rounds sums.

    The three are a float32 multiplier for each channel, the exact ratios as integers in
    limbs of 24 bits, and for each channel the one sum that its multiplier rounds
    wrongly, if any. The exception sums are empty if the kernels do not take them, or if
    a channel needs more than one.
    """
    multiplier, limbs = rescale(ratios)
    if not takes_exception_sums:
        return multiplier, limbs, NO_EXCEPTION_SUMS
    given = weight, bias, multiplier, limbs, zero_point
    multiplier, exception_sums = choose_multipliers(*given)
    return multiplier, limbs, exception_sums


def is_depthwise(weight, groups):
    """Return whether the depthwise kernels of this CPU support these weights.

    The weights are [oc, ic / groups, kh, kw].
    """
    if weight.shape[1] != 1 or groups != len(weight) or groups == 1:
        return False
    limit = 1 << (kernel_set.CHOSEN.get().DEPTHWISE_BITS - 1)
    sizes = np.abs(weight.astype(np.int64)).sum(axis=(1, 2, 3))
    fits = weight.min() >= -limit and weight.max() < limit
    # The generic kernel sums in float32, which must be exact.
    return fits and 255 * sizes.max() <= MOST_SUM


class Conv2d(Step):
    """A convolution of codes, rounded to codes.

        out = clamp(round((sum of (x - x_zero_point) * w + bias) * ratio) + zero_point)

    Args:
        weight: int8 [oc, ic / groups, kh, kw], or integers that are `is_depthwise`.
        bias: int32 [oc], in units of the sum, or None.
        padding: (top, left, bottom, right), filled with x_zero_point.
        ratios: Fraction per output channel, or None for the exact int32 sums.
        depth: products in a sum, without weights that were added as 0.
    """

    #: Whether windows may be multiplied where they lie, see `code_windows.py`.
    is_windowed = True

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
        depth=None,
    ):
        self.is_depthwise = is_depthwise(weight, groups)
        assert self.is_depthwise or weight.dtype == np.int8, "weight: int8"
        self.weight_shape = weight.shape
        self._depth = depth or prod(weight.shape[1:])
        self.window = (weight.shape[2:], stride, padding, dilation)
        self.groups, self.x_zero_point = groups, x_zero_point
        self.kind = kinds.DEPTHWISE if self.is_depthwise else kinds.CONV
        self.output_type = U8 if ratios is not None else S32
        self.kernels = self._kernels(ratios is not None)
        # The zero point adds a constant to each sum, so it goes into the bias.
        total = x_zero_point * weight.astype(np.int64).sum(axis=(1, 2, 3))
        shifted = (0 if bias is None else np.asarray(bias, np.int64)) - total
        assert np.abs(shifted).max(initial=0) < 2**31, "the bias leaves int32"
        self._pack(weight, shifted.astype(np.int32), ratios, zero_point)
        self._fields |= rounding(zero_point, clamp)
        self._fields |= {"groups": groups, "x_zero_point": x_zero_point}
        self._fields["out_channels"] = len(weight)

    def _kernels(self, is_rounded):
        """Return the names of the kernels for this convolution."""
        if self.is_depthwise:
            rounded, exact = "depthwise_u8s8u8", "depthwise_u8s8s32"
        else:
            rounded, exact = "gemm_u8s8u8", "gemm_u8s8s32"
        return (rounded if is_rounded else exact,)

    def _pack(self, weight, bias, ratios, zero_point):
        """Pack weights, bias and multipliers into the constants."""
        groups = 1 if self.is_depthwise else self.groups
        n = len(weight) // groups
        padded = self.on.padded_columns(n)
        # Exact sums are not rounded.
        rounding = [NO_EXCEPTION_SUMS] * 3
        if ratios is not None:
            assert len(ratios) == len(weight), "one ratio per output channel"
            make = depthwise_constants if self.is_depthwise else product_constants
            weight, bias, *rounding = make(weight, bias, ratios, zero_point)
        constants = Constants()
        own, more = self._packed(weight, groups, n, ratios), {}
        if isinstance(own, Groups):
            self.kind, self.kernels = kinds.WINDOWS, ("windows_u8s8u8",)
            more["operands"] = constants.add(own.starts)[0]
            more["numbers"] = constants.add(own.entries)[0]
            own = [own.packed.reshape(-1)]
        places = [constants.add(np.concatenate(own))[0], len(own[0])]
        for array, pad in zip((bias, *rounding), (0, 0, 0, NONE), strict=True):
            # Missing columns have sums too, and none of them equals NONE.
            parts = pad_groups(array, groups, n, padded, pad) if len(array) else None
            places.append(0 if parts is None else constants.add(parts)[0])
        self._fields = dict(zip(PLACES, places, strict=True)) | more
        self._fields |= {"columns": n, "padded_columns": padded}
        self._fields["is_exact"] = int(ratios is None)
        self.constants = constants.array()

    def _packed(self, weight, groups, n, ratios):
        """Return packed weights, an array for each group, or their `Groups`."""
        if self.is_depthwise:
            return [self.on.pack_depthwise(np.ascontiguousarray(weight[:, 0]))]
        takes_pairs = self.on.MULTIPLIES_PAIRS and self.is_windowed
        if takes_pairs and ratios is not None and groups == 1:
            found = group_weights(weight, self.window[-1][1])
            if found is not None:
                return found
        # k counts taps before channels, as in the rows of im2col.
        rows = weight.transpose(0, 2, 3, 1).reshape(groups, n, -1)
        return [self.on.pack_s8(np.ascontiguousarray(part)) for part in rows]

    def output_shape(self, shape):
        """Return the shape of the result."""
        oh, ow = window(shape, *self.window)[-2:]
        return (shape[0], oh, ow, self.weight_shape[0])

    def plan(self, shape):
        """Return the `Plan` for this input shape."""
        _, per_group, kh, kw = self.weight_shape
        assert len(shape) == 4 and shape[3] == per_group * self.groups, "channels"
        joined = joined_lines(shape, *self.window)
        seen = window(joined, *self.window)
        pitch = int(self.on.im2col_pitch(per_group * kh * kw))
        _, stride, padding, _ = self.window
        is_pixelwise = (kh, kw) == (1, 1) and (*stride, *padding) == (1, 1, 0, 0, 0, 0)
        ow = seen.out_w
        # A 1x1 convolution reads its pixels in place.
        strip = 0 if is_pixelwise else max(1, STRIP_BYTES // (ow * pitch))
        strip = min(strip, seen.out_h)
        scratch = strip * ow * pitch if strip else 2 * shape[3] + kinds.SLACK
        if self.is_depthwise:
            scratch = 0
        if self.kind == kinds.WINDOWS:
            strip, scratch = strip_of(seen, shape[3])
        fields = {**self._fields, "images": joined[0], "strip": strip}
        fields["window"] = seen
        return Plan(fields, self.constants, self.output_shape(shape), scratch)

    def macs(self, shape):
        """Return the multiply-accumulates of one call."""
        return int(np.prod(self.output_shape(shape))) * self._depth

    @property
    def bytes(self):
        """Return the bytes of the packed constants."""
        return self.constants.size


# With four rows and more, pairs of codes add up in 16 bits (decision 0121).
class Linear(Conv2d):
    """A linear layer: out[..., n] = rounded (x - x_zero_point) @ weight.T + bias.

    Args:
        weight: int8 [n, k]; x is [..., k].
        rows: how many rows are expected; the weights are packed for so many, and the
            bytes are the same for any number.
        bias, options: as `Conv2d`.
    """

    def __init__(self, weight, bias=None, *, rows=1, **options):
        # A single row takes up to 1.4 times as long in pairs.
        is_worth = rows >= LEAST_ROWS and rows * weight.shape[1] >= LEAST_CODES
        self.is_windowed = is_worth
        super().__init__(weight[:, :, None, None], bias, **options)
        # One column of weights is a matrix product too, not a depthwise convolution.
        assert self.groups == 1, "Linear does not take groups"

    def output_shape(self, shape):
        """Return the shape of the result."""
        return (*shape[:-1], self.weight_shape[0])

    def plan(self, shape):
        """Return the `Plan` for this input shape."""
        rows = int(np.prod(shape[:-1]))
        plan = super().plan((rows, 1, 1, shape[-1]))
        return plan._replace(shape=self.output_shape(shape))

    def macs(self, shape):
        """Return the multiply-accumulates of one call."""
        return int(np.prod(shape)) * self.weight_shape[0]


# Weights minus a zero point may have 9 bits. Such a weight is a sum of int8 parts with
# the sign of the weight, so no partial sum exceeds the product with the whole weight.

#: The least number of columns of a product.
PANEL = 8


class Repeated(Step):
    """A product of repeated channels; a Program stores it as two steps.

    The first step repeats the channels whose weights do not fit one int8, the second
    step is the product with all int8 parts of the weights.
    """

    def __init__(self, take, product, depth):
        self._parts, self._depth = (take, product), depth
        self.kernels, self.output_type = product.kernels, product.output_type

    @property
    def parts(self):
        """Return the two steps that a Program stores in place of this one."""
        return self._parts

    def output_shape(self, shape):
        """Return the shape of the result."""
        take, product = self.parts
        return product.output_shape(take.output_shape(shape))

    def macs(self, shape):
        """Return the multiply-accumulates of the weights before they were split."""
        return prod(self.output_shape(shape)) * self._depth

    @property
    def bytes(self):
        """Return the bytes of the constants."""
        return self.parts[1].bytes

    def __call__(self, x):
        """Return the result as a fresh array."""
        return self.bound(x.shape)(as_bytes(x))

    def bound(self, shape):
        """Return a call that repeats the channels of codes and multiplies them."""
        take, product = self.parts
        first = take.bound(shape)
        second = product.bound(first.shape)
        return lambda x: second(first(x).reshape(-1))


# Channels with 9-bit weights are repeated, because kernels hold 8 signed bits (decision
# 0039).
def conv2d(weight, bias=None, *, groups=1, **options):
    """Return a `Conv2d` for weights int64 [oc, ic / groups, kh, kw]."""
    if is_depthwise(weight, groups):
        return Conv2d(weight, bias, groups=groups, **options)
    depth = prod(weight.shape[1:])
    weight, groups = _blocks(weight, groups)
    made = _whole(weight)
    if made is not None:
        return Conv2d(made, bias, groups=groups, depth=depth, **options)
    places, parts = _parts(weight)
    channels = np.arange(groups * weight.shape[1]).reshape(groups, -1)
    product = Conv2d(parts, bias, groups=groups, **options)
    return Repeated(Take(channels[:, places].reshape(-1), 3), product, depth)


def linear(weight, bias=None, **options):
    """Return a `Linear` for weights int64 [n, k], with its options."""
    made = _whole(weight)
    if made is not None:
        return Linear(made, bias, **options)
    places, parts = _parts(weight)
    product = Linear(parts, bias, **options)
    return Repeated(Take(places, -1), product, weight.shape[1])


def _blocks(weight, groups):
    """Merge groups of few outputs into larger groups; return (weights, groups).

    The added weights are 0.
    """
    # A panel of columns takes no longer than a single column, and windows of several
    # groups are copied at once.
    outputs = len(weight) // groups
    sizes = range(1, max(1, PANEL // outputs) + 1)
    size = max(size for size in sizes if groups % size == 0)
    if size == 1:
        return weight, groups
    rows, inputs = len(weight), weight.shape[1]
    places = np.arange(rows) // outputs % size
    wide = np.zeros((rows, size, *weight.shape[1:]), weight.dtype)
    wide[np.arange(rows), places] = weight
    return wide.reshape(rows, size * inputs, *weight.shape[2:]), groups // size


def _whole(weight):
    """Return the weights as int8, or None if they do not fit."""
    narrow = weight.astype(np.int8)
    return narrow if np.array_equal(narrow, weight) else None


def _parts(weight):
    """Return (indices, parts): int8 weights, and the channel of each along axis 1.

    The sum of all parts of a channel is the weight of that channel.
    """
    others = tuple(axis for axis in range(weight.ndim) if axis != 1)
    left, at = weight, np.arange(weight.shape[1])
    # Only channels whose weights exceed int8 are repeated, and most layers have few of
    # them (decision 0039).
    places, parts = [], []
    while at.size:
        part = left.clip(-128, 127)
        places.append(at)
        parts.append(part)
        is_left = (left != part).any(axis=others)
        left, at = (left - part)[:, is_left], at[is_left]
    return np.concatenate(places), np.concatenate(parts, axis=1).astype(np.int8)
