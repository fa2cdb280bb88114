"""Matrix products and convolutions of floats and of codes, square and 3 x 3.

Weights are constant: ONNX Runtime and torch pack those of codes once, mdtensor packs
them at the second call. They have 7 bits, so that sums of two products stay within 16
bits, where some kernels saturate.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import mdtensor as md
from bench.harness import Contender, Race
from bench.harness.agreement import near
from bench.rivals import one_model, peaks
from bench.sizes.moving import node
from bench.sizes.task import (
    LIMIT,
    NUMPY,
    ORT,
    OURS,
    TORCH,
    as_numbers,
    one_thread,
    torch,
)
from mdtensor.quant import QInt8Tensor, QParams, QUInt8Tensor, quint8

MATRICES, IMAGES = "Products of square matrices", "Convolutions, 3 x 3, 64 channels"
SIDES = (10, 100, 1000, 2000)
#: Of images of 64 channels; together as many elements as the operands elsewhere.
IMAGE_SIDES = (2, 12, 125, 395)
CHANNELS, MILLION = 64, 10**6
RNG = np.random.default_rng(4)
#: Grids of what goes in and of weights; that of the results fits their spread.
X_GRID, W_GRID = QParams(0.02, 128, dtype=quint8), QParams(0.01)


def out_grid(depth: int) -> QParams:
    return QParams(0.02 * 0.01 * 74 * 37 * depth**0.5 / 32, 120, dtype=quint8)


def numbers(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, np.float32)


def codes(*shape: int) -> np.ndarray:
    return RNG.integers(0, 256, shape, np.uint8)


def weights(*shape: int) -> np.ndarray:
    return RNG.integers(-64, 64, shape, np.int8)


def product(side: int) -> list[Contender]:
    x, w = numbers(side, side), numbers(side, side)
    a, b = md.from_numpy(x), md.from_numpy(w)
    nodes, out = [node("MatMul", "x w")], np.empty_like(x)
    found = [
        Contender(OURS, "md.matmul(a, b)", {"md": md, "a": a, "b": b}),
        Contender(NUMPY, "np.matmul(x, w)", {"np": np, "x": x, "w": w}),
        Contender(ORT, one_model.bound(nodes, {"x": x}, {"w": w}, out)),
    ]
    if torch:
        names = {"torch": torch, "x": torch.from_numpy(x), "w": torch.from_numpy(w)}
        found.append(Contender(TORCH, "torch.matmul(x, w)", names))
    return found


def exact_product(side: int) -> list[Contender]:
    """Sums of 32 bits; NumPy has no fast product of integers."""
    x, w = codes(side, side), weights(side, side)
    a, b = QUInt8Tensor.wrap(x, X_GRID), QInt8Tensor.wrap(w, W_GRID)
    nodes, out = [node("MatMulInteger", "x w zero")], np.empty((side, side), np.int32)
    constants = {"w": w, "zero": np.uint8(128)}
    found = [
        Contender(OURS, "md.matmul(a, b)", {"md": md, "a": a, "b": b}),
        Contender(ORT, one_model.bound(nodes, {"x": x}, constants, out)),
    ]
    if side <= 100:
        wide = {"np": np, "x": x.astype(np.int32) - 128, "w": w.astype(np.int32)}
        found.insert(1, Contender(NUMPY, "np.matmul(x, w)", wide))
    return found


def rounded_product(side: int) -> list[Contender]:
    """Sums rounded to the grid of the result."""
    x, w, grid = codes(side, side), weights(side, side), out_grid(side)
    a, b = QUInt8Tensor.wrap(x, X_GRID), QInt8Tensor.wrap(w, W_GRID)
    names = {"md": md, "a": a, "b": b, "grid": grid}
    inputs = "x xs xz w ws wz ys yz"
    constants = {"w": w, **constants_of(grid)}
    nodes, out = [node("QLinearMatMul", inputs)], np.empty_like(x)
    found = [
        Contender(OURS, "md.matmul(a, b, out=grid)", names),
        Contender(ORT, one_model.bound(nodes, {"x": x}, constants, out)),
    ]
    if torch:
        packed = torch.ops.quantized.linear_prepack(quantized(w.T, W_GRID), None)
        call = torch.ops.quantized.linear
        names = {"f": call, "x": quantized(x, X_GRID), "w": packed}
        names |= {"scale": float(grid.scale), "zero": int(grid.zero_point)}
        found.append(Contender(TORCH, "f(x, w, scale, zero)", names))
    return found


def constants_of(grid: QParams) -> dict[str, Any]:
    """The grids of x, of w and of y, as ONNX has them."""
    found = {}
    for name, one in (("x", X_GRID), ("w", W_GRID), ("y", grid)):
        found[f"{name}s"] = np.float32(one.scale)
        found[f"{name}z"] = one.zero_point.astype(one.dtype.storage)
    return found


def quantized(x: np.ndarray, grid: QParams) -> Any:
    """A quantized tensor of torch."""
    numbers = torch.from_numpy(np.ascontiguousarray(x))
    scale, zero = float(grid.scale), int(grid.zero_point)
    return torch._make_per_tensor_quantized_tensor(numbers, scale, zero)


def convolution(side: int) -> list[Contender]:
    """Images [n, c, h, w], as all have floats."""
    x, w = numbers(1, CHANNELS, side, side), numbers(CHANNELS, CHANNELS, 3, 3)
    a, b = md.from_numpy(x), md.from_numpy(w)
    nodes, out = [node("Conv", "x w", pads=[1] * 4)], np.empty_like(x)
    call = "md.conv2d(a, b, padding=1)"
    found = [
        Contender(OURS, call, {"md": md, "a": a, "b": b}),
        Contender(ORT, one_model.bound(nodes, {"x": x}, {"w": w}, out)),
    ]
    if torch:
        names = {"torch": torch, "x": torch.from_numpy(x), "w": torch.from_numpy(w)}
        found.append(Contender(TORCH, "torch.conv2d(x, w, padding=1)", names))
    return found


def rounded_convolution(side: int) -> list[Contender]:
    """Images whose channels lie last, as all have codes."""
    x, w = codes(1, side, side, CHANNELS), weights(CHANNELS, CHANNELS, 3, 3)
    grid = out_grid(9 * CHANNELS)
    image = np.moveaxis(x, -1, 1)
    a, b = QUInt8Tensor.wrap(image, X_GRID), QInt8Tensor.wrap(w, W_GRID)
    names = {"md": md, "a": a, "b": b, "grid": grid}
    last = {"domain": "com.microsoft", "channels_last": 1}
    nodes = [node("QLinearConv", "x xs xz w ws wz ys yz", pads=[1] * 4, **last)]
    constants, out = {"w": w, **constants_of(grid)}, np.empty_like(x)
    bound = one_model.bound(nodes, {"x": x}, constants, out)
    first = {"run": bound, "y": np.moveaxis(out, -1, 1)}
    found = [
        Contender(OURS, "md.conv2d(a, b, padding=1, out=grid)", names),
        Contender(ORT, "(run(), y)[1]", first),
    ]
    if torch:
        packed = torch.ops.quantized.conv2d_prepack(
            quantized(w, W_GRID), None, [1, 1], [1, 1], [1, 1], 1
        )
        names = {"f": torch.ops.quantized.conv2d, "w": packed}
        names |= {"x": quantized(x, X_GRID).permute(0, 3, 1, 2)}
        names |= {"scale": float(grid.scale), "zero": int(grid.zero_point)}
        found.append(Contender(TORCH, "f(x, w, scale, zero)", names))
    return found


def check(results: dict[str, Any], tolerance: float) -> None:
    """All near ours, which tests compare with an oracle; the limit gives nothing."""
    numbers = {name: as_numbers(x) for name, x in results.items() if name != LIMIT}
    near(numbers[OURS], tolerance)(numbers)


@dataclass(frozen=True)
class Kind:
    """Products of one kind: who makes them of a side, and what they have to do.

    Args:
        name, table: of its rows.
        make: the contenders.
        peak: the limit of the CPU.
        tolerance: how far apart two may be: codes one step.
        images: of 64 channels, else square matrices.
    """

    name: str
    table: str
    make: Callable[[int], list[Contender]]
    peak: Callable[[int], Callable[[], None] | None]
    tolerance: float
    images: bool = False

    def race(self, side: int) -> Race:
        return Race(
            f"{self.name}, {self.elements(side):,}",
            partial(self.contenders, side),
            partial(check, tolerance=self.tolerance),
            self.table,
            sample_seconds=0.003 if self.elements(side) <= MILLION else 0,
            share=0.5 if self.elements(side) < MILLION else 0.15,
            limit=LIMIT,
        )

    def elements(self, side: int) -> int:
        return side * side * (CHANNELS if self.images else 1)

    def contenders(self, side: int) -> list[Contender]:
        """With the limit, where that of this CPU is known."""
        one_thread()
        depth = 9 * CHANNELS if self.images else side
        limit = self.peak(self.elements(side) * depth)
        return self.make(side) + ([Contender(LIMIT, limit)] if limit else [])


KINDS = [
    Kind("matmul float32", MATRICES, product, peaks.of_floats, 2e-3),
    Kind("matmul int8 to int32", MATRICES, exact_product, peaks.of_codes, 0),
    Kind("matmul int8", MATRICES, rounded_product, peaks.of_codes, 1),
    Kind("conv2d float32", IMAGES, convolution, peaks.of_floats, 2e-3, True),
    Kind("conv2d int8", IMAGES, rounded_convolution, peaks.of_codes, 1, True),
]


def rows(quick: bool) -> Iterator[Race]:
    for kind in KINDS:
        sides = IMAGE_SIDES if kind.images else SIDES
        for side in sides[:2] if quick else sides:
            yield kind.race(side)
