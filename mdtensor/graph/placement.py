"""The choice of a device: the one that is expected to be the fastest for some work.

    time = steps * call + sum of max(bytes / bandwidth, macs / rate) + moved / link

A device takes part if it says how much memory is free. Its speed is measured, once a
process, by three calls of operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from time import perf_counter
from typing import NamedTuple

import numpy as np

from mdtensor.device import Device, cpu
from mdtensor.errors import AllocationError, DeviceError, MdtensorError
from mdtensor.generics.arithmetic import add
from mdtensor.generics.matmul import matmul
from mdtensor.tensor import from_numpy

#: Elements of the sum, and rows of the product, that are measured; how often they run.
_ELEMENTS, _ROWS, _REPEATS = 1 << 21, 256, 10


class Speed(NamedTuple):
    """What a device does in a second.

    Args:
        bandwidth: bytes that calls read and write.
        macs: multiply-accumulates of float32 products.
        call: seconds of a call of one element.
        link: bytes that are copied from the host; infinite on the host.
    """

    bandwidth: float
    macs: float
    call: float
    link: float


class Work(NamedTuple):
    """What a graph asks of a device.

    Args:
        steps: the multiply-accumulates of each call, and the bytes that it reads and
            writes.
        memory: the most bytes in use at a time.
        moved: bytes of inputs and results.
    """

    steps: Sequence[tuple[int, int]]
    memory: int
    moved: int


class Choice(NamedTuple):
    """One device for some work.

    Args:
        device: the device.
        seconds: the expected time.
        free: the bytes that it can still give.
        why: the reason why it cannot be chosen; empty if it can.
    """

    device: Device
    seconds: float
    free: int
    why: str

    def __str__(self) -> str:
        return f"{self.device}: {self.why or f'{1e3 * self.seconds:.3g} ms expected'}"


@cache
def speed_of(device: Device) -> Speed:
    """Return the speed of a device, measured at the first call.

    Raises:
        MdtensorError: the device lacks float32, its sum or its product.
    """
    large, square = np.ones(_ELEMENTS, np.float32), np.ones((_ROWS, _ROWS), np.float32)
    x, m, one = (from_numpy(a).to(device) for a in (large, square, large[:1].copy()))

    def seconds(run: Callable[[], object]) -> float:
        times = []
        for _ in range(_REPEATS + 1):
            start = perf_counter()
            run()
            device.synchronize()
            times.append(perf_counter() - start)
        # The first one compiles.
        return max(min(times[1:]), 1e-9)

    call = seconds(lambda: add(one, one))
    copy = np.inf if device is cpu else seconds(lambda: device.from_host(large))
    return Speed(
        3 * large.nbytes / seconds(lambda: add(x, x)),
        _ROWS**3 / seconds(lambda: matmul(m, m)),
        call,
        large.nbytes / copy if device is not cpu else np.inf,
    )


def expected(work: Work, speed: Speed) -> float:
    """Return the seconds that some work is expected to take."""
    inner = sum(
        max(size / speed.bandwidth, macs / speed.macs) for macs, size in work.steps
    )
    return len(work.steps) * speed.call + inner + work.moved / speed.link


# A device is never chosen unless you ask for it (decision 0096).
def choices(
    work: Work,
    devices: Iterable[Device],
    lacks: Callable[[Device], str],
    speeds: Mapping[Device, Speed] | None = None,
) -> list[Choice]:
    """Return what each device means for some work, the fastest usable one first.

    Args:
        work: what the graph asks.
        devices: the devices to look at.
        lacks: returns the reason why a device cannot run the graph, or nothing.
        speeds: of some devices; others are measured.
    """
    found = []
    for place in devices:
        free = place.free_bytes
        why = place.missing or ("" if free is not None else "its memory is not known")
        if not why and work.memory > (free or 0):
            why = f"{work.memory:,} bytes are needed, {free:,} are free"
        try:
            why = why or lacks(place)
            speed = None if why else (speeds or {}).get(place) or speed_of(place)
        except MdtensorError as error:
            why, speed = f"it was not measured: {error.problem}", None
        seconds = np.inf if speed is None else expected(work, speed)
        found.append(Choice(place, float(seconds), free or 0, why))
    # Of equal ones the first: the host is registered before all others.
    return sorted(found, key=lambda choice: choice.seconds)


def fastest(work: Work, found: Sequence[Choice], name: str) -> Device:
    """Return the device of the first choice.

    Raises:
        AllocationError: no device has the memory.
        DeviceError: no device runs the graph.
    """
    if found and not found[0].why:
        return found[0].device
    listed = "; ".join(map(str, found)) or "there is none"
    is_full = any(0 < choice.free < work.memory for choice in found)
    kind = AllocationError if is_full else DeviceError
    raise kind(f"no device can run it: {listed}", "Give less at a time", name)
