"""The methods of operations by device: list, add, replace and remove them.

These are the methods that `@method` adds. A method runs on the devices whose tensor
types its signature names. A method for kinds of tensors runs on the host. A method that
is marked `anywhere`, or that does not take tensors, runs on every device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NoReturn, Union

from mdtensor.device import (
    _REGISTRY,
    Device,
    cpu,
    device as find_device,
    devices,
)
from mdtensor.dispatch.catalog import get_op
from mdtensor.dispatch.checks import check_callable
from mdtensor.dispatch.method import Method, Selection, as_function
from mdtensor.dispatch.operation import _OPERATIONS, Operation, method, operations
from mdtensor.errors import (
    DeviceError,
    DispatchError,
    OptionError,
    RegistrationError,
    describe,
    no_method_on,
    shown,
)
from mdtensor.tensor import _LEAVES, Tensor, leaves

#: The tables that registration fills, besides the methods of operations.
_REGISTRIES: tuple[dict[Any, Any], ...] = (_REGISTRY, _LEAVES, _OPERATIONS)


def get(operation: object, device: Device | str) -> tuple[Method, ...]:
    """Return the methods of `operation` on `device`, without creating anything.

    Args:
        operation: an operation, or a name that `get_op` finds.
        device: a device or its name.

    Raises:
        DispatchError: there is no such method.

    Example:
        >>> import mdtensor as md
        >>> [str(method) for method in get("interpolate", "cpu")]
        ['interpolate(FloatingTensor)']
        >>> get(md.erf, "cuda")
        Traceback (most recent call last):
        mdtensor.errors.DispatchError: erf: no method on cuda:0. It has methods on ...

    Source: ACTx, `OpRegistry::get`.
    """
    found, place = _function(operation).operation, find_device(device)
    methods = _on(found, place)
    if not methods:
        # Names the devices that would work, because a wrong device is the usual
        # mistake.
        homes = ", ".join(str(home) for home in devices() if _on(found, home))
        fix = f"It has methods on {homes}" if homes else "It has no methods"
        raise DispatchError(f"no method on {place}", fix, found.name)
    return methods


def devices_of(method: Method) -> tuple[Device, ...]:
    """Return the devices on which a method runs, by the rule of this module.

    Example:
        >>> import mdtensor as md
        >>> devices_of(md.which(md.erf, md.Float32Tensor).method)
        (cpu,)
    """
    hints = [*method.signature.types, *_varargs(method)]
    # The members of unions count one by one.
    classes = [c for hint in hints for c in getattr(hint, "__args__", (hint,))]
    tensors = [c for c in classes if isinstance(c, type) and issubclass(c, Tensor)]
    if method.anywhere or not tensors:
        return devices()
    # A kind has no device of its own: its method serves the host, and other devices
    # register theirs (decision 0015).
    homes = {kind.device if hasattr(kind, "dtype") else cpu for kind in tensors}
    return tuple(place for place in devices() if place in homes)


def refusal(selection: Selection) -> Callable[..., Any] | None:
    """Return what runs if a method does not run on the devices of its arguments.

    Returns:
        A function that raises the error of the call; None if the method runs there.
    """
    homes = {
        kind.device
        for kind in selection.types
        if issubclass(kind, Tensor) and hasattr(kind, "dtype")
    }
    # Nearly every call: on the host, where a method for kinds runs.
    if homes <= {cpu} or homes <= {*devices_of(selection.method)}:
        return None
    return partial(refuse_devices, selection.operation.name)


Operation.refusal = staticmethod(refusal)


def refuse_devices(name: str, *arguments: Any, **options: Any) -> NoReturn:
    """Raise the error of a call whose method does not run where its tensors are.

    Args:
        name: the name of the operation.
        arguments, options: of the call, with a tensor on another device than the host.

    Raises:
        DeviceError: the tensors are on different devices.
        NoMethodError: they are on one device.
    """
    given = (*arguments, *options.values())
    homes = dict.fromkeys(x.device.name for x in given if isinstance(x, Tensor))
    call = describe(name, *arguments)
    if len(homes) > 1:
        first, second = list(homes)[:2]
        problem = f"operands are on {first} and {second}"
        raise DeviceError(problem, "Move one with to(device)", call)
    raise no_method_on(next(iter(homes)), call, tuple(map(type, arguments)))


def entries() -> dict[tuple[str, str], tuple[Method, ...]]:
    """Return all methods by the names of operation and device.

    Operations have their qualified names, as in `operations`.

    Example:
        >>> found = entries()
        >>> ("mdtensor.generics.arithmetic.add", "cpu") in found
        True
        >>> ("mdtensor.generics.arithmetic.add", "cuda:0") in found
        False
    """
    return {
        (name, place.name): methods
        # By name, since the order of declarations depends on imports.
        for name, call in sorted(operations().items())
        for place in devices()
        if (methods := _on(call.operation, place))
    }


# Looks at what is imported only: methods of others import those of mdtensor, and
# modules of methods that are still to be imported count by their names.
def contributors() -> tuple[str, ...]:
    """Return the modules of others with methods of mdtensor's operations, sorted.

    Example:
        >>> contributors()
        ()
    """
    found: set[str] = set()
    for name, call in operations().items():
        if _is_of_mdtensor(name):
            found.update(m.origin.module for m in call.operation.known_methods)
            found.update(call.operation.later)
    return tuple(sorted(name for name in found if not _is_of_mdtensor(name)))


def _is_of_mdtensor(name: str) -> bool:
    return name.partition(".")[0] == "mdtensor"


# Device types replace kinds one by one, because a union of them would be ambiguous with
# the kind (decision 0015).
def add(
    operation: object,
    device: Device | str,
    function: Callable[..., Any],
    /,
    *,
    types: tuple[Any, ...] | None = None,
    override: bool = False,
) -> tuple[Method, ...]:
    """Let `operation` call `function` for the tensors of `device`.

    Args:
        operation: an operation or its name.
        device: a device or its name.
        function: any callable that takes the arguments by position and the options by
            keyword.
        types: the types of the arguments. By default the types of the methods of other
            devices, with the tensor types of this device.
        override: replace the existing methods on the device. Without it, existing
            methods raise.

    Returns:
        The new methods, as `get` returns them from now on.

    Raises:
        RegistrationError: the device has a method already or does not have a tensor
            type, or `function` does not take the declared parameters.

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
    # Replacing a method for every device would change the other devices.
    known = [m for m in _on(found, place) if not m.anywhere]
    if known and not override:
        raise RegistrationError(
            f"{found.name} on {place} is registered already by {known[0].location}",
            "Pass override=True to replace it",
        )
    # If one of several methods cannot be added, none of them is.
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
    """Replace the methods `known` by `function`, or add it for `types` if given."""
    # The old signatures are kept, so that the new function takes exactly the calls of
    # the old one.
    if known and types is None:
        for old in known:
            run = as_function(function, found)
            new = Method(run, old.signature, old.deduce, None, None, found.name)
            found.add_method(new, override=True)
        return
    for old in known:
        found.remove_method(old)
    for row in _signatures(found, place) if types is None else [types]:
        method(found.function, types=row)(function)


def remove(operation: Any, device: Device | str, *, override: bool = False) -> None:
    """Remove the methods of `operation` on `device`.

    Methods that run on every device stay, and so do mdtensor's own methods.

    Args:
        operation: an operation or its name.
        device: a device or its name.
        override: remove mdtensor's own methods as well.

    Raises:
        DispatchError: there is no method to remove.
        RegistrationError: all methods are mdtensor's own.

    Example:
        >>> import mdtensor as md
        >>> remove("interpolate", "cpu")
        Traceback (most recent call last):
        mdtensor.errors.RegistrationError: interpolate on cpu is mdtensor's own: ...
        >>> with restored():
        ...     remove("interpolate", "cpu", override=True)
        ...     md.interpolate(md.ones((1, 1, 2, 2)), size=4)
        Traceback (most recent call last):
        mdtensor.errors.NoMethodError: interpolate(Float32Tensor): no method. ...

    Source: ACTx, `OpRegistry`.
    """
    found = _function(operation).operation
    known = [m for m in get(operation, device) if not m.anywhere]
    theirs = [m for m in known if override or not _is_ours(m)]
    if known and not theirs:
        raise RegistrationError(
            f"{found.name} on {find_device(device)} is mdtensor's own: "
            f"{known[0].location}",
            "Pass override=True to remove it, or to add() to replace it",
        )
    for one in theirs:
        found.remove_method(one)


def _is_ours(method: Method) -> bool:
    return method.location.startswith(f"{__package__}/")


@contextmanager
def restored() -> Iterator[None]:
    """Undo the registrations and removals of a `with` block at its end, for tests.

    The block undoes changes of methods, operations, devices and tensor types. Element
    types stay registered.

    Example:
        >>> import mdtensor as md
        >>> with restored():
        ...     remove("interpolate", "cpu", override=True)
        >>> len(get("interpolate", "cpu"))
        1
    """
    # Copies: the block changes the dicts themselves.
    registered = [dict(registry) for registry in _REGISTRIES]
    methods = {f.operation: f.operation.methods for f in operations().values()}
    try:
        yield
    finally:
        for registry, known in zip(_REGISTRIES, registered, strict=True):
            # In place, because other modules hold these dicts.
            registry.clear()
            registry.update(known)
        for operation, before in methods.items():
            # Only changed operations, since setting methods empties their call tables.
            if operation.methods != before:
                operation.set_methods(before)


def _function(given: object) -> Any:
    found = get_op(given) if isinstance(given, str) else given
    if not hasattr(found, "operation"):
        raise OptionError(f"{shown(found)} is not an operation", "See md.operations()")
    return found.operation.function


def _on(operation: Operation, place: Device) -> tuple[Method, ...]:
    return tuple(m for m in operation.methods if place in devices_of(m))


def _varargs(method: Method) -> tuple[Any, ...]:
    return (method.signature.varargs,) if method.signature.has_varargs else ()


def _signatures(operation: Operation, place: Device) -> list[tuple[Any, ...]]:
    """Return the signatures of the methods with the tensor types of `place`.

    Each signature has at least one tensor of the device. If an operand may also be a
    number, there is one signature for each position of the first tensor.
    """
    # The types of today: types that are declared later need an `add` of their own.
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
            # Without the first tensor at a fixed place, two signatures would overlap.
            row = [*before, columns[at][0], *after]
            if all(row):
                found[tuple(Union[column] for column in row)] = None
    return list(found) or [(Union[here],) * count]


def _split(hint: Any, here: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the types of `here` that fit a hint, and its non-tensor members."""
    members = getattr(hint, "__args__", (hint,))
    fit = (kind for kind in here if any(issubclass(kind, m) for m in members))
    return tuple(fit), tuple(m for m in members if not issubclass(m, Tensor))
