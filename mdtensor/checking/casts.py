"""Values that a cast changed: an explicit one, or the promotion of an operand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mdtensor.checking.audits import Case, audit
from mdtensor.checking.integers import on_host
from mdtensor.checking.log import Lost
from mdtensor.generics.arithmetic import (
    add,
    div,
    maximum,
    minimum,
    mul,
    pow,
    remainder,
    sub,
)
from mdtensor.generics.conv import conv2d
from mdtensor.generics.conversion import astype
from mdtensor.generics.exponential import logaddexp
from mdtensor.generics.floating import copysign, nextafter
from mdtensor.generics.manipulation import concat, stack
from mdtensor.generics.math import atan2, hypot
from mdtensor.generics.matmul import cross, linear, matmul, outer, tensordot, vecdot
from mdtensor.generics.reduction import mean, prod, sum
from mdtensor.generics.scan import cumulative_prod, cumulative_sum
from mdtensor.generics.searching import where
from mdtensor.kernels.numpy import conversion, overflow
from mdtensor.tensor import Tensor
from mdtensor.types import LogicalTensor, NumericTensor

#: What becomes of a value outside of the range.
OUTSIDE = {"wrap": "wrapped", "saturate": "saturated"}


def _changed(x: Any, found: Any) -> tuple[int, int]:
    """How many of x its cast `found` does not equal, and how many it does not hold."""
    storage = found.dtype
    if x.dtype.kind == "c" and storage.kind != "c":
        x = x.real
    if _is_comparable(x.dtype, storage):
        if not overflow.differ(x, found):
            return 0, 0
        x = x[x != found]
    inexact = np.broadcast_to(conversion.inexact(x, storage), x.shape)
    outside = np.broadcast_to(conversion.outside(x, storage), x.shape)
    return int(np.count_nonzero(inexact)), int(np.count_nonzero(outside))


def _is_comparable(first: Any, second: Any) -> bool:
    """Whether NumPy compares numbers of the two types as they are."""
    if first.kind in "bui" and second.kind in "bui":
        return True
    if first.isbuiltin != 1 or second.isbuiltin != 1:
        return False
    joint = np.result_type(first, second)
    return all(conversion.is_exact(dtype, joint) for dtype in (first, second))


@audit(astype, result=NumericTensor)
@audit(astype, result=LogicalTensor)
@on_host
def casts(case: Case) -> Iterator[Lost]:
    x = case.arguments[0]
    inexact, outside = _changed(x.buffer, case.result.buffer)
    yield Lost(OUTSIDE.get(case.options["casting"], "rounded"), outside)
    yield Lost("rounded", inexact - outside)


PROMOTING = (
    *(add, sub, mul, div, pow, minimum, maximum, remainder, atan2, hypot, copysign),
    *(logaddexp, nextafter, where, concat, stack, outer, cross, matmul, vecdot),
    *(tensordot, linear, conv2d, sum, prod, mean, cumulative_sum, cumulative_prod),
)


@audit(*PROMOTING, result=NumericTensor)
@on_host
def promotions(case: Case) -> Iterator[Lost]:
    storage = case.result.dtype.storage
    if case.result.dtype.is_integer:  # which holds its operands, or they wrap
        return
    for x in case.arguments:
        if isinstance(x, Tensor) and x.dtype.storage != storage:
            found = conversion.nearest(x.buffer, storage)
            yield Lost("rounded", _changed(x.buffer, found)[0])
