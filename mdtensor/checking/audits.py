"""Which operation is asked what: audits look at a call that has been made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from mdtensor.checking.log import Headroom, Lost
from mdtensor.errors import RegistrationError
from mdtensor.tensor import Tensor


@dataclass(frozen=True)
class Case:
    """A call that has been made.

    Args:
        arguments: those that were dispatched on.
        options: all others.
        result: what it returned.
        function: what ran; to be run again with other options.
    """

    arguments: tuple[Any, ...]
    options: dict[str, Any]
    result: Any
    function: Callable[..., Any]


Audit = Callable[[Case], Iterable[Lost | Headroom]]

_AUDITS: dict[Any, list[tuple[type[Tensor], Audit]]] = {}


def audit(*operations: Any, result: type[Tensor] = Tensor) -> Callable[[Audit], Audit]:
    """Have the decorated function asked about calls of `operations` in `checked`.

    Args:
        operations: what `generic` returned.
        result: it is asked where the result is of this kind.

    Returns:
        A decorator. The function takes a `Case` and yields `Lost` and `Headroom`; it
        changes nothing.

    Raises:
        RegistrationError: one is no operation.

    Example:
        >>> import mdtensor as md
        >>> from mdtensor.checking import Lost, audit
        >>> @md.generic
        ... def truncated_half(x, /):
        ...     '''Half of `x`, toward zero.'''
        >>> @md.method(truncated_half)
        ... def truncated_half(x: md.Int8Tensor, /):
        ...     return md.Int8Tensor([value // 2 for value in x.tolist()])
        >>> @audit(truncated_half)
        ... def odd(case):
        ...     (x,) = case.arguments
        ...     yield Lost("rounded", sum(value % 2 for value in x.tolist()))
        >>> with md.checked() as log:
        ...     _ = truncated_half(md.Int8Tensor([2, 3]))
        >>> log.lost
        Counter({'rounded': 1})
    """
    for operation in operations:
        if not hasattr(operation, "operation"):
            name = getattr(operation, "__name__", operation)
            raise RegistrationError(
                f"{name} is no operation", "Give what @generic made"
            )

    def add(function: Audit) -> Audit:
        for operation in operations:
            _AUDITS.setdefault(operation.operation, []).append((result, function))
        return function

    return add


def is_audited(operation: Any) -> bool:
    return operation in _AUDITS


def findings(operation: Any, case: Case) -> Iterator[Lost | Headroom]:
    """What all audits of the operation find in the call."""
    for kind, function in _AUDITS.get(operation, ()):
        if isinstance(case.result, kind):
            yield from function(case)
