"""The host tensors that a function reads while it is traced.

A result that is computed from host tensors alone is a constant of the trace, so the
trace must hear of writes into those tensors, as into the ones that its calls hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from weakref import ref

import numpy as np

from mdtensor.dispatch.introspect import watching
from mdtensor.graph.calls import visit
from mdtensor.graph.writes import owner_of
from mdtensor.tensor import Tensor

#: Weak references to arrays, by the `id` of the array.
Reads = dict[int, "ref[Any]"]
#: What the innermost `reads` block has found; None outside.
_FOUND: ContextVar[Reads | None] = ContextVar("reads", default=None)


@contextmanager
def reads() -> Iterator[Reads]:
    """Find the memory of the host tensors that calls in a `with` block read."""
    found: Reads = {}
    with watching(_noting):
        token = _FOUND.set(found)
        try:
            yield found
        finally:
            _FOUND.reset(token)
    # A trace inside of a trace: both depend on what it reads.
    note_all(found)


def note(value: Any) -> None:
    """Add the memory of the host tensors in nested arguments to the `reads` block."""
    found = _FOUND.get()
    if found is None:
        return

    def add(x: Tensor) -> None:
        owner = owner_of(x.buffer)
        if isinstance(owner, np.ndarray):
            # Most are results of a moment.
            found[id(owner)] = ref(owner)

    visit(value, Tensor, add)


def note_all(more: Reads) -> None:
    """Add what another `reads` block found."""
    found = _FOUND.get()
    if found is not None:
        found.update(more)


def _noting(_: object, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any, **options: Any) -> Any:
        note((arguments, options))
        return function(*arguments, **options)

    call.__wrapped__ = function  # type: ignore[attr-defined]
    return call
