"""The public function of an operation, written out from its declaration.

It is written when it is first called: of some hundred operations a program calls few.
Nothing but dict lookups stands between caller and method. A closure over *args would
cost more than the lookups, and so would an object with `__call__`.

Python itself refuses a call that does not fit a function's parameters, with an error
that no library can catch. So the function takes more than is declared, by position in
all operations, by name in those that have options, and says itself what is wrong.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from inspect import Parameter
from types import CodeType, FunctionType
from typing import Any

from mdtensor.errors import OptionError, shown

# Names with an underscore, so that a parameter may be called `method` or `type`.
_CALL = """
def call({signature}):
    {refusal}{checks}
    try:
        _method = _table{lookup}
    except KeyError:
        if {missing}:
            _refuse(({names},), {{}})
        _method = _implementation({types})
    {body}
"""
_CALL_SEQUENCE = """
def call({signature}):
    {refusal}{checks}
    if {missing}:
        _refuse((), {{}})
    {names} = _items({names})
    _types = (*_map(_type, {names}),)
    try:
        _method = _table[_types]
    except KeyError:
        _method = _implementation(*_types)
    {body}
"""
_ROUND = """if out is None{and_no_rule}:
        return _method({names}{options})
    try:
        _method = _rounded{lookup}
    except KeyError:
        _method = _rounding({types})
    return _method({names}{options}, out={target})"""
#: The names of what only a rounded result has: methods get one `out`, or none.
TARGET = ("out", "rounding")

_CHECK = """
    if _type({option}) not in _kinds_{option}:
        _check({option!r}, {option})
        _kinds_{option}.add(_type({option}))"""

#: What is not as declared, in operations with options, and in all others. To take all
#: unknown names costs a dict each call, and as much as a third of a short one.
_REFUSE_NAMES = """if _more or _unknown{required}:
        _refuse(({names}, {placed}), dict({given}**_unknown), _more)"""
_REFUSE_MORE = """if _extra is not _missing{required}:
        _rest = () if _extra is _missing else (_extra, {target}*_more)
        _refuse(({names}, {placed}), {{}}, _rest)"""
#: `x[key]` and `x[key] = value`: Python gives just what is declared.
_BRACKETS = frozenset({"getitem", "setitem"})


class _Missing:
    """What a parameter is that was not given, and must be."""

    def __repr__(self) -> str:
        return "missing"


MISSING = _Missing()


# A generated function looks up the method itself, because a call object or `*args`
# would cost twice as much (decision 0001).
def callable_of(operation: Any, refuse: Callable[..., Any]) -> Callable[..., Any]:
    """A function with the declared parameters that selects a method and runs it.

    Args:
        operation: the declaration, its table of methods by nested types, and what
            answers when the table does not: `implementation`, `rounding`; and `check`
            for the options, if they are checked.
        refuse: raises, given the arguments of a call that is not as declared: those
            that are dispatched on with the options after them, the options by name,
            and what is too much.
    """

    def write() -> Any:
        source, namespace = _written(operation)
        call.__globals__.update(namespace, _refuse=refuse)
        exec(_compiled(source), namespace)
        made: Any = namespace["call"]
        call.__defaults__, call.__kwdefaults__ = made.__defaults__, made.__kwdefaults__
        # Last of all: until now calls from other threads write it, too.
        call.__code__ = made.__code__.replace(**names)
        return call

    names = {"co_name": operation.name, "co_filename": f"<call of {operation.name}>"}
    code = _unwritten.__code__.replace(**names)
    call = FunctionType(code, {"_write": write}, operation.name)
    return _dressed(call, operation)


def _unwritten(*arguments: Any, **options: Any) -> Any:
    """What stands for every call until its first."""
    return _write()(*arguments, **options)  # type: ignore[name-defined]  # noqa: F821


@cache
def _compiled(source: str) -> CodeType:
    """Most operations look like another: two in three are compiled already."""
    return compile(source, "<call>", "exec")


def _written(operation: Any) -> tuple[str, dict[str, Any]]:
    """The text of the call, and what its names mean."""
    names = operation.dispatched
    rounds = "out" in operation.options
    left_out = TARGET if rounds else ()
    options = "".join(f", {o}={o}" for o in operation.options if o not in left_out)
    types = ", ".join(f"_type({name})" for name in names)
    parts = {
        "signature": _signature(operation),
        "refusal": _refusal(operation),
        "names": ", ".join(names),
        "missing": _missing(operation),
        "lookup": "".join(f"[_type({name})]" for name in names),
        "types": types,
        "options": options,
    }
    namespace = _defaults(operation)
    checked = operation.checked_options
    parts["checks"] = "".join(_CHECK.format(option=option) for option in checked)
    for option in checked:
        default = operation.options[option]
        known = set() if default is Parameter.empty else {type(default)}
        namespace[f"_kinds_{option}"] = known
    several = {"names": "*" + parts["names"], "types": "*_types"}
    several["lookup"] = "[_types]"
    parts["body"] = _body(operation, parts | (several if operation.sequence else {}))
    source = (_CALL_SEQUENCE if operation.sequence else _CALL).format(**parts)
    namespace |= {"_type": type, "_map": map, "_target": target, "_missing": MISSING}
    for name in ("table", "rounded", "implementation", "rounding", "items", "check"):
        namespace[f"_{name}"] = getattr(operation, name)
    return source, namespace


def _body(operation: Any, parts: dict[str, str]) -> str:
    """What runs the method; the one that rounds, if there is a grid for it."""
    if "out" not in operation.options:
        return "return _method({names}{options})".format(**parts)
    if "rounding" in operation.options:
        rule = {
            "target": "out if rounding is None else _target(out, rounding)",
            "and_no_rule": " and rounding is None",
        }
        return _ROUND.format(**parts, **rule)
    return _ROUND.format(**parts, target="out", and_no_rule="")


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
            f"rounding={shown(rounding)} rounds to no grid",
            "Pass out= with it for quantized arguments, else leave it away",
        )
    rounded = getattr(out, "rounded", None)
    return out if rounded is None else rounded(rounding)


def _takes_names(operation: Any) -> bool:
    """Whether there is an option, besides those of `TARGET`, that can be mistaken."""
    has_options = any(option not in TARGET for option in operation.options)
    return is_named(operation) or (has_options and operation.name not in _BRACKETS)


def is_named(operation: Any) -> bool:
    """Whether what is dispatched on may be given by name: its declaration says so."""
    return getattr(operation.declaration, "is_named", False)


def _public(operation: Any) -> inspect.Signature:
    """The signature as callers may use it."""
    declared: inspect.Signature = operation.signature
    if not is_named(operation):
        return declared
    kinds: dict[Any, Any] = {Parameter.POSITIONAL_ONLY: Parameter.POSITIONAL_OR_KEYWORD}
    return declared.replace(
        parameters=[
            p.replace(kind=kinds.get(p.kind, p.kind))
            for p in declared.parameters.values()
        ]
    )


def _missing(operation: Any) -> str:
    """Whether a parameter without a default, that is dispatched on, was not given."""
    found = [operation.signature.parameters[name] for name in operation.dispatched]
    required = [f"{p.name} is _missing" for p in found if p.default is p.empty]
    return " or ".join(required) or "False"


def _refusal(operation: Any) -> str:
    """What refuses a call that the declaration does not allow."""
    options = [operation.signature.parameters[name] for name in operation.options]
    required = (p.name for p in options if p.default is p.empty)
    placed = (p.name for p in options if p.kind is p.POSITIONAL_OR_KEYWORD)
    named = (p.name for p in options if p.kind is p.KEYWORD_ONLY)
    text = _REFUSE_NAMES if _takes_names(operation) else _REFUSE_MORE
    return text.format(
        names=", ".join(operation.dispatched),
        required="".join(f" or {name} is _missing" for name in required),
        placed="".join(f"{name}, " for name in placed),
        given="".join(f"{name}={name}, " for name in named),
        target="".join(
            f"*(() if {o} is None or {o} is _missing else ({o},)), "
            for o in operation.options
            if o in TARGET
        ),
    )


# The function accepts more than is declared, because Python's own TypeError cannot be
# caught inside (decision 0024).
def _signature(operation: Any) -> str:
    """The parameters with the names of their defaults.

    Each has one, and more are taken than declared: so a call that is not as declared
    gets as far as our own error.
    """
    parameters = operation.signature.parameters.values()
    given = [_with_default(p) for p in parameters if p.kind is not p.KEYWORD_ONLY]
    named = [_with_default(p) for p in parameters if p.kind is p.KEYWORD_ONLY]
    if not is_named(operation):
        given.insert(len(operation.dispatched), "/")
    if _takes_names(operation):
        return ", ".join([*given, "*_more", *named, "**_unknown"])
    # By position options are found faster than by name.
    return ", ".join([*given, "_extra=_missing", *named, "*_more"])


def _with_default(parameter: Parameter) -> str:
    is_required = parameter.default is parameter.empty
    default = "_missing" if is_required else f"_default_{parameter.name}"
    return f"{parameter.name}={default}"


def _defaults(operation: Any) -> dict[str, Any]:
    """What `_with_default` names."""
    parameters = operation.signature.parameters.values()
    return {
        f"_default_{p.name}": p.default for p in parameters if p.default is not p.empty
    }


def _dressed(call: Any, operation: Any) -> Callable[..., Any]:
    """`call` with the names, docstring, signature of its declaration."""
    declaration = operation.declaration
    call.__module__, call.__doc__ = declaration.__module__, declaration.__doc__
    call.__qualname__ = declaration.__qualname__
    call.__annotations__ = dict(declaration.__annotations__)
    call.__signature__ = _public(operation)
    dressed: Callable[..., Any] = call
    return dressed
