"""The methods that operations have on a device: ask, add, replace, remove.

They are those of `@method`, seen by device. A method runs on the devices whose tensor
types its signature names; one that is written for kinds of tensors, on the host; one
that is marked `anywhere`, or takes no tensors, on every device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Union

from mdtensor.device import (
    _REGISTRY,
    Device,
    cpu,
    device as find_device,
    devices,
)
from mdtensor.dispatch.catalog import get_op
from mdtensor.dispatch.checks import check_callable
from mdtensor.dispatch.method import Method, as_function
from mdtensor.dispatch.operation import _OPERATIONS, Operation, method, operations
from mdtensor.errors import DispatchError, OptionError, RegistrationError, shown
from mdtensor.tensor import _LEAVES, Tensor, leaves

#: What registering fills, besides the methods of operations.
_REGISTRIES: tuple[dict[Any, Any], ...] = (_REGISTRY, _LEAVES, _OPERATIONS)


def get(operation: Any, device: Device | str) -> tuple[Method, ...]:
    """The methods of `operation` on `device`; looking makes nothing.

    Args:
        operation: itself, or its name, as `get_op` finds it.
        device: itself, or its name.

    Raises:
        DispatchError: there is none.

    Example:
        >>> import mdtensor as md
        >>> [str(method) for method in get("glu", "cpu")]
        ['glu(FloatingTensor)']
        >>> get(md.erf, "cuda")
        Traceback (most recent call last):
        mdtensor.errors.DispatchError: erf: no method on cuda:0. It has methods on cpu.

    Source: ACTx, `OpRegistry::get`.
    """
    found, place = _function(operation).operation, find_device(device)
    methods = _on(found, place)
    if not methods:
        homes = ", ".join(str(home) for home in devices() if _on(found, home))
        fix = f"It has methods on {homes}" if homes else "It has no methods"
        raise DispatchError(f"no method on {place}", fix, found.name)
    return methods


def devices_of(method: Method) -> tuple[Device, ...]:
    """Where a method runs, by the rule above.

    Example:
        >>> import mdtensor as md
        >>> devices_of(md.which(md.erf, md.Float32Tensor).method)
        (cpu,)
    """
    hints = [*method.signature.types, *_varargs(method)]
    classes = [c for hint in hints for c in getattr(hint, "__args__", (hint,))]
    tensors = [c for c in classes if isinstance(c, type) and issubclass(c, Tensor)]
    if method.anywhere or not tensors:
        return devices()
    homes = {kind.device if hasattr(kind, "dtype") else cpu for kind in tensors}
    return tuple(place for place in devices() if place in homes)


def entries() -> dict[tuple[str, str], tuple[Method, ...]]:
    """All there is, by the name of the operation and that of the device.

    Operations are called by their full names, as in `operations`.

    Example:
        >>> found = entries()
        >>> ("mdtensor.generics.arithmetic.add", "cpu") in found
        True
        >>> ("mdtensor.generics.arithmetic.add", "cuda:0") in found
        False
    """
    return {
        (name, place.name): methods
        for name, call in sorted(operations().items())
        for place in devices()
        if (methods := _on(call.operation, place))
    }


# Device types replace kinds one by one, because a union of them would be ambiguous with
# the kind (decision 0015).
def add(
    operation: Any,
    device: Device | str,
    function: Callable[..., Any],
    /,
    *,
    types: tuple[Any, ...] | None = None,
    override: bool = False,
) -> tuple[Method, ...]:
    """Have `operation` call `function` for the tensors of `device`.

    Args:
        operation: itself, or its name.
        device: itself, or its name.
        function: any callable; takes the arguments by position, and the options by
            keyword.
        types: of the arguments; otherwise what the methods of other devices take, with
            the tensor types of this one.
        override: take the place of the methods there are; otherwise none may be there.

    Returns:
        The new methods, as `get` gives them from then on.

    Raises:
        RegistrationError: there is a method on that device already, no tensor type, or
            `function` does not take what the operation declares.

    Example:
        >>> import mdtensor as md
        >>> with restored():
        ...     _ = add(md.relu, "cpu", lambda x: x, override=True)
        ...     md.relu(md.asarray([-1.0])).tolist()
        [-1.0]
        >>> md.relu(md.asarray([-1.0])).tolist()
        [0.0]

    Source: ACTx, `OpRegistry::register_op`.
    """
    call, place = _function(operation), find_device(device)
    found: Operation = call.operation
    check_callable(found, function)
    known = [m for m in _on(found, place) if not m.anywhere]
    if known and not override:
        raise RegistrationError(
            f"{found.name} on {place} is registered already by {known[0].location}",
            "Pass override=True to replace it",
        )
    before = found.methods
    try:
        _replace(found, known, function, place, types)
    except RegistrationError:
        found.set_methods(before)
        raise
    return get(operation, place)


def _replace(
    found: Operation, known: list[Method], function: Any, place: Device, types: Any
) -> None:
    """Have `function` in place of the methods `known`, or for `types`, if given."""
    if known and types is None:
        for old in known:
            run = as_function(function, found.name)
            new = Method(run, old.signature, old.deduce, None, None, found.name)
            found.add_method(new, override=True)
        return
    for old in known:
        found.remove_method(old)
    for row in _signatures(found, place) if types is None else [types]:
        method(found.function, types=row)(function)


def remove(operation: Any, device: Device | str, *, override: bool = False) -> None:
    """Take away the methods of `operation` on `device`; calls then have none there.

    Those that run on every device stay, and those of mdtensor itself do.

    Args:
        operation: itself, or its name.
        device: itself, or its name.
        override: take away those of mdtensor as well.

    Raises:
        DispatchError: there is none.
        RegistrationError: there are none but those of mdtensor.

    Example:
        >>> import mdtensor as md
        >>> remove("glu", "cpu")
        Traceback (most recent call last):
        mdtensor.errors.RegistrationError: glu on cpu is mdtensor's own: ... Pass ...
        >>> with restored():
        ...     remove("glu", "cpu", override=True)
        ...     md.glu(md.asarray([-1.0]))
        Traceback (most recent call last):
        mdtensor.errors.NoMethodError: glu(Float32Tensor): no method. Nothing is ...

    Source: ACTx, `OpRegistry`.
    """
    found = _function(operation).operation
    known = [m for m in get(operation, device) if not m.anywhere]
    theirs = [m for m in known if override or not _is_ours(m)]
    if known and not theirs:
        raise RegistrationError(
            f"{found.name} on {find_device(device)} is mdtensor's own: "
            f"{known[0].location}",
            "Pass override=True to take it away, or to add() to replace it",
        )
    for one in theirs:
        found.remove_method(one)


def _is_ours(method: Method) -> bool:
    return method.location.startswith(f"{__package__}/")


@contextmanager
def restored() -> Iterator[None]:
    """Undo at the end what a `with` block registers or removes, for tests.

    Methods, operations, devices and tensor types are as they were before; element
    types stay.

    Example:
        >>> import mdtensor as md
        >>> with restored():
        ...     remove("glu", "cpu", override=True)
        >>> len(get("glu", "cpu"))
        1
    """
    registered = [dict(registry) for registry in _REGISTRIES]
    methods = {f.operation: f.operation.methods for f in operations().values()}
    try:
        yield
    finally:
        for registry, known in zip(_REGISTRIES, registered, strict=True):
            registry.clear()
            registry.update(known)
        for operation, before in methods.items():
            if operation.methods != before:
                operation.set_methods(before)


def _function(given: Any) -> Any:
    found = get_op(given) if isinstance(given, str) else given
    if not hasattr(found, "operation"):
        raise OptionError(f"{shown(found)} is not an operation", "See md.operations()")
    return found.operation.function


def _on(operation: Operation, place: Device) -> tuple[Method, ...]:
    return tuple(m for m in operation.methods if place in devices_of(m))


def _varargs(method: Method) -> tuple[Any, ...]:
    return (method.signature.varargs,) if method.signature.has_varargs else ()


def _signatures(operation: Operation, place: Device) -> list[tuple[Any, ...]]:
    """What the methods take, with the tensor types of `place` instead of kinds.

    Each has a tensor of the device in it. Where there are numbers besides, or no
    tensors before it, that takes one signature for each place the first can have.
    """
    here = tuple(kind for kind in leaves() if kind.device is place)
    if not here:
        raise RegistrationError(
            f"{place} has no tensor types",
            "Declare class Mine(FloatingTensor, dtype=float32, device=mine)",
        )
    count = len(operation.dispatched)
    found: dict[tuple[Any, ...], None] = {}
    for known in operation.methods:
        columns = [_split(h, here) for h in known.signature.expand_varargs(count)]
        for at in range(count):
            before = [others for _, others in columns[:at]]
            after = [(*tensors, *others) for tensors, others in columns[at + 1 :]]
            row = [*before, columns[at][0], *after]
            if all(row):
                found[tuple(Union[column] for column in row)] = None
    return list(found) or [(Union[here],) * count]


def _split(hint: Any, here: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Those of the types `here` that fit a hint, and what is no tensor in it."""
    members = getattr(hint, "__args__", (hint,))
    fit = (kind for kind in here if any(issubclass(kind, m) for m in members))
    return tuple(fit), tuple(m for m in members if not issubclass(m, Tensor))
