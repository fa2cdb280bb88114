"""What it costs to begin: imports, first results, and what a warm-up saves.

One interpreter a sample: a second import would find everything loaded.
"""

import atexit
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from functools import partial

from bench.harness import Bench, Contender, Found, Promise, Race, Reason, Row
from bench.harness.agreement import gives
from mdtensor.kernels.cpu import isa
from mdtensor.kernels.native import library

PLUM = "numpy, plum"
IMPORTS = {
    "mdtensor": "import mdtensor",
    "mdtensor.quant": "import mdtensor.quant",
    PLUM: "import numpy, plum",
    "bare interpreter": "pass",
}
ROW = "import"
#: Kernels of `make native`; the contender takes part where they are built.
LIBRARY = "nothing compiled, kernels from a library"
FIRST, INT8 = "first sum, from the start", "first hardswish of codes, from the start"
HARDSWISH = """
import mdtensor as md
from mdtensor.quant import QParams, quantize, quint8
grid = QParams(0.1, 0, dtype=quint8)
md.hardswish(quantize(md.ones((2, 2)), grid), out=grid)
"""


def environment(cache: str, kernels: str = "jit") -> dict[str, str]:
    return {**os.environ, "NUMBA_CACHE_DIR": cache, "MDTENSOR_KERNELS": kernels}


def interpreter(code: str, cache: str = "", kernels: str = "jit") -> None:
    """Run `code` in a fresh one, away from the checkout; compiled code in `cache`."""
    folder = tempfile.gettempdir()
    variables = environment(cache, kernels) if cache else None
    command = [sys.executable, "-c", code]
    subprocess.run(command, cwd=folder, env=variables, check=True)


def imports() -> list[Contender]:
    return [
        Contender(name, lambda code=code: interpreter(code))
        for name, code in IMPORTS.items()
    ]


def beyond(seconds: dict[str, float]) -> Mapping[str, Mapping[str, str]]:
    """A column: milliseconds over those of what we cannot do without."""
    return {
        name: {f"over {PLUM}": f"{1e3 * (taken - seconds[PLUM]):+.0f} ms"}
        for name, taken in seconds.items()
    }


def extra(found: Found) -> float:
    return 1e3 * (found.value(ROW) - found.value(ROW, PLUM))


def extra_of_quant(found: Found) -> float:
    return 1e3 * (found.value(ROW, "mdtensor.quant") - found.value(ROW))


def first_results() -> list[Contender]:
    """From the start of an interpreter to a sum of float32."""
    texts = {
        "mdtensor": "import mdtensor as md; md.add(md.ones(2), md.ones(2))",
        "NumPy": "import numpy as np; np.add(np.ones(2), np.ones(2))",
    }
    if importlib.util.find_spec("torch"):
        texts["torch"] = "import torch; torch.add(torch.ones(2), torch.ones(2))"
    return [
        Contender(name, lambda text=text: interpreter(text))
        for name, text in texts.items()
    ]


def int8_results() -> list[Contender]:
    """To a sum of int8 codes: with nothing compiled, after a warm-up, by a library."""
    folder = tempfile.TemporaryDirectory(prefix="warm")
    atexit.register(folder.cleanup)  # the contenders outlive this call
    warm = folder.name
    for _ in range(2):  # a second warm-up has everything
        warmed = [sys.executable, "-m", "mdtensor", "warmup", "--json", "--operation"]
        text = subprocess.check_output(
            [*warmed, "hardswish"], env=environment(warm), cwd=tempfile.gettempdir()
        )
    assert json.loads(text)["warmed"][0]["compiled"] == 0
    found = [
        Contender("after mdtensor warmup", lambda: interpreter(HARDSWISH, warm)),
        Contender("nothing compiled", partial(cold, "jit")),
    ]
    if library.describe(isa.ISA) == "a library":
        found.append(Contender(LIBRARY, partial(cold, "native")))
    return found


def cold(kernels: str) -> None:
    with tempfile.TemporaryDirectory() as empty:
        interpreter(HARDSWISH, empty, kernels)


def rows(quick: bool) -> Iterator[Row]:
    yield Race(
        ROW,
        imports,
        gives(None),
        "Imports",
        clock=time.perf_counter,
        sample_seconds=0,
        columns=beyond,
    )
    once = partial(Race, clock=time.perf_counter, sample_seconds=0)
    yield once(FIRST, first_results, gives(None), "First result of float32")
    yield once(
        INT8,
        int8_results,
        gives(None),
        "First result of int8",
        ours="after mdtensor warmup",
        share=0.3,
    )


BENCH = Bench(
    "From nothing to the first result",
    rows,
    rounds=15,
    promises=[
        Promise(
            "import of mdtensor, beyond the import of NumPy and plum",
            60,
            extra,
            " ms",
        ),
        Promise(
            "import of mdtensor.quant, beyond the import of mdtensor",
            150,
            extra_of_quant,
            " ms",
        ),
    ],
    reasons=[
        Reason("mdtensor imports NumPy and plum as well", ROW, PLUM),
        Reason(
            "the time includes the start of the interpreter", ROW, "bare interpreter"
        ),
        Reason("mdtensor imports NumPy, plum and its own declarations", FIRST),
        Reason("numba is imported, which a library makes unnecessary", INT8, LIBRARY),
    ],
)
