"""Products of 8-bit codes: what devices multiply four, or 32, at a time."""

from __future__ import annotations

from dataclasses import dataclass

from mdtensor.kernels.loops.ir import Value

CODES = ("int8", "uint8")


@dataclass(frozen=True, slots=True)
class Factor:
    """A factor of a product: code - zero, of int32.

    Args:
        at: the number of the input with the codes.
        type: of the codes, int8 or uint8.
        zero: the zero point, a number or an element of an input; None for 0.
    """

    at: int
    type: str
    zero: Value | None


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


def factors_of(parts: tuple[Value, ...]) -> tuple[Factor, Factor] | None:
    """Return the factors of a dot of two inputs of 8-bit codes; None if it is not."""
    found = [_factor(part) for part in parts]
    if len(found) != 2 or found[0] is None or found[1] is None:
        return None
    return found[0], found[1]


def _factor(part: Value) -> Factor | None:
    zero = None
    if part.name == "sub" and part.arguments[1].name in ("scalar", "load"):
        part, zero = part.arguments
    if part.type != "int32" or part.name != "cast" or part.detail[0] != "wrap":
        return None
    (code,) = part.arguments
    is_code = code.name == "load" and code.type in CODES
    return Factor(code.detail, code.type, zero) if is_code else None


def bytes_of(parts: tuple[Value, ...]) -> Bytes | None:
    """Return the product of two codes that the factors of a dot are; None if not.

    The first factor may be minus one zero point; the second is signed, without one.
    """
    factors = factors_of(parts)
    if factors is None:
        return None
    left, right = factors
    if right.zero is not None or right.type != "int8":
        return None
    if left.zero is not None and left.zero.name != "scalar":
        return None
    zero = None if left.zero is None else left.zero.detail
    return Bytes(left.at, right.at, zero, left.type == "int8")
