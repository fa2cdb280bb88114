"""Units: products of powers of names."""

from __future__ import annotations

from collections import Counter

import mdtensor as md


class UnitError(md.MdtensorError, TypeError):
    """The units of the operands do not fit together."""


class Unit:
    """A product of powers: `Unit(m=1, s=-2)` is m·s⁻².

    Example:
        >>> Unit(m=1) / Unit(s=1) ** 2
        m·s^-2
    """

    __slots__ = ("powers",)

    def __init__(self, **powers: int) -> None:
        self.powers = {name: powers[name] for name in sorted(powers) if powers[name]}

    def __mul__(self, other: Unit) -> Unit:
        total = Counter(self.powers)
        total.update(other.powers)
        return Unit(**total)

    def __truediv__(self, other: Unit) -> Unit:
        return self * other**-1

    def __pow__(self, n: int) -> Unit:
        return Unit(**{name: power * n for name, power in self.powers.items()})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unit) and self.powers == other.powers

    def __hash__(self) -> int:
        return hash(frozenset(self.powers.items()))

    def __repr__(self) -> str:
        parts = (name if n == 1 else f"{name}^{n}" for name, n in self.powers.items())
        return "·".join(parts) or "1"


def common(x1: object, x2: object) -> Unit:
    """Return the unit of both operands; a tensor or number has the unit 1.

    Raises:
        UnitError: the units differ.
    """
    one, other = unit_of(x1), unit_of(x2)
    if one != other:
        raise UnitError(f"units are {one} and {other}", "Convert one of them")
    return one


def product(x1: object, x2: object) -> Unit:
    """Return the unit of x1 · x2."""
    return unit_of(x1) * unit_of(x2)


def quotient(x1: object, x2: object) -> Unit:
    """Return the unit of x1 / x2."""
    return unit_of(x1) / unit_of(x2)


def unit_of(x: object) -> Unit:
    """Return the unit of a quantity, or 1 for anything else."""
    unit = getattr(x, "unit", None)
    return unit if isinstance(unit, Unit) else Unit()
