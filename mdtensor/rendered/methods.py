"""Methods of rendered devices, added for rows of types."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Union

from mdtensor.device import Device
from mdtensor.dispatch.operation import method
from mdtensor.rendered.launches import BOOLS, COMPLEX, FLOATS, INTEGERS, types_of
from mdtensor.rendered.replays import Replayed

Run = Callable[..., Any]


def add(operation: Any, types: tuple[Any, ...], run: Run, **given: Any) -> None:
    """Add a method for types; `given` are further arguments of `method`."""
    if isinstance(run, partial):
        # Of the module that wrote it, for checks.
        run.__module__ = run.func.__module__
    method(operation, types=types, **given)(Replayed(run))


# The host's methods are split in the same places, so none of ours is ambiguous
# (decision 0063).
def unary(device: Device, operation: Any, kinds: tuple[str, ...], run: Run) -> None:
    """Add methods for one tensor: one for integers, one for floats, and so on."""
    for group in (BOOLS, INTEGERS, FLOATS, COMPLEX):
        here = types_of(device, group)
        # A device may lack complex numbers.
        if here and set(group) <= set(kinds):
            add(operation, (Union[here],), run)


def binary(
    device: Device,
    operation: Any,
    kinds: tuple[str, ...],
    run: Run,
    numbers: tuple[type, ...] = (),
) -> None:
    """Add methods for two operands: tensors, or a tensor and a Python number."""
    here = types_of(device, kinds)
    if not here:
        return
    add(operation, (Union[here], Union[(*here, *numbers)]), run)
    if numbers:
        add(operation, (Union[numbers], Union[here]), run)
