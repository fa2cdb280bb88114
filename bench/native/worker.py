"""One of the processes: `python -m bench.native.worker`.

It reads JSON, a line for each question, and answers in a line:

    {"name": ..., "file": ...}    a digest of the result of a call or a network
    {"name": ..., "file": ..., "seconds": 0.004}    the CPU seconds of one call
"""

import json
import sys
import time
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from typing import Any

import numpy as np

from bench.native.calls import SIZES, calls_of
from mdtensor.quant import load

#: Samples, the least of which is given: what else runs only adds to some of them.
SAMPLES = 5


@cache
def call_of(name: str, file: str) -> Callable[[], Any]:
    """Return the call of this name, or of the network in a file on its image."""
    if not file:
        size = next(n for n in SIZES if name.endswith(f", {n:,}"))
        return calls_of(size)[name]
    network, image = load(file), np.load(f"{file}.npy")
    return lambda: network(image)


def seconds_of(call: Callable[[], Any], sample: float) -> float:
    """The least CPU time of a call in several samples of so many seconds."""
    start = time.process_time()
    call()
    once = time.process_time() - start
    count = max(1, int(sample / max(once, 1e-7)))
    found = []
    for _ in range(SAMPLES):
        start = time.process_time()
        for _ in range(count):
            call()
        found.append((time.process_time() - start) / count)
    return min(found)


def digest_of(result: Any) -> str:
    array = np.ascontiguousarray(getattr(result, "buffer", result))
    return sha256(array.tobytes()).hexdigest()


def answer(name: str, file: str = "", seconds: float = 0) -> Any:
    call = call_of(name, file)
    return seconds_of(call, seconds) if seconds else digest_of(call())


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(answer(**json.loads(line))), flush=True)
