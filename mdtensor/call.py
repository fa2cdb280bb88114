"""The public function of an operation, written out from its declaration.

It takes exactly the declared parameters, and nothing but dict lookups stands between
caller and method. A closure over *args would cost more than the lookups.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from mdtensor.errors import OptionError, shown

# Names with an underscore, so that a parameter may be called `method` or `type`.
_CALL = """
def {name}{signature}:{checks}
    try:
        _method = _table{lookup}
    except KeyError:
        _method = _implementation({types})
    {body}
"""
_CALL_SEQUENCE = """
def {name}{signature}:{checks}
    {first} = _items({first})
    _types = (*_map(_type, {first}),)
    try:
        _method = _table[_types]
    except KeyError:
        _method = _implementation(*_types)
    return _method(*{first}{options})
"""
_ROUND = """if out is None{and_no_rule}:
        return _method({arguments}{options})
    return _rounding({types})({arguments}{options}, out={target})"""
#: The names of what only a rounded result has: methods get one `out`, or none.
TARGET = ("out", "rounding")

_CHECK = """
    if _type({option}) is not _kind_{option}:
        _check({option!r}, {option})"""


class _Default:
    """Stands for a default in the text of a signature: its repr is a name."""

    def __init__(self, name: str) -> None:
        self.name = f"_default_{name}"

    def __repr__(self) -> str:
        return self.name


def compile_call(operation: Any) -> Callable[..., Any]:
    """A function with the declared parameters that selects a method and runs it.

    Args:
        operation: the declaration, its table of methods by nested types, and what
            answers when the table does not: `implementation`, `rounding`; and `check`
            for the options, if they are checked.
    """
    names = operation.dispatched
    rounds = "out" in operation.options
    rules = rounds and "rounding" in operation.options
    left_out = TARGET if rounds else ()
    options = "".join(f", {o}={o}" for o in operation.options if o not in left_out)
    types = ", ".join(f"_type({name})" for name in names)
    signature, namespace = _signature(operation.signature)
    parts = {
        "name": operation.name,
        "signature": signature,
        "first": names[0],
        "lookup": "".join(f"[_type({name})]" for name in names),
        "types": types,
        "options": options,
    }
    checked = {o: d for o, d in operation.options.items() if operation.checked}
    parts["checks"] = "".join(_CHECK.format(option=option) for option in checked)
    namespace |= {f"_kind_{option}": type(d) for option, d in checked.items()}
    returned = f"return _method({', '.join(names)}{options})"
    parts |= {"arguments": ", ".join(names), "target": "out", "and_no_rule": ""}
    if rules:
        parts |= {"target": "_target(out, rounding)"}
        parts |= {"and_no_rule": " and rounding is None"}
    parts["body"] = _ROUND.format(**parts) if rounds else returned
    source = (_CALL_SEQUENCE if operation.sequence else _CALL).format(**parts)
    namespace |= {"_type": type, "_map": map, "_target": target}
    for name in ("table", "implementation", "rounding", "items", "check"):
        namespace[f"_{name}"] = getattr(operation, name)
    exec(compile(source, f"<call of {operation.name}>", "exec"), namespace)
    return _dressed(namespace[operation.name], operation.declaration)


def target(out: Any, rounding: Any) -> Any:
    """What `out=` and `rounding=` say together, as methods get it.

    Args:
        out: a grid, which has `rounded(rule)`; what is none is left to the method.
        rounding: the name of a rule, or None.

    Raises:
        OptionError: a rule without a grid.
    """
    if rounding is None:
        return out
    if out is None:
        raise OptionError(
            f"rounding={shown(rounding)} rounds to no grid", "Pass out= with it"
        )
    rounded = getattr(out, "rounded", None)
    return out if rounded is None else rounded(rounding)


def _signature(declared: inspect.Signature) -> tuple[inspect.Signature, dict[str, Any]]:
    """The parameters without annotations, defaults by name; and what the names mean."""
    bare, namespace = [], {}
    for parameter in declared.parameters.values():
        new = parameter.replace(annotation=parameter.empty)
        if parameter.default is not parameter.empty:
            default = _Default(parameter.name)
            namespace[default.name] = parameter.default
            new = new.replace(default=default)
        bare.append(new)
    return inspect.Signature(bare), namespace


def _dressed(call: Any, declaration: Callable[..., Any]) -> Callable[..., Any]:
    """`call` with the names, the docstring and the annotations of its declaration."""
    call.__module__, call.__doc__ = declaration.__module__, declaration.__doc__
    call.__qualname__ = declaration.__qualname__
    call.__annotations__ = dict(declaration.__annotations__)
    dressed: Callable[..., Any] = call
    return dressed
