"""A run on a GPU: suites of operations, sanitizer, timings; kept in docs/gpu-runs.

    python -m bench gpu

A part that fails is in the record with its error, and the others still run. The record
is written after each part, the longest ones last, so a run that is cut off keeps what
it found. Without a GPU the run prints why, and returns 3.
"""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import mdtensor as md
from bench import gpu_timings as timings
from mdtensor.kernels.cuda import driver, nvrtc

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "docs" / "gpu-runs"
NO_GPU = 3
#: compute-sanitizer's tools, and what runs under them: texts with barriers, of codes.
TOOLS = ("memcheck", "racecheck", "synccheck")
SANITIZED = ("tests/quant/rendered/test_codes.py", "tiles or pools or table")
#: What is wanted: part, number, and the least or the most that it may be.
CLAIMS = [
    ("elementwise", "add / copy", "at least", 0.85),
    ("elementwise", "chain / copy", "at least", 0.8),
    ("elementwise", "compiled chain / copy", "at least", 0.8),
    ("products", "CuPy / ours", "at least", 5.0),
    ("captured MobileNetV2", "host us", "at most", 20.0),
]

Facts = dict[str, Any]


def execute(quick: bool, saves: bool) -> int:
    """Check and measure; return 0, 1 if something fails, or 3 without a GPU."""
    if md.cuda.missing:
        print(f"no GPU: {md.cuda.missing}", file=sys.stderr)
        return NO_GPU
    about = machine()

    def keep(found: Facts) -> None:
        if saves:
            KEPT.mkdir(exist_ok=True)
            name = f"{about['date'][:10]}-{about['gpu'].replace(' ', '-').lower()}.json"
            (KEPT / name).write_text(json.dumps({**about, **found}, indent=2) + "\n")

    found = record(quick, keep)
    print(json.dumps({**about, **found}, indent=2))
    return 0 if found["passed"] else 1


def record(quick: bool, keep: Callable[[Facts], None] = lambda found: None) -> Facts:
    """Return what every part found, and which claims hold.

    Args:
        quick: measure small sizes, to see whether everything runs.
        keep: is called after each part, with what was found so far.
    """
    count, side, size = (10**6, 256, 32) if quick else (10**8, 4096, 224)
    parts: dict[str, Callable[[], Facts]] = {
        "elementwise": lambda: timings.elementwise(count),
        "products": lambda: timings.products(side),
        "few tiles": lambda: timings.few_tiles(side),
        "convolution": lambda: timings.convolution(side // 16, 56),
        "depthwise": lambda: timings.depthwise(side // 16, 56),
        "weights": lambda: timings.weights(side),
        "casts": lambda: timings.casts(count),
        "lines": lambda: timings.lines(side),
        "launch": lambda: {"host us": timings.launch_overhead()},
        "captured MobileNetV2": lambda: timings.captured(size),
        "sanitizer": sanitized,
        "checks": checks,
    }
    found: Facts = {"claims": [], "passed": False}
    for name, call in parts.items():
        start = time.perf_counter()
        found[name] = {**_part(call), "part s": round(time.perf_counter() - start, 1)}
        found["claims"] = claims(found)
        print(f"{name}: {found[name]['part s']} s", file=sys.stderr, flush=True)
        keep(found)
    checked = [found[name].get("passed", True) for name in parts]
    failed = [name for name in parts if "error" in found[name]]
    found["passed"] = all(checked) and not failed
    keep(found)
    return found


def _part(call: Callable[[], Facts]) -> Facts:
    """Return what a part found, or its error: the other parts still run."""
    try:
        return call()
    except Exception as error:
        lines = traceback.format_exc().strip().splitlines()
        return {"error": f"{type(error).__name__}: {error}", "trace": lines[-12:]}


def claims(found: Facts) -> list[Facts]:
    """Return each claim with what was measured, and whether it holds."""
    rows = []
    for part, name, word, limit in CLAIMS:
        value = found.get(part, {}).get(name)
        holds = value is not None and (
            value >= limit if word == "at least" else value <= limit
        )
        claim = f"{part}: {name} {word} {limit:g}"
        rows.append({"claim": claim, "measured": value, "holds": holds})
    return rows


def machine() -> Facts:
    """Return what ran: the GPU, the versions and the commit."""
    gpu: Any = md.device("cuda")
    cupy = driver.cupy()
    properties = cupy.cuda.runtime.getDeviceProperties(0)
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True
    )
    changed = subprocess.run(
        ["git", "status", "--short"], cwd=ROOT, capture_output=True, text=True
    )
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit.stdout.strip(),
        "changed files": changed.stdout.splitlines(),
        "gpu": properties["name"].decode(),
        "architecture": f"sm_{gpu.gpu.arch}",
        "driver": driver.driver_version(),
        "cupy": cupy.__version__,
        "nvrtc": ".".join(map(str, nvrtc.version(gpu.gpu.lib))),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def checks() -> Facts:
    """Run the tests that need a GPU: the suites of operations against the host."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "pytest", "-n", "0", "-m", "cuda"]
    done = subprocess.run(
        [*command, str(ROOT / "tests" / "test_processes.py")],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    lines = done.stdout.strip().splitlines()
    return {
        "passed": done.returncode == 0,
        "summary": lines[-1] if lines else "",
        "failures": [line for line in lines if line.startswith(("FAILED", "E  "))],
        "seconds": round(time.perf_counter() - start, 1),
    }


def sanitized() -> Facts:
    """Run products and pools of codes under NVIDIA's checkers of memory and waits."""
    program = shutil.which("compute-sanitizer")
    if program is None:
        fix = "install CUDA's toolkit, and put its bin on PATH"
        return {"passed": False, "missing": f"compute-sanitizer: {fix}"}
    found = {tool: _tool(program, tool) for tool in TOOLS}
    return {"passed": all(one["passed"] for one in found.values()), **found}


def _tool(program: str, tool: str) -> Facts:
    file, names = SANITIZED
    tests = [sys.executable, "-m", "pytest", "-n", "0", "-q", file, "-k", names]
    done = subprocess.run(
        [program, "--tool", tool, "--error-exitcode", "9", *tests],
        cwd=ROOT,
        env={**os.environ, "MDTENSOR_TEST_DEVICE": "cuda"},
        capture_output=True,
        text=True,
    )
    summary = r"ERROR SUMMARY: (.*)|(RACECHECK SUMMARY: .*)"
    summaries = re.findall(summary, done.stdout)
    lines = done.stdout.strip().splitlines()
    return {
        "passed": done.returncode == 0,
        "summary": [a or b for a, b in summaries],
        "end": lines[-8:] if done.returncode else [],
    }
