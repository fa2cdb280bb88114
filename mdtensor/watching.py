"""Who is told of calls while they happen: traces, checks.

It costs nothing while nobody watches: the tables that calls read stay as they are.
Meanwhile they stay empty, so that every call asks its operation for the method, and
is given one that the watchers have wrapped.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mdtensor.dispatch.method import Implementation, Selection
from mdtensor.dispatch.operation import Operation, operations

#: Given what a call would run, gives what it runs instead.
Watcher = Callable[[Selection, Implementation], Implementation]

_watchers: Counter[Watcher] = Counter()
_lock = threading.Lock()


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Have `watcher` wrap what calls run, those of all threads, in a `with` block."""
    switch(watcher, 1)
    try:
        yield
    finally:
        switch(watcher, -1)


def switch(watcher: Watcher, change: int) -> None:
    """Have `watcher` wrap what calls run once more, or once less, as `change` says.

    Begins with the first watcher, ends with the last.
    """
    with _lock:
        is_first = not _watchers
        _watchers[watcher] += change
        if not _watchers[watcher]:
            del _watchers[watcher]
        Operation.observe = staticmethod(_wrapped) if _watchers else None
        if is_first:
            for call in operations().values():
                call.operation.clear_table()


def _wrapped(selection: Selection, function: Implementation) -> Implementation:
    for watcher in tuple(_watchers):
        function = watcher(selection, function)
    return function
