"""The same kernels under mdtensor: a call, a selected handle, a dispatch table."""

from typing import Any

import mdtensor as md
from bench.rivals import KERNELS, NAMES, Way
from mdtensor import tables
from mdtensor.dispatch import generic, method

CALL, HANDLE = "mdtensor", "handle, selected once"
BARE = "direct call of the kernel"
TABLE, TABLE_HANDLE = "dispatch table, select and call", "handle of a dispatch table"


def typed(name: str) -> Any:
    """A tensor of one element."""
    return md.ones(1, dtype=getattr(md, name))


def operation() -> Any:
    """An operation with a method for each element type, both operands alike."""

    @generic
    def poke(x1, x2, /, *, out=None):
        """The name of the kernel; only the way there is of interest."""

    for name in NAMES:
        method(poke)(_alike(type(typed(name)), name))
    return poke


def _alike(kind: Any, name: str) -> Any:
    def poke(x1: kind, x2: kind, /):
        return name

    return poke


def table() -> tables.DispatchTable:
    """The same kernels at the points of one axis, which the first operand chooses."""

    @generic
    def poke(tag, x1, x2, /):
        """The name of the kernel."""

    axis = tables.Axis(*(tables.element_type(typed(name)) for name in NAMES))
    for point, name in zip(axis, NAMES, strict=True):
        method(poke)(_tagged(tables.Tag[point], name))
    return tables.DispatchTable(tables.Axes(axis), tables.Axes(axis), poke)


def _tagged(point: Any, name: str) -> Any:
    def poke(tag: point, x1: md.Tensor, x2: md.Tensor, /):
        return name

    return poke


def ways() -> list[Way]:
    call, points = operation(), table()
    first = typed(NAMES[0])
    select = call.select(type(first), type(first)).function
    at = points.select(first.dtype)
    return [
        Way(CALL, call, typed),
        Way(TABLE, points.select, typed, "call(a.dtype)(a, b)", refusal=None),
        Way(HANDLE, select, typed, refusal=None, knows=NAMES[:1]),
        Way(TABLE_HANDLE, at, typed, refusal=None, knows=NAMES[:1]),
        Way(BARE, KERNELS[NAMES[0]], typed, refusal=None, knows=NAMES[:1]),
    ]
