"""Layers of MobileNetV2 1.0/224 and square products in int8, as models run them.

Each is a step with memory of its own, beside ONNX Runtime on the same codes and grids,
and may be one step of the grid away from its exact kernel.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

import mdtensor as md
from bench import mobilenet
from bench.harness import Bench, Contender, Found, Promise, Race, Reason, Row
from bench.harness.agreement import Disagreement, alike
from bench.rivals import one_node, peaks
from mdtensor.kernels.cpu import isa
from mdtensor.kernels.cpu.program.products import Conv2d
from mdtensor.kernels.cpu.program.program import Program
from mdtensor.kernels.cpu.program.step import Step
from mdtensor.quant import QInt8Tensor, QParams, QUInt8Tensor, quint8

OURS, ORT, EXACT, PEAK = "mdtensor", "ORT", "ORT exact", "peak"
RIVALS = ORT, EXACT
ONE, TWO = "1 thread", "2 threads"
SIGNED, UNSIGNED = "signed", "unsigned"
RNG = np.random.default_rng(1)
SIDES = (256, 512, 1024)
#: MMAC from which a second thread has to pay.
WORTH = 5


@dataclass(frozen=True)
class Layer:
    """A convolution of codes without bias.

    Args:
        height, width: of the image.
        into, out: channels.
        kernel, stride: of both axes; the edge is half the kernel.
        is_depthwise: a channel sees itself alone.
    """

    kind: str
    height: int
    width: int
    into: int
    out: int
    kernel: int = 1
    stride: int = 1
    is_depthwise: bool = False

    @property
    def name(self) -> str:
        shape = f"{self.kind} {self.height}x{self.width}x{self.into} -> {self.out}"
        return f"{shape}, stride {self.stride}" if self.is_depthwise else shape

    @property
    def macs(self) -> int:
        per_place = self.kernel**2 * (1 if self.is_depthwise else self.into) * self.out
        return self.height * self.width // self.stride**2 * per_place

    def data(self) -> tuple[np.ndarray, np.ndarray]:
        """Codes of an image, and of weights."""
        x = RNG.integers(0, 256, (1, self.height, self.width, self.into), np.uint8)
        into = 1 if self.is_depthwise else self.into
        shape = (self.out, into, self.kernel, self.kernel)
        return x, RNG.integers(-128, 128, shape, np.int8)

    def step(self, weight: np.ndarray) -> Step:
        return Conv2d(
            weight,
            stride=(self.stride, self.stride),
            padding=(self.kernel // 2,) * 4,
            groups=self.into if self.is_depthwise else 1,
            x_zero_point=one_node.X_ZERO,
            ratios=[one_node.ratio(weight[0].size)] * self.out,
            zero_point=one_node.Y_ZERO,
        )

    def ours(self, x: np.ndarray, weight: np.ndarray, threads: int) -> Contender:
        program = Program()
        end = program.append(self.step(weight), program.input(x.shape, x.dtype))
        call = program.build([end]).bound(x, threads=threads)
        name = {1: ONE, 2: TWO}[threads]
        return Contender(name, lambda: call()[0])

    def rival(self, x: np.ndarray, weight: np.ndarray, is_exact: bool) -> Contender:
        options: dict[str, Any] = {"stride": (self.stride, self.stride)}
        options |= {"pad": self.kernel // 2, "is_exact": is_exact}
        groups = self.into if self.is_depthwise else 1
        call = one_node.convolution(x, weight, groups=groups, **options)
        return Contender(EXACT if is_exact else ORT, call)

    def beside_rivals(self) -> list[Contender]:
        x, weight = self.data()
        found = [Contender(OURS, self.ours(x, weight, 1).statement)]
        found += [self.rival(x, weight, is_exact) for is_exact in (False, True)]
        if (peak := peaks.of_codes(self.macs)) is not None:
            found.append(Contender(PEAK, peak))
        return found

    def on_threads(self) -> list[Contender]:
        x, weight = self.data()
        return [self.ours(x, weight, threads) for threads in (2, 1)]


def layers() -> Iterator[Layer]:
    """Those of MobileNetV2, each shape once, from first to last."""
    side, channels = 112, 32
    yield Layer("first", 224, 224, 3, channels, 3, 2)
    for expansion, out, repeats, first_stride in mobilenet.BLOCKS:
        for turn in range(repeats):
            stride, wide = first_stride if turn == 0 else 1, channels * expansion
            if expansion > 1:
                yield Layer("pointwise", side, side, channels, wide)
            shape = side, side, wide, wide, 3, stride
            yield Layer("depthwise", *shape, is_depthwise=True)
            side //= stride
            yield Layer("pointwise", side, side, wide, out)
            channels = out
    yield Layer("pointwise", side, side, channels, 1280)


def in_signs(shape: tuple[int, int, int]) -> list[Contender]:
    """The same product of codes with and without signs, called by users."""
    m, k, n = shape
    x = RNG.integers(0, 256, (m, k), np.uint8)
    w = QInt8Tensor.wrap(RNG.integers(-128, 128, (n, k), np.int8), QParams(0.01))
    grid = QParams(0.01 * 0.02 * 74 * 74 * k**0.5 / 40, 120, dtype=quint8)
    signed = QInt8Tensor.wrap((x ^ 128).view(np.int8), QParams(0.02, 3))
    unsigned = QUInt8Tensor.wrap(x, QParams(0.02, 131, dtype=quint8))
    return [
        Contender(name, lambda x=x: md.linear(x, w, None, out=grid).codes.buffer)
        for name, x in ((SIGNED, signed), (UNSIGNED, unsigned))
    ]


def square(side: int) -> Layer:
    """A product of square matrices, as the convolution of a row of pixels."""
    return Layer("product", 1, side, side, side)


LAYERS = tuple(dict.fromkeys(layers()))
SQUARES = tuple(map(square, SIDES))
SIGNS = [(512, 512, 512), (3136, 24, 144), (196, 576, 96), (49, 960, 320)]


#: Why ONNX Runtime's default kernel may be faster.
BEHIND = "its signed kernel may saturate at int16 here"
if isa.ISA == "vnni":
    BEHIND = "why is not known"


def near_exact(results: Mapping[str, np.ndarray]) -> None:
    """Ours is at most a code away from the exact kernel's: it rounds differently."""
    ours, theirs = (results[name].astype(np.int64) for name in (OURS, EXACT))
    if np.abs(ours - theirs).max() > 1:
        raise Disagreement(f"{OURS} and {EXACT} are more than a code apart")


def alike_but_for_the_sign(results: Mapping[str, np.ndarray]) -> None:
    """Zero points and codes of one are those of the other less 128."""
    alike({name: codes.view(np.uint8) for name, codes in results.items()})


def rates(layer: Layer, seconds: dict[str, float]) -> dict[str, dict[str, str]]:
    return {
        name: {"GMAC/s": f"{layer.macs / 1e9 / one:.1f}"}
        for name, one in seconds.items()
    }


def beside(layer: Layer) -> Race:
    return Race(
        layer.name,
        layer.beside_rivals,
        near_exact,
        "Layers on one thread",
        sample_seconds=0.01,
        columns=partial(rates, layer),
        limit=PEAK,
    )


def rows(quick: bool) -> Iterator[Row]:
    chosen = (SQUARES[0], *LAYERS[:3]) if quick else (*SQUARES, *LAYERS)
    for layer in chosen:
        yield beside(layer)
    for layer in chosen:
        yield Race(
            f"threads, {layer.name}",
            layer.on_threads,
            alike,
            "Two threads",
            ours=TWO,
            threads=2,
            clock=perf_counter,
            sample_seconds=0.025,
            columns=partial(rates, layer),
            is_spread=True,
        )
    for shape in SIGNS[-1:] if quick else SIGNS:
        name = "signs, {}x{} -> {}".format(*shape)
        make = partial(in_signs, shape)
        yield Race(
            name,
            make,
            alike_but_for_the_sign,
            "Signed and unsigned codes of the input",
            ours=SIGNED,
        )


def of_kind(kind: str, stride: int = 0) -> list[str]:
    """Names of layers; of all strides if none is given."""
    return [
        layer.name
        for layer in (*SQUARES, *LAYERS)
        if layer.kind == kind and stride in (0, layer.stride)
    ]


def worst(names: list[str], rival: str) -> Callable[[Found], float]:
    return lambda found: found.worst(names, rival)


def typical(names: list[str], rival: str) -> Callable[[Found], float]:
    return lambda found: median(found.ratio(name, rival) for name in names)


def of_peak(found: Found) -> float:
    """Our time over that of the instruction alone, in the worst product."""
    names = of_kind("product")
    return max(found.value(name) / found.value(name, PEAK) for name in names)


def of_threads(is_large: bool) -> Callable[[Found], float]:
    names = [
        f"threads, {layer.name}"
        for layer in (*SQUARES, *LAYERS)
        if (layer.macs > WORTH * 1e6) == is_large
    ]
    return lambda found: found.worst(names, ONE)


def beside_both(
    claim: str, limit: float, value: Callable[[str], Callable[[Found], float]]
) -> list[Promise]:
    """A limit over ONNX Runtime as it is, and over the kernel that does the same."""
    return [
        Promise(f"{claim}, relative to {rival}", limit, value(rival))
        for rival in RIVALS
    ]


BENCH = Bench(
    f"Layers of MobileNetV2 in int8, ISA {isa.ISA}",
    rows,
    rounds=25,
    promises=[
        *beside_both("square products", 1.0, partial(worst, of_kind("product"))),
        Promise("square products, relative to the peak of the CPU", 1 / 0.93, of_peak),
        *beside_both("pointwise, worst", 0.97, partial(worst, of_kind("pointwise"))),
        *beside_both("pointwise, median", 0.9, partial(typical, of_kind("pointwise"))),
        *beside_both(
            "depthwise, stride 1", 0.45, partial(worst, of_kind("depthwise", 1))
        ),
        *beside_both(
            "depthwise, stride 2", 0.7, partial(worst, of_kind("depthwise", 2))
        ),
        *beside_both("first convolution", 0.45, partial(worst, of_kind("first"))),
        Promise(
            "signed codes relative to unsigned codes",
            1.1,
            lambda found: found.worst(
                ["signs, {}x{} -> {}".format(*shape) for shape in SIGNS], UNSIGNED
            ),
        ),
        Promise(
            f"two threads relative to one, layers of at least {WORTH} MMAC",
            1 / 1.6,
            of_threads(True),
        ),
        Promise("two threads relative to one, smaller layers", 1.05, of_threads(False)),
    ],
    reasons=[
        Reason(BEHIND, "*", ORT),
        Reason("exact products of words bound both: decision 0035", "p*", EXACT),
        Reason("mdtensor uses one thread here, so both do the same work", "threads*"),
        Reason("each call converts signed codes to unsigned ones", "signs*"),
    ],
    notes=f"""ISA: {isa.REASON}. {one_node.FAIRNESS} All
contenders read and write existing memory; weights are packed before the timing. "peak"
is the time of the same number of multiply-adds of codes on registers, by the widest
instruction that is exact for all codes.""",
)
