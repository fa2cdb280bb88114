"""Values that hold in a block, for this thread or this asynchronous task."""

from contextvars import ContextVar
from typing import Generic, TypeVar

T = TypeVar("T")


class Scope(Generic[T]):
    """A context variable that blocks set, and put back when they are left.

    What to put back belongs to the context, not to the block: one block may be entered
    by several threads or tasks at a time, and again inside of itself.

    Args:
        variable: what the blocks set.

    Example:
        >>> scope = Scope(ContextVar("size", default=1))
        >>> scope.enter(2)
        >>> scope.variable.get()
        2
        >>> scope.leave()
        >>> scope.variable.get()
        1
    """

    def __init__(self, variable: ContextVar[T]) -> None:
        self.variable = variable
        self._outer: ContextVar[tuple[T, ...]] = ContextVar("outer", default=())

    def enter(self, value: T) -> None:
        """Set the value."""
        self._outer.set((*self._outer.get(), self.variable.get()))
        self.variable.set(value)

    def leave(self) -> None:
        """Put back what was there; nothing in a context that did not enter."""
        if outer := self._outer.get():
            self._outer.set(outer[:-1])
            self.variable.set(outer[-1])
