"""What a compiled function reads and writes: compute types, storage types, rounding.

Narrow floats are read as float32, exactly; everything else as it is. A value is
rounded once to the storage type, half to even; integers wrap. Nothing becomes less than
it is: no float is written to integers, no complex number to floats.
"""

from typing import NamedTuple

import numpy as np
from numba import from_dtype, types
from numba.core.errors import TypingError
from numba.extending import register_jitable

from mdtensor.kernels.cpu.generic import bfloat16, float8, float16
from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.numpy.float16 import is_narrow

OURS = {"float16": float16, "bfloat16": bfloat16}
#: What a message that a user may read begins with, among numba's own.
MARK = "mdtensor: "

compiled = register_jitable(error_model="numpy")


class Element(NamedTuple):
    """One operand: the name of its element type, and whether it may be written."""

    name: str
    writes: bool = False

    @property
    def is_narrow(self):
        """Whether it is a float that is computed in float32."""
        return is_narrow(np.dtype(self.name))

    @property
    def storage(self):
        """What lies in memory, as numba sees it."""
        bits = f"uint{8 * self.size}"
        return from_dtype(np.dtype(bits if self.is_narrow else self.name))

    @property
    def compute(self):
        """What a function gets."""
        return types.float32 if self.is_narrow else self.storage

    @property
    def casts(self):
        """`widen` and `narrow` of a narrow float."""
        return OURS.get(self.name) or float8.casts(self.name)

    @property
    def widen(self):
        """From the storage type to the compute type; None where they are the same."""
        return self.casts.widen if self.is_narrow else None

    @property
    def size(self):
        return np.dtype(self.name).itemsize


def converter(element, value):
    """From the type `value` to bits, rounded once; None where a cast will do.

    Raises:
        TypingError: it may not be written there.
    """
    value = types.unliteral(value)
    problem = loss(element, value)
    if problem:
        raise TypingError(f"{MARK}{problem}")
    if not element.is_narrow:
        return None
    narrow = element.casts.narrow
    if value == types.float32:
        return narrow
    return compiled(lambda value: narrow(to_odd(np.float64(value))))


def loss(element, value):
    """What is wrong with writing a `value` to `element`, in words; empty if nothing."""
    if not element.writes:
        return "the view is for reading, and is written"
    if not isinstance(value, types.Number | types.Boolean):
        kind = "nothing" if isinstance(value, types.NoneType) else str(value)
        return f"{kind} is written to elements of {element.name}"
    rank, wanted = _rank(value), _rank(element.compute)
    if rank > wanted:
        return f"{value} is written to elements of {element.name}"
    return ""


def _rank(kind):
    """Truth values, integers, floats, complex numbers: each holds those before it."""
    if isinstance(kind, types.Boolean):
        return 0
    if isinstance(kind, types.Integer):
        return 1
    return 2 if isinstance(kind, types.Float) else 3


@kernel
def to_odd(x):
    """float64 to float32; if inexact, the neighbour whose last bit is 1.

    Rounding that to fewer bits gives what rounding `x` itself would.

    Source: S. Boldo, G. Melquiond, "When double rounding is odd".
    """
    near = np.float32(x)
    bits = near.view(np.uint32)
    is_beyond = np.abs(np.float64(near)) > np.abs(x)
    below = np.uint32(bits - np.uint32(is_beyond))
    odd = np.uint32(below | np.uint32(1))
    return np.uint32(bits if np.float64(near) == x else odd).view(np.float32)
