"""Rule sets that reproduce NumPy, JAX, PyTorch and PyPTO.

Rows and columns of a table are element types; the last rows are Python scalars. A dot
marks a pair that the library does not promote, and that raises here. The comment above
each table names its source; tests compare every cell.
"""

from __future__ import annotations

from functools import cached_property, reduce

from mdtensor import dtypes
from mdtensor.dtypes import DType
from mdtensor.promotion.lattice import (
    FLOAT32_QUOTIENTS,
    FLOAT64_QUOTIENTS,
    WIDE_QUOTIENTS,
    Quotients,
    RuleSet,
)

#: The short names of types in the tables.
SHORT = {
    "bool": "b",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "complex64": "c64",
    "complex128": "c128",
}
_LONG = {short: name for name, short in SHORT.items()}

#: Kinds from the lowest to the highest; within a kind, more bits are higher.
_KINDS = (
    "bool",
    "unsigned integer",
    "signed integer",
    "real floating",
    "complex floating",
)

Cells = dict[tuple[str, str], str]


class Table(RuleSet):
    """A rule set that looks up the common type of two types in a table.

    More than two types are sorted and combined one by one from the highest down, so a
    float decides pairs of integers that do not have a common type. float16 and
    bfloat16, neither of which is higher, stay in the given order.

    Args:
        name: the name of the rule set.
        matrix: a header of types; then one row for each type, and for each kind of
            Python scalar except bool: its name, and the common type with each type of
            the header. A dot is undefined. With a bool, any tensor keeps its type.
        quotients, averages: as in `RuleSet`.
    """

    def __init__(
        self, name: str, matrix: str, quotients: Quotients, *, averages: bool = True
    ) -> None:
        super().__init__(name, quotients, averages=averages)
        self._matrix = matrix

    # Read on use: most programs keep to one set of rules (decision 0091).
    @cached_property
    def cells(self) -> Cells:
        """Return the defined cells by row and column."""
        return cells(self._matrix)

    # Types are folded from the highest down, so that the order of operands never
    # matters (decision 0008).
    def join(self, types: tuple[DType, ...]) -> DType | None:
        common: DType | None
        common, *rest = sorted(types, key=_height, reverse=True)
        for lower in rest:
            if common is not None and common is not lower:
                common = self._cell(common.name, lower)
        return common

    def weak(self, tensor: DType, scalar: str) -> DType | None:
        return tensor if scalar == "bool" else self._cell(scalar, tensor)

    def _cell(self, row: str, column: DType) -> DType | None:
        found = self.cells.get((row, column.name))
        return None if found is None else dtypes.dtype(found)


def cells(matrix: str) -> Cells:
    """Return the defined cells of a matrix, by row and column.

    Example:
        >>> cells(" b   i8\\ni8  i8  . ")
        {('int8', 'bool'): 'int8'}
    """
    header, *rows = (line.split() for line in matrix.strip().splitlines())
    return {
        (_LONG.get(row[0], row[0]), _LONG[column]): _LONG[cell]
        for row in rows
        for column, cell in zip(header, row[1:], strict=True)
        if cell != "."
    }


def _height(dtype: DType) -> tuple[int, int]:
    kind = _KINDS.index(dtype.kind) if dtype.kind in _KINDS else len(_KINDS)
    return kind, dtype.bits


#: NumPy 2.4.6 with ml_dtypes 0.6.0: `np.promote_types`, and `np.result_type` with a
#: scalar. ml_dtypes defines bfloat16 with the smallest types only.
NUMPY = Table(
    "numpy",
    """
        b    i8   i16  i32  i64  u8   u16  u32  u64  f16  bf16 f32  f64  c64  c128
b       b    i8   i16  i32  i64  u8   u16  u32  u64  f16  bf16 f32  f64  c64  c128
i8      i8   i8   i16  i32  i64  i16  i32  i64  f64  f16  bf16 f32  f64  c64  c128
i16     i16  i16  i16  i32  i64  i16  i32  i64  f64  f32  .    f32  f64  c64  c128
i32     i32  i32  i32  i32  i64  i32  i32  i64  f64  f64  .    f64  f64  c128 c128
i64     i64  i64  i64  i64  i64  i64  i64  i64  f64  f64  .    f64  f64  c128 c128
u8      u8   i16  i16  i32  i64  u8   u16  u32  u64  f16  bf16 f32  f64  c64  c128
u16     u16  i32  i32  i32  i64  u16  u16  u32  u64  f32  .    f32  f64  c64  c128
u32     u32  i64  i64  i64  i64  u32  u32  u32  u64  f64  .    f64  f64  c128 c128
u64     u64  f64  f64  f64  f64  u64  u64  u64  u64  f64  .    f64  f64  c128 c128
f16     f16  f16  f32  f64  f64  f16  f32  f64  f64  f16  .    f32  f64  c64  c128
bf16    bf16 bf16 .    .    .    bf16 .    .    .    .    bf16 f32  f64  c64  c128
f32     f32  f32  f32  f64  f64  f32  f32  f64  f64  f32  f32  f32  f64  c64  c128
f64     f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  c128 c128
c64     c64  c64  c64  c128 c128 c64  c64  c128 c128 c64  c64  c64  c128 c64  c128
c128    c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128
int     i64  i8   i16  i32  i64  u8   u16  u32  u64  f16  bf16 f32  f64  c64  c128
float   f64  f64  f64  f64  f64  f64  f64  f64  f64  f16  f64  f32  f64  c64  c128
complex c128 c128 c128 c128 c128 c128 c128 c128 c128 c64  c64  c64  c128 c64  c128
    """,
    FLOAT64_QUOTIENTS,
)

#: jax 0.10.2 with 64 bits enabled: `jnp.promote_types`, and `jnp.result_type` with a
#: scalar (`python tests/promotion/generate.py jax`).
JAX = Table(
    "jax",
    """
        b    i8   i16  i32  i64  u8   u16  u32  u64  f16  bf16 f32  f64  c64  c128
b       b    i8   i16  i32  i64  u8   u16  u32  u64  f16  bf16 f32  f64  c64  c128
i8      i8   i8   i16  i32  i64  i16  i32  i64  f64  f16  bf16 f32  f64  c64  c128
i16     i16  i16  i16  i32  i64  i16  i32  i64  f64  f16  bf16 f32  f64  c64  c128
i32     i32  i32  i32  i32  i64  i32  i32  i64  f64  f16  bf16 f32  f64  c64  c128
i64     i64  i64  i64  i64  i64  i64  i64  i64  f64  f16  bf16 f32  f64  c64  c128
u8      u8   i16  i16  i32  i64  u8   u16  u32  u64  f16  bf16 f32  f64  c64  c128
u16     u16  i32  i32  i32  i64  u16  u16  u32  u64  f16  bf16 f32  f64  c64  c128
u32     u32  i64  i64  i64  i64  u32  u32  u32  u64  f16  bf16 f32  f64  c64  c128
u64     u64  f64  f64  f64  f64  u64  u64  u64  u64  f16  bf16 f32  f64  c64  c128
f16     f16  f16  f16  f16  f16  f16  f16  f16  f16  f16  f32  f32  f64  c64  c128
bf16    bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 f32  bf16 f32  f64  c64  c128
f32     f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f64  c64  c128
f64     f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  c128 c128
c64     c64  c64  c64  c64  c64  c64  c64  c64  c64  c64  c64  c64  c128 c64  c128
c128    c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128
int     i64  i8   i16  i32  i64  u8   u16  u32  u64  f16  bf16 f32  f64  c64  c128
float   f64  f64  f64  f64  f64  f64  f64  f64  f64  f16  bf16 f32  f64  c64  c128
complex c128 c128 c128 c128 c128 c128 c128 c128 c128 c64  c64  c64  c128 c64  c128
    """,
    WIDE_QUOTIENTS,
)

#: torch 2.13.0: `torch.promote_types`, and `torch.result_type` with a scalar
#: (`python tests/promotion/generate.py torch`). It would make a complex32 of
#: float16 and a complex number, a type that is not here. Its mean refuses integers.
TORCH = Table(
    "torch",
    """
        b    i8   i16  i32  i64  u8   u16  u32  u64  f16  bf16 f32  f64  c64  c128
b       b    i8   i16  i32  i64  u8   .    .    .    f16  bf16 f32  f64  c64  c128
i8      i8   i8   i16  i32  i64  i16  .    .    .    f16  bf16 f32  f64  c64  c128
i16     i16  i16  i16  i32  i64  i16  .    .    .    f16  bf16 f32  f64  c64  c128
i32     i32  i32  i32  i32  i64  i32  .    .    .    f16  bf16 f32  f64  c64  c128
i64     i64  i64  i64  i64  i64  i64  .    .    .    f16  bf16 f32  f64  c64  c128
u8      u8   i16  i16  i32  i64  u8   .    .    .    f16  bf16 f32  f64  c64  c128
u16     .    .    .    .    .    .    u16  .    .    f16  bf16 f32  f64  .    .
u32     .    .    .    .    .    .    .    u32  .    f16  bf16 f32  f64  .    .
u64     .    .    .    .    .    .    .    .    u64  f16  bf16 f32  f64  .    .
f16     f16  f16  f16  f16  f16  f16  f16  f16  f16  f16  f32  f32  f64  c64  c128
bf16    bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 f32  bf16 f32  f64  c64  c128
f32     f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f64  c64  c128
f64     f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  c128 c128
c64     c64  c64  c64  c64  c64  c64  .    .    .    c64  c64  c64  c128 c64  c128
c128    c128 c128 c128 c128 c128 c128 .    .    .    c128 c128 c128 c128 c128 c128
int     i64  i8   i16  i32  i64  u8   u16  u32  u64  f16  bf16 f32  f64  c64  c128
float   f32  f32  f32  f32  f32  f32  f32  f32  f32  f16  bf16 f32  f64  c64  c128
complex c64  c64  c64  c64  c64  c64  c64  c64  c64  .    c64  c64  c128 c64  c128
    """,
    FLOAT32_QUOTIENTS,
    averages=False,
)


# A rule and not a table, so that your own element types work with it as well.
_WIDE_KINDS = {"bool", "signed integer", "unsigned integer", "real floating"}


class Widths(RuleSet):
    """PyPTO's rule: prefer a float, then more bits, then a sign, then the first type.

    With a Python int, a tensor keeps its type; with a Python float, integers become
    float32. Complex numbers and other kinds are undefined.
    """

    # PyPTO keeps the first of two floats of one width, so order counts only there
    # (decision 0008).
    def join(self, types: tuple[DType, ...]) -> DType | None:
        if not {dtype.kind for dtype in types} <= _WIDE_KINDS:
            return None
        return reduce(wider, types)

    def weak(self, tensor: DType, scalar: str) -> DType | None:
        if scalar == "bool":
            return tensor
        if scalar == "complex" or tensor.kind not in _WIDE_KINDS:
            return None
        is_kept = scalar == "int" or tensor.is_floating
        return tensor if is_kept else dtypes.float32


def wider(a: DType, b: DType) -> DType:
    """Return the preferred one of two types, see `Widths`; a bool counts as 1 bit.

    Source: PyPTO, `PromoteDataTypes` in `src/ir/op/type_inference.cpp`.
    """
    if a.is_floating != b.is_floating:
        return a if a.is_floating else b
    first, second = (1 if t.kind == "bool" else t.bits for t in (a, b))
    if first != second:
        return a if first > second else b
    is_second = b.kind == "signed integer" and a.kind != "signed integer"
    return b if is_second else a


#: PyPTO names float64 but gives it no constant and 0 bits; here it has its 64.
PYPTO = Widths("pypto")
