"""Rule sets that are tables: a cell for each ordered pair of types."""

from __future__ import annotations

from mdtensor import dtypes
from mdtensor.dtypes import DType
from mdtensor.promotion.ruleset import RuleSet

#: The names of types in tables.
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

#: From the lowest to the highest; within a kind, more bits are higher.
_KINDS = (
    "bool",
    "unsigned integer",
    "signed integer",
    "real floating",
    "complex floating",
)

Cells = dict[tuple[str, str], str]


class Table(RuleSet):
    """A rule set whose common types of two are looked up.

    More than two are looked up one after the other, the highest first, whatever their
    order: so a float settles what integers alone do not. float16 and bfloat16, neither
    of which is higher, stay in the order given.

    Args:
        name: of the rule set.
        matrix: a header of types; then for each type, and for each kind of Python
            scalar but bool, its name and what it becomes with each type of the
            header. A dot is undefined. A bool takes the type of any tensor.
    """

    def __init__(self, name: str, matrix: str) -> None:
        super().__init__(name)
        self.cells = cells(matrix)

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
    """The defined cells of a matrix, by row and column.

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
