"""Operations as methods of tensors: their calls, with `self` as the first argument."""

from __future__ import annotations

from collections.abc import Iterator

from mdtensor.bound import is_operation
from mdtensor.dispatch import Operation
from mdtensor.stubs.calls import Calls, Overload
from mdtensor.stubs.infix import tensors
from mdtensor.stubs.render import INDENT, function, signature
from mdtensor.stubs.wrappers import is_wrapper
from mdtensor.tensor import Tensor


def attributes(calls: Calls) -> Iterator[str]:
    """The lines of the class for what `bind` gives it; those alike are one."""
    alike: dict[tuple[str, ...], str] = {}
    # They have the operators and not these.
    wrappers = {t.__name__ for t in calls.spelling.imported if is_wrapper(t)}
    for name, method in sorted(vars(Tensor).items()):
        if not is_operation(method):
            continue
        operation = method.operation
        overloads = calls.overloads(operation)
        found = (_of_self(operation, o, wrappers) for o in overloads)
        signatures = tuple(dict.fromkeys(filter(None, found)))
        first = alike.setdefault(signatures, name)
        if first == name:
            yield from function(name, list(signatures))
        else:
            yield f"{INDENT}{name} = {first}"


def _of_self(operation: Operation, overload: Overload, wrappers: set[str]) -> str:
    """`(self: A, x2: B, /) -> C` of `(self, x1: A, x2: B, /) -> C`."""
    own = tensors(overload.places[0])
    own = " | ".join(word for word in own.split(" | ") if word not in wrappers)
    said = f"(self, {operation.dispatched[0]}: {overload.places[0]}"
    text = signature(operation, overload)
    if not own or not text.startswith(said):
        return ""
    return f"(self: {own}{text.removeprefix(said)}"
