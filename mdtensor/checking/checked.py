"""`checked`: a `with` block whose calls are audited."""

from __future__ import annotations

import functools
import sys
from contextlib import ContextDecorator
from contextvars import ContextVar
from types import FrameType
from typing import Any

from mdtensor.checking.audits import (
    FIXES,
    Audit,
    Case,
    Key,
    Log,
    Lost,
    findings,
    is_audited,
)
from mdtensor.dispatch.introspect import switch
from mdtensor.dispatch.method import Implementation, Selection
from mdtensor.errors import LossError, OptionError, describe, shown


class Checked(ContextDecorator):
    """A block, or a function, whose calls are audited; each time in a log of its own.

    It may be entered again, by several threads or tasks at a time, or within itself.
    """

    def __init__(self, raises: bool) -> None:
        self.raises = raises

    def __enter__(self) -> Log:
        log = Log()
        switch(_audited, 1)
        _LOGS.set((*_LOGS.get(), (log, self)))
        return log

    def __exit__(self, *_: object) -> None:
        switch(_audited, -1)
        logs = _LOGS.get()  # blocks may end in another order than they began
        mine = [at for at, (_, block) in enumerate(logs) if block is self][-1:]
        _LOGS.set(tuple(item for at, item in enumerate(logs) if at not in mine))


#: The logs being written here, each with its block.
_LOGS: ContextVar[tuple[tuple[Log, Checked], ...]] = ContextVar("checks", default=())


def checked(*, raises: bool = False) -> Checked:
    """Count what the calls in a `with` block lose: wraps, saturations, lossy casts.

    Results of operations that have an audit (docs/how-to/checked.md) are compared
    with the exact ones, element by element, and stay what they are. Calls of the
    block's own thread and of tasks that it starts are checked; what a call runs inside
    counts as that call, and a loaded model runs call by call. Results on other devices
    than the host are not checked.

    Args:
        raises: end the first call that loses anything with an error.

    Returns:
        A block that may be entered again; each time `as` gives a new `Log`: true if
        anything was lost; iterable, with one `Entry` for each line of source,
        operation and types; `log.lost` counts elements by kind, and `log.headroom` is
        the fewest bits that an integer accumulator had left.

    Raises:
        OptionError: `raises` is neither True nor False.
        LossError: with `raises`, from the call that loses.

    Example:
        >>> import mdtensor as md
        >>> x = md.asarray([100, 20], dtype=md.int8)
        >>> with md.checked() as log:
        ...     y = x + x
        >>> y.tolist(), log.lost
        ([-56, 40], Counter({'wrapped': 1}))
        >>> with md.checked(raises=True):
        ...     x * 2
        Traceback (most recent call last):
        mdtensor.errors.LossError: mul(Int8Tensor[2], int): 1 of 2 elements wrapped. \
Use astype(x, dtype) to a wider type first.

    Source: Rust, `checked_add`; Ada, `Constraint_Error`; for whole arrays.
    """
    if not isinstance(raises, bool):
        fix = "Use True or False"
        raise OptionError(f"raises is {shown(raises)}", fix, "checked")
    return Checked(raises)


def is_checked() -> bool:
    """Whether calls made here and now are written down in a log."""
    return bool(_LOGS.get())


def _audited(selection: Selection, function: Implementation) -> Implementation:
    """`function`, which is audited where there is a log."""
    operation = selection.operation
    if not is_audited(operation):
        return function

    return counting(operation.name, function, functools.partial(findings, operation))


def counting(name: str, function: Implementation, audit: Audit) -> Implementation:
    """`function`, of which `audit` is asked where there is a log; for no operation.

    Args:
        name: what it is called there.
        function: what runs, of tensors and options.
        audit: given the `Case` of a call, yields `Lost` and `Headroom`.

    Returns:
        What gives the results of `function`.

    Example:
        >>> import mdtensor as md
        >>> from mdtensor.checking import Lost, counting
        >>> def first(x):
        ...     return x[:1]
        >>> def rest(case):
        ...     yield Lost("left out", case.arguments[0].size - 1)
        >>> with md.checked() as log:
        ...     _ = counting("first", first, rest)(md.asarray([1, 2, 3]))
        >>> log.lost
        Counter({'left out': 2})
    """

    @functools.wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        logs = _LOGS.get()
        if not logs:
            return function(*arguments, **options)
        token = _LOGS.set(())  # what runs inside is part of this call
        try:
            result = function(*arguments, **options)
            found = list(audit(Case(arguments, options, result, function)))
        finally:
            _LOGS.reset(token)
        key = Key(_place(), name, tuple(type(x).__name__ for x in arguments))
        for log, _ in logs:
            log.note(key, getattr(result, "size", 0), found)
        if any(block.raises for _, block in logs):
            _refuse(name, arguments, result, found)
        return result

    return call


def _refuse(name: str, arguments: Any, result: Any, found: list[Any]) -> None:
    for item in found:
        if isinstance(item, Lost) and item.count:
            raise LossError(
                f"{item.count} of {result.size} elements {item.kind}",
                FIXES.get(item.kind, ""),
                describe(name, *arguments),
            )


def _place() -> str:
    """`file.py:line` of the first caller that is not mdtensor itself."""
    frame = sys._getframe(2)
    while frame.f_back is not None and _is_ours(frame):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _is_ours(frame: FrameType) -> bool:
    module = frame.f_globals.get("__name__", "")
    return module.partition(".")[0] == "mdtensor" or (
        frame.f_code.co_filename.startswith("<call of ")
    )
