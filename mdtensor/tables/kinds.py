"""The kinds of coordinates, in the order in which tags and spaces have them.

What runs an operation, on which elements, and how. A device or an element type of your
own takes part as `class Fpga(DeviceType, value="fpga")` or
`class Int24(Signed, value=int24)`; a kind of your own derives from `Coordinate`.
"""

from typing import Any

from mdtensor import dtypes
from mdtensor.device import Device
from mdtensor.tables.coordinate import Coordinate


class DeviceType(Coordinate):
    """What runs the operation: all of `cuda:0`, `cuda:1` ... are `Cuda`."""

    @classmethod
    def key(cls, value: Any) -> Any:
        """The name without a number, of a device or of its name."""
        name = value.name if isinstance(value, Device) else value
        return name.partition(":")[0] if isinstance(name, str) else name


class Cpu(DeviceType, value="cpu"):
    """The host."""


class Cuda(DeviceType, value="cuda"):
    """A GPU of NVIDIA."""


class ElementType(Coordinate):
    """The type of the elements; `.value` is its `DType`."""


class Logical(ElementType):
    """Truth values."""


class Integer(ElementType):
    """Integers, which are added without rounding, in any order."""


class Signed(Integer):
    """Two's complement integers."""


class Unsigned(Integer):
    """Integers from 0."""


class Floating(ElementType):
    """IEEE 754 binary floating point."""


class Complex(ElementType):
    """Pairs of IEEE 754 numbers."""


class Bool(Logical, value=dtypes.bool_):
    """`mdtensor.bool`."""


class Int8(Signed, value=dtypes.int8):
    """`mdtensor.int8`."""


class Int16(Signed, value=dtypes.int16):
    """`mdtensor.int16`."""


class Int32(Signed, value=dtypes.int32):
    """`mdtensor.int32`."""


class Int64(Signed, value=dtypes.int64):
    """`mdtensor.int64`."""


class UInt8(Unsigned, value=dtypes.uint8):
    """`mdtensor.uint8`."""


class UInt16(Unsigned, value=dtypes.uint16):
    """`mdtensor.uint16`."""


class UInt32(Unsigned, value=dtypes.uint32):
    """`mdtensor.uint32`."""


class UInt64(Unsigned, value=dtypes.uint64):
    """`mdtensor.uint64`."""


class Float16(Floating, value=dtypes.float16):
    """`mdtensor.float16`."""


class BFloat16(Floating, value=dtypes.bfloat16):
    """`mdtensor.bfloat16`."""


class Float32(Floating, value=dtypes.float32):
    """`mdtensor.float32`."""


class Float64(Floating, value=dtypes.float64):
    """`mdtensor.float64`."""


class Complex64(Complex, value=dtypes.complex64):
    """`mdtensor.complex64`."""


class Complex128(Complex, value=dtypes.complex128):
    """`mdtensor.complex128`."""


class Contiguity(Coordinate):
    """How the elements lie in memory."""


class Strided(Contiguity):
    """At any distances; 0 where an axis is broadcast."""


class Contiguous(Contiguity):
    """One after the other, the last axis fastest."""


class Placement(Coordinate):
    """Where the result goes."""


class InPlace(Placement):
    """Over the operand."""


class OutOfPlace(Placement):
    """Into memory of its own."""


class Determinism(Coordinate):
    """Whether the same bytes must come out for any number of threads and any run."""


class NotRequired(Determinism):
    """Rounding may differ from run to run."""


class Required(Determinism):
    """The same bytes every time."""


class Scheduling(Coordinate):
    """How an index range is cut for threads; `.value` is the name in `for_each`."""


class Uniform(Scheduling, value="uniform"):
    """Into equal parts, one for each thread."""


class Adaptive(Scheduling, value="adaptive"):
    """Into many small parts; whoever is free takes the next."""


class BlockSize(Coordinate, values=(64, 128, 256, 512, 1024)):
    """Threads in a block of a GPU."""
