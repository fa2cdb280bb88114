"""No method after this point: what was checked stays what runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mdtensor.diagnose.finding import MethodInfo, counted
from mdtensor.diagnose.report import Report, analyze
from mdtensor.diagnose.source import Source, sources
from mdtensor.errors import RegistrationError

#: Functions of plum, which cannot be locked, with the number of their registrations.
_WATCHED: dict[int, tuple[Any, int]] = {}


def freeze(functions: Any = None, *, fail_on: str = "error") -> Report:
    """Check some functions, and take no more methods for them.

    From then on registering a method for one of our operations raises. plum's own
    functions cannot be locked: `late` tells what they got since.

    Args:
        functions: as of `analyze`; all operations if it is left out.
        fail_on: the level from which a finding is an error, or `never`.

    Returns:
        The report.

    Raises:
        RegistrationError: there are such findings. Nothing is frozen then.

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
    checked = sources(functions)
    report = analyze([each.call for each in checked])
    found = () if fail_on == "never" else report.at_least(fail_on)
    if found:
        count = counted(len(found), "finding")
        raise RegistrationError(
            f"{count}, the first is {found[0].rule}: {found[0].message}",
            "See diagnose.analyze(), or freeze with fail_on='never'",
        )
    for each in checked:
        if each.is_operation:
            each.call.operation.frozen = True
        else:
            _WATCHED[id(each.call)] = each.call, _registrations(each)
    return report


def thaw(functions: Any = None) -> None:
    """Take methods again.

    Args:
        functions: as of `freeze`.
    """
    for each in sources(functions):
        if each.is_operation:
            each.call.operation.frozen = False
        else:
            _WATCHED.pop(id(each.call), None)


def late() -> tuple[MethodInfo, ...]:
    """The methods that frozen functions of plum were given since.

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
