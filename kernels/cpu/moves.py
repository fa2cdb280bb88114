"""Steps that only move codes: by strides, by indices along an axis, behind others."""

from math import prod

import numpy as np

from mdtensor.kernels.cpu.generic.copies import AXES
from mdtensor.kernels.cpu.program import interpret
from mdtensor.kernels.cpu.program.step import Constants, Plan, Step
from mdtensor.kernels.cpu.program.steps import U8


class Move(Step):
    """out = the view of x that `look` gives, in row-major order.

    Args:
        look: from an array to a view of it, by NumPy; on an array of another shape
            it may give another view.
        shape: from the shape of the view to that of the result; as it is, if None.

    Raises:
        ValueError: what it gives is no view, or of too many axes.
    """

    kind = interpret.MOVE
    kernels = ("move_u8",)

    def __init__(self, look, shape=None):
        self.look, self.shape = look, shape or tuple

    def output_shape(self, shape):
        return self.shape(self.look(np.empty(shape, np.uint8)).shape)

    def plan(self, shape):
        x = np.empty(shape, np.uint8)
        view = self.look(x)
        if view.size and not np.may_share_memory(view, x):
            raise ValueError("what it gives is no view of its argument")
        start = view.ctypes.data - x.ctypes.data if view.size else 0
        *axes, run = _merged(view.shape, view.strides)
        if len(axes) > AXES:
            raise ValueError(f"it has {len(axes)} axes that do not lie in a row")
        axes = [(1, 0)] * (AXES - len(axes)) + axes
        sizes, strides = zip(*axes, strict=True)
        fields = {"start": start, "lengths": sizes, "jumps": strides, "run": run}
        return Plan(fields, Constants().array(), self.shape(view.shape), 0)


def _merged(shape, strides):
    """(size, stride) of axes, neighbours as one; last, how many bytes lie in a row."""
    axes = []
    for size, stride in zip(shape, strides, strict=True):
        if axes and axes[-1][1] == size * stride:
            axes[-1] = (axes[-1][0] * size, stride)
        elif size != 1:
            axes.append((size, stride))
    run = axes.pop()[0] if axes and axes[-1][1] == 1 else 1
    return [*axes, run]


class Take(Step):
    """out = x at `indices` along `axis`.

    Args:
        indices: int64 1-D; negative ones count from behind.
    """

    kind = interpret.TAKE
    kernels = ("take_u8",)

    def __init__(self, indices, axis):
        self.indices, self.axis = np.asarray(indices, np.int64), axis

    def output_shape(self, shape):
        at = self.axis % len(shape)
        return (*shape[:at], len(self.indices), *shape[at + 1 :])

    def plan(self, shape):
        at = self.axis % len(shape)
        size = shape[at]
        indices = np.where(self.indices < 0, self.indices + size, self.indices)
        is_inside = (indices >= 0) & (indices < size)
        assert is_inside.all(), "an index is outside"
        constants = Constants()
        constants.add(np.stack([indices, _runs(indices)], axis=1))
        fields = {"outer": prod(shape[:at]), "length": size}
        fields |= {"inner": prod(shape[at + 1 :]), "indices": len(indices)}
        return Plan(fields, constants.array(), self.output_shape(shape), 0)


def _runs(indices):
    """How many indices from each on are neighbours, itself included."""
    ends = np.flatnonzero(np.diff(indices, append=-1) != 1)
    places = np.arange(len(indices))
    return ends[np.searchsorted(ends, places)] + 1 - places


class Concat(Step):
    """out = x, and y behind it along `axis`."""

    kind = interpret.CONCAT
    kernels = ("concat_u8",)
    input_types = (U8, U8)

    def __init__(self, axis):
        self.axis = axis

    def output_shape(self, x, y):
        before, after = x[: self.axis], x[self.axis + 1 :]
        same = (y[: self.axis], y[self.axis + 1 :]) == (before, after)
        assert same, "the shapes of a Concat differ along another axis"
        return (*before, x[self.axis] + y[self.axis], *after)

    def plan(self, x, y):
        fields = {"outer": prod(x[: self.axis])}
        fields |= {"x_run": prod(x[self.axis :]), "y_run": prod(y[self.axis :])}
        return Plan(fields, Constants().array(), self.output_shape(x, y), 0)
