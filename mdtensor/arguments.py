"""The arguments of a call, as the declaration has them: how many, and by what name."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile
from typing import Any, NoReturn

from mdtensor.dispatch.call import MISSING, TARGET, is_named
from mdtensor.dispatch.declaration import REQUIRED
from mdtensor.dispatch.suggestions import option
from mdtensor.errors import DispatchError, describe

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
