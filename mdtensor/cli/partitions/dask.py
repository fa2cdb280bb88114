"""The engine of a dask cluster: dask://host:port is the address of its scheduler.

Model, data and results must be on a file system that all workers see. Dask runs the
task of a killed worker again on another one.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from contextlib import suppress

from mdtensor.cli.partitions.work import Done, Task, run_task
from mdtensor.errors import OptionError

SCHEME = "dask://"
#: Seconds to wait for the scheduler.
PATIENCE = 10


def require_package() -> None:
    """Raise if dask is missing.

    Raises:
        ModuleNotFoundError: the package is not installed.
    """
    importlib.import_module("distributed")


# Dask restarts the tasks of dead workers itself (decision 0072).
def run_dask(tasks: Sequence[Task], address: str) -> Iterator[Done]:
    """Run tasks on a cluster; yield what became of each, as soon as it is known.

    Raises:
        OptionError: there is no scheduler at this address.
    """
    from distributed import Client, as_completed

    place = address.removeprefix(SCHEME)
    try:
        client = Client(f"tcp://{place}", timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        problem = f"no dask scheduler answers at {place or 'no address'}"
        raise OptionError(problem, "Pass --engine dask://host:port") from error
    with client:
        # Not pure: a task must run although one with equal arguments ran before.
        futures = {client.submit(run_task, t, pure=False): t for t in tasks}
        try:
            for future in as_completed(futures, loop=client.loop):
                name = futures[future].partition.name
                if (failure := future.exception()) is None:
                    yield future.result()
                else:
                    # The cluster gave up: too many workers died with it.
                    problem = f"{type(failure).__name__}: {failure}"
                    yield Done(name, 0, 0.0, " ".join(problem.split()))
        finally:
            with suppress(Exception):
                client.cancel(list(futures))
