"""Stubs for type checkers, written from the registry: `mdtensor stubs`.

An operation is declared once and has methods for kinds, so its annotations cannot say
that int8 and float16 give float16. Selection and deduction can: they are asked for
every tuple of tensor types, and the answers become overloads. What others register is
asked as well.
"""

from __future__ import annotations

from mdtensor.stubs.package import (
    Package as Package,
    outdated as outdated,
    places as places,
)
