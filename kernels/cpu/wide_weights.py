"""Products with weights of more than eight bits: channels that have such are repeated.

Codes of weights with a zero point are up to 255 steps from it. A step is a sum of
int8 of its sign, so no sum of products is larger than with the whole; channels whose
steps are int8 everywhere stay alone.
"""

from math import gcd, prod

import numpy as np

from mdtensor.kernels.cpu.moves import Take
from mdtensor.kernels.cpu.program.products import Conv2d, Linear, is_depthwise
from mdtensor.kernels.cpu.program.step import Step, as_bytes

#: Columns that products have at least.
PANEL = 8


class Repeated(Step):
    """A step behind one that repeats channels, as two steps of a Program."""

    def __init__(self, take, product, depth):
        self._parts, self._depth = (take, product), depth
        self.kernels, self.output_type = product.kernels, product.output_type

    @property
    def parts(self):
        return self._parts

    def output_shape(self, shape):
        take, product = self.parts
        return product.output_shape(take.output_shape(shape))

    def macs(self, shape):
        """Those of the weights as they are, not of what they became."""
        return prod(self.output_shape(shape)) * self._depth

    @property
    def bytes(self):
        return self.parts[1].bytes

    def __call__(self, x):
        return self.bound(x.shape)(as_bytes(x))

    def bound(self, shape):
        """Return what repeats the channels of these codes and multiplies them."""
        take, product = self.parts
        first = take.bound(shape)
        second = product.bound(first.shape)
        return lambda x: second(first(x).reshape(-1))


# Channels with 9-bit weights are repeated, because kernels hold 8 signed bits (decision
# 0039).
def conv2d(weight, bias=None, *, groups=1, **options):
    """A `Conv2d` of weights int64 [oc, ic / groups, kh, kw]."""
    made = weight if is_depthwise(weight, groups) else _whole(weight)
    if made is not None:
        return Conv2d(made, bias, groups=groups, **options)
    depth = prod(weight.shape[1:])
    if weight.shape[1] == 1:
        weight, groups = _blocks(weight, groups)
    places, parts = _parts(weight)
    channels = np.arange(groups * weight.shape[1]).reshape(groups, -1)
    product = Conv2d(parts, bias, groups=groups, **options)
    return Repeated(Take(channels[:, places].reshape(-1), 3), product, depth)


def linear(weight, bias=None, **options):
    """A `Linear` of weights int64 [n, k]."""
    made = _whole(weight)
    if made is not None:
        return Linear(made, bias, **options)
    places, parts = _parts(weight)
    product = Linear(parts, bias, **options)
    return Repeated(Take(places, -1), product, weight.shape[1])


def _blocks(weight, groups):
    """Weights of one channel a group as those of several, most of them 0; the groups.

    A product of a panel of columns takes no longer than one of a single column.
    """
    size, outputs = gcd(groups, PANEL), len(weight)
    places = np.arange(outputs) // (outputs // groups) % size
    wide = np.zeros((outputs, size, *weight.shape[2:]), weight.dtype)
    wide[np.arange(outputs), places] = weight[:, 0]
    return wide, groups // size


def _whole(weight):
    """The weights as int8, or None."""
    narrow = weight.astype(np.int8)
    return narrow if np.array_equal(narrow, weight) else None


def _parts(weight):
    """(places along axis 1, int8 there) that are the weights together."""
    others = tuple(axis for axis in range(weight.ndim) if axis != 1)
    left, at = weight, np.arange(weight.shape[1])
    places, parts = [], []
    while at.size:
        part = left.clip(-128, 127)
        places.append(at)
        parts.append(part)
        is_left = (left != part).any(axis=others)
        left, at = (left - part)[:, is_left], at[is_left]
    return np.concatenate(places), np.concatenate(parts, axis=1).astype(np.int8)
