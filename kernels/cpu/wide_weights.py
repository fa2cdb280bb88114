"""Products with weights of nine bits: as two of eight, of channels that are doubled.

Codes of weights with a zero point are up to 255 steps from it. Both halves of such a
step have its sign and 8 bits, so no sum is larger than with the whole.
"""

from math import gcd, prod

import numpy as np

from mdtensor.kernels.cpu.moves import Take
from mdtensor.kernels.cpu.plan import Step
from mdtensor.kernels.cpu.steps import Conv2d, Linear

#: Steps whose halves are int8.
LOWEST, HIGHEST = -256, 254
#: Columns that products have at least.
PANEL = 8


class Doubled(Step):
    """A step behind one that doubles its channels, as two steps of a Program."""

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
        take, product = self.parts
        return product(take(x))


def conv2d(weight, bias=None, *, groups=1, **options):
    """A `Conv2d` of weights from LOWEST to HIGHEST, int64 [oc, ic / groups, kh, kw]."""
    made = _whole(weight)
    if made is not None:
        return Conv2d(made, bias, groups=groups, **options)
    depth = prod(weight.shape[1:])
    if weight.shape[1] == 1:
        weight, groups = _blocks(weight, groups)
    channels = np.arange(groups * weight.shape[1]).reshape(groups, 1, -1)
    twice = np.repeat(channels, 2, axis=1).reshape(-1)
    product = Conv2d(_halves(weight), bias, groups=groups, **options)
    return Doubled(Take(twice, 3), product, depth)


def linear(weight, bias=None, **options):
    """A `Linear` of weights from LOWEST to HIGHEST, int64 [n, k]."""
    made = _whole(weight)
    if made is not None:
        return Linear(made, bias, **options)
    product = Linear(_halves(weight), bias, **options)
    twice = np.tile(np.arange(weight.shape[1]), 2)
    return Doubled(Take(twice, -1), product, weight.shape[1])


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


def _halves(weight):
    """Two int8 in place of each weight, side by side along axis 1."""
    if weight.min() < LOWEST or weight.max() > HIGHEST:
        raise ValueError(f"a weight is past {LOWEST} .. {HIGHEST} steps from 0")
    low = weight >> 1
    return np.concatenate([low, weight - low], axis=1).astype(np.int8)
