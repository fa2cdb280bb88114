"""Methods of rendered devices that keep what they launch, by the layouts of a call.

    md.softmax(x)      infers, renders, joins four loops into one, and launches
    md.softmax(x)      the same types, shapes, strides and options: launches

A method takes the host 100 to 400 us, longer than most kernels run. It does not look
at elements, so its launches are recorded once, see `recording.py`, and the next call of
the same layouts runs them on its own buffers. A call that must look, or raises, runs as
it is, each time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import update_wrapper
from typing import Any

from mdtensor.dispatch.operation import Operation
from mdtensor.dispatch.settings import settings
from mdtensor.dtypes import DType
from mdtensor.errors import MdtensorError
from mdtensor.kernels import observe
from mdtensor.rendered.memory import Buffer
from mdtensor.rendered.recording import (
    NoViewError,
    Planned,
    UnknownValueError,
    around,
    is_recording,
    recording,
)
from mdtensor.tensor import Tensor

Run = Callable[..., Any]
#: Calls that a method keeps; a further one drops the oldest.
MOST = 256
#: Values that are equal only if they act the same.
_PLAIN = frozenset((bool, int, str, bytes, type(None), type(...), type))
_INEXACT = frozenset((float, complex))
#: In the place of a call that is not known.
_NEW: Any = object()


class _UnknownKeyError(Exception):
    """A value of a call may change without a sign."""


@dataclass(frozen=True)
class _Call:
    """The launches of a call, and what its results are like.

    Args:
        plan: the launches, a `LaunchPlan`.
        results: tensors around planned buffers.
        make: makes the result of several tensors; None for one.
    """

    plan: Any
    results: list[Any]
    make: Run | None

    def __call__(self, tensors: list[Any]) -> Any:
        """Launch, and return the results.

        Raises:
            NoViewError: a view that was planned would be a copy.
        """
        buffers = self.plan.run([x.buffer for x in tensors])
        if self.make is None:
            return around(self.results[0], buffers[0])
        return self.make(map(around, self.results, buffers))


# Bytes and errors are those of the method (decision 0103).
class Replayed:
    """A method that replays calls of known layouts.

    Args:
        run: the method.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._known: dict[Any, Any] = {}
        update_wrapper(self, run)
        self.__module__ = run.__module__

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        if is_recording() or observe.ACTIVE:
            return self._run(*arguments, **options)
        tensors: list[Any] = []
        try:
            found = self._find(arguments, options, tensors)
            if found is not None:
                return found(tensors)
        except (_UnknownKeyError, NoViewError):
            pass
        return self._run(*arguments, **options)

    def _find(
        self, arguments: tuple[Any, ...], options: dict[str, Any], tensors: list[Any]
    ) -> _Call | None:
        """Return the launches of a call; None if it must run as it is.

        Args:
            tensors: a list that gets the tensors of the call.

        Raises:
            _UnknownKeyError: nothing tells such a call from others.
        """
        key: list[Any] = [Operation.changes, settings()]
        for x in arguments:
            _add(x, tensors, key)
        if options:
            key += options
            for x in options.values():
                _add(x, tensors, key)
        whole = tuple(key)
        # In one step, since another thread may drop it.
        found: _Call | None = self._known.get(whole, _NEW)
        if found is not _NEW:
            return found
        if len(self._known) >= MOST:
            # A list, since another thread may add a call meanwhile.
            self._known.pop(list(self._known)[0], None)  # noqa: RUF015
        self._known[whole] = found = _planned(self._run, arguments, options)
        return found


def _add(x: Any, tensors: list[Any], key: list[Any]) -> None:
    """Append to `key` all that two arguments must share.

    Args:
        tensors: a list that gets the tensors.

    Raises:
        _UnknownKeyError: nothing tells the value from others.
    """
    kind = type(x)
    if issubclass(kind, Tensor):
        _add_tensor(x, tensors, key)
    elif kind in _PLAIN:
        key += kind, x
    elif kind in _INEXACT:
        # The text tells -0.0 from 0.0, and finds a NaN again.
        key += kind, repr(x)
    elif kind is tuple or kind is list:
        key += kind, len(x)
        for part in x:
            _add(part, tensors, key)
    elif kind is slice:
        _add((slice, x.start, x.stop, x.step), tensors, key)
    else:
        key += kind, _constant(x)


def _add_tensor(x: Any, tensors: list[Any], key: list[Any]) -> None:
    buffer = x.buffer
    # A tensor of the host may be next to those of a device.
    if not isinstance(buffer, Buffer):
        raise _UnknownKeyError
    tensors.append(x)
    key += type(x), buffer.shape, buffer.strides, buffer.is_writable
    if x.dtype.kind == "quantized":
        key.append(x.qparams.trace_key)


def _constant(x: Any) -> Any:
    """Return what is equal for constants that act the same."""
    if isinstance(x, DType):
        return x
    if not hasattr(type(x), "trace_key"):
        raise _UnknownKeyError
    return x.trace_key


def _planned(run: Run, given: tuple[Any, ...], options: dict[str, Any]) -> _Call | None:
    """Return the launches of a call; None if it must run as it is."""
    # Here, because most programs launch nothing.
    from mdtensor.rendered.launch_plan import LaunchPlan

    tensors: list[Tensor] = []

    def plan(x: Any) -> Any:
        if isinstance(x, Tensor):
            tensors.append(around(x, Planned.like(len(tensors), x.buffer)))
            return tensors[-1]
        return type(x)(map(plan, x)) if type(x) in (tuple, list) else x

    try:
        with recording() as records:
            arguments = [plan(x) for x in given]
            made = run(*arguments, **{name: plan(x) for name, x in options.items()})
        results, make = _results(made, tensors)
        device = tensors[0].device
        plan_made = LaunchPlan(device, records, [x.buffer for x in results])
    except (UnknownValueError, MdtensorError):
        # An error of the call is raised when it runs.
        return None
    return _Call(plan_made, results, make)


def _results(made: Any, given: list[Any]) -> tuple[list[Any], Run | None]:
    """Return the tensors of a result, and what makes the result of them.

    Raises:
        UnknownValueError: a part is no tensor, an argument, or has a buffer already.
    """
    is_one = isinstance(made, Tensor)
    results = [made] if is_one else [*made] if isinstance(made, tuple | list) else []
    for x in results:
        if not isinstance(x, Tensor) or not isinstance(x.buffer, Planned):
            raise UnknownValueError("a part of the result is not planned")
        if any(x is one for one in given):
            raise UnknownValueError("the result is an argument")
    if not results:
        raise UnknownValueError("the call has no result")
    make = getattr(type(made), "_make", type(made))
    return results, None if is_one else make
