"""Integer kernels on the layer shapes of small mobile networks, each runway in turn.

Products and depthwise convolutions run beside ONNX Runtime, see `one_node.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import harness
import numpy as np
import one_node

from mdtensor.kernels.cpu import conv, elementwise, isa, matmul, runway
from mdtensor.kernels.cpu.plan import aligned_bytes
from mdtensor.kernels.cpu.steps import window
from mdtensor.kernels.rescale import rescale

RNG = np.random.default_rng(1)
# rows, taps, columns
PRODUCTS = [(2304, 36, 8), (2304, 8, 8), (1152, 8, 40), (288, 24, 88), (288, 88, 24)]
PRODUCTS += [
    (96, 104, 200),
    (96, 200, 32),
    (1, 200, 50),
    (784, 144, 32),
    (49, 960, 160),
]
# pointwise layers of MobileNetV2 from its first to its last, and square ones
PRODUCTS += [(12544, 32, 16), (12544, 16, 96), (3136, 24, 144), (784, 32, 192)]
PRODUCTS += [(196, 64, 384), (196, 576, 96), (49, 960, 320), (49, 320, 1280)]
PRODUCTS += [(256, 256, 256), (512, 512, 512)]
# h, w, c, kernel, stride
DEPTHWISES = [(24, 96, 8, 3, (2, 1)), (12, 96, 40, 3, (2, 1)), (6, 96, 48, 5, (2, 1))]
DEPTHWISES += [
    (3, 96, 88, 5, (1, 1)),
    (2, 96, 200, 5, (1, 1)),
    (28, 28, 192, 3, (1, 1)),
]
DEPTHWISES += [(112, 112, 32, 3, (1, 1)), (56, 56, 144, 3, (2, 2))]
VALUES = 96 * 200


@dataclass(frozen=True)
class Layer:
    """One shape with a call for each runway; `work` in millions of MACs or values.

    `rivals`: ONNX Runtime's call, and the one in which it is exact on every CPU.
    """

    name: str
    work: float
    unit: str
    fast: Callable[[], object]
    generic: Callable[[], object]
    rivals: tuple[Callable[[], object], ...] = ()


def aligned(packed: np.ndarray) -> np.ndarray:
    """A copy of packed weights where a Step has them: at a line of the cache."""
    room = aligned_bytes(packed.size).view(np.int8)
    room[:] = packed
    return room


def scaling(channels: int, taps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(bias, multiplier, limbs) of ordinary size, padded to whole panels."""
    padded = matmul.padded_columns(channels)
    factors = RNG.uniform(0.5, 1, padded).astype(np.float32) / (100 * taps**0.5)
    ratios = [Fraction(float(np.float32(factor))) for factor in factors]
    bias = RNG.integers(-1000, 1000, padded).astype(np.int32)
    return bias, *rescale(ratios)


def product(m: int, k: int, n: int) -> Layer:
    a = RNG.integers(0, 256, m * k + 64, dtype=np.uint8)
    weight = RNG.integers(-128, 128, (n, k), dtype=np.int8)
    scales, out = scaling(n, k), np.empty(m * n, np.uint8)

    def call(gemm: Callable[..., None], packed: np.ndarray) -> Callable[[], object]:
        return lambda: gemm(a, k, m, k, packed, n, *scales, 100, 0, 255, out, n)

    return Layer(
        f"gemm_u8s8u8 {m}x{k} -> {n}",
        m * k * n / 1e6,
        "GMAC/s",
        call(runway.gemm_u8s8u8, aligned(runway.pack_s8(weight))),
        call(matmul.gemm_u8s8u8, aligned(matmul.pack_s8(weight))),
        tuple(
            one_node.convolution((m, 1, k), weight[:, :, None, None], is_exact=exact)
            for exact in (False, True)
        ),
    )


def depthwise(h: int, w: int, c: int, kernel: int, stride: tuple[int, int]) -> Layer:
    edge = (kernel // 2,) * 4
    shape = window((1, h, w, c), (kernel, kernel), stride, edge, (1, 1))
    x = RNG.integers(0, 256, h * w * c + 64, dtype=np.uint8)
    weight = RNG.integers(-128, 128, (c, kernel, kernel), dtype=np.int8)
    geometry = np.array(shape, np.int64)
    outputs = shape[-2] * shape[-1] * c
    scales, out = scaling(c, kernel * kernel), np.empty(outputs, np.uint8)

    def call(run: Callable[..., None], packed: np.ndarray) -> Callable[[], object]:
        return lambda: run(x, geometry, c, packed, *scales, 9, 100, 0, 255, out)

    return Layer(
        f"depthwise_u8s8u8 {h}x{w}x{c} {kernel}x{kernel} stride {stride}",
        outputs * kernel * kernel / 1e6,
        "GMAC/s",
        call(runway.depthwise_u8s8u8, aligned(runway.pack_depthwise_s8(weight))),
        call(conv.depthwise_u8s8u8, aligned(conv.pack_depthwise_s8(weight))),
        tuple(
            one_node.convolution(
                *((h, w, c), weight[:, None]),
                stride=stride,
                pad=kernel // 2,
                groups=c,
                is_exact=exact,
            )
            for exact in (False, True)
        ),
    )


def lookup() -> Layer:
    x = RNG.integers(0, 256, VALUES, dtype=np.uint8)
    table, out = RNG.permutation(256).astype(np.uint8), np.empty_like(x)
    return Layer(
        f"lookup_u8 {VALUES}",
        VALUES / 1e6,
        "G/s",
        lambda: runway.lookup_u8(x, table, out),
        lambda: elementwise.lookup_u8(x, table, out),
    )


def factor() -> Layer:
    x = RNG.integers(0, 256, VALUES, dtype=np.uint8)
    y, out = x[:200].copy(), np.empty_like(x)
    rest = (9, 3, *rescale([Fraction(float(np.float32(0.0047)))]), 8, 0, 255, out)
    return Layer(
        "mul_u8u8u8 96x200 by 200",
        VALUES / 1e6,
        "G/s",
        lambda: runway.mul_u8u8u8(x, y, 96, 200, True, *rest),
        lambda: elementwise.mul_u8u8u8(x, y, 96, 200, True, *rest),
    )


def main() -> None:
    options = harness.arguments(__doc__, rounds=25)
    layers = [product(*shape) for shape in PRODUCTS]
    layers += [depthwise(*shape) for shape in DEPTHWISES]
    layers += [lookup(), factor()]
    rows = []
    for layer in layers:
        contenders = [
            harness.Contender(isa.RUNWAY, layer.fast),
            harness.Contender("plain", layer.generic),
        ]
        names = ("ORT", "ORT exact")[: len(layer.rivals)]
        contenders += map(harness.Contender, names, layer.rivals)
        samples = harness.interleave(contenders, options.rounds, 0.002)
        seconds = harness.medians(samples)
        ratios = [str(harness.ratio(samples, isa.RUNWAY, name)) for name in names]
        rows.append(
            (
                layer.name,
                f"{1e6 * seconds[isa.RUNWAY]:.1f}",
                f"{layer.work / 1e3 / seconds[isa.RUNWAY]:.1f} {layer.unit}",
                f"{1e6 * seconds['plain']:.1f}",
                str(harness.ratio(samples, "plain", isa.RUNWAY)),
                *(ratios or ["-", "-"]),
            )
        )
    header = ("kernel", f"{isa.RUNWAY} us", "rate", "generic us", "generic / this")
    header += ("this / ORT", "this / ORT exact")
    harness.report(
        "kernels",
        f"Integer kernels, one thread, runway {isa.RUNWAY}",
        header,
        rows,
        [],
        save=not options.no_save,
        notes=f"runway: {isa.REASON}; {one_node.__doc__}",
    )


if __name__ == "__main__":
    main()
