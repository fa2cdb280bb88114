"""Steps that reduce float32 along axes."""

from math import prod

from mdtensor.kernels.cpu.generic import opcodes
from mdtensor.kernels.cpu.program import kinds, steps
from mdtensor.kernels.cpu.program.floats import Elementwise, FloatStep, Instruction
from mdtensor.kernels.cpu.program.kinds import ITEM
from mdtensor.kernels.cpu.program.step import Constants, Plan

#: The number of each operation.
OPERATIONS = {
    "sum": opcodes.SUM,
    "mean": opcodes.MEAN,
    "max": opcodes.MAX,
    "min": opcodes.MIN,
}


# Masks and poolings over time reduce some axis; a call for each of them took longer
# than the layers between (decision 0069).
class Reduce(FloatStep):
    """A sum, mean, maximum or minimum over axes that lie side by side.

    Args:
        name: `sum`, `mean`, `max` or `min`.
        first, last: the axes first .. last - 1 are reduced.
        keepdims: whether they keep length 1.
    """

    kind = kinds.REDUCE_F32
    kernels = ("reduce_f32",)

    def __init__(self, name, first, last, keepdims):
        self._operation, self._axes = OPERATIONS[name], (first, last)
        self._keepdims = keepdims

    def output_shape(self, shape):
        """Return the shape of the result."""
        first, last = self._axes
        kept = (1,) * (last - first) if self._keepdims else ()
        return (*shape[:first], *kept, *shape[last:])

    def plan(self, shape):
        """Return the `Plan` for this input shape."""
        first, last = self._axes
        out = self.output_shape(shape)
        fields = {"operation": self._operation, "length": prod(shape[first:last])}
        # Outside of a program nothing else sets the bytes of the result.
        fields |= {"inner": prod(shape[last:]), "out_bytes": prod(out) * ITEM}
        return Plan(fields, Constants().array(), out, 0)


class MeanOfCodes(steps.Mean):
    """A mean of codes over axes that lie side by side, rounded once.

        out = clamp(round(mean of (x - x_zero_point) * ratio) + zero_point)

    Args: first, last: the axes first .. last - 1 are reduced.
    """

    def __init__(self, ratio, zero_points, first, last, keepdims):
        super().__init__(ratio, zero_points[0], zero_points[1], keepdims=keepdims)
        self._axes = first, last

    def output_shape(self, shape):
        """Return the shape of the result."""
        first, last = self._axes
        kept = (1,) * (last - first) if self.keepdims else ()
        return (*shape[:first], *kept, *shape[last:])

    def plan(self, shape):
        """Return the `Plan` for this input shape."""
        first, last = self._axes
        sizes = prod(shape[:first]), prod(shape[first:last]), prod(shape[last:])
        found = super().plan(sizes)
        return found._replace(shape=self.output_shape(shape))


class LogSoftmax(FloatStep):
    """The logarithm of a softmax along an axis, as steps of their own.

        out = (x - m) - log(sum of e ** (x - m)), m the largest along the axis

    Rounding: each operation; the power and the logarithm within 1.1 ulp.
    """

    kind = Elementwise.kind
    kernels = Elementwise.kernels

    def __init__(self, axis):
        self._axis = axis

    @property
    def parts(self):
        """Return the last step, which subtracts the logarithms."""
        return (Elementwise(Instruction(opcodes.SUB, 0, 1)),)

    def lead_in(self, program, x):
        """Append the other steps; return x - m and the logarithms."""
        axes = self._axis, self._axis + 1
        most = program.append(Reduce("max", *axes, True), x)
        moved = program.append(Elementwise(Instruction(opcodes.SUB, 0, 1)), x, most)
        powers = program.append(Elementwise(Instruction(opcodes.EXP, 0)), moved)
        total = program.append(Reduce("sum", *axes, True), powers)
        return moved, program.append(Elementwise(Instruction(opcodes.LOG, 0)), total)
