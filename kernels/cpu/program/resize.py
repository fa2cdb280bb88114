"""Steps that resize images of float32: along the columns, then along the rows."""

from math import prod

import numpy as np

from mdtensor.kernels.cpu.program import kinds
from mdtensor.kernels.cpu.program.floats import FloatStep
from mdtensor.kernels.cpu.program.step import Constants, Plan
from mdtensor.kernels.cpu.program.steps import F32, Take

#: Axes of images in a program, which are channels last.
ROWS, COLUMNS = 1, 2


class Resample(FloatStep):
    """Sums of weighted elements along one axis, see `generic/float_resize.py`.

    Args:
        axis: of an image, channels last.
        taps: [new, count, (index, weight)].
    """

    kind = kinds.RESAMPLE_F32
    kernels = ("resample_f32",)

    def __init__(self, axis, taps):
        self._axis, self._new = axis, len(taps)
        self._most = int(taps[..., 0].max())
        constants = Constants()
        indices = constants.add(taps[..., 0].astype(np.int64))[0]
        weights = constants.add(taps[..., 1].astype(np.float32))[0]
        self._fields = {"operands": indices, "numbers": weights}
        self._fields |= {"rows": len(taps), "columns": taps.shape[1]}
        self.constants = constants.array()

    def output_shape(self, shape):
        """Return the shape of the result."""
        return (*shape[: self._axis], self._new, *shape[self._axis + 1 :])

    def plan(self, shape):
        """Return the `Plan` for this input shape."""
        assert self._most < shape[self._axis], f"Resample: {shape} is too short"
        fields = {**self._fields, "outer": prod(shape[: self._axis])}
        fields["length"] = shape[self._axis]
        fields["inner"] = prod(shape[self._axis + 1 :])
        return Plan(fields, self.constants, self.output_shape(shape), 0)


# One axis after the other, so that the bytes are those of the call (decision 0066).
class Resize(FloatStep):
    """A resize of images; a Program stores it as a step for each axis.

    Args: columns, rows: taps of both axes, [new, count, (index, weight)].
    """

    kind = kinds.RESAMPLE_F32
    kernels = ("resample_f32",)

    def __init__(self, columns, rows):
        self._parts = _along(COLUMNS, columns), _along(ROWS, rows)
        self.kernels = self._parts[1].kernels

    @property
    def parts(self):
        """Return the steps that a Program stores in place of this one."""
        return self._parts

    def output_shape(self, shape):
        """Return the shape of the result."""
        for part in self._parts:
            shape = part.output_shape(shape)
        return shape


def _along(axis, taps):
    """Return the step of one axis; single elements are taken as they are."""
    if taps.shape[1] == 1:
        return Take(taps[:, 0, 0].astype(np.int64), axis, F32)
    return Resample(axis, taps)
