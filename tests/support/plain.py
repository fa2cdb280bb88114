"""Kernels without compilation: they compute on NumPy's scalars, and those warn."""

import pytest

from mdtensor.kernels.cpu import isa

#: Marks tests whose kernels overflow or make NaN on purpose: machine code is silent
#: there. With compilation it ignores nothing.
overflows = pytest.mark.filterwarnings(
    "ignore:.*encountered in:RuntimeWarning" if isa.IS_JIT_DISABLED else "error"
)
