"""Dispatch tables: one algorithm of an operation for each point of a space.

    space = Axes(Axis(Cpu, Cuda), Axis.full(Floating), Axis.full(Contiguity))
    table = DispatchTable(space, [Tag[Cpu], Tag[Cuda, Contiguous]], op)
    run = table.select(x.device, x.dtype, contiguity(x))     # once
    run(x)                                                   # as often as you like

Methods are written for tags: `def op(tag: Tag[Cpu, Floating], x: Tensor, /)`.
"""

from mdtensor.tables.coordinate import (
    Adaptive as Adaptive,
    BFloat16 as BFloat16,
    BlockSize as BlockSize,
    Bool as Bool,
    Complex as Complex,
    Complex64 as Complex64,
    Complex128 as Complex128,
    Contiguity as Contiguity,
    Contiguous as Contiguous,
    Coordinate as Coordinate,
    Cpu as Cpu,
    Cuda as Cuda,
    Determinism as Determinism,
    DeviceType as DeviceType,
    ElementType as ElementType,
    Float16 as Float16,
    Float32 as Float32,
    Float64 as Float64,
    Floating as Floating,
    InPlace as InPlace,
    Int8 as Int8,
    Int16 as Int16,
    Int32 as Int32,
    Int64 as Int64,
    Integer as Integer,
    Logical as Logical,
    NotRequired as NotRequired,
    OutOfPlace as OutOfPlace,
    Placement as Placement,
    Required as Required,
    Scheduling as Scheduling,
    Signed as Signed,
    Strided as Strided,
    UInt8 as UInt8,
    UInt16 as UInt16,
    UInt32 as UInt32,
    UInt64 as UInt64,
    Uniform as Uniform,
    Unsigned as Unsigned,
)
from mdtensor.tables.observed import (
    contiguity as contiguity,
    device_type as device_type,
    element_type as element_type,
    placement as placement,
)
from mdtensor.tables.space import Axes as Axes, Axis as Axis
from mdtensor.tables.table import DispatchTable as DispatchTable
from mdtensor.tables.tag import Tag as Tag
