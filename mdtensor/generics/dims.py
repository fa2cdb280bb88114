"""Sizes that are known only when an operation runs, with a name or without.

    a     b     broadcast                 made equal
    M     M     M                         M
    M     -1    -1: it may be 1           M
    M     1     M                         1
    M     4     4: M is 1 or 4            4
    M     N     -1: one may be 1          M

What only the run can tell, the run checks: sizes that differ there raise ShapeError.

Source: PyPTO, `kDynamicDim` and `pl.dynamic`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mdtensor.errors import OptionError, ShapeError

Shape = tuple[int, ...]
#: A size that is not known.
DYNAMIC = -1


class Dim(int):
    """A size that is not known but has a name: the same name is the same size.

    To what does not care for names it is `DYNAMIC`, -1. It is equal to -1, and to
    another of its name only.

    Args:
        name: any text.

    Raises:
        OptionError: no text, or none in it.

    Example:
        >>> import mdtensor as md
        >>> x = md.TensorSpec(md.Float32Tensor, (md.Dim("M"), 8))
        >>> w = md.TensorSpec(md.Float32Tensor, (8, md.Dim("N")))
        >>> md.infer(md.matmul, x, w)
        TensorSpec(Float32Tensor[M,N])

    Source: PyPTO, `pl.dynamic("M")`.
    """

    name: str

    def __new__(cls, name: str) -> Dim:
        if not isinstance(name, str) or not name:
            raise OptionError(f"the name of a dimension is {name!r}", "Use a text")
        new = super().__new__(cls, DYNAMIC)
        new.name = name
        return new

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Dim):
            return self.name == other.name
        return int(self) == other

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = int.__hash__  # equal to -1, so it hashes as -1

    def __repr__(self) -> str:
        return self.name

    __str__ = __repr__

    def __reduce__(self) -> tuple[Any, ...]:
        return Dim, (self.name,)


def joined(sizes: Iterable[int]) -> int:
    """The one size of several that are equal: known, else named, else -1.

    Raises:
        ShapeError: two known sizes differ.

    Example:
        >>> joined([-1, Dim("M")]), joined([4, -1, Dim("M")])
        (M, 4)
    """
    found = DYNAMIC
    for size in sizes:
        if size != DYNAMIC:
            if found not in (DYNAMIC, size):
                raise ShapeError(f"sizes differ, {found} and {size}")
            found = size
        elif found == DYNAMIC and not isinstance(found, Dim):
            found = size
    return found


def bind_dims(specs: Iterable[Any], tensors: Iterable[Any]) -> dict[str, int]:
    """The sizes that tensors give to the named dimensions of their specs.

    Args:
        specs: what was expected, each with a shape of sizes, -1 and `Dim`.
        tensors: what came, one for each.

    Returns:
        A size for each name.

    Raises:
        ShapeError: other ranks, another size than a known one, or two sizes of one
            name.

    Example:
        >>> import mdtensor as md
        >>> rows = md.TensorSpec(md.Float32Tensor, (md.Dim("M"), 8))
        >>> md.bind_dims([rows, rows], [md.zeros((4, 8)), md.zeros((4, 8))])
        {'M': 4}
        >>> md.bind_dims([rows, rows], [md.zeros((4, 8)), md.zeros((3, 8))])
        Traceback (most recent call last):
        mdtensor.errors.ShapeError: M is 4 and 3. The same name is the same size.
    """
    found: dict[str, int] = {}
    for spec, tensor in zip(specs, tensors, strict=True):
        wanted, given = spec.shape, tensor.shape
        if len(wanted) != len(given):
            raise ShapeError(f"shape {given} is not of the form {wanted}")
        for size, actual in zip(wanted, given, strict=True):
            if isinstance(size, Dim):
                if found.setdefault(size.name, actual) != actual:
                    raise ShapeError(
                        f"{size} is {found[size.name]} and {actual}",
                        "The same name is the same size",
                    )
            elif size not in (actual, DYNAMIC):
                raise ShapeError(f"shape {given} is not of the form {wanted}")
    return found
