"""A run on a GPU: every suite of operations, then timings, kept in docs/gpu-runs.

    python -m bench gpu

CUDA events measure the times, and the median counts. The bandwidth is the number of
bytes that are read and written, each once, divided by the time. Without a GPU the run
prints why, and returns 3.
"""

import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor import quant
from mdtensor.kernels.cuda import driver, nvrtc
from mdtensor.kernels.loops.cuda import render
from mdtensor.kernels.loops.ir import Input, Loop, apply, load, number

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "docs" / "gpu-runs"
NO_GPU = 3
ROUNDS, TINY = 20, 1000
#: Operations in the fused chain.
CHAIN = 10

Facts = dict[str, Any]


def execute(quick: bool, saves: bool) -> int:
    """Check and measure; return 0, 1 if a check fails, or 3 without a GPU."""
    if md.cuda.missing:
        print(f"no GPU: {md.cuda.missing}", file=sys.stderr)
        return NO_GPU
    found = {**machine(), "checks": checks()}
    count, side = (10**6, 256) if quick else (10**8, 4096)
    found["timings"] = {**elementwise(count), **products(side), **rivals(side)}
    found["timings"]["host us for a launch"] = launch_overhead()
    text = json.dumps(found, indent=2)
    print(text)
    if saves:
        KEPT.mkdir(exist_ok=True)
        name = f"{found['date'][:10]}-{found['gpu'].replace(' ', '-').lower()}.json"
        (KEPT / name).write_text(text + "\n")
    return 0 if found["checks"]["passed"] else 1


def machine() -> Facts:
    """Return what ran: the GPU, the versions and the commit."""
    gpu: Any = md.device("cuda")
    cupy = driver.cupy()
    properties = cupy.cuda.runtime.getDeviceProperties(0)
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True
    )
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit.stdout.strip(),
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


def milliseconds(call: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Return the median time of a call on the GPU."""
    stream: Any = md.cuda.main_stream()
    call()
    times = []
    for _ in range(rounds):
        start = stream.record()
        call()
        end = stream.record()
        end.wait()
        times.append(end.milliseconds_since(start))
    return statistics.median(times)


def elementwise(count: int) -> Facts:
    """Return the bandwidth of a copy, a sum and a chain, in GB/s, and their ratios."""
    gpu: Any = md.device("cuda")
    x = md.ones((count,), dtype=md.float32).to(gpu)
    size = x.nbytes
    out = gpu.alloc(x.shape, np.dtype(np.float32))
    stream = gpu.main_stream()

    def copied() -> None:
        given = out.address, x.buffer.address, size, 3
        gpu.gpu.copy(*given, stream.raw)

    kernel = chain()
    found = {
        "copy": 2 * size / milliseconds(copied),
        "add": 3 * size / milliseconds(lambda: md.add(x, x[:])),
        "neg": 2 * size / milliseconds(lambda: md.neg(x)),
        "chain": 2 * size / milliseconds(lambda: gpu.launch(kernel, x.buffer, out)),
    }
    rates = {f"{name} GB/s": round(rate / 1e6, 1) for name, rate in found.items()}
    names = ("add", "neg", "chain")
    ratios = {f"{name} / copy": round(found[name] / found["copy"], 3) for name in names}
    return {"elements": count, **rates, **ratios}


def chain() -> Any:
    """Return the kernel of ten operations on one element."""
    value = load(0, "float32")
    for at in range(CHAIN):
        value = apply(("mul", "add")[at % 2], value, number(1.5, "float32"))
    return render(Loop((Input("float32"),), value, name="chain"))


def products(side: int) -> Facts:
    """Return the time of a square int8 product with exact sums of 32 bits."""
    x, w = (_codes(side, seed) for seed in (1, 2))
    time = milliseconds(lambda: md.linear(x, w), 5)
    rate = 2 * side**3 / time / 1e9
    return {f"int8 {side} ms": round(time, 3), f"int8 {side} TOP/s": round(rate, 2)}


def _codes(side: int, seed: int) -> Any:
    codes = np.random.default_rng(seed).integers(-127, 128, (side, side), np.int8)
    return quant.QInt8Tensor(codes, scale=0.5).to("cuda")


def rivals(side: int) -> Facts:
    """Return the times of CuPy's int8 product, which wraps, and of cuBLAS."""
    cupy = driver.cupy()
    stream: Any = md.cuda.main_stream()
    with stream:
        a = cupy.ones((side, side), cupy.int8)
        c = cupy.empty((side, side), cupy.int32)
        theirs = milliseconds(lambda: cupy.matmul(a, a), 5)
        cublas = milliseconds(lambda: gemm_s8(a, a, c), 5)
    return {f"CuPy int8 {side} ms": theirs, f"cuBLAS int8 {side} ms": cublas}


def gemm_s8(a: Any, w: Any, c: Any) -> None:
    """Let cuBLAS compute c = a · wᵀ: int8 factors, int32 sums."""
    from cupy.cuda import device
    from cupy_backends.cuda.libs import cublas

    one, zero = (np.array(n, np.int32) for n in (1, 0))
    m, n, k = a.shape[0], w.shape[0], a.shape[1]
    # CUDA_R_8I, CUDA_R_32I and COMPUTE_32I of cuBLAS.
    cublas.gemmEx(
        *(device.get_cublas_handle(), 1, 0, n, m, k, one.ctypes.data),
        *(w.data.ptr, 3, k, a.data.ptr, 3, k, zero.ctypes.data),
        *(c.data.ptr, 10, n, 72, -1),
    )


def launch_overhead() -> float:
    """Return the microseconds of the host for one small sum."""
    x = md.ones((8,), dtype=md.float32).to("cuda")
    md.add(x, x)
    md.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(TINY):
        md.add(x, x)
    taken = time.perf_counter() - start
    md.cuda.synchronize()
    return round(taken / TINY * 1e6, 2)
