"""Requests that wait at the same time run in one call, if the model allows it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor import quant
from mdtensor.cli.serve.metrics import Metrics
from mdtensor.errors import MdtensorError
from mdtensor.quant import QuantizedTensor, dequantize
from mdtensor.quant.model.model import Model

Arrays = Mapping[str, Any]


class Busy(RuntimeError):
    """So many requests wait already that one more would have to wait too long."""


def run(network: Model, feeds: Arrays) -> dict[str, Any]:
    """Return the real numbers of each result, by name."""
    found = network(**feeds)
    tensors = found if isinstance(found, tuple) else (found,)
    reals = (dequantize(t) if isinstance(t, QuantizedTensor) else t for t in tensors)
    return dict(zip(network.outputs, map(np.asarray, reals), strict=True))


# Bytes must not depend on which clients wait together (decision 0073).
def why_alone(network: Model) -> str | None:
    """Return why requests cannot share a call; None if they can.

    They can if only the first size of each input is open, and two samples in one call
    have the bytes that each has alone.
    """
    return _why_by_shape(network) or _why_by_trial(network)


def _why_by_shape(network: Model) -> str | None:
    for name, spec in network.inputs.items():
        sizes = [int(size) for size in spec.shape]
        if not sizes or sizes[0] != md.DYNAMIC:
            return f"the first size of the input {name!r} is fixed"
        if md.DYNAMIC in sizes[1:]:
            return f"more than the first size of the input {name!r} is open"
    return None if network.inputs else "the model has no inputs"


def _why_by_trial(network: Model) -> str | None:
    """Run two samples together and alone, and compare."""
    one, other = (_probe(network, seed) for seed in (0, 1))
    try:
        together = run(network, _joined([one, other]))
        alone = [run(network, feeds) for feeds in (one, other)]
    except MdtensorError as error:
        return f"a call with two samples raises {type(error).__name__}"
    for name, both in together.items():
        parts = [part[name] for part in alone]
        if not all(part.ndim and part.shape[0] == 1 for part in parts):
            return f"the output {name!r} does not have a row for each sample"
        # An operation across samples, such as a range of the whole batch, shows here.
        if both.tobytes() != np.concatenate(parts).tobytes():
            return f"samples in one call change each other's output {name!r}"
    return None


def _probe(network: Model, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    found = {}
    for name, spec in network.inputs.items():
        shape = (1, *spec.shape[1:])
        dtype = np.dtype(spec.dtype.storage)
        normal = (
            rng.normal(size=shape) if dtype.kind == "f" else rng.integers(2, size=shape)
        )
        found[name] = normal.astype(dtype)
    return found


def _joined(feeds: list[Arrays]) -> dict[str, Any]:
    return {name: np.concatenate([one[name] for one in feeds]) for name in feeds[0]}


@dataclass
class Job:
    """A request that waits.

    Args:
        feeds: its arrays, which fit the model.
        rows: the first size of its arrays.
        result: what its client waits for; it is cancelled if the client is gone.
    """

    feeds: Arrays
    rows: int
    result: asyncio.Future[dict[str, Any]]


class Batches:
    """A queue in front of a model, which one thread runs.

    Args:
        network: the model.
        most: the largest number of rows of a call; 1 for one request each.
        delay: seconds for which the first request of a call waits for others.
        length: how many requests may wait.
        threads: the threads of the model.
        metrics: what counts calls.
    """

    def __init__(
        self,
        network: Model,
        most: int,
        delay: float,
        length: int,
        threads: int,
        metrics: Metrics,
    ) -> None:
        self.network, self.most, self.delay = network, most, delay
        self.length, self.threads, self.metrics = length, threads, metrics
        self._jobs: deque[Job] = deque()
        self._filled = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="model")
        self._task: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        return len(self._jobs)

    def start(self) -> None:
        self._task = asyncio.create_task(self._serve())

    async def stop(self) -> None:
        """End after the call that runs; requests that still wait are cancelled."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        for job in self._jobs:
            job.result.cancel()
        self._thread.shutdown(wait=True)

    async def submit(self, feeds: Arrays) -> dict[str, Any]:
        """Return the results of a request.

        Raises:
            Busy: as many requests wait as may.
        """
        if len(self._jobs) >= self.length:
            raise Busy(f"{self.length} requests wait already. Try again later.")
        rows = min((len(x) for x in feeds.values() if np.ndim(x)), default=1)
        job = Job(feeds, rows, asyncio.get_running_loop().create_future())
        self._jobs.append(job)
        self._filled.set()
        return await job.result

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._filled.wait()
            if self.most > 1 and self.delay:
                await asyncio.sleep(self.delay)
            if batch := self._next():
                found = await loop.run_in_executor(self._thread, self._run, batch)
                self._answer(batch, found)

    def _next(self) -> list[Job]:
        """Take the requests of the next call from the queue."""
        batch: list[Job] = []
        rows = 0
        while self._jobs:
            job = self._jobs[0]
            if batch and rows + job.rows > self.most:
                break
            self._jobs.popleft()
            # A client that has gone, or waited too long, does not need a result.
            if not job.result.done():
                batch.append(job)
                rows += job.rows
        if not self._jobs:
            self._filled.clear()
        return batch

    def _run(self, batch: list[Job]) -> list[Any]:
        """Return results or an error for each request; this runs in the thread."""
        with quant.threads(self.threads), np.errstate(all="ignore"):
            if len(batch) > 1:
                # If the call fails, each runs alone, so that none fails for another.
                with suppress(Exception):
                    found = run(self.network, _joined([job.feeds for job in batch]))
                    self.metrics.count_call(len(batch))
                    return _split(found, [job.rows for job in batch])
            return [self._alone(job) for job in batch]

    def _alone(self, job: Job) -> Any:
        self.metrics.count_call(1)
        try:
            return run(self.network, job.feeds)
        except Exception as error:
            return error

    def _answer(self, batch: list[Job], found: list[Any]) -> None:
        for job, one in zip(batch, found, strict=True):
            if job.result.done():
                continue
            if isinstance(one, Exception):
                job.result.set_exception(one)
            else:
                job.result.set_result(one)


def _split(found: Arrays, rows: list[int]) -> list[dict[str, Any]]:
    places = np.cumsum(rows)[:-1]
    parts = {name: np.split(array, places) for name, array in found.items()}
    return [{name: part[i] for name, part in parts.items()} for i in range(len(rows))]
