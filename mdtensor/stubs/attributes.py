"""Operations as methods of tensors: their calls, with `self` as the first argument."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mdtensor.bound import BY_AXIS, is_operation
from mdtensor.dispatch.operation import Operation
from mdtensor.stubs.infix import tensors
from mdtensor.stubs.overloads import Calls, Overload
from mdtensor.stubs.render import INDENT, function, of_arrays, signature
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
        found = [_of_self(operation, o, wrappers) for o in overloads]
        # Of a method the first argument is the tensor itself.
        arrays = list(of_arrays(operation))[1:] if any(found) else []
        found += [_of_array(operation, o) for o in arrays]
        texts = [_with_manners(name, text) for text in found if text]
        if name == "reshape":  # the shape, or its sizes one by one
            texts += [
                t.replace("shape: Any, *, copy", "*shape: Any, copy") for t in texts
            ]
        signatures = tuple(dict.fromkeys(texts))
        first = alike.setdefault(signatures, name)
        if first == name:
            yield from function(name, list(signatures))
        else:
            yield f"{INDENT}{name} = {first}"


def _of_array(operation: Operation, overload: Overload) -> str:
    text = signature(operation, overload)
    return text.replace(f"(self, {operation.dispatched[0]}: Any, ", "(self, ", 1)


def _with_manners(name: str, text: str) -> str:
    """Return a signature with what the method takes beside the operation's own."""
    if name in BY_AXIS:  # the axis may come by position
        text = re.sub(r"/, \*, (axis: [^=]+ = [^,)]+)", r"/, \1, *", text)
        return text.replace(", *) ->", ") ->")
    return text.replace("axis: Any)", "axis: Any = ...)") if name == "squeeze" else text


def _of_self(operation: Operation, overload: Overload, wrappers: set[str]) -> str:
    """`(self: A, x2: B, /) -> C` of `(self, x1: A, x2: B, /) -> C`."""
    own = tensors(overload.places[0])
    own = " | ".join(word for word in own.split(" | ") if word not in wrappers)
    said = f"(self, {operation.dispatched[0]}: {overload.places[0]}"
    text = signature(operation, overload)
    if not own or not text.startswith(said):
        return ""
    return f"(self: {own}{text.removeprefix(said)}"
