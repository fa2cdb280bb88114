"""Errors of calls that no method accepts, or that do not fit the declaration.

Errors hold types, never values. The error of a missing method names the first argument
that rules out the nearest method, the nearest methods with their places, and a fix: how
to make the expected type (`offer` of its class), or what `remedies` finds. The error of
an ambiguous call names the method that would decide it.

Texts stay below 2,000 characters, because a sequence may have a thousand tensors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import wraps
from inspect import Parameter, Signature, isgeneratorfunction, signature
from itertools import takewhile
from typing import Any, NoReturn, TypeVar, cast

from mdtensor.dispatch.call import MISSING, TARGET, is_named
from mdtensor.dispatch.classes import is_below
from mdtensor.dispatch.declaration import (
    REQUIRED,
    members,
    parameter_types,
    type_name,
)
from mdtensor.dispatch.placed_options import option_error
from mdtensor.dispatch.remedies import VALUES, advice, way_out, working_casts
from mdtensor.dispatch.suggestions import of_grids, option
from mdtensor.errors import (
    AmbiguousDispatchError,
    DispatchError,
    NoMethodError,
    OptionError,
    describe,
    grids,
)
from mdtensor.foreign import is_array_like

#: The number of methods, and of argument types, that an error shows.
SHOWN = 3
SHOWN_TYPES = 8


def ambiguous(operation: Any, types: tuple[type, ...]) -> AmbiguousDispatchError:
    """Return the error of a call for which no method is most specific."""
    fits = [m for m in operation.methods if all(m.fitting(types))]
    header = _header(operation, types, fits)
    fix = f"Fitting: {_list_methods(fits)}" + (
        f". Write @method({operation.name}) above {_cut(header)}" if header else ""
    )
    known = call_text(operation, types), types, _places(fits), header
    return AmbiguousDispatchError("more than one method fits", fix, *known)


def no_method(operation: Any, types: tuple[type, ...]) -> NoMethodError:
    """Return the error of a call that no method accepts."""
    call = call_text(operation, types)
    # The method that accepts most arguments is probably the one that was wanted; of
    # equal ones that which names a class of the caller.
    ranked = sorted(operation.methods, key=lambda m: _nearness(m, types), reverse=True)
    nearest = ranked[:SHOWN]
    if not nearest:
        return NoMethodError("no method", "Nothing is registered yet", call, types)
    problem, name, culprit, hint = _culprit(operation, types, nearest[0])
    casts = tuple(working_casts(operation, types, nearest[0], name))
    # If the expected type cannot be made by a cast, its class says how to make one.
    offer = "" if hasattr(culprit, "offer") else _cut(str(getattr(hint, "offer", "")))
    # A tensor does not help if the method wants a class of the caller. The tensor of a
    # Python value does not if it wants a text or a number.
    helps = culprit not in VALUES or _takes_tensors(hint)
    if not offer and helps and not _is_foreign(hint):
        offer = _cut(way_out(operation, types, culprit, name))
    remedy = offer or (f"Use {casts[0]}" if casts else "")
    fix = f"{remedy}. Nearest: " if remedy else "Nearest: "
    known = call, types, _places(nearest), name, casts
    return NoMethodError(problem, fix + _list_methods(nearest), *known)


def _is_foreign(hint: Any) -> bool:
    """Return whether a hint has only classes that are neither tensors nor Python's."""
    kinds = members(hint)
    return bool(kinds) and not any(
        not isinstance(kind, type)
        or kind.__module__ == "builtins"
        or hasattr(kind, "with_dtype")
        for kind in kinds
    )


def _takes_tensors(hint: Any) -> bool:
    """Return whether a hint has a class of tensors, or something that is no class."""
    kinds = members(hint)
    return not kinds or any(
        not isinstance(kind, type) or hasattr(kind, "with_dtype") for kind in kinds
    )


def _nearness(method: Any, types: tuple[type, ...]) -> tuple[int, int]:
    """Return how many arguments fit, and how many have just the class of the method."""
    hints = method.signature.expand_varargs(len(types))
    pairs = zip(types, hints, strict=False)
    named = sum(t is hint and t.__module__ != "builtins" for t, hint in pairs)
    return sum(method.fitting(types)), named


def wrong_type_error(
    operation: object, types: tuple[type, ...], name: str, given: type, want: str
) -> NoMethodError:
    """Return the error of an argument whose type the declaration rules out."""
    problem = f"{name} is {_cut(given.__name__, 48)}, not {_cut(want)}"
    call = call_text(operation, types)
    return NoMethodError(problem, _cut(advice(given, name)), call, types, (), name)


def annotation_error(operation: object, types: tuple[type, ...]) -> NoMethodError:
    """Return the error of a generic alias such as `list[int]`, given as an argument."""
    call = call_text(operation, types)
    return NoMethodError("an argument is a generic alias", "Pass a value", call, types)


def no_rounding_error(arguments: Iterable[Any]) -> OptionError:
    """Return the error of `out=` for a method whose result is not quantized."""
    return OptionError(
        "out= and rounding= set the grid of a quantized result, and this method does "
        f"not return one{grids(arguments)}",
        "Omit them, quantize the arguments first, or pass the tensor to write into",
    )


def refuse_out(operation: Any, *arguments: Any, out: Any = None, **_: Any) -> NoReturn:
    """Raise the error of `out=`, in the place of a method that cannot round."""
    given = [x for x in arguments if x is not None]
    # Right for ufuncs of NumPy, and so an easy mistake.
    if is_array_like(out):
        problem = f"out is a {type(out).__name__}, not a tensor"
        fix = "Pass out=asarray(a), which writes into the memory of a"
        raise OptionError(problem, fix, describe(operation.name, *given))
    raise no_rounding_error(given).within(describe(operation.name, *given))


def call_text(operation: Any, types: tuple[type, ...]) -> str:
    """Return the call as text, `add(Float32Tensor, str)`; many types are cut."""
    shown = [_cut(t.__name__, 48) for t in types[:SHOWN_TYPES]]
    if len(types) > SHOWN_TYPES:
        shown.append(f"{len(types) - SHOWN_TYPES} more")
    return f"{operation.name}({', '.join(shown)})"


def _cut(text: str, most: int = 200) -> str:
    """Return `text` on one line of at most `most` characters, without its middle."""
    text = " ".join(text.split())
    # Both ends of a long type name tell more than its middle.
    half = most // 2 - 2
    return text if len(text) <= most else f"{text[:half]}...{text[-half:]}"


def _list_methods(methods: list[Any]) -> str:
    shown = [f"{_signature(m)} at {_cut(m.location, 100)}" for m in methods[:SHOWN]]
    more = len(methods) - SHOWN
    return "; ".join(shown) + (f"; {more} more" if more > 0 else "")


def _signature(method: Any) -> str:
    text = str(method)
    for hint in (*method.signature.types, method.signature.varargs):
        text = _in_words(text, hint)
    return _cut(text)


def _places(methods: list[Any]) -> tuple[str, ...]:
    return tuple(f"{m} at {m.location}" for m in methods)


def _header(operation: Any, types: tuple[type, ...], fits: list[Any]) -> str:
    """Return the header of a method that is more specific than all that fit."""
    if operation.sequence:
        return ""
    columns = zip(*(m.signature.expand_varargs(len(types)) for m in fits), strict=True)
    hints = [
        next((hint for hint in column if all(map(_below(hint), column))), given)
        for given, column in zip(types, columns, strict=True)
    ]
    pairs = zip(operation.dispatched, map(type_name, hints), strict=False)
    spare = TARGET if "out" in operation.options else ()
    options = [name for name in operation.options if name not in spare]
    stars = ["*", *options] if options else []
    parts = [*(f"{name}: {hint}" for name, hint in pairs), "/", *stars]
    return f"def {operation.name}({', '.join(parts)}): ..."


def _culprit(
    operation: Any, types: tuple[type, ...], nearest: Any
) -> tuple[str, str, type | None, Any]:
    """Return the first argument that does not fit: text, name, type, expected type."""
    one = [f"{operation.dispatched[0]}[{at}]" for at in range(len(types))]
    names = one if operation.sequence else operation.dispatched
    hints = nearest.signature.expand_varargs(len(types))
    columns = zip(names, types, hints, nearest.fitting(types), strict=False)
    for name, given, hint, fits in columns:
        if not fits:
            known, want = (
                _cut(given.__name__, 48),
                _cut(_in_words(type_name(hint), hint)),
            )
            return f"no method: {name} is {known}, not {want}", name, given, hint
    return "no method", "", None, None


def _in_words(text: str, hint: object) -> str:
    """Return `text` with the names of kinds in words that users know."""
    for kind in members(hint):
        words = getattr(kind, "in_words", "")
        if words and not hasattr(kind, "dtype"):
            text = re.sub(rf"\b{kind.__name__}\b", words, text)
    return text


def _below(narrow: object) -> Callable[[Any], bool]:
    return lambda wide: is_below(narrow, wide)


# Errors of calls that do not fit the declaration.

#: Parameters that are tuples here, and separate arguments in other libraries.
SEVERAL = ("shape", "axes")


# Wrong calls are analyzed after they failed, so that right ones need no check (decision
# 0024).
def bind(
    declared: Any, arguments: tuple[Any, ...], options: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the dispatched arguments, and the options by name.

    Raises:
        DispatchError: there are too few or too many arguments, or undeclared names.
    """
    parameters = declared.signature.parameters.values()
    places = [p for p in parameters if p.kind is not p.KEYWORD_ONLY]
    count = len(declared.dispatched)
    _check_names(declared, options)
    least = sum(p.default is p.empty for p in places[:count])
    if not least <= len(arguments) <= len(places):
        error = _option_error(declared, arguments, options)
        raise error or _count_error(declared, places, len(arguments))
    named = [p.name for p in places[count:]]
    placed = dict(zip(named, arguments[count:], strict=False))
    for name in options:
        if name in placed:
            raise DispatchError(f"{name} is given twice", declared.schema)
    filled = {**placed, **options}
    for name, default in declared.options.items():
        if default is REQUIRED and name not in filled:
            error = _option_error(declared, arguments, options)
            raise error or DispatchError(f"{name} is missing", declared.schema)
        if declared.checked and name in filled:
            declared.check(name, filled[name])
    return arguments[:count], filled


def refuse(
    declared: Any,
    arguments: tuple[Any, ...],
    options: dict[str, Any],
    more: tuple[Any, ...] = (),
) -> NoReturn:
    """Raise the error of a call that its declaration does not allow.

    Args:
        declared: the operation.
        arguments: the dispatched arguments, then the options by position.
        options: the options by name; `MISSING` marks an absent one.
        more: surplus arguments by position.

    Raises:
        DispatchError: see `bind`; the error names the call.
    """
    given = (*_without_missing(declared, arguments, bool(more)), *more)
    named = {name: x for name, x in options.items() if x is not MISSING}
    call = describe(declared.name, *given[: len(declared.dispatched)])
    # Arguments with names fail like Python's own, by name and not by number.
    if is_named(declared):
        raise _name_error(declared, arguments, named, more).within(call)
    try:
        bind(declared, given, named)
    except DispatchError as error:
        raise error.within(call) from None
    raise AssertionError(
        f"the call {call} failed, although its arguments match the declaration; this "
        "is a bug in mdtensor"
    )


def _name_error(
    declared: Any, arguments: tuple[Any, ...], options: Iterable[str], more: Any
) -> DispatchError:
    """Return the error of an operation whose arguments all have names."""
    fix = f"They are {', '.join(declared.dispatched)}"
    for name in options:
        if name not in declared.options:
            ours = option(name, (*declared.dispatched, *declared.options))
            problem = (
                f"takes {ours}=, not {name}=" if ours else f"{name} is not an argument"
            )
            return DispatchError(problem, fix)
    pairs = zip(declared.dispatched, arguments, strict=False)
    missing = [name for name, x in pairs if x is MISSING]
    if missing and not more:
        verb = "is" if len(missing) == 1 else "are"
        return DispatchError(f"{', '.join(missing)} {verb} missing", fix)
    places = [declared.signature.parameters[name] for name in declared.dispatched]
    return _count_error(declared, places, len(arguments) + len(more))


def _without_missing(declared: Any, arguments: Iterable[Any], all: bool) -> list[Any]:
    """Return the arguments up to the first missing one, without trailing defaults."""
    found = list(takewhile(lambda x: x is not MISSING, arguments))
    defaults = [p.default for p in declared.signature.parameters.values()]
    while not all and found and found[-1] is defaults[len(found) - 1]:
        found.pop()
    return found


def _check_names(declared: Any, names: Iterable[str]) -> None:
    """Raise `DispatchError` for an option that is not declared."""
    for name in names:
        if name in declared.dispatched:
            fix = f"Write {declared.name}({', '.join(declared.dispatched)})"
            problem = f"{name} came by name, but must be given by position"
            raise DispatchError(problem, fix)
        if name not in declared.options:
            ours = option(name, declared.options)
            problem = (
                f"takes {ours}=, not {name}=" if ours else f"{name} is not an attribute"
            )
            fix = of_grids(declared.name, name) or declared.schema
            raise DispatchError(problem, fix)


def _count_error(declared: Any, places: list[Parameter], given: int) -> DispatchError:
    """Return the error of too few or too many arguments."""
    least = sum(p.default is p.empty for p in places)
    wanted = str(least) if least == len(places) else f"{least} to {len(places)}"
    plural = "" if wanted == "1" else "s"
    problem = f"expects {wanted} argument{plural}, got {given}"
    if declared.sequence:
        return DispatchError(problem, f"Give a list: {declared.name}([x1, x2])")
    names = [p.name for p in places]
    fix = f"They are {', '.join(names)}"
    spare = [o for o in TARGET if declared.options.get(o) is not REQUIRED]
    named = [o for o in declared.options if o not in (*names, *spare)]
    if given > len(places) and names[-1] in SEVERAL:
        fix += f"; {names[-1]} is a tuple"
    if given > len(places) and named:
        fix += f"; by name {', '.join(f'{o}=' for o in named)}"
    return DispatchError(problem, fix)


def _option_error(
    declared: Any, arguments: tuple[Any, ...], options: dict[str, Any]
) -> DispatchError | None:
    """Return the error of options by position; None if no call is certain."""
    # `add(x, y, z)` has one operand too many, and does not want to write into z.
    known = declared.options
    spare = [o for o in TARGET if "out" in known and known.get(o) is not REQUIRED]
    parameters = declared.signature.parameters.values()
    return option_error(
        declared.name,
        [p for p in parameters if p.name not in spare],
        parameter_types(declared.declaration),
        arguments,
        options,
        declared.sequence,
    )


# Errors of wrong calls of plain Python functions.

F = TypeVar("F", bound=Callable[..., Any])
_PLACES = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


# The signature is read only after a failure, so that right calls pay 0.1 us (decision
# 0024).
def explain_wrong_calls(function: F) -> F:
    """Return `function` with our error for calls that do not fit its parameters.

    A call takes 100 to 200 ns more, so use it for functions that allocate. Of a class,
    calls of the constructor have our error.

    Example:
        >>> import mdtensor as md
        >>> md.zeros(2, 3)
        Traceback (most recent call last):
        mdtensor.errors.DispatchError: zeros: expects 1 argument, got 2; shape is a ...
    """
    if isinstance(function, type):
        type.__setattr__(function, "__init__", explain_wrong_calls(_init_of(function)))
        return cast(F, function)
    declared = signature(function)

    @wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        except TypeError:
            _check(function, declared, arguments, options)
            raise

    return cast(F, call)


def _init_of(kind: Any) -> Callable[..., Any]:
    found: Callable[..., Any] = kind.__init__
    return found


def _check(
    function: Any,
    declared: Signature,
    arguments: tuple[Any, ...],
    options: dict[str, Any],
) -> None:
    """Raise `DispatchError` if the call does not fit the signature."""
    name = function.__name__
    is_block = isgeneratorfunction(getattr(function, "__wrapped__", None))
    # You do not write the object of a method as an argument.
    if next(iter(declared.parameters), "") == "self":
        _, *others = declared.parameters.values()
        if name == "__init__":
            name = type(arguments[0]).__name__
        declared, arguments = declared.replace(parameters=others), arguments[1:]
    try:
        declared.bind(*arguments, **options)
    except TypeError as error:
        # Here `object` is any value: only operations write it for tensors.
        types = {n: t for n, t in parameter_types(function).items() if t is not object}
        parameters = declared.parameters
        if options.keys() <= parameters.keys() and (
            found := option_error(name, parameters.values(), types, arguments, options)
        ):
            raise found.within(name) from None
        problem = _problem(declared, len(arguments), options) or str(error)
        header = _python_header(name, declared)
        fix = f"Write with {header}:" if is_block else f"Write {header}"
        raise DispatchError(problem, fix, name) from None


def _problem(declared: Signature, given: int, options: dict[str, Any]) -> str:
    """Return the first thing that is wrong with a call; empty if nothing is."""
    parameters = declared.parameters
    places = [p for p in parameters.values() if p.kind in _PLACES]
    for word in options:
        if word not in parameters:
            ours = option(word, parameters)
            return (
                f"takes {ours}=, not {word}=" if ours else f"{word} is not an argument"
            )
    if given > len(places):
        least = sum(p.default is p.empty for p in places)
        wanted = f"{least} to {len(places)}" if least < len(places) else f"{least}"
        several = [p.name for p in places if p.name in SEVERAL]
        tuples = f"; {several[0]} is a tuple" if several else ""
        plural = "" if wanted == "1" else "s"
        return f"expects {wanted} argument{plural}, got {given}{tuples}"
    left = [p for p in places[given:] if p.default is p.empty and p.name not in options]
    verb = "is" if len(left) == 1 else "are"
    return f"{', '.join(p.name for p in left)} {verb} missing" if left else ""


def _python_header(name: str, declared: Signature) -> str:
    bare = (p.replace(annotation=p.empty) for p in declared.parameters.values())
    return f"{name}{Signature([*bare])}"
