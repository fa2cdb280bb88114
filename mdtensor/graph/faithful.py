"""Compiled steps that have the bytes of the calls that they stand for.

Steps that read or write codes have them, and so have convolutions, pools and
elementwise instructions of float32, and steps that only move elements. Products of
matrices do not: a call adds in the order of BLAS.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from mdtensor.dtypes import float32
from mdtensor.errors import OptionError
from mdtensor.graph.graph import Node
from mdtensor.graph.links import INEXACT, SAME
from mdtensor.kernels.cpu.conv_calls import is_for_threads
from mdtensor.kernels.cpu.program import floats
from mdtensor.kernels.cpu.program.elementwise import Elementwise
from mdtensor.kernels.cpu.program.steps import U8, Concat, Move, Take
from mdtensor.kernels.numpy.threads import LARGE
from mdtensor.spec.spec import TensorSpec

#: Steps of windows; a linear layer is a convolution, but its call runs on BLAS.
_WINDOWS = (floats.Conv2d, floats.MaxPool, floats.AvgPool)
_MOVES = (Concat, Move, Take)


# A part with another step would change bytes (decision 0110).
def require_bytes(node: Node, specs: Sequence[TensorSpec], step: Any) -> None:
    """Raise unless a step has the bytes of the call of a node, on as many threads.

    Args: specs: of the inputs that are not constants, then of the result.

    Raises:
        OptionError: it has not.
    """
    if has_codes(step):
        return
    if any(spec.type.dtype is not float32 for spec in specs):
        raise OptionError("a step of floats stands for a call of float32")
    if type(step) is Elementwise:
        is_same = all(one.operation in SAME for one in step.instructions)
        is_same = is_same and node.operation not in INEXACT
    else:
        is_same = type(step) in (*_WINDOWS, *_MOVES)
    if not is_same:
        raise OptionError("a step of floats may round otherwise than its call")
    if _is_on_threads(step, specs):
        raise OptionError("a call shares its work among threads")


def require_codes(node: Node, specs: Sequence[TensorSpec], step: Any) -> None:
    """Raise unless a step reads or writes codes, as `require_bytes` does."""
    if not has_codes(step):
        raise OptionError("a call or a loop computes floats without a convolution")


def _is_on_threads(step: Any, specs: Sequence[TensorSpec]) -> bool:
    """Return whether all free threads take part in the call of a step."""
    if type(step) is floats.Conv2d:
        n, c, *size = specs[0].shape
        return bool(is_for_threads(n, step.macs((n, *size, c))))
    return prod(specs[-1].shape) >= LARGE


def has_codes(step: Any) -> bool:
    """Return whether a step reads or writes codes."""
    types = (*getattr(step, "input_types", ()), getattr(step, "output_type", None))
    return U8 in types


def saves_packing(step: Any) -> bool:
    """Return whether a call packs weights each time, and a step does not."""
    return type(step) is floats.Conv2d
