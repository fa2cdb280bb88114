"""Quantized weights in a product of floats: what its text knows of them."""

from __future__ import annotations

from dataclasses import dataclass

from mdtensor.kernels.loops.ir import Loop, Value

#: The type of the number of a code.
NUMBER = "float32"


@dataclass(frozen=True, slots=True)
class Weights:
    """Rows of codes: float32(scale · (code - zero point)) is the number of a code.

    Each operand is a view of its first element in a row; others are behind it.

    Args:
        codes: the number of the input with the codes; two of 4 bits share a byte.
        scale: of the float32 scales, of blocks along a row.
        zero: of the int32 zero points of blocks; None for 0.
        size: of the int32 number of codes of a block, an input passed by value.
        bits: of a code, 4 or 8.
        is_signed: whether codes have a sign.
    """

    codes: int
    scale: int
    zero: int | None
    size: int
    bits: int
    is_signed: bool


def weight(weights: Weights) -> Value:
    """Return the number of the code at the place along the folded axis."""
    return Value("weight", NUMBER, (), weights)


def weights_of(loop: Loop) -> tuple[Value, Weights]:
    """Return the load and the weights that a loop multiplies.

    Raises:
        ValueError: it is not a product of one element and the number of a code.
    """
    if loop.fold == "dot" and loop.value.name == "mul" and loop.start is None:
        left, right = map(_uncast, loop.value.arguments)
        if (left.name, right.name) == ("load", "weight"):
            return left, right.detail
    raise ValueError(f"{loop.title} is not a product with quantized weights.")


def _uncast(value: Value) -> Value:
    return value.arguments[0] if value.name == "cast" else value
