"""Steps around a value: a frame of one number, and copies side by side.

They are made of other steps, so a runner needs no rule for them.
"""

import numpy as np

from mdtensor.kernels.cpu.program import kinds
from mdtensor.kernels.cpu.program.plain import hold
from mdtensor.kernels.cpu.program.step import Step
from mdtensor.kernels.cpu.program.steps import Concat, Take


class Pad(Step):
    """A frame: `fill` before and behind x along each axis.

    Args:
        widths: (before, behind) of each axis, in the order in which x is stored; one of
            them is not 0.
        fill: an element.
        dtype: element type of x, uint8 or float32.
    """

    kind, kernels = kinds.CONCAT, ("concat_u8",)

    def __init__(self, widths, fill, dtype):
        self.widths, self.fill = tuple(widths), np.asarray(fill, dtype)
        self.input_types, self.output_type = (dtype,), np.dtype(dtype)

    def output_shape(self, shape):
        """Return the shape of the result."""
        pairs = zip(shape, self.widths, strict=True)
        return tuple(before + n + behind for n, (before, behind) in pairs)

    @property
    def parts(self):
        """Return the last step, which joins x and the last side."""
        axis = max(at for at, ends in enumerate(self.widths) if any(ends))
        return (Concat(axis, self.output_type),)

    def lead_in(self, program, x):
        """Append the other steps; return what the last one joins."""
        sides = [
            (axis, is_behind, ends[is_behind])
            for axis, ends in enumerate(self.widths)
            for is_behind in (0, 1)
            if ends[is_behind]
        ]
        for axis, is_behind, width in sides:
            shape = (*x.shape[:axis], width, *x.shape[axis + 1 :])
            side = program.append(hold(np.full(shape, self.fill), x.dtype), x)
            pair = (x, side) if is_behind else (side, x)
            if (axis, is_behind, width) != sides[-1]:
                x = program.append(Concat(axis, self.output_type), *pair)
        return pair


class Tile(Step):
    """Copies of x side by side along each axis, one after the other.

    Args:
        counts: of each axis, in the order in which x is stored.
        shape: of x.
        dtype: element type of x, uint8 or float32.
    """

    kind, kernels = kinds.TAKE, ("take_u8",)

    def __init__(self, counts, shape, dtype):
        self.counts, self._shape = tuple(counts), tuple(shape)
        self.input_types, self.output_type = (dtype,), np.dtype(dtype)

    def output_shape(self, shape):
        """Return the shape of the result."""
        return tuple(n * count for n, count in zip(shape, self.counts, strict=True))

    @property
    def parts(self):
        """Return the steps that a Program stores in place of this step, in order."""
        # The last axes first, so that later steps copy longer runs.
        axes = [at for at, count in enumerate(self.counts) if count > 1] or [0]
        return tuple(
            Take(
                np.tile(np.arange(self._shape[at]), self.counts[at]),
                *(at, self.output_type),
            )
            for at in reversed(axes)
        )
