"""The condition under which the generated code of a trace runs for given tensors.

    type(v0) is not t1 or v0.buffer.shape != c2 or t3.changes != 17 or ...

A line of source that compares types, shapes and settings takes less time than a key of
all arguments and a look-up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mdtensor.dispatch.operation import Operation
from mdtensor.dispatch.settings import variables
from mdtensor.graph.acts import has_buffer
from mdtensor.graph.replay import MISSING, Source
from mdtensor.spec.spec import TensorSpec


# A key and a look-up take longer than the kernel of few elements (decision 0068).
def guard_of(trace: Any, other: Callable[..., Any]) -> Callable[[Source], str]:
    """Return the `guard` of a `Replay` of a trace.

    Args: other: gets all arguments, in a tuple and a dict, if the condition fails.
    """

    def guard(source: Source) -> str:
        names = [f"v{call.number}" for call in trace.placeholders]
        parts = ["rest", "named"]
        for name, spec in zip(names, trace.inputs, strict=True):
            parts += _of_tensor(source, name, spec)
        own, operation = source.name("t", trace), source.name("t", Operation)
        parts.append(f"{own}.is_stale")
        parts.append(f"{operation}.changes != {trace.changes}")
        parts.append(f"{operation}.observe is not None")
        for variable, value in zip(variables(), trace.settings, strict=False):
            get = source.name("f", variable.get)
            parts.append(f"{get}() is not {source.name('c', value)}")
        given = "".join(f"{name}, " for name in names)
        call = f"{source.name('f', other)}(({given}*rest), named)"
        return f"if {' or '.join(parts)}: return {call}"

    return guard


def _of_tensor(source: Source, name: str, spec: TensorSpec) -> list[str]:
    """Return the parts of the condition for one tensor."""
    shape = f"{name}.buffer.shape" if has_buffer(spec.type) else f"{name}.shape"
    parts = [
        f"type({name}) is not {source.name('t', spec.type)}",
        f"{shape} != {source.name('c', tuple(map(int, spec.shape)))}",
    ]
    if spec.qparams is not None:
        parts.append(f"{name}.qparams != {source.name('c', spec.qparams)}")
    return parts


def only_given(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments of `other` without those that the caller left out."""
    while arguments and arguments[-1] is MISSING:
        arguments = arguments[:-1]
    return arguments
