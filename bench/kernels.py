"""Integer kernels on the layer shapes of a small mobile network, each runway in turn.

Products and depthwise convolutions run beside ONNX Runtime, see `rivals/one_node.py`;
`layers` compares results, and has the shapes of a larger network.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from bench.harness import Bench, Contender, Race, Reason, Row
from bench.harness.agreement import alike
from bench.rivals import one_node
from mdtensor.kernels.cpu import isa, kernel_set
from mdtensor.kernels.cpu.generic import conv, elementwise, matmul
from mdtensor.kernels.cpu.generic.conv import window
from mdtensor.kernels.cpu.program.step import aligned_bytes
from mdtensor.kernels.cpu.rounding import NO_EXCEPTION_SUMS
from mdtensor.kernels.rescale import rescale

RNG = np.random.default_rng(1)
# rows, taps, columns
PRODUCTS = [(2304, 36, 8), (2304, 8, 8), (1152, 8, 40), (288, 24, 88), (288, 88, 24)]
PRODUCTS += [(96, 104, 200), (96, 200, 32), (1, 200, 50)]
# h, w, c, kernel, stride
DEPTHWISES = [(24, 96, 8, 3, (2, 1)), (12, 96, 40, 3, (2, 1)), (6, 96, 48, 5, (2, 1))]
DEPTHWISES += [(3, 96, 88, 5, (1, 1)), (2, 96, 200, 5, (1, 1))]
VALUES = 96 * 200


@dataclass(frozen=True)
class Layer:
    """One shape with a call for each runway, that returns what it wrote.

    Args:
        work: millions of multiplications or values.
        unit: of a thousand of them in a second.
        fast, generic: the calls.
        rivals: ONNX Runtime's, by name.
    """

    work: float
    unit: str
    fast: Callable[[], np.ndarray]
    generic: Callable[[], np.ndarray]
    rivals: Mapping[str, Callable[[], object]]

    def contenders(self) -> list[Contender]:
        ours = {isa.ISA: self.fast, "generic": self.generic}
        return [Contender(name, call) for name, call in {**ours, **self.rivals}.items()]


def aligned(packed: np.ndarray) -> np.ndarray:
    """A copy of packed weights where a Step has them: at a line of the cache."""
    room = aligned_bytes(packed.size).view(np.int8)
    room[:] = packed
    return room


def scaling(channels: int, taps: int) -> tuple[np.ndarray, ...]:
    """(bias, multiplier, limbs, exceptions) of ordinary size, padded to panels.

    Sums near ties are looked for: there are no exceptions.
    """
    padded = matmul.padded_columns(channels)
    factors = RNG.uniform(0.5, 1, padded).astype(np.float32) / (100 * taps**0.5)
    ratios = [Fraction(float(np.float32(factor))) for factor in factors]
    bias = RNG.integers(-1000, 1000, padded).astype(np.int32)
    return bias, *rescale(ratios), NO_EXCEPTION_SUMS


def product(m: int, k: int, n: int) -> Layer:
    a = RNG.integers(0, 256, m * k + 64, dtype=np.uint8)
    weight = RNG.integers(-128, 128, (n, k), dtype=np.int8)
    scales = scaling(n, k)

    def call(gemm: Callable[..., None], packed: np.ndarray) -> Callable[[], np.ndarray]:
        out = np.empty(m * n, np.uint8)

        def run() -> np.ndarray:
            gemm(a, k, m, k, packed, n, *scales, 100, 0, 255, out, n)
            return out

        return run

    rows = a[: m * k].reshape(1, m, 1, k)
    rival = partial(one_node.convolution, rows, weight[:, :, None, None])
    return Layer(
        m * k * n / 1e6,
        "GMAC/s",
        call(kernel_set.HOST.gemm_u8s8u8, aligned(kernel_set.HOST.pack_s8(weight))),
        call(matmul.gemm_u8s8u8, aligned(matmul.pack_s8(weight))),
        {"ORT": rival(), "ORT exact": rival(is_exact=True)},
    )


def depthwise(h: int, w: int, c: int, kernel: int, stride: tuple[int, int]) -> Layer:
    edge = (kernel // 2,) * 4
    geometry = window((1, h, w, c), (kernel, kernel), stride, edge, (1, 1))
    x = RNG.integers(0, 256, h * w * c + 64, dtype=np.uint8)
    weight = RNG.integers(-128, 128, (c, kernel, kernel), dtype=np.int8)
    outputs = geometry.out_h * geometry.out_w * c
    scales = scaling(c, kernel * kernel)

    def call(
        filtered: Callable[..., None], packed: np.ndarray
    ) -> Callable[[], np.ndarray]:
        out = np.empty(outputs, np.uint8)

        def run() -> np.ndarray:
            filtered(x, geometry, c, packed, *scales, 9, 100, 0, 255, out)
            return out

        return run

    rival = partial(
        one_node.convolution,
        *(x[: h * w * c].reshape(1, h, w, c), weight[:, None]),
        stride=stride,
        pad=kernel // 2,
        groups=c,
    )
    return Layer(
        outputs * kernel * kernel / 1e6,
        "GMAC/s",
        call(
            kernel_set.HOST.depthwise_u8s8u8,
            aligned(kernel_set.HOST.pack_depthwise(weight)),
        ),
        call(conv.depthwise_u8s8u8, aligned(conv.pack_depthwise(weight))),
        {"ORT": rival(), "ORT exact": rival(is_exact=True)},
    )


def lookup() -> Layer:
    x = RNG.integers(0, 256, VALUES, dtype=np.uint8)
    table = RNG.permutation(256).astype(np.uint8)

    def call(kernel: Callable[..., None]) -> Callable[[], np.ndarray]:
        out = np.empty_like(x)
        return lambda: (kernel(x, table, out), out)[1]

    fast, generic = call(kernel_set.HOST.lookup_u8), call(elementwise.lookup_u8)
    return Layer(VALUES / 1e6, "G/s", fast, generic, {})


def factor() -> Layer:
    x = RNG.integers(0, 256, VALUES, dtype=np.uint8)
    y = x[:200].copy()
    rest = (9, 3, *rescale([Fraction(float(np.float32(0.0047)))]), 8, 0, 255)

    def call(kernel: Callable[..., None]) -> Callable[[], np.ndarray]:
        out = np.empty_like(x)
        return lambda: (kernel(x, y, 96, 200, True, *rest, out), out)[1]

    fast, generic = call(kernel_set.HOST.mul_u8u8u8), call(elementwise.mul_u8u8u8)
    return Layer(VALUES / 1e6, "G/s", fast, generic, {})


def layers(quick: bool) -> Iterator[tuple[str, Callable[[], Layer]]]:
    few = slice(4) if quick else slice(None)
    for m, k, n in PRODUCTS[few]:
        yield f"gemm_u8s8u8 {m}x{k} -> {n}", partial(product, m, k, n)
    for shape in DEPTHWISES[few]:
        h, w, c, kernel, stride = shape
        name = f"depthwise_u8s8u8 {h}x{w}x{c} {kernel}x{kernel} stride {stride}"
        yield name, partial(depthwise, *shape)
    yield f"lookup_u8 {VALUES}", lookup
    yield "mul_u8u8u8 96x200 by 200", factor


def race(name: str, make: Callable[[], Layer]) -> Race:
    made: list[Layer] = []

    def contenders() -> list[Contender]:
        made.append(make())
        return made[-1].contenders()

    def rate(seconds: dict[str, float]) -> Mapping[str, Mapping[str, str]]:
        layer = made[-1]
        found = f"{layer.work / 1e3 / seconds[isa.ISA]:.1f} {layer.unit}"
        return {isa.ISA: {"rate": found}}

    return Race(
        name,
        contenders,
        same_bytes,
        "Layers of mobile networks, integers",
        ours=isa.ISA,
        sample_seconds=0.002,
        columns=rate,
    )


def same_bytes(results: dict[str, Any]) -> None:
    """Of the runways; ONNX Runtime has other grids here."""
    alike({name: results[name] for name in (isa.ISA, "generic")})


def rows(quick: bool) -> Iterator[Row]:
    yield from (race(name, make) for name, make in layers(quick))


BENCH = Bench(
    f"Kernels, one thread, ISA {isa.ISA}",
    rows,
    rounds=25,
    reasons=[
        Reason("its signed kernel may saturate at int16 here", "*", "ORT"),
        Reason(
            "lines are laid out before tiles read them: decision 0035", "depthwise*"
        ),
        Reason("small work: a call costs as much", "*"),
    ],
    notes=f"ISA: {isa.REASON}. {one_node.FAIRNESS}",
)
