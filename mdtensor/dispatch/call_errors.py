"""The error of a call that no method fits, or more than one: types only, no values.

Names the first argument that rules out the nearest method, the nearest methods with
their places, and a way out: how the wanted type is made (`offer` of its class), what
the type of that argument suggests (`remedy`), a cast after which a method is found, or
the method that decides a tie.

Texts stay below 2,000 characters, however many arguments there are and however long
their names: a sequence of a thousand tensors is a call, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from inspect import Parameter, Signature, signature
from itertools import takewhile
from numbers import Number
from typing import Any, NoReturn, TypeVar, cast

import plum

from mdtensor import dtypes
from mdtensor.dispatch.call import MISSING, TARGET, is_named
from mdtensor.dispatch.checks import is_of_annotations
from mdtensor.dispatch.declaration import REQUIRED, members, type_name
from mdtensor.dispatch.suggestions import option
from mdtensor.dtypes import DType
from mdtensor.errors import (
    AmbiguousDispatchError,
    CastError,
    DispatchError,
    NoMethodError,
    OptionError,
    PromotionError,
    describe,
    grids,
)

#: Methods, and types of arguments, that are shown.
SHOWN = 3
SHOWN_TYPES = 8
#: Casts that are tried; of those that are exact, and of the others, in this order.
CASTS = (
    dtypes.float32,
    dtypes.int64,
    dtypes.bool_,
    dtypes.float64,
    dtypes.complex64,
    dtypes.complex128,
)
_NUMBERS = (bool, int, float, complex)
#: What holds numbers, and is no tensor.
_VALUES = (list, tuple, range, *_NUMBERS)


def ambiguous(operation: Any, types: tuple[type, ...]) -> AmbiguousDispatchError:
    """Two or more methods fit, and none is more specific than all others."""
    fits = [m for m in operation.methods if all(m.fitting(types))]
    header = _header(operation, types, fits)
    fix = f"Fitting: {_listed(fits)}" + (f". Define {_cut(header)}" if header else "")
    known = called(operation, types), types, _places(fits), header
    return AmbiguousDispatchError("more than one method fits", fix, *known)


def no_method(operation: Any, types: tuple[type, ...]) -> NoMethodError:
    """No method fits."""
    call = called(operation, types)
    nearest = sorted(operation.methods, key=lambda m: -sum(m.fitting(types)))[:SHOWN]
    if not nearest:
        return NoMethodError("no method", "Nothing is registered yet", call, types)
    problem, name, culprit, hint = _culprit(operation, types, nearest[0])
    casts = tuple(_casts(operation, types, nearest[0], name))
    # A type that no number has by itself says how its tensors are made.
    offer = "" if hasattr(culprit, "offer") else _cut(str(getattr(hint, "offer", "")))
    remedy = offer or _way_out(operation, types, culprit, name)
    remedy = remedy or (f"Use {casts[0]}" if casts else "")
    fix = f"{remedy}. Nearest: " if remedy else "Nearest: "
    known = call, types, _places(nearest), name, casts
    return NoMethodError(problem, fix + _listed(nearest), *known)


def undeclared(
    operation: Any, types: tuple[type, ...], name: str, given: type, want: str
) -> NoMethodError:
    """An argument is of a type that the declaration rules out."""
    problem = f"{name} is {_cut(given.__name__, 48)}, not {_cut(want)}"
    call = called(operation, types)
    return NoMethodError(problem, _remedy(given, name), call, types, (), name)


def refuse_annotations(operation: Any, types: tuple[type, ...]) -> None:
    """Refuse the types of annotations, `list[int]`, which plum cannot place.

    Raises:
        NoMethodError: there is one.
    """
    if any(map(is_of_annotations, types)):
        call = called(operation, types)
        raise NoMethodError("an argument is an annotation", "Give a value", call, types)


def unrounded(arguments: Iterable[Any]) -> OptionError:
    """`out=` is given to a method that has nothing on a grid."""
    return OptionError(
        "out= and rounding= are grid and rule of a quantized result, and this method "
        f"has none{grids(arguments)}",
        "Leave them away, or quantize the arguments first",
    )


def refuse_out(operation: Any, *arguments: Any, **_: Any) -> NoReturn:
    """Runs in place of such a method."""
    given = [x for x in arguments if x is not None]
    raise unrounded(given).within(describe(operation.name, *given))


def called(operation: Any, types: tuple[type, ...]) -> str:
    """`add(Float32Tensor, str)`; of many types the first ones, and how many follow."""
    shown = [_cut(t.__name__, 48) for t in types[:SHOWN_TYPES]]
    if len(types) > SHOWN_TYPES:
        shown.append(f"{len(types) - SHOWN_TYPES} more")
    return f"{operation.name}({', '.join(shown)})"


def _cut(text: str, most: int = 200) -> str:
    """One line of at most `most` characters; the middle goes."""
    text = " ".join(text.split())
    half = most // 2 - 2
    return text if len(text) <= most else f"{text[:half]}...{text[-half:]}"


def _listed(methods: list[Any]) -> str:
    shown = [f"{_signature(m)} at {_cut(m.location, 100)}" for m in methods[:SHOWN]]
    more = len(methods) - SHOWN
    return "; ".join(shown) + (f"; {more} more" if more > 0 else "")


def _signature(method: Any) -> str:
    text = str(method)
    for hint in (*method.signature.types, method.signature.varargs):
        text = _worded(text, hint)
    return _cut(text)


def _places(methods: list[Any]) -> tuple[str, ...]:
    return tuple(f"{m} at {m.location}" for m in methods)


def _header(operation: Any, types: tuple[type, ...], fits: list[Any]) -> str:
    """The header of a method below all that fit: the narrowest of each argument."""
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
    """The first argument that does not fit: in words, its name, its type, what fits."""
    one = [f"{operation.dispatched[0]}[{at}]" for at in range(len(types))]
    names = one if operation.sequence else operation.dispatched
    hints = nearest.signature.expand_varargs(len(types))
    columns = zip(names, types, hints, nearest.fitting(types), strict=False)
    for name, given, hint, fits in columns:
        if not fits:
            known, want = _cut(given.__name__, 48), _cut(_worded(type_name(hint), hint))
            return f"no method: {name} is {known}, not {want}", name, given, hint
    return "no method", "", None, None


def _way_out(
    operation: Any, types: tuple[type, ...], culprit: type | None, name: str
) -> str:
    """Return what to write for the argument; only what a method is then found for."""
    if not hasattr(culprit, "ways"):
        return _remedy(culprit, name)
    found = []
    for at, (words, _) in enumerate(culprit.ways()):
        changed = tuple(t.ways()[at][1] if hasattr(t, "ways") else t for t in types)
        selection = operation.find(changed)
        if selection and not _is_refused(selection):
            found.append(re.sub(r"\bx\b", name or "x", words))
    return f"Use {' or '.join(found)}" if found else ""


def _worded(text: str, hint: Any) -> str:
    """Return `text` with kinds of tensors as a user calls them."""
    for kind in members(hint):
        words = getattr(kind, "in_words", "")
        if words and not hasattr(kind, "dtype"):
            text = re.sub(rf"\b{kind.__name__}\b", words, text)
    return text


def _remedy(given: type | None, name: str) -> str:
    x = name or "x"
    if given is None:
        return ""
    if given.__name__.lower().endswith("dtype"):
        return "Use astype(x, dtype) for another element type"
    if given.__module__.startswith("numpy") or given in _VALUES:
        return f"Use asarray({x}) to make it a tensor"
    if hasattr(given, "__dlpack__") and not hasattr(given, "with_dtype"):
        return f"Use from_dlpack({x}) to make it a tensor"
    if issubclass(given, Number):
        return f"Use float({x})"
    return _cut(str(getattr(given, "remedy", "")))


def _casts(
    operation: Any, types: tuple[type, ...], nearest: Any, name: str
) -> Iterator[str]:
    """Casts of the tensors that do not fit, after which one method is found."""
    placed = list(zip(map(_open, types), nearest.fitting(types), strict=False))
    castable = [t for t, fits in placed if not fits]
    is_full = operation.sequence or len(types) == len(operation.dispatched)
    if not (is_full and castable and all(map(_is_plain, castable))):
        return
    sources = {t.dtype for t in castable}
    beside = [t.dtype for t, fits in placed if fits and _is_plain(t)]
    known = [to for to in dict.fromkeys((*beside, *CASTS)) if _is_allowed(sources, to)]
    x = name if len(castable) == 1 else "x"

    def found(to: DType) -> Any:
        return operation.find(
            tuple(t if fits else t.with_dtype(to) for t, fits in placed)
        )

    for to in sorted(known, key=lambda to: bool(_loss(sources, to))):
        # What takes numbers wants no number's truth.
        is_meant = to is not dtypes.bool_ or not found(dtypes.int64)
        if is_meant and (selection := found(to)) and not _is_refused(selection):
            yield f"astype({x}, {to}){_loss(sources, to)}"


def _open(cls: type) -> Any:
    """`cls`, of which more is asked than what every class has."""
    return cls


def _is_refused(selection: Any) -> bool:
    """Whether deduction refuses these types, as those without a common one."""
    kinds = selection.types
    if not all(kind in _NUMBERS or hasattr(kind, "spec") for kind in kinds):
        return False
    arguments = [k(1) if k in _NUMBERS else k.spec((2, 2)) for k in kinds]
    try:
        selection.deduce(*arguments)
    except (DispatchError, PromotionError, CastError):
        return True
    except Exception:  # of shapes or options, which are not those of the call
        return False
    return False


def _is_plain(cls: Any) -> bool:
    """Whether it is a type of tensors that `astype` casts."""
    dtype = getattr(cls, "dtype", None)
    return isinstance(dtype, DType) and (_is_number(dtype) or dtype.kind == "bool")


def _is_number(dtype: DType) -> bool:
    return dtype.is_integer or dtype.is_floating or dtype.is_complex


def _is_allowed(sources: set[DType], to: DType) -> bool:
    """Complex numbers become complex ones or truth values: `astype` says so."""
    keeps = to.is_complex or to.kind == "bool"
    return keeps or not any(dtype.is_complex for dtype in sources)


def _loss(sources: set[DType], to: DType) -> str:
    """What a cast may lose, in words; nothing if it is exact."""
    losing = [dtype for dtype in sources if not _is_exact(dtype, to)]
    if not losing:
        return ""
    keeps_integers = _is_number(to) and not to.is_integer
    if keeps_integers and all(dtype.is_integer for dtype in losing):
        return f", lossy beyond 2**{to.digits}"
    return ", lossy"


def _is_exact(dtype: DType, to: DType) -> bool:
    """Whether `to` has every element of `dtype`."""
    has_fractions = dtype.is_floating or dtype.is_complex
    keeps_fractions = to.is_floating or to.is_complex
    if has_fractions > keeps_fractions or dtype.is_complex > to.is_complex:
        return False
    return (
        to.minimum <= dtype.minimum
        and dtype.maximum <= to.maximum
        and dtype.digits <= to.digits
    )


def _below(narrow: Any) -> Callable[[Any], bool]:
    return lambda wide: bool(plum.Signature(narrow) <= plum.Signature(wide))


# The arguments of a call, as the declaration has them: how many, and by what name.

#: Parameters of several numbers, which others take one by one.
SEVERAL = ("shape", "axes")


# Wrong calls are analyzed after they failed, so that right ones need no check (decision
# 0024).
def bind(
    declared: Any, arguments: tuple[Any, ...], options: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments that are dispatched on, and options by name.

    Raises:
        DispatchError: too few or too many, or names that are not declared.
    """
    parameters = declared.signature.parameters.values()
    places = [p for p in parameters if p.kind is not p.KEYWORD_ONLY]
    count = len(declared.dispatched)
    _check_names(declared, options)
    least = sum(p.default is p.empty for p in places[:count])
    if not least <= len(arguments) <= len(places):
        raise _miscounted(declared, places, len(arguments))
    named = [p.name for p in places[count:]]
    placed = dict(zip(named, arguments[count:], strict=False))
    for name in options:
        if name in placed:
            raise DispatchError(f"{name} is given twice", declared.schema)
    filled = {**placed, **options}
    for name, default in declared.options.items():
        if default is REQUIRED and name not in filled:
            raise DispatchError(f"{name} is missing", declared.schema)
        if declared.checked and name in filled:
            declared.check(name, filled[name])
    return arguments[:count], filled


def refuse(
    declared: Any,
    arguments: tuple[Any, ...],
    options: dict[str, Any],
    more: tuple[Any, ...] = (),
) -> NoReturn:
    """Say what is wrong with a call that its declaration does not allow.

    Args:
        declared: the operation.
        arguments: those that are dispatched on, and those that come after them.
        options: by name; what is not given is `MISSING`.
        more: what was given by position beyond all of these.

    Raises:
        DispatchError: as `bind` says it, of this call.
    """
    given = (*_given(declared, arguments, bool(more)), *more)
    named = {name: x for name, x in options.items() if x is not MISSING}
    call = describe(declared.name, *given[: len(declared.dispatched)])
    if is_named(declared):
        raise _unnamed(declared, arguments, named, more).within(call)
    try:
        bind(declared, given, named)
    except DispatchError as error:
        raise error.within(call) from None
    raise AssertionError(f"{call} was refused, and is as declared")


def _unnamed(
    declared: Any, arguments: tuple[Any, ...], options: Iterable[str], more: Any
) -> DispatchError:
    """As of functions of Python, whose parameters all have names."""
    fix = f"They are {', '.join(declared.dispatched)}"
    for name in options:
        if name not in declared.options:
            ours = option(name, (*declared.dispatched, *declared.options))
            problem = (
                f"takes {ours}=, not {name}=" if ours else f"{name} is no argument"
            )
            return DispatchError(problem, fix)
    pairs = zip(declared.dispatched, arguments, strict=False)
    missing = [name for name, x in pairs if x is MISSING]
    if missing and not more:
        verb = "is" if len(missing) == 1 else "are"
        return DispatchError(f"{', '.join(missing)} {verb} missing", fix)
    places = [declared.signature.parameters[name] for name in declared.dispatched]
    return _miscounted(declared, places, len(arguments) + len(more))


def _given(declared: Any, arguments: Iterable[Any], all: bool) -> list[Any]:
    """The arguments before the first that is missing, without defaults at their end."""
    found = list(takewhile(lambda x: x is not MISSING, arguments))
    defaults = [p.default for p in declared.signature.parameters.values()]
    while not all and found and found[-1] is defaults[len(found) - 1]:
        found.pop()
    return found


def _check_names(declared: Any, names: Iterable[str]) -> None:
    """Refuse options that are not declared."""
    for name in names:
        if name in declared.dispatched:
            fix = f"Write {declared.name}({', '.join(declared.dispatched)})"
            raise DispatchError(f"{name} is given by position, not by name", fix)
        if name not in declared.options:
            ours = option(name, declared.options)
            problem = (
                f"takes {ours}=, not {name}=" if ours else f"{name} is no attribute"
            )
            raise DispatchError(problem, declared.schema)


def _miscounted(declared: Any, places: list[Any], given: int) -> DispatchError:
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


# Functions of Python that answer wrong calls themselves, as operations do.

F = TypeVar("F", bound=Callable[..., Any])
_PLACES = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


# The signature is read only after a failure, so that right calls pay 0.1 us (decision
# 0024).
def answered(function: F) -> F:
    """`function`, with an error of ours for calls that do not fit its parameters.

    For functions that allocate: a call takes 100 to 200 ns more.

    Example:
        >>> import mdtensor as md
        >>> md.zeros(2, 3)
        Traceback (most recent call last):
        mdtensor.errors.DispatchError: zeros: expects 1 argument, got 2; shape is a ...
    """
    declared = signature(function)

    @wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        except TypeError:
            _check(function.__name__, declared, arguments, options)
            raise

    return cast(F, call)


def _check(
    name: str, declared: Signature, arguments: tuple[Any, ...], options: dict[str, Any]
) -> None:
    try:
        declared.bind(*arguments, **options)
    except TypeError as error:
        problem = _problem(declared, len(arguments), options) or str(error)
        raise DispatchError(problem, _python_header(name, declared), name) from None


def _problem(declared: Signature, given: int, options: dict[str, Any]) -> str:
    parameters = declared.parameters
    places = [p for p in parameters.values() if p.kind in _PLACES]
    for word in options:
        if word not in parameters:
            ours = option(word, parameters)
            return f"takes {ours}=, not {word}=" if ours else f"{word} is no argument"
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
    return f"Write {name}{Signature([*bare])}"
