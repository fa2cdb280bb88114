"""Polynomials by pieces, such as hardswish, with tables in plain integers.

Between two bounds such a function of a code is a polynomial with rational coefficients.
Over one denominator it has integer ones, so a table needs no arithmetic of fractions,
which took most of the time of a plan (decision 0064).
"""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, lcm


# Functions are keys of caches, and equal ones are one object: comparing fractions would
# take longer.
@dataclass(frozen=True, eq=False)
class Piecewise:
    """A continuous function that is a polynomial between bounds.

    Args:
        bounds: k numbers in ascending order.
        pieces: k + 1 tuples of coefficients, lowest power first: below the first bound,
            between each two, and from the last one on.

    Example:
        >>> relu = Piecewise((0,), ((0,), (0, 1)))
        >>> relu(Fraction(-1, 2)), relu(Fraction(1, 2))
        (Fraction(0, 1), Fraction(1, 2))
        >>> relu.steps([-1, 1, 2, 3], Fraction(1, 2), Fraction(1))
        [0, 0, 1, 2]
    """

    bounds: tuple[Fraction | int, ...]
    pieces: tuple[tuple[Fraction | int, ...], ...]

    def __call__(self, x: Fraction) -> Fraction:
        """Return the exact value at x."""
        piece = self.pieces[bisect_right(self.bounds, x)]
        return Fraction(sum(c * x**power for power, c in enumerate(piece)))

    def steps(
        self, numbers: Iterable[int], scale: Fraction, step: Fraction
    ) -> list[int]:
        """Return f(number * scale) / step, rounded half to even, for each number.

        Args:
            numbers: integers.
            scale, step: above 0.
        """
        firsts = [ceil(bound / scale) for bound in self.bounds]
        pieces = [_integers(piece, scale, step) for piece in self.pieces]
        return [_rounded(n, *pieces[bisect_right(firsts, n)]) for n in numbers]


def _integers(
    piece: tuple[Fraction | int, ...], scale: Fraction, step: Fraction
) -> tuple[int, tuple[int, ...]]:
    """Return a denominator, and the coefficients over it, highest power first."""
    exact = [Fraction(c) * scale**power / step for power, c in enumerate(piece)]
    whole = lcm(*(c.denominator for c in exact))
    return whole, tuple(c.numerator * (whole // c.denominator) for c in reversed(exact))


def _rounded(n: int, whole: int, coefficients: tuple[int, ...]) -> int:
    """Return the polynomial at n over `whole`, rounded half to even."""
    total = 0
    for c in coefficients:
        total = total * n + c
    found, rest = divmod(total, whole)
    is_up = 2 * rest > whole or (2 * rest == whole and found % 2 == 1)
    return found + is_up
