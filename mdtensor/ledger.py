"""The ledger of devices: what was launched, copied and waited for, and by which line.

    with md.trace_device() as log:
        y = model(x.to("emucuda"))
    print(log)                       # launches, copies with bytes, waits with reasons

    with md.no_sync(), md.no_transfer():
        y = md.softmax(x * 2)        # raises if anything waits, or is copied

Devices report here; a device that does not report has an empty ledger. The host does
not queue and not copy, so it has none.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from mdtensor.device import Device, device as find_device
from mdtensor.errors import DeviceError

TO_DEVICE, TO_HOST, ON_DEVICE = "to device", "to host", "on device"


class Launch(NamedTuple):
    """A kernel that was put into a stream.

    Args:
        device: the name of the device.
        kernel: the name of the kernel.
        place: `file.py:line` of the caller outside of mdtensor.
    """

    device: str
    kernel: str
    place: str

    def __str__(self) -> str:
        return f"{self.device}  launch  {self.kernel}  {self.place}"


class Copy(NamedTuple):
    """A copy of a buffer.

    Args:
        device: the name of the device.
        direction: `to device` or `to host`.
        size: in bytes.
        place: as for `Launch`.
    """

    device: str
    direction: str
    size: int
    place: str

    def __str__(self) -> str:
        head = f"{self.device}  copy {self.direction}"
        return f"{head}  {self.size} bytes  {self.place}"


class Wait(NamedTuple):
    """A call that waits until launches have run.

    Args:
        device: the name of the device.
        reason: why: `synchronize`, `event`, `stream`, `read`, or what reads.
        place: as for `Launch`.
    """

    device: str
    reason: str
    place: str

    def __str__(self) -> str:
        return f"{self.device}  wait  {self.reason}  {self.place}"


Entry = Launch | Copy | Wait


class Ledger:
    """What one `trace_device` block has seen so far, in order."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    @property
    def launches(self) -> list[Launch]:
        return [one for one in self.entries if isinstance(one, Launch)]

    @property
    def copies(self) -> list[Copy]:
        return [one for one in self.entries if isinstance(one, Copy)]

    @property
    def waits(self) -> list[Wait]:
        return [one for one in self.entries if isinstance(one, Wait)]

    def size(self, direction: str) -> int:
        """Return the bytes that were copied in a direction."""
        return sum(one.size for one in self.copies if one.direction == direction)

    def __str__(self) -> str:
        return "\n".join(map(str, self.entries))


_LEDGERS: ContextVar[tuple[Ledger, ...]] = ContextVar("ledgers", default=())
#: What no block around the caller allows: `waits` and `copies`.
_FORBIDDEN: ContextVar[frozenset[str]] = ContextVar("forbidden", default=frozenset())
_REASON: ContextVar[str] = ContextVar("reason", default="")


@contextmanager
def trace_device() -> Iterator[Ledger]:
    """Record the launches, copies and waits of a block, of all devices.

    The ledger has those of the block's own thread and of tasks that it starts, in the
    order in which they are asked for, not in which a device runs them.

    Returns:
        A `Ledger`, which grows; `print` lists its entries.

    Example:
        >>> import mdtensor as md
        >>> with trace_device() as log:
        ...     y = md.asarray([1.0]) + 1
        >>> len(log.entries)  # on the host nothing is queued
        0

    Source: CUDA Profiling Tools Interface, "Activity API".
    """
    log = Ledger()
    token = _LEDGERS.set((*_LEDGERS.get(), log))
    try:
        yield log
    finally:
        _LEDGERS.reset(token)


@contextmanager
def no_sync() -> Iterator[None]:
    """Let the first wait for a device in a block raise, before it waits.

    Raises:
        DeviceError: something waits; the error has the reason and the line.

    Example:
        >>> import mdtensor as md
        >>> with no_sync():
        ...     md.asarray([1.0]).tolist()  # the host has nothing to wait for
        [1.0]

    Source: CuPy, `cupyx.allow_synchronize`.
    """
    with _forbidding("waits"):
        yield


@contextmanager
def no_transfer() -> Iterator[None]:
    """Let the first copy between host and device in a block raise.

    A first call may copy constants, as tables of codes; make it before the block.

    Raises:
        DeviceError: something is copied; the error has the bytes and the line.

    Example:
        >>> import mdtensor as md
        >>> with no_transfer():
        ...     md.asarray([1.0]).tolist()  # the host shares its memory
        [1.0]
    """
    with _forbidding("copies"):
        yield


@contextmanager
def _forbidding(what: str) -> Iterator[None]:
    token = _FORBIDDEN.set(_FORBIDDEN.get() | {what})
    try:
        yield
    finally:
        _FORBIDDEN.reset(token)


class MemoryStats(NamedTuple):
    """The memory of a device, in bytes.

    Args:
        used: in buffers that something holds.
        pooled: kept for later buffers.
        peak: the most that was used at a time, since the process began.
    """

    used: int
    pooled: int
    peak: int


def memory_stats(device: Device | str) -> MemoryStats:
    """Return how much memory of a device is used, pooled, and was used at most.

    Raises:
        DeviceError: the device does not count its memory.

    Example:
        >>> memory_stats("cpu")
        Traceback (most recent call last):
        mdtensor.errors.DeviceError: cpu does not count its memory. Use a device ...
    """
    place = find_device(device)
    count = getattr(place, "memory_stats", None)
    if count is None:
        fix = "Use a device with memory of its own, such as emucuda"
        raise DeviceError(f"{place} does not count its memory", fix)
    found: MemoryStats = count()
    return found


# What devices report.


@contextmanager
def because(reason: str) -> Iterator[None]:
    """Give the waits of a block a reason, such as `astype counts what does not fit`."""
    token = _REASON.set(reason)
    try:
        yield
    finally:
        _REASON.reset(token)


def launched(device: Device, kernel: str) -> None:
    """Report a launch."""
    if _LEDGERS.get():
        _write(Launch(device.name, kernel, _place(device)))


def copied(device: Device, direction: str, size: int) -> None:
    """Report a copy, before it is made.

    Raises:
        DeviceError: a `no_transfer` block is open.
    """
    if "copies" in _FORBIDDEN.get() and direction != ON_DEVICE:
        problem = f"{size} bytes are copied {direction} at {_place(device)}"
        fix = "Move it out of the no_transfer block, or call once before"
        raise DeviceError(f"{device}: {problem}", fix)
    if _LEDGERS.get():
        _write(Copy(device.name, direction, size, _place(device)))


def waited(device: Device, reason: str) -> None:
    """Report a wait, before it begins.

    Raises:
        DeviceError: a `no_sync` block is open.
    """
    why = _REASON.get() or reason
    if "waits" in _FORBIDDEN.get():
        problem = f"{device}: waits ({why}) at {_place(device)}"
        raise DeviceError(problem, "Move it out of the no_sync block")
    if _LEDGERS.get():
        _write(Wait(device.name, why, _place(device)))


def _write(entry: Entry) -> None:
    for log in _LEDGERS.get():
        log.entries.append(entry)


def _place(device: Device) -> str:
    """Return `file.py:line` of the innermost caller outside of mdtensor.

    Files of the package that has the device are not callers either.
    """
    package = type(device).__module__.partition(".")[0]
    # A device in a script is in the same file as its user.
    ours = {"mdtensor", "contextlib", package} - {"__main__"}
    frame = sys._getframe(1)
    while frame.f_back is not None:
        name = frame.f_globals.get("__name__") or ""
        # Calls of operations run generated code, and contextlib the ends of blocks.
        is_ours = name.partition(".")[0] in ours
        if not is_ours and not frame.f_code.co_filename.startswith("<"):
            break
        frame = frame.f_back
    return f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno}"
