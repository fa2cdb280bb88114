"""`mdtensor serve`: sockets, limits on clients that do not finish, and the end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h11
import numpy as np
import typer
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

import mdtensor as md
from mdtensor.cli.samples import parse_shapes
from mdtensor.cli.serve.app import Service
from mdtensor.cli.serve.batches import Batches, run, why_alone
from mdtensor.cli.serve.bodies import Bodies
from mdtensor.cli.serve.metrics import Metrics
from mdtensor.errors import OptionError
from mdtensor.quant.model.load import load
from mdtensor.quant.model.model import Model

#: Seconds in which the head of a request must arrive.
HEAD_SECONDS = 10
#: Connections at a time, and seconds for requests that run when the server ends.
CONNECTIONS, LAST_SECONDS = 512, 10


@dataclass(frozen=True)
class Limits:
    """What a server allows.

    Args:
        batch: the most rows of a call.
        delay: seconds for which a request waits for others.
        megabytes: the size of a request.
        seconds: the time of a request, for its body and for its result each.
        queue: requests that may wait.
    """

    batch: int = 8
    delay: float = 0.002
    megabytes: int = 64
    seconds: float = 30.0
    queue: int = 64

    def __post_init__(self) -> None:
        # A NaN is not at least anything.
        for option, value, least in (
            ("--max-batch", self.batch, 1),
            ("--delay", self.delay, 0),
            ("--max-megabytes", self.megabytes, 1),
            ("--timeout", self.seconds, 0.001),
            ("--queue", self.queue, 1),
        ):
            if not value >= least:
                raise OptionError(f"{option} is {value}", f"Pass at least {least}")


# A client that hangs costs a socket for ten seconds (decision 0073).
class Patient(H11Protocol):  # type: ignore[misc]
    """A connection that ends if the head of a request does not arrive in time.

    uvicorn limits only the time between requests.
    """

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def _watch(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._stop()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_SECONDS, self._end)

    def _stop(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _end(self) -> None:
        self._deadline = None
        if self.conn.their_state is h11.IDLE:
            self.transport.close()


def serve_file(
    model: Path,
    shapes: Sequence[str],
    name: str | None,
    host: str,
    port: int,
    threads: int,
    limits: Limits,
) -> None:
    """Serve a model file until a signal ends the server."""
    network = load(model, parse_shapes(shapes))
    _warm(network)
    why = why_alone(network) if limits.batch > 1 else "--max-batch is 1"
    metrics = Metrics()
    most = limits.batch if why is None else 1
    batches = Batches(network, most, limits.delay, limits.queue, threads, metrics)
    bodies = Bodies(limits.megabytes << 20, limits.seconds)
    known = name or model.stem
    service = Service(known, batches, bodies, limits.seconds, metrics)
    how = f"up to {most} rows a call" if why is None else f"one by one: {why}"
    with _listening(host, port) as place:
        port = place.getsockname()[1]
        address = f"http://{host}:{port}/v2/models/{known}"
        typer.echo(f"serving {model} at {address}, {how}", err=True)
        config = uvicorn.Config(
            service.app(),
            http=Patient,
            ws="none",
            log_level="warning",
            access_log=False,
            limit_concurrency=CONNECTIONS,
            timeout_graceful_shutdown=LAST_SECONDS,
        )
        uvicorn.Server(config).run(sockets=[place])


def _listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 is any free one.

    Raises:
        OptionError: the address cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        # Clients that come while others are accepted wait here.
        return socket.create_server((host, port), family=family, backlog=CONNECTIONS)
    except OSError as error:
        problem = f"the server cannot listen at {host}:{port}: {error.strerror}"
        raise OptionError(problem, "Choose another --port or --host") from None


def _warm(network: Model) -> None:
    """Compile before the first request, where all sizes but the first are known."""
    specs = network.inputs.items()
    if any(md.DYNAMIC in map(int, spec.shape[1:]) for _, spec in specs):
        return
    shapes = {name: [max(1, int(size)) for size in spec.shape] for name, spec in specs}
    zeros = {n: np.zeros(shapes[n], spec.dtype.storage) for n, spec in specs}
    run(network, zeros)
