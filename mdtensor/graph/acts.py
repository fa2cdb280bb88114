"""Functions of buffers that calls of a trace run, without wrapping or dispatch.

A method with `direct=`, or with the `fast_path=` of `bound_calls.py`, says from types,
shapes and options alone which function of buffers a call runs. A trace knows all of
these, so it asks once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mdtensor.device import cpu
from mdtensor.dtypes import DType
from mdtensor.graph.calls import Call, Output, spec_of, visit
from mdtensor.tensor import Tensor

_OF_BUFFER = Tensor.shape


def has_buffer(kind: Any) -> bool:
    """Return whether a tensor of this type is a buffer of the host, with its shape."""
    return getattr(kind, "shape", None) is _OF_BUFFER and kind.device is cpu


# The look-up of a bound function takes longer than adding few numbers (decision 0068).
def act_of(call: Call) -> Callable[..., Any] | None:
    """Return the function of buffers of a call; None if its method has none.

    It takes the buffers of the arguments that are tensors, and raises IndexError or
    ValueError where the method must be asked.
    """
    selection = call.select()
    method = selection.method
    direct = method.direct or getattr(method.fast_path, "direct", None)
    if direct is None or len(call.specs) != 1 or not _is_plain(call):
        return None
    operation = selection.operation
    given = [_spec(x) for x in call.arguments]
    if not operation.sequence:
        parameters = operation.signature.parameters
        omitted = operation.dispatched[len(given) :]
        given += [parameters[name].default for name in omitted]
    options = operation.fill(dict(call.options))
    found: Callable[..., Any] | None = direct(call.specs[0], *given, **options)
    return found


def _is_plain(call: Call) -> bool:
    """Return whether a call takes plain tensors of the host, and returns one."""
    tensors: list[Any] = []
    visit(call.options, (Output, Tensor), tensors.append)
    if tensors or call.options.get("out") is not None:
        return False
    types = [call.specs[0].type]
    for x in call.arguments:
        if isinstance(x, (Output, Tensor)):
            types.append(_spec(x).type)
        elif x is not None and not isinstance(x, DType):
            return False
    return all(map(has_buffer, types))


def _spec(x: Any) -> Any:
    """Return the spec of a tensor, whose elements may change; others as they are."""
    if isinstance(x, Output):
        return x.spec
    return spec_of(x) if isinstance(x, Tensor) else x
