"""Generation of stubs for type checkers from the registry: `mdtensor stubs`.

An operation has one declaration and methods for kinds, so its annotations cannot state
that int8 and float16 give float16. Therefore the generator runs selection and inference
for every tuple of tensor types and writes the results as overloads. It includes the
operations that other packages register.
"""

from __future__ import annotations

from mdtensor.stubs.package import (
    Package as Package,
    outdated as outdated,
    places as places,
)
