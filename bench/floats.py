"""Products of floats, with floats and with codes of weights, on one thread.

`peak` does as many fused multiply-adds on registers alone: no product can be faster.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from math import prod
from typing import Any

import numpy as np

import mdtensor as md
from bench.harness import Bench, Contender, Race, Reason, Row
from bench.harness.agreement import near
from bench.harness.promise import Promise
from bench.harness.reading import Found
from bench.rivals import one_product, peaks
from mdtensor import quant
from mdtensor.graph import Graph, Node
from mdtensor.kernels.cpu import isa, kernel_set
from mdtensor.kernels.cpu.program import layers
from mdtensor.kernels.cpu.program.step import aligned_bytes

OURS, PEAK, BLAS, ORT = "mdtensor", "peak", "OpenBLAS", "ORT"
MATMUL = "matmul(x, w.T)"
RNG = np.random.default_rng(3)
# rows, taps, columns
LARGE = [(512, 512, 512), (1024, 1024, 1024), (2048, 1024, 1024), (256, 4096, 4096)]
# pixels, channels in, channels out: large pointwise layers, channels last
POINTWISE = [(3136, 64, 256), (3136, 256, 64), (784, 512, 128), (784, 128, 512)]
POINTWISE += [(196, 1024, 256), (196, 256, 1024), (49, 960, 320), (49, 320, 1280)]
DYNAMIC = [(1, 384, 384), (64, 384, 384), (128, 768, 768)]
ROWS = (1, 4, 16, 64, 256)
#: Units of recurrent layers, and steps of their sequence.
UNITS, STEPS = (64, 128, 256), 40
BY_CODES = "Float activations times quantized weights"
SIDE, GROUP = 4096, 32


def numbers(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, np.float32)


def at_a_line(packed: np.ndarray) -> np.ndarray:
    """A copy of packed weights where a plan has them: at a line of the cache."""
    room = aligned_bytes(packed.nbytes).view(packed.dtype)
    room[:] = packed
    return room


def product_of(x: np.ndarray, w: np.ndarray) -> Callable[[], np.ndarray]:
    """The kernel alone, into existing memory; weights packed once."""
    (m, k), n = x.shape, len(w)
    packed = at_a_line(kernel_set.HOST.pack_f32(w))
    bias = np.zeros(kernel_set.HOST.padded_columns(n), np.float32)
    out = np.empty((m, n), np.float32)

    def run() -> np.ndarray:
        kernel_set.HOST.gemm_f32f32f32(
            x.reshape(-1), k, m, k, packed, n, bias, out.reshape(-1), n
        )
        return out

    return run


def product(m: int, k: int, n: int) -> list[Contender]:
    """Weights packed once, as ONNX Runtime has them; OpenBLAS packs at each call."""
    x, w = numbers(m, k), numbers(n, k)
    ours, turned = product_of(x, w), np.ascontiguousarray(w.T)
    out = np.empty((m, n), np.float32)
    return [
        Contender(OURS, ours),
        Contender(PEAK, peaks.of_floats(m * k * n)),
        Contender(BLAS, lambda: np.matmul(x, turned, out)),
        Contender(ORT, one_product.of_floats(x, turned)),
    ]


def beside_codes(m: int, k: int, n: int) -> list[Contender]:
    """The product of floats, and that of codes with the same shape."""
    floats = product_of(numbers(m, k), numbers(n, k))
    codes = RNG.integers(0, 256, m * k + 64, dtype=np.uint8)
    weights = RNG.integers(-128, 128, (n, k), dtype=np.int8)
    room = at_a_line(kernel_set.HOST.pack_s8(weights))
    bias = np.zeros(kernel_set.HOST.padded_columns(n), np.int32)
    sums = np.empty(m * n, np.int32)

    def integers() -> None:
        kernel_set.HOST.gemm_u8s8s32(codes, k, m, k, room, n, bias, sums, n)

    return [Contender(OURS, integers), Contender("float32", floats)]


def weight_only(bits: int, m: int) -> list[Contender]:
    """Codes of 4 bits with a scale for each 32 along a row, of 8 with one a row."""
    size = GROUP if bits == 4 else SIDE
    x, blocks = numbers(m, SIDE), SIDE // size
    scales = RNG.uniform(0.005, 0.01, (SIDE, blocks)).astype(np.float32)
    codes = RNG.integers(0, 2**bits, (SIDE, SIDE))
    zeros = np.full((SIDE, blocks), 2 ** (bits - 1))
    steps = (codes - zeros[0, 0]).astype(np.float32)
    w = steps * np.repeat(scales, size, 1)
    turned = np.ascontiguousarray(w.T)
    if bits == 4:
        pairs = (codes[:, ::2] | codes[:, 1::2] << 4).astype(np.uint8)
        layer: Any = layers.LinearU4(pairs, SIDE, scales, zeros, size)
        rival = one_product.of_nibbles(x, pairs, scales, size)
        rivals = {"ORT MatMulNBits": rival}
    else:
        layer = layers.LinearS8(steps.astype(np.int8), scales, 0 * zeros, size)
        rivals = {}
    rivals |= {ORT: one_product.of_floats(x, turned), BLAS: lambda: x @ turned}
    return [Contender(OURS, lambda: layer(x))] + [
        Contender(name, call) for name, call in rivals.items()
    ]


def dynamic(m: int, k: int, n: int) -> list[Contender]:
    """Rows that are rounded to 8 bits on a grid of each call, in a plan.

    Weights have 7 bits, so that ONNX Runtime's sums of pairs do not saturate.
    """
    x, scale = numbers(m, k), np.float32([0.01])
    codes = RNG.integers(-63, 64, (k, n), dtype=np.int8)
    node = Node("product", md.dynamic_matmul, ("x", "w", "scale", None, None), "y")
    known = {"w": md.asarray(codes), "scale": md.asarray(scale)}
    spec, rows = md.TensorSpec(md.Float32Tensor, x.shape), md.asarray(x)
    ours = quant.Model(Graph({"x": spec}, (node,), known, ("y",)))
    return [
        Contender(OURS, lambda: np.asarray(ours(rows))),
        Contender(ORT, one_product.of_dynamic_codes(x, codes, scale)),
    ]


def recurrent(kind: str, k: int) -> list[Contender]:
    """A layer of k inputs and k units on 40 steps of one sample, in plans.

    Weights have 7 bits, so that ONNX Runtime's sums of pairs do not saturate.
    """
    x, gates = numbers(STEPS, 1, k), {"LSTM": 4, "GRU": 3}[kind]
    codes = [RNG.integers(-63, 64, (gates * k, k), dtype=np.int8) for _ in "wr"]
    scales = [RNG.uniform(0.5, 1, gates * k) / (63 * k**0.5) for _ in "wr"]
    pairs = [*zip(codes, (s.astype(np.float32) for s in scales), strict=True)]
    grids = [quant.QParams(s.astype(np.float64), 0, axis=0) for _, s in pairs]
    small = [
        quant.QInt8Tensor.from_codes(c, g)
        for (c, _), g in zip(pairs, grids, strict=True)
    ]
    floats = [c * s[:, None] for c, s in pairs]
    found = [
        Contender(OURS, layer_of(kind, x, small)),
        Contender("float32", layer_of(kind, x, map(md.asarray, floats))),
        Contender(ORT, one_product.of_steps(kind, x, *floats)),
    ]
    if kind == "LSTM":
        rival = one_product.of_dynamic_steps(x, *codes, tuple(s for _, s in pairs))
        found.append(Contender("ORT int8", rival))
    return found


def layer_of(kind: str, x: np.ndarray, weights: Iterable[Any]) -> Any:
    """A call of the layer in a model, which gives its states of all steps."""
    operation, last = {"LSTM": (md.lstm, 5), "GRU": (md.gru, 3)}[kind]
    options = {"reset_after": True} if kind == "GRU" else {}
    names = ("x", "w", "r", *[None] * last)
    layer = Node("layer", operation, names, "all", options)
    states = {"LSTM": 2, "GRU": 1}[kind]
    parts = {"key": (slice(0, -states), None)}
    node = Node("states", md.getitem, ("all",), "y", parts)
    known = dict(zip("wr", weights, strict=True))
    spec, given = md.TensorSpec(md.Float32Tensor, x.shape), md.asarray(x)
    model = quant.Model(Graph({"x": spec}, (layer, node), known, ("y",)))
    return lambda: np.asarray(model(given))


def all_alike(results: Mapping[str, Any]) -> None:
    """States that are rounded to 8 bits err in each step."""
    near(results[OURS], 0.05)(results)


def turned(m: int) -> list[Contender]:
    """Calls on tensors: weights [k, n] that are a view of rows, and the rows."""
    x = md.asarray(numbers(m, SIDE))
    rows = quant.quantize_weights(numbers(SIDE, SIDE)).tensor
    view = rows.T
    return [
        Contender(MATMUL, lambda: md.matmul(x, view).buffer),
        Contender("linear(x, w)", lambda: md.linear(x, rows).buffer),
    ]


def all_near(results: Mapping[str, Any]) -> None:
    """Sums of thousands of products in different orders; some contenders give none."""
    found = {name: r for name, r in results.items() if r is not None}
    near(next(iter(found.values())), 2e-3)(found)


def unchecked(_: Mapping[str, Any]) -> None:
    """The tests of the kernels compare these with their oracle."""


def rates(work: int) -> Callable[[dict[str, float]], Mapping[str, Mapping[str, str]]]:
    """A column of GMAC/s, of `work` products in a call."""
    return lambda seconds: {
        name: {"GMAC/s": f"{work / 1e9 / one:.1f}"} for name, one in seconds.items()
    }


def race(
    name: str, table: str, make: Callable[[], Any], work: int, check: Any, **more: Any
) -> Race:
    columns = rates(work)
    return Race(name, make, check, table, sample_seconds=0.01, columns=columns, **more)


def named(kind: str, shape: tuple[int, int, int]) -> str:
    m, k, n = shape
    return f"{kind} {m}x{k} -> {n}"


def recurrent_rows(quick: bool) -> Iterator[Row]:
    for kind in ("LSTM", "GRU"):
        for k in UNITS[:1] if quick else UNITS:
            name, make = f"recurrent {kind} {k}", partial(recurrent, kind, k)
            work = 2 * STEPS * {"LSTM": 4, "GRU": 3}[kind] * k * k
            yield race(name, "Recurrent layers", make, work, all_alike)


def rows(quick: bool) -> Iterator[Row]:
    shapes = {"product": LARGE[:1] if quick else LARGE}
    shapes["pointwise"] = POINTWISE[:1] if quick else POINTWISE
    for kind, found in shapes.items():
        for s in found:
            make, work = partial(product, *s), s[0] * s[1] * s[2]
            yield race(named(kind, s), "Products of floats", make, work, all_near,
                       is_warm=True)  # fmt: skip
    for kind, found in shapes.items():
        for s in found:
            make, work = partial(beside_codes, *s), s[0] * s[1] * s[2]
            name = named(f"integer {kind}", s)
            yield race(name, "Integers against floats", make, work, unchecked)
    for bits in (8, 4):
        for m in ROWS[:1] if quick else ROWS:
            name, work = f"{m} rows, {bits} bits", m * SIDE * SIDE
            make = partial(weight_only, bits, m)
            yield race(name, f"{BY_CODES}, {SIDE} x {SIDE}", make,
                       work, all_near)  # fmt: skip
    for s in DYNAMIC[:1] if quick else DYNAMIC:
        make, work = partial(dynamic, *s), s[0] * s[1] * s[2]
        name = named("dynamic", s)
        yield race(name, "Products with dynamic grids", make, work, all_near)
    yield from recurrent_rows(quick)
    name, work = "4 rows, a transposed view", 4 * SIDE * SIDE
    make = partial(turned, 4)
    yield race(name, "Calls on tensors", make, work, all_near, ours=MATMUL)


def share_of_peak(found: Found) -> float:
    """The time over that of the peak, the worst of the large products."""
    return found.worst([named("product", s) for s in LARGE[1:]], PEAK)


def pointwise_share(found: Found) -> float:
    """The same of pointwise layers with many channels in, of 50 million products."""
    large = [s for s in POINTWISE if s[1] >= 512 and prod(s) >= 5e7]
    return found.worst([named("pointwise", s) for s in large], PEAK)


def of_nibbles(found: Found) -> float:
    return found.worst([f"{m} rows, 4 bits" for m in ROWS], "ORT MatMulNBits")


def of_numbers(found: Found) -> float:
    few = [f"{m} rows, {bits} bits" for m in ROWS[:3] for bits in (8, 4)]
    return found.worst(few, BLAS)


BENCH = Bench(
    f"Floats, one thread, ISA {isa.ISA}",
    rows,
    rounds=25,
    promises=[
        Promise(
            "products from 1024 on, relative to the peak of the CPU",
            1 / 0.95,
            share_of_peak,
        ),
        Promise(
            "pointwise layers with at least 512 input channels and 50 MMAC, relative "
            "to the peak",
            1 / 0.95,
            pointwise_share,
        ),
        Promise("4-bit weights, relative to ORT's MatMulNBits", 1.0, of_nibbles),
        Promise(
            "quantized weights, up to 16 rows, relative to OpenBLAS on float32 weights",
            0.8,
            of_numbers,
        ),
    ],
    reasons=[
        Reason("the peak is measured on registers, without memory access", "*", PEAK),
        Reason("vpmaddwd and its addition share pipes: 1.6 of float32", "integer*"),
        Reason("ONNX Runtime adds pairs in 16 bits, which saturate", "dynamic*", ORT),
        Reason(
            "ONNX Runtime adds pairs in 16 bits, which saturate for weights of 8 bits",
            "recurrent LSTM*",
            "ORT int8",
        ),
        Reason("a step costs 0.7 us around its products", "recurrent*", ORT),
        Reason("OpenBLAS copies both sides to its blocks, and prefetches", "*", BLAS),
        Reason(
            "ONNX Runtime stores blocks of channels, so it does not write whole rows",
            "*",
            ORT,
        ),
    ],
    notes="""Each timed sample of a product follows one call that is not timed, so the
caches already hold as much of the data as fits. MatMulNBits runs at accuracy level 0,
which keeps activations in float32. At level 4 ONNX Runtime rounds them to 8 bits.
"Calls on tensors" compares two ways to write one product: `matmul(x, w.T)`, where w.T
is a view, and `linear(x, w)`.""",
)
