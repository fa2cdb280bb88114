"""What it costs to begin: imports in fresh interpreters.

One interpreter a sample: a second import would find everything loaded.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping

from bench.harness import Bench, Contender, Found, Promise, Race, Reason, Row
from bench.harness.agreement import gives

PLUM = "numpy, plum"
IMPORTS = {
    "mdtensor": "import mdtensor",
    "mdtensor.quant": "import mdtensor.quant",
    PLUM: "import numpy, plum",
    "bare interpreter": "pass",
}
ROW = "import"


def interpreter(code: str) -> None:
    """Run `code` in a fresh one, away from the checkout."""
    folder = tempfile.gettempdir()
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)


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


BENCH = Bench(
    "From nothing to the first result",
    rows,
    rounds=15,
    promises=[Promise("import mdtensor beyond import numpy, plum", 100, extra, " ms")],
    reasons=[
        Reason("it contains this import", ROW, PLUM),
        Reason("it contains the start of the interpreter", ROW, "bare interpreter"),
    ],
)
