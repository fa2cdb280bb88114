"""Times on a GPU, by CUDA events: bandwidth, products and rivals, a captured model.

The median counts. The bandwidth is the number of bytes that are read and written, each
once, divided by the time.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

import mdtensor as md
from bench import mobilenet
from mdtensor import quant
from mdtensor.kernels.cuda import driver
from mdtensor.kernels.loops.cuda import render
from mdtensor.kernels.loops.ir import Input, Loop, apply, load, number
from mdtensor.quant.model.placed import PlacedModel

ROUNDS, TINY = 20, 1000
#: Operations in the fused chain.
CHAIN = 10

Facts = dict[str, Any]


def milliseconds(call: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Return the median time of a call on the GPU."""
    stream: Any = md.cuda.main_stream()
    # A compiled function joins its calls at the second one.
    call(), call()
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

    kernel, joined = chain(), md.compile(compiled_chain, device="cuda")
    found = {
        "copy": 2 * size / milliseconds(copied),
        "add": 3 * size / milliseconds(lambda: md.add(x, x[:])),
        "neg": 2 * size / milliseconds(lambda: md.neg(x)),
        "chain": 2 * size / milliseconds(lambda: gpu.launch(kernel, x.buffer, out)),
        "compiled chain": 2 * size / milliseconds(lambda: joined(x)),
    }
    rates = {f"{name} GB/s": round(rate / 1e6, 1) for name, rate in found.items()}
    names = ("add", "neg", "chain", "compiled chain")
    ratios = {f"{name} / copy": round(found[name] / found["copy"], 3) for name in names}
    return {"elements": count, **rates, **ratios}


def chain() -> Any:
    """Return the kernel of ten operations on one element."""
    value = load(0, "float32")
    for at in range(CHAIN):
        value = apply(("mul", "add")[at % 2], value, number(1.5, "float32"))
    return render(Loop((Input("float32"),), value, name="chain"))


def compiled_chain(x: Any) -> Any:
    """Return ten operations as a user writes them."""
    for at in range(CHAIN):
        x = x * 1.5 if at % 2 == 0 else x + 1.5
    return x


def products(side: int) -> Facts:
    """Return the times of a square int8 product: ours, CuPy's, and cuBLAS's.

    CuPy's wraps to int8. cuBLAS sums in int32, as ours, and must give the same sums.
    """
    x, w = (_codes((side, side), seed) for seed in (1, 2))
    ours = milliseconds(lambda: md.linear(x, w), 5)
    found = {"side": side, "ms": round(ours, 3), "TOP/s": _rate(side, ours)}
    try:
        return {**found, **_rivals(x, w, ours)}
    except Exception as error:
        # Ours was measured, whatever is wrong with the others.
        return {**found, "error": f"{type(error).__name__}: {error}"}


def _rivals(x: Any, w: Any, ours: float) -> Facts:
    """Return the times of CuPy and cuBLAS for `products`, and their ratios to ours."""
    cupy, stream = driver.cupy(), md.cuda.main_stream()
    with stream:
        a, b = (cupy.from_dlpack(codes.codes) for codes in (x, w))
        sums = cupy.empty((len(a), len(b)), cupy.int32)
        theirs = milliseconds(lambda: cupy.matmul(a, b.T), 5)
        cublas = milliseconds(lambda: gemm_s8(a, b, sums), 5)
        exact = cupy.from_dlpack(md.linear(x, w).codes)
        is_equal = bool((exact == sums).all())
    return {
        "CuPy ms": round(theirs, 3),
        "cuBLAS ms": round(cublas, 3),
        "CuPy / ours": round(theirs / ours, 2),
        "cuBLAS / ours": round(cublas / ours, 3),
        "the sums of cuBLAS": is_equal,
    }


def few_tiles(side: int) -> Facts:
    """Return the time of 64 rows by a quarter of `side` columns: sums have parts."""
    x, w = _codes((64, side), 1), _codes((side // 4, side), 2)
    time = milliseconds(lambda: md.linear(x, w, out=quant.QParams(64.0)))
    rate = 2 * 64 * side * (side // 4) / time / 1e9
    return {"rows": 64, "sums of": side, "ms": round(time, 4), "TOP/s": round(rate, 2)}


def depthwise(channels: int, size: int) -> Facts:
    """Return the time of a 3 x 3 depthwise convolution of codes, and bytes a second."""
    x, w = _codes((8, channels, size, size), 3), _codes((channels, 1, 3, 3), 4)
    out, groups = quant.QParams(64.0), {"groups": channels}
    time = milliseconds(lambda: md.conv2d(x, w, padding=1, out=out, **groups), 5)
    rate = round(2 * x.nbytes / time / 1e6, 1)
    return {"channels": channels, "size": size, "ms": round(time, 4), "GB/s": rate}


def casts(count: int) -> Facts:
    """Return the bandwidth of checked casts, which wait, and of casts that do not."""
    x = md.ones((count,), dtype=md.float32).to("cuda")
    found = Facts(elements=count)
    for casting in ("check", "saturate"):
        time = milliseconds(lambda c=casting: md.astype(x, md.int8, casting=c), 5)
        found[f"{casting} GB/s"] = round(5 * count / time / 1e6, 1)
    return found


def convolution(channels: int, size: int) -> Facts:
    """Return the time of a 3 x 3 convolution of 8-bit codes, rounded in its kernel."""
    x, w = _codes((1, channels, size, size), 3), _codes((channels, channels, 3, 3), 4)
    time = milliseconds(lambda: md.conv2d(x, w, padding=1, out=quant.QParams(64.0)), 5)
    products = 9 * channels**2 * size**2
    rate = round(2 * products / time / 1e9, 2)
    return {"channels": channels, "size": size, "ms": round(time, 3), "TOP/s": rate}


def weights(side: int) -> Facts:
    """Return how a row of floats times 4-bit and 8-bit weights uses the bandwidth."""
    x, found = md.ones((1, side), dtype=md.float16).to("cuda"), Facts(side=side)
    numbers = np.random.default_rng(5).standard_normal((side, side), np.float32)
    for bits in (4, 8):
        made = quant.quantize_weights(numbers, dtype=f"qint{bits}", block_size=32)
        w = made.tensor.to("cuda")
        time = milliseconds(lambda w=w: md.linear(x, w))
        found[f"{bits} bits ms"] = round(time, 4)
        found[f"{bits} bits GB/s"] = round(w.nbytes / time / 1e6, 1)
    return found


def lines(side: int) -> Facts:
    """Return the times of sorts and running sums, of rows and of one long line."""
    numbers = np.random.default_rng(6).standard_normal((side, side), np.float32)
    rows = md.asarray(numbers).to("cuda")
    calls = {"sort": md.sort, "running sum": md.cumulative_sum}
    found = Facts(side=side)
    for name, call in calls.items():
        shapes = {"rows": (rows, -1), "one line": (md.reshape(rows, (-1,)), 0)}
        for shape, (x, axis) in shapes.items():
            time = milliseconds(lambda: call(x, axis=axis), 5)  # noqa: B023
            found[f"{name}, {shape}, ms"] = round(time, 3)
    return found


def _rate(side: int, milliseconds: float) -> float:
    return round(2 * side**3 / milliseconds / 1e9, 2)


def _codes(shape: tuple[int, ...], seed: int) -> Any:
    codes = np.random.default_rng(seed).integers(-127, 128, shape, np.int8)
    return quant.QInt8Tensor(codes, scale=0.5).to("cuda")


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


def captured(size: int, replays: int = 100) -> Facts:
    """Return the times of MobileNetV2 in 8 bits, captured, from codes to scores.

    The host's time is that of a whole call: its input and result are copied on the GPU.
    """
    small = mobilenet.quantized(size)
    image = md.asarray(next(mobilenet.images(size, 5)))
    graph, (name, codes) = without_quantize(small, image)
    placed = PlacedModel(SimpleNamespace(graph=graph), md.device("cuda"))
    x: Any = codes.to("cuda")
    fast = md.cuda.capture(placed, x)
    found = fast(x).to("cpu")
    md.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(replays):
        fast(x)
    host = (time.perf_counter() - start) / replays * 1e6
    md.cuda.synchronize()
    return {
        "size": size,
        "host us": round(host, 2),
        "ms": round(milliseconds(lambda: fast(x)), 3),
        "the bytes of the host": found.tolist()
        == graph.run({name: codes})[graph.outputs[0]].tolist(),
    }


def without_quantize(model: Any, x: Any) -> tuple[Any, tuple[str, Any]]:
    """Return a graph that takes the codes of its input, with their name and the codes.

    `quantize` waits, to raise for a NaN, and nothing that is captured may wait.
    """
    graph = model.graph
    (name,) = graph.inputs
    (first,) = (node for node in graph.nodes if name in node.values)
    codes = first(*first.arguments({name: x, **graph.constants}))
    spec = graph.specs()[first.output]
    nodes = tuple(node for node in graph.nodes if node is not first)
    return replace(graph, inputs={first.output: spec}, nodes=nodes), (
        first.output,
        codes,
    )
