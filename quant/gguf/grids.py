"""Types of blocks whose numbers lie on a grid: step · code, and no minimum.

    number = step · code       one step for each 16, 32 or 256 elements

The package gguf decodes both: blocks whose steps are all 1 give the codes, blocks whose
codes are all 1 give the steps. So no order of bits is written down twice.

Source: ggml, `ggml-common.h`: `block_q4_0` and so on.
"""

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mdtensor import StorageError
from mdtensor.errors import describe
from mdtensor.quant.gguf.package import block_type, gguf_package, sizes_of
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import QInt4Tensor, QInt8Tensor

Array = npt.NDArray[Any]
_ONE: Final = np.float16(1).tobytes()


class Grid(NamedTuple):
    """How a type of blocks lies on a grid.

    Attributes:
        leaf: the tensors whose codes hold its codes.
        group: how many elements share a step.
        ones: a block that stands for 1 everywhere, with steps and codes of 1.
        steps: where the steps are; all other bytes are codes.
    """

    leaf: Any
    group: int
    ones: bytes
    steps: slice


GRIDS: Final = {
    "Q4_0": Grid(QInt4Tensor, 32, _ONE + b"\x99" * 16, slice(0, 2)),
    "Q5_0": Grid(QInt8Tensor, 32, _ONE + b"\xff" * 4 + b"\x11" * 16, slice(0, 2)),
    "Q8_0": Grid(QInt8Tensor, 32, _ONE + b"\x01" * 32, slice(0, 2)),
    "TQ1_0": Grid(QInt4Tensor, 256, b"\xff" * 48 + b"\xfd" * 4 + _ONE, slice(52, 54)),
    "TQ2_0": Grid(QInt4Tensor, 256, b"\xaa" * 64 + _ONE, slice(64, 66)),
    "Q3_K": Grid(
        QInt4Tensor,
        16,
        b"\xff" * 32 + b"\x55" * 64 + b"\x11" * 8 + b"\xaa" * 4 + _ONE,
        slice(96, 110),
    ),
    "Q6_K": Grid(
        QInt8Tensor,
        16,
        b"\x11" * 128 + b"\xaa" * 64 + b"\x01" * 16 + _ONE,
        slice(192, 210),
    ),
}


def on_grid(name: str, data: Array, shape: tuple[int, ...]) -> Any:
    """The tensor of blocks of the type `name`.

    Raises:
        StorageError: a step is infinite or NaN.
    """
    grid = GRIDS[name]
    blocks = data.reshape(-1, sizes_of(name)[1])
    ones = np.broadcast_to(np.frombuffer(grid.ones, np.uint8), blocks.shape)
    is_step = np.zeros(blocks.shape[1], bool)
    is_step[grid.steps] = True
    spread = _decoded(name, np.where(is_step, blocks, ones))
    codes = _decoded(name, np.where(is_step, ones, blocks))
    steps = spread.reshape(-1, grid.group)[:, :1]
    if not np.isfinite(steps).all():
        raise StorageError(f"a step of {name} is not finite", "Use dequantize()")
    counts = codes.astype(np.int8).reshape(-1, grid.group)
    found, zeros = _upright(counts, steps, int(grid.leaf.dtype.maximum))
    groups = (*shape[:-1], shape[-1] // grid.group)
    qparams = QParams(
        np.where(steps == 0, 1, abs(steps)).reshape(groups),
        zeros.reshape(groups),
        dtype=grid.leaf.dtype,
        axis=len(shape) - 1,
        block_size=grid.group,
    )
    return grid.leaf.from_codes(found.reshape(shape), qparams)


def _decoded(name: str, blocks: Array) -> Array:
    if not blocks.size:
        return np.empty(0, np.float32)
    row = blocks.reshape(1, -1)
    with np.errstate(all="ignore"):
        found = gguf_package().quants.dequantize(row, block_type(name))
    return np.asarray(found).reshape(-1)


def _upright(codes: Array, steps: Array, largest: int) -> tuple[Array, Array]:
    """Codes and zero points on steps above 0, for the same numbers."""
    codes = np.where(steps == 0, np.int8(0), codes)
    wide = np.where(steps < 0, -codes.astype(np.int16), codes)
    if wide.max(initial=0) <= largest:
        return wide.astype(np.int8), np.zeros(steps.shape, np.int8)
    return np.where(steps < 0, ~codes, codes), -(steps < 0).astype(np.int8)


def to_bytes(x: Any, name: str) -> Array:
    """The blocks of 32, of type `Q8_0` or `Q4_0`, that hold just this tensor.

    Raises:
        StorageError: another granularity, zero points but 0 and -1, or scales that are
            no float16.
    """
    grid = x.qparams
    steps = grid.scale.astype(np.float32)
    with np.errstate(over="ignore", under="ignore"):
        halves = steps.astype(np.float16)
    is_stored = (
        grid.block_size == 32
        and grid.axis == x.ndim - 1
        and x.shape[-1] % 32 == 0
        and np.isin(grid.zero_point, (0, -1)).all()
        and (halves == steps).all()
    )
    if not is_stored:
        fix = f"Use Blocks.quantize(dequantize(x), {name!r})"
        if grid.block_size == 32 and grid.axis == x.ndim - 1:
            fix += ", or requantize to x.qparams with scales that are float16"
        raise StorageError(
            f"{name} is codes with a float16 scale for each 32 of the last axis",
            fix,
            describe("Blocks.of", x),
        )
    is_turned = (grid.zero_point == -1).reshape(-1, 1)
    codes = np.asarray(x.codes.buffer, order="C").reshape(-1, 32)
    codes = np.where(is_turned, ~codes, codes).view(np.uint8)
    d = np.where(is_turned, -halves.reshape(-1, 1), halves.reshape(-1, 1))
    if name == "Q4_0":
        nibbles = (codes + np.uint8(8)) & np.uint8(15)
        codes = nibbles[:, :16] | nibbles[:, 16:] << np.uint8(4)
    return np.concatenate([d.view(np.uint8), codes], axis=1).reshape(-1)
