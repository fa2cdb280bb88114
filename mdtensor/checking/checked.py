"""`checked`: a `with` block that audits the calls in it."""

from __future__ import annotations

import functools
import sys
from contextlib import ContextDecorator
from types import FrameType
from typing import Any

from mdtensor.audited import LOGS as LOGS
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
    """A block or function whose calls are audited; each entry makes a new log.

    You may enter it again, in several threads or tasks at once, or within itself.
    """

    def __init__(self, raises: bool) -> None:
        self.raises = raises

    def __enter__(self) -> Log:
        log = Log()
        # Audits cost nothing outside of blocks: calls are wrapped only while one is
        # open.
        switch(_audit_method, 1)
        LOGS.set((*LOGS.get(), (log, self)))
        return log

    def __exit__(self, *_: object) -> None:
        switch(_audit_method, -1)
        # Blocks of several tasks may end in another order than they began.
        logs = LOGS.get()
        mine = [at for at, (_, block) in enumerate(logs) if block is self][-1:]
        LOGS.set(tuple(item for at, item in enumerate(logs) if at not in mine))


def checked(*, raises: bool = False) -> Checked:
    """Count the elements that calls in a `with` block wrap, saturate or round.

    Results of operations that have an audit (docs/how-to/checked.md) are compared
    with the exact ones, element by element, and do not change. The block checks the
    calls of its own thread and of the tasks that it starts. Calls inside a call belong
    to it, and a loaded model runs call by call. Results on other devices than the host
    are not checked.

    Args:
        raises: raise an error at the first call that loses anything.

    Returns:
        A block that you may enter again; `as` gives a new `Log` each time. The log is
        true if anything was lost. Iterate over it to get one `Entry` for each source
        line, operation and types. `log.lost` counts elements by kind, `log.headroom` is
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
    """Return whether a log of the current context records calls."""
    return bool(LOGS.get())


def _audit_method(selection: Selection, function: Implementation) -> Implementation:
    """Return `function`, with its audits around it if it has any."""
    operation = selection.operation
    if not is_audited(operation):
        return function

    return counting(operation.name, function, functools.partial(findings, operation))


def counting(name: str, function: Implementation, audit: Audit) -> Implementation:
    """Return a `function` that `audit` checks in logs, for functions without dispatch.

    Args:
        name: the name of the function in logs.
        function: takes tensors and options.
        audit: takes the `Case` of a call and yields `Lost` and `Headroom`.

    Returns:
        A function with the same results.

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
        logs = LOGS.get()
        if not logs:
            return function(*arguments, **options)
        # Calls inside this call are part of it, so they must not log themselves.
        token = LOGS.set(())
        try:
            result = function(*arguments, **options)
            found = list(audit(Case(arguments, options, result, function)))
        finally:
            LOGS.reset(token)
        key = Key(_place(), name, tuple(type(x).__name__ for x in arguments))
        for log, _ in logs:
            log.note(key, getattr(result, "size", 0), found)
        if any(block.raises for _, block in logs):
            _raise_on_loss(name, arguments, result, found)
        return result

    return call


def _raise_on_loss(
    name: str, arguments: tuple[Any, ...], result: Any, found: list[Any]
) -> None:
    for item in found:
        if isinstance(item, Lost) and item.count:
            raise LossError(
                f"{item.count} of {result.size} elements {item.kind}",
                FIXES.get(item.kind, ""),
                describe(name, *arguments),
            )


def _place() -> str:
    """Return `file.py:line` of the nearest caller outside mdtensor."""
    # Skip this function and the wrapper that called it.
    frame = sys._getframe(2)
    while frame.f_back is not None and _is_ours(frame):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _is_ours(frame: FrameType) -> bool:
    module = frame.f_globals.get("__name__", "")
    return module.partition(".")[0] == "mdtensor" or (
        # Generated call functions live in their declaration's module, which may be
        # yours.
        frame.f_code.co_filename.startswith(("<call of ", "<first call of "))
    )
