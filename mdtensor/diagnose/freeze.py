"""Frozen functions: after a check they take no more methods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mdtensor.diagnose.finding import MethodInfo, quantity
from mdtensor.diagnose.report import Report, analyze
from mdtensor.diagnose.source import Source, sources
from mdtensor.errors import RegistrationError

#: Frozen plum functions, which cannot be locked, with their number of registrations.
_WATCHED: dict[int, tuple[Any, int]] = {}


def freeze(functions: object = None, *, fail_on: str = "error") -> Report:
    """Check functions, and take no more methods for them.

    After that, registering a method for an operation of mdtensor raises. plum's own
    functions cannot be locked: `late` returns the methods that they got since.

    Args:
        functions: functions as in `analyze`; all operations if you omit it.
        fail_on: the lowest level of findings that raises, or `never`.

    Returns:
        The report of the check.

    Raises:
        RegistrationError: there are findings of that level. Then nothing is frozen.

    Example:
        >>> import mdtensor as md
        >>> freeze(md.neg).findings
        ()
        >>> @md.method(md.neg)
        ... def neg(x: md.LogicalTensor, /): ...
        Traceback (most recent call last):
        mdtensor.errors.RegistrationError: neg is frozen, and neg(LogicalTensor) ...
        >>> thaw(md.neg)

    Source: Clojure, which checks its tables again before it caches; ours.
    """
    found = sources(functions)
    report = analyze([each.call for each in found])
    failing = () if fail_on == "never" else report.at_least(fail_on)
    if failing:
        count = quantity(len(failing), "finding")
        raise RegistrationError(
            f"{count}, the first is {failing[0].rule}: {failing[0].message}",
            "See diagnose.analyze(), or freeze with fail_on='never'",
        )
    for each in found:
        if each.is_operation:
            each.call.operation.frozen = True
        else:
            # plum does not offer a lock, so `late` counts registrations instead.
            _WATCHED[id(each.call)] = each.call, _registrations(each)
    return report


def thaw(functions: object = None) -> None:
    """Let functions take methods again.

    Args:
        functions: functions as in `freeze`.
    """
    for each in sources(functions):
        if each.is_operation:
            each.call.operation.frozen = False
        else:
            _WATCHED.pop(id(each.call), None)


def late() -> tuple[MethodInfo, ...]:
    """Return the methods that frozen plum functions got since.

    Example:
        >>> late()
        ()
    """
    return tuple(_late())


def _late() -> Iterator[MethodInfo]:
    for function, count in _WATCHED.values():
        for each in sources(function):
            new = [method for method in each.methods if method.order >= count]
            yield from map(MethodInfo.of, new)


def _registrations(found: Source) -> int:
    orders = [method.order for method in found.methods]
    orders += [broken.method.order for broken in found.unresolved]
    return max(orders, default=-1) + 1
