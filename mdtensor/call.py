"""The public function of an operation, written out from its declaration.

It takes exactly the declared parameters, and nothing but dict lookups stands between
caller and method. A closure over *args would cost more than the lookups.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

_CALL = """
def {name}{signature}:
    try:
        method = table{lookup}
    except KeyError:
        method = implementation({types})
    {body}
"""
_CALL_SEQUENCE = """
def {name}{signature}:
    {first} = tuple({first})
    return select(*map(type, {first}))(*{first}{options})
"""
_ROUND = """if out is None:
        return method({arguments}{options})
    return rounding({types})({arguments}{options}, out=out)"""


def compile_call(operation: Any) -> Callable[..., Any]:
    """A function with the declared parameters that selects a method and runs it.

    Args:
        operation: the declaration, its table of methods by nested types, and what
            answers when the table does not: `implementation`, `rounding`, `select`.
    """
    names = operation.dispatched
    options = "".join(f", {o}={o}" for o in operation.options if o != "out")
    types = ", ".join(f"type({name})" for name in names)
    parts = {
        "name": operation.name,
        "signature": operation.signature.replace(
            return_annotation=inspect.Signature.empty
        ),
        "first": names[0],
        "lookup": "".join(f"[type({name})]" for name in names),
        "types": types,
        "options": options,
    }
    returned = f"return method({', '.join(names)}{options})"
    rounded = _ROUND.format(arguments=", ".join(names), options=options, types=types)
    parts["body"] = rounded if "out" in operation.options else returned
    source = (_CALL_SEQUENCE if operation.sequence else _CALL).format(**parts)
    namespace: dict[str, Any] = {
        "table": operation.table,
        "implementation": operation.implementation,
        "rounding": operation.rounding,
        "select": operation.select,
    }
    exec(compile(source, f"<call of {operation.name}>", "exec"), namespace)
    call: Callable[..., Any] = namespace[operation.name]
    declaration = operation.declaration
    call.__module__, call.__doc__ = declaration.__module__, declaration.__doc__
    call.__qualname__ = declaration.__qualname__
    return call
