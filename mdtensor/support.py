"""Which element types every operation takes, on every device: asked, not listed.

A cell of the table is one call with tensors of one element type on one device. A method
is selected for it and its result deduced, on tensors without elements: nothing is
computed, and the device need not be there. What a stranger registers is asked too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from mdtensor.device import Device, device as find_device, devices
from mdtensor.dispatch.method import Method, Selection
from mdtensor.dispatch.operation import Generic, Operation, operations
from mdtensor.dispatch.suggestions import closest
from mdtensor.dtypes import DType
from mdtensor.errors import (
    AmbiguousDispatchError,
    DispatchError,
    MdtensorError,
    OptionError,
    shown,
)
from mdtensor.probe import Form, find_form, probe
from mdtensor.registry import devices_of
from mdtensor.tensor import Tensor, leaves

#: What a cell may be.
STATES = ("runs", "rounds", "missing", "refused", "ambiguous", "unknown")


@dataclass(frozen=True)
class Support:
    """Whether an operation takes an element type on a device.

    Args:
        name: qualified, as in `operations`.
        dtype: the element type.
        device: where the tensors are.
        state: `runs`; `rounds`, it runs where `out=` names the grid of the result;
            `missing`, it would run, but the device is not there or has no method yet;
            `refused`, the operation has no meaning for the type, or none that is
            exact; `ambiguous`, several methods fit equally well; `unknown`, nothing is
            known of an option that it needs.
        why: empty where it runs; else the error of the call, or what is missing.
    """

    name: str
    dtype: DType
    device: Device
    state: str
    why: str = ""

    @property
    def runs(self) -> bool:
        return self.state in ("runs", "rounds")

    @property
    def family(self) -> str:
        """`arithmetic` of `mdtensor.generics.arithmetic.add`."""
        above = [part for part in self.name.split(".")[:-1] if part != "generics"]
        return above[-1] if above else ""

    @property
    def operation(self) -> str:
        """`add` of `mdtensor.generics.arithmetic.add`."""
        return self.name.rpartition(".")[2]


def support(
    operation: str = "*", /, *, device: Device | str | None = None
) -> tuple[Support, ...]:
    """The table of operations, element types and devices, a cell each.

    Quantized types take part once `mdtensor.quant` is imported, and so do types and
    operations of strangers once their package is.

    Args:
        operation: pattern of names, such as `add`, `arithmetic.*` or `log*`.
        device: one device, or the name of one; all by default.

    Raises:
        OptionError: no operation is called like that.
        DeviceError: there is no such device.

    Example:
        >>> import mdtensor as md
        >>> [str(c.dtype) for c in md.support("sin", device="cpu") if c.state == "runs"]
        ... # doctest: +ELLIPSIS
        ['float16', 'bfloat16', 'float32', 'float64', 'complex64', 'complex128'...]
    """
    if not isinstance(operation, str):
        problem = f"a pattern is text, not a {type(operation).__name__}"
        raise OptionError(problem, 'Use "add" or "log*"')
    chosen = [
        (name, call) for name, call in operations().items() if _fits(name, operation)
    ]
    if not chosen:
        near = closest(operation, {name.rpartition(".")[2] for name in operations()})
        verb = "are" if len(near) > 1 else "is"
        fix = f"Closest {verb} {', '.join(near)}" if near else "See md.operations()"
        raise OptionError(f"no operation is called like {shown(operation)}", fix)
    places = devices() if device is None else (find_device(device),)
    return tuple(cell for name, call in chosen for cell in _cells(name, call, places))


def _fits(name: str, pattern: str) -> bool:
    """Whether the name, or what stands behind one of its dots, is as asked for."""
    parts = name.split(".")
    ends = (".".join(parts[at:]) for at in range(len(parts)))
    return any(fnmatchcase(end, pattern) for end in ends)


def _cells(name: str, call: Generic, places: tuple[Device, ...]) -> Iterator[Support]:
    operation = call.operation
    form = find_form(operation)
    for kind in leaves():
        if kind.device in places:
            state, why, _ = ask(operation, kind, form)
            yield Support(name, kind.dtype, kind.device, state, why)


# A cell is a call on specs, because a list of types per operation would go stale
# (decision 0016).
def ask(
    operation: Operation, kind: type[Tensor], form: Form | None
) -> tuple[str, str, Method | None]:
    """What a call with tensors of the leaf `kind` comes to.

    Args:
        operation: which.
        kind: the type of the tensors.
        form: of the call, as `find_form` gives it.

    Returns:
        The state and why, as of `Support`; the method that runs, or would where the
        device is missing.
    """
    if form is None:
        return "unknown", "no call was found that some element type takes", None
    try:
        state, selection = _asked(operation, kind, form)
    except AmbiguousDispatchError as error:
        return "ambiguous", str(error), None
    except MdtensorError as error:
        return "refused", str(error), None
    missing = _missing(selection, kind.device)
    state = "missing" if missing else state
    return state, missing, selection.method


def _asked(
    operation: Operation, kind: type[Tensor], form: Form
) -> tuple[str, Selection]:
    """How it runs, and what; `out` is given only where the call wants it."""
    try:
        return "runs", probe(operation, kind, form)
    except DispatchError:
        raise
    except MdtensorError:
        if "out" not in operation.options or kind.spec(()).qparams is None:
            raise
        rounded = replace(form, given=(*form.given, "out"))
        return "rounds", probe(operation, kind, rounded)


def _missing(selection: Selection, device: Device) -> str:
    """What keeps the method from running on `device`; empty if nothing does."""
    if device.missing:
        return f"{device}: {device.missing}"
    if device in devices_of(selection.method):
        return ""
    return f"no method for {device} yet"
