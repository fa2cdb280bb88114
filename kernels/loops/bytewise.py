"""Products of lines of 8-bit codes, of which devices multiply four at a time."""

from __future__ import annotations

from dataclasses import dataclass

from mdtensor.kernels.loops.ir import Value


@dataclass(frozen=True, slots=True)
class Bytes:
    """A product of two codes: (input `left` - number `zero`) · input `right`.

    Args:
        left: the number of the first input, int8 or uint8.
        right: the number of the second input, int8.
        zero: the number of the input that is a zero point; None for 0.
        is_signed: whether the first input is int8.
    """

    left: int
    right: int
    zero: int | None
    is_signed: bool


def bytes_of(parts: tuple[Value, ...]) -> Bytes | None:
    """Return the product of two codes that the factors of a dot are; None if not.

    The first factor may be minus one zero point; the second is signed, without one.
    """
    if len(parts) != 2:
        return None
    left, right = parts
    zero = None
    if left.name == "sub" and left.arguments[1].name == "scalar":
        left, zero = left.arguments[0], left.arguments[1].detail
    if left.type != "int32" or any(x.name != "cast" for x in (left, right)):
        return None
    loads = left.arguments[0], right.arguments[0]
    kinds = [x.type for x in loads]
    if kinds[0] not in ("int8", "uint8") or kinds[1] != "int8":
        return None
    if any(x.name != "load" for x in loads):
        return None
    return Bytes(loads[0].detail, loads[1].detail, zero, kinds[0] == "int8")
