"""The function that runs one reduction of float32."""

from mdtensor.kernels.cpu.generic.float_reduce import reduce_f32
from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.program.interpret_floats import floats_at
from mdtensor.kernels.cpu.program.kinds import ITEM


@kernel
def reduce_floats(steps, i, x, y, out, scratch, constants):
    """Run a Reduce."""
    step = steps[i]
    length, inner = step.length, step.inner
    count = step.out_bytes // ITEM
    given = floats_at(x, 0, count * length)
    reduce_f32(step.operation, given, length, inner, floats_at(out, 0, count))
