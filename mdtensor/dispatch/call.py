"""The public function of an operation, generated from its declaration.

The first call generates the function, because a program calls only a few of the
hundreds of operations. Between caller and method there are only dict lookups: a closure
over *args or an object with `__call__` would cost more than the lookups.

If a call does not fit the parameters of a function, Python raises an error that the
function cannot catch. Therefore the generated function accepts more arguments than
declared, and raises its own error: by position in all operations, by name in
operations with options.

NumPy arrays and scalars as arguments become tensors of their own element types. This
one rule holds for functions, methods, operators and NumPy's ufuncs. It costs calls with
tensors nothing: only when the call table does not have a tuple of types, the operation
looks up a function, which for NumPy types is one that converts first.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import cache, partial
from inspect import Parameter
from types import CodeType, FunctionType
from typing import Any, NoReturn

import numpy as np

from mdtensor.errors import (
    AllocationError,
    BudgetError,
    DispatchError,
    MdtensorError,
    OptionError,
    checked,
    describe,
    shown,
)

# All names start with an underscore, so that a parameter may be called `method`.
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
#: Without an exception, `try` costs nothing.
_BODY = """try:
        {body}
    except (_MdtensorError, _MemoryError) as _error:
        _named(_error, {names})"""
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
#: Options of rounded results: a method receives both as one `out`, or neither.
TARGET = ("out", "rounding")

_CHECK = """
    if _type({option}) not in _kinds_{option}:
        _check({option!r}, {option})
        _kinds_{option}.add(_type({option}))"""

#: Rejection of wrong calls, for operations with options and for all others. Accepting
#: unknown names costs a dict in each call, up to a third of the time of a short call.
_REFUSE_NAMES = """if _more or _unknown{required}:
        _refuse(({names}, {placed}), dict({given}**_unknown), _more)"""
_REFUSE_MORE = """if _extra is not _missing{required}:
        _rest = () if _extra is _missing else (_extra, {target}*_more)
        _refuse(({names}, {placed}), {{}}, _rest)"""
#: For `x[key]` and `x[key] = value`, Python always passes the declared arguments.
_BRACKETS = frozenset({"getitem", "setitem"})


class _Missing:
    """The default of required parameters, which marks them as missing."""

    def __repr__(self) -> str:
        return "missing"


MISSING = _Missing()


# A generated function looks up the method itself, because a call object or `*args`
# would cost twice as much (decision 0001).
def callable_of(operation: Any, refuse: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function with the declared parameters that selects a method and runs it.

    Args:
        operation: the declaration with its call table (methods by nested types), its
            `implementation` and `rounding`, which run if the table does not have the
            types, and its `check` of options.
        refuse: raises the error of a wrong call. Its arguments are: the dispatched
            arguments followed by the options by position, the options by name, and
            the surplus arguments.
    """

    def write() -> Any:
        source, namespace = _source_and_names(operation)
        call.__globals__.update(namespace, _refuse=refuse)
        exec(_compile(source), namespace)
        made: Any = namespace["call"]
        # `call` keeps its identity: modules have imported it before its first call.
        call.__defaults__, call.__kwdefaults__ = made.__defaults__, made.__kwdefaults__
        # Set the code last: until then, calls from other threads generate it as well.
        call.__code__ = made.__code__.replace(**names)
        return call

    names = {"co_name": operation.name, "co_filename": f"<call of {operation.name}>"}
    # Tracebacks tell it from the generated function: if Python rejects the arguments of
    # a first call, this frame is there, and no line of the function ran.
    first = names | {"co_filename": f"<first call of {operation.name}>"}
    code = _first_call.__code__.replace(**first)
    call = FunctionType(code, {"_write": write}, operation.name)
    return _with_metadata(call, operation)


def _first_call(*arguments: Any, **options: Any) -> Any:
    """Generate the function, then run this first call with it."""
    return _write()(*arguments, **options)  # type: ignore[name-defined]  # noqa: F821


@cache
def _compile(source: str) -> CodeType:
    """Compile `source`, or return the code of an operation with the same source."""
    # Two in three operations share their source with another one.
    return compile(source, "<call>", "exec")


def _source_and_names(operation: Any) -> tuple[str, dict[str, Any]]:
    """Return the source of the call, and the objects that its names refer to."""
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
    checked = operation.options_to_check
    parts["checks"] = "".join(_CHECK.format(option=option) for option in checked)
    for option in checked:
        default = operation.options[option]
        # A type is checked once: later calls with it pass after one set look-up.
        known = set() if default is Parameter.empty else {type(default)}
        namespace[f"_kinds_{option}"] = known
    # A sequence has any number of types, so its table has tuples as keys.
    several = {"names": "*" + parts["names"], "types": "*_types"}
    several["lookup"] = "[_types]"
    inner = parts | (several if operation.sequence else {})
    body = _body(operation, inner).replace("\n", "\n    ")
    parts["body"] = _BODY.format(body=body, names=inner["names"])
    source = (_CALL_SEQUENCE if operation.sequence else _CALL).format(**parts)
    return source, namespace | _objects(operation)


def _objects(operation: Any) -> dict[str, Any]:
    """Return what the names in each source refer to."""
    found = {"_type": type, "_map": map, "_target": target, "_missing": MISSING}
    for name in ("table", "rounded", "implementation", "rounding", "check"):
        found[f"_{name}"] = getattr(operation, name)
    found["_items"] = partial(items, operation.name)
    found["_named"] = partial(named, operation.name)
    return found | {"_MemoryError": MemoryError, "_MdtensorError": MdtensorError}


def _body(operation: Any, parts: dict[str, str]) -> str:
    """Return the lines that run the method, or with `out=` the method that rounds."""
    if "out" not in operation.options:
        return "return _method({names}{options})".format(**parts)
    if "rounding" in operation.options:
        rule = {
            "target": "out if rounding is None else _target(out, rounding)",
            "and_no_rule": " and rounding is None",
        }
        return _ROUND.format(**parts, **rule)
    return _ROUND.format(**parts, target="out", and_no_rule="")


def target(out: object, rounding: object) -> Any:
    """Combine `out=` and `rounding=` into the one grid that methods receive.

    Args:
        out: a grid with a method `rounded(rule)`; anything else goes to the method
            unchanged.
        rounding: the name of a rounding rule, or None.

    Raises:
        OptionError: there is a rounding rule, but not a grid.
    """
    if rounding is None:
        return out
    if out is None:
        raise OptionError(
            f"rounding={shown(rounding)} needs a grid to round to",
            "Pass out= as well, or omit rounding=",
        )
    if is_tensor(out):
        raise OptionError(
            f"rounding={shown(rounding)} rounds to a grid, and out is a tensor",
            "Pass a grid, or omit rounding=",
        )
    rounded = getattr(out, "rounded", None)
    return out if rounded is None else rounded(rounding)


def items(name: str, arrays: object) -> tuple[Any, ...]:
    """Return the tensors of the one sequence that the operation `name` takes."""
    if not isinstance(arrays, Iterable) or getattr(arrays, "shape", None) == ():
        call = f"{name}({type(arrays).__name__})"
        fix = "Give a list of tensors"
        raise DispatchError("the argument is not a sequence", fix, call)
    return tuple(arrays)


def named(name: str, error: MdtensorError | MemoryError, *arguments: Any) -> NoReturn:
    """Raise the error of a call, which names the call `name` if it has none.

    Raises:
        MdtensorError: the same error, with a call.
        AllocationError: a result, or a value on the way to it, does not fit.
    """
    if isinstance(error, MdtensorError):
        # The error of a budget says in which line of the caller.
        if error.call or isinstance(error, BudgetError):
            raise error
        raise error.within(describe(name, *arguments)) from None
    fix = "Use fewer elements at a time"
    # NumPy's text has the bytes and the shape.
    problem = str(error)[:1].lower() + str(error)[1:] or "there is no memory left"
    raise AllocationError(problem, fix, describe(name, *arguments)) from None


def is_tensor(value: object) -> bool:
    """Return whether `value` is a tensor, whose class is above this module."""
    return hasattr(type(value), "with_dtype")


def _takes_names(operation: Any) -> bool:
    """Return whether the function accepts unknown names, to report them itself."""
    has_options = any(option not in TARGET for option in operation.options)
    return is_named(operation) or (has_options and operation.name not in _BRACKETS)


def is_named(operation: Any) -> bool:
    """Return whether callers may pass dispatched arguments by name."""
    return getattr(operation.declaration, "is_named", False)


def _public(operation: Any) -> inspect.Signature:
    """Return the signature of an operation whose arguments callers may pass by name."""
    declared: inspect.Signature = operation.signature
    kinds: dict[Any, Any] = {Parameter.POSITIONAL_ONLY: Parameter.POSITIONAL_OR_KEYWORD}
    return declared.replace(
        parameters=[
            p.replace(kind=kinds.get(p.kind, p.kind))
            for p in declared.parameters.values()
        ]
    )


def _missing(operation: Any) -> str:
    """Return the source of the test whether a dispatched argument is missing."""
    found = [operation.signature.parameters[name] for name in operation.dispatched]
    required = [f"{p.name} is _missing" for p in found if p.default is p.empty]
    return " or ".join(required) or "False"


def _refusal(operation: Any) -> str:
    """Return the lines that reject a call that the declaration does not allow."""
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
    """Return the parameters, each with the name of its default.

    Every parameter has a default, and surplus arguments are accepted. So a wrong call
    reaches our own error.
    """
    parameters = operation.signature.parameters.values()
    given = [_with_default(p) for p in parameters if p.kind is not p.KEYWORD_ONLY]
    named = [_with_default(p) for p in parameters if p.kind is p.KEYWORD_ONLY]
    if not is_named(operation):
        given.insert(len(operation.dispatched), "/")
    if _takes_names(operation):
        return ", ".join([*given, "*_more", *named, "**_unknown"])
    # Python finds options faster by position than by name.
    return ", ".join([*given, "_extra=_missing", *named, "*_more"])


def _with_default(parameter: Parameter) -> str:
    is_required = parameter.default is parameter.empty
    default = "_missing" if is_required else f"_default_{parameter.name}"
    return f"{parameter.name}={default}"


def _defaults(operation: Any) -> dict[str, Any]:
    """Return the defaults under the names that `_with_default` writes."""
    parameters = operation.signature.parameters.values()
    return {
        f"_default_{p.name}": p.default for p in parameters if p.default is not p.empty
    }


def _with_metadata(call: Any, operation: Any) -> Callable[..., Any]:
    """Return `call` with the names, docstring and signature of its declaration."""
    declaration = operation.declaration
    call.__module__, call.__doc__ = declaration.__module__, declaration.__doc__
    call.__qualname__ = declaration.__qualname__
    call.__annotations__ = dict(declaration.__annotations__)
    # `inspect.signature` follows it to the declared parameters.
    call.__wrapped__ = declaration
    if is_named(operation):
        call.__signature__ = _public(operation)
    dressed: Callable[..., Any] = call
    return dressed


NUMPY = (np.ndarray, np.generic)
#: `np.float64` derives from Python's float, so a method for `float` would accept it as
#: a weak scalar. `np.float32` does not, and fits the same parameters otherwise.
_SIBLINGS: dict[type, type] = {np.float64: np.float32, np.complex128: np.complex64}


def is_numpy(kind: type) -> bool:
    """Return whether `kind` is a class of NumPy arrays or scalars."""
    return issubclass(kind, NUMPY)


def need_tensors(operation: Any, types: tuple[type, ...]) -> bool:
    """Return whether a call with `types` must convert NumPy arguments first.

    A method that names NumPy types, or accepts any object, receives them unchanged.
    """
    if not any(map(is_numpy, types)):
        return False
    plain = tuple(_SIBLINGS.get(kind, kind) for kind in types)
    return not any(method.accepts(plain) for method in operation.known_methods)


def device_that_implements(types: tuple[type, ...]) -> Any:
    """Return the device of these types that implements operations itself, or None."""
    places = (getattr(kind, "device", None) for kind in types)
    return next((p for p in places if getattr(p, "implementation", None)), None)


def converter(operation: Any, from_numpy: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return a function that calls `operation` with NumPy arguments as tensors."""

    def call(*arguments: Any, **options: Any) -> Any:
        def tensors() -> list[Any]:
            return [from_numpy(x) if isinstance(x, NUMPY) else x for x in arguments]

        # Arrays of strings do not have a tensor type: the error must name the call.
        found = checked(operation.name, arguments, tensors)
        given = (found,) if operation.sequence else found
        return operation.function(*given, **options)

    return call
