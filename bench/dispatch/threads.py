"""Two threads that call at once: nobody waits for a lock, but for the interpreter."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from bench.dispatch import ours
from bench.harness import Contender, Race, Row
from bench.harness.agreement import gives
from bench.rivals import NAMES, Way, enums, libraries

CALLS = 20_000
THREADS = 2


def repeated(call: Callable[..., Any], a: Any, b: Any) -> Any:
    for _ in range(CALLS - 1):
        call(a, b)
    return call(a, b)


def together(pool: ThreadPoolExecutor, way: Way) -> Any:
    a, b = way.argument(NAMES[0]), way.argument(NAMES[0])
    waiting = [pool.submit(repeated, way.call, a, b) for _ in range(THREADS)]
    found = {future.result() for future in waiting}
    assert len(found) == 1
    return found.pop()


def contenders() -> list[Contender]:
    pool = ThreadPoolExecutor(THREADS)
    ways = [*ours.ways()[:1], *enums.ways()[:2], *libraries.ways()[1:]]
    calls = CALLS * THREADS
    return [Contender(w.name, partial(together, pool, w), calls=calls) for w in ways]


def rows(quick: bool) -> Iterator[Row]:
    yield Race(
        "two threads",
        contenders,
        gives(NAMES[0]),
        "A call of two arguments, from two threads at once",
        threads=THREADS,
        clock=time.perf_counter,
        share=0.1,
    )
