"""MatMulNBits of ONNX Runtime: a product with packed weights in blocks.

    y = x · Wᵀ + bias
    W[n, k] = scale[n, b] · (code[n, k] - zero[n, b]),    b = k // block_size

The weights become a quantized tensor with one scale for each block, like the weights of
a QDQ file. So the layer runs the same kernels, is planned and is saved in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import mdtensor as md
from mdtensor import DType
from mdtensor.quant.dtypes import qint8, quint4, quint8
from mdtensor.quant.model.onnx.build import Builder, Operator
from mdtensor.quant.model.onnx.operators.table import Reader
from mdtensor.quant.model.onnx.qdq import mirror
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import quantized

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Blocks:
    """Weights of MatMulNBits, unpacked.

    Args:
        codes: [outputs, inputs], int64.
        zeros: the zero point of each block, [outputs, blocks], float64.
        scales: the scale of each block, [outputs, blocks], float64.
        size: inputs of a block; the last block may have fewer.
    """

    codes: Array
    zeros: Array
    scales: Array
    size: int

    def quantized(self, first: DType) -> Any:
        """Return these weights as a quantized tensor; None if no type can hold them.

        Args:
            first: the type that is tried first, with codes and zero points as they are
                in the file.
        """
        if not np.isfinite(self.scales).all() or (self.zeros % 1 != 0).any():
            return None
        of_code = np.arange(self.codes.shape[1]) // self.size
        zeros, signs = (
            self.zeros.astype(np.int64),
            np.sign(self.scales).astype(np.int64),
        )
        # A grid needs scales above 0: negative ones, which ONNX Runtime's tool writes,
        # change the sides of the zero point; all codes of a scale of 0 are 0.
        steps = (self.codes - zeros[:, of_code]) * signs[:, of_code]
        scales = np.where(self.scales == 0, 1.0, np.abs(self.scales))
        starts = np.where(signs < 0, mirror(first, zeros), zeros)
        codes = steps + starts[:, of_code]
        for dtype, found, at in (
            (first, codes, starts),
            (qint8, steps, np.zeros_like(zeros)),
        ):
            if _fit(dtype, found) and _fit(dtype, at):
                grid = QParams(scales, at, dtype=dtype, axis=1, block_size=self.size)
                return quantized(found.astype(grid.dtype.storage), grid)
        return None

    def numbers(self, groups: Array) -> Array:
        """Return the weights in float64; `groups` has the block of each input."""
        return (self.codes - self.zeros[:, groups]) * self.scales[:, groups]


def _fit(dtype: DType, codes: Array) -> bool:
    low, high = int(dtype.minimum), int(dtype.maximum)
    return bool(low <= codes.min(initial=low) and codes.max(initial=high) <= high)


def matmul_nbits(g: Builder, op: Operator) -> None:
    """Read MatMulNBits."""
    x, bias = str(op.inputs[0]), op.input(5)
    op.require("bits", 4, 2, 8)
    op.require("weight_prepacked", 0)
    found = _blocks(g, op)
    usual = groups = np.arange(found.codes.shape[1]) // found.size
    if op.input(4):
        groups = _sized(g, op, 4, "groups", len(usual)).astype(np.int64)
    weights: Any = None
    if np.array_equal(usual, groups):
        weights = found.quantized(quint8 if op.get("bits", 4) == 8 else quint4)
    if weights is None:
        if groups.min(initial=0) < 0 or groups.max(initial=0) >= found.scales.shape[1]:
            raise op.error("reads a block that does not exist", "Export it again")
        storage = g.specs[x].dtype.storage
        weights = md.asarray(found.numbers(groups).astype(storage))
    name = g.constant(g.fresh(f"{op.inputs[1]}.{op.outputs[0]}"), weights)
    g.call(op, md.linear, x, name, bias)


def _blocks(g: Builder, op: Operator) -> Blocks:
    """Return the weights in inputs 1 to 3."""
    rows, columns, size, bits = (
        int(op.get(name, default) or 0)
        for name, default in (("N", 0), ("K", 0), ("block_size", 0), ("bits", 4))
    )
    # The operator allows powers of 2 from 16 on.
    if min(rows, columns) < 1 or size < 16 or size & (size - 1):
        raise op.error(
            f"has N={rows}, K={columns} and block_size={size}",
            "Use positive sizes, and a block size of 16, 32, 64, ...",
        )
    count = -(-columns // size)
    packed = _sized(g, op, 1, "weights", rows * count * size * bits // 8)
    codes = _unpack(packed.reshape(rows, -1), bits)[:, :columns]
    scales = _sized(g, op, 2, "scales", rows * count).astype(np.float64)
    return Blocks(codes, _zeros(g, op, rows, count), scales.reshape(rows, count), size)


def _zeros(g: Builder, op: Operator, rows: int, count: int) -> Array:
    """Return the zero points: packed like the weights, floats, or the middle code."""
    bits = int(op.get("bits", 4))
    name = op.input(3)
    if name is None:
        return np.full((rows, count), float(1 << (bits - 1)))
    if g.specs[name].dtype is not md.uint8:
        found = _sized(g, op, 3, "zero points", rows * count)
        return found.astype(np.float64).reshape(rows, count)
    width = -(-count * bits // 8)
    packed = _sized(g, op, 3, "zero points", rows * width).reshape(rows, width)
    return _unpack(packed, bits)[:, :count].astype(np.float64)


def _sized(g: Builder, op: Operator, index: int, what: str, size: int) -> Array:
    """Return a constant input of `size` elements, flat."""
    found = g.require_array(op, index, f"the {what}").reshape(-1)
    if found.size != size:
        raise op.error(
            f"has {found.size} elements of {what}, and its sizes need {size}",
            "Export it again",
        )
    return found


def _unpack(packed: Array, bits: int) -> Array:
    """Return the codes in bytes [rows, bytes], the lowest bits first, as int64."""
    shifts = np.arange(0, 8, bits, dtype=np.int64)
    parts = packed[..., None].astype(np.int64) >> shifts
    return (parts & ((1 << bits) - 1)).reshape(len(packed), -1)


READERS: dict[str, Reader] = {"com.microsoft.MatMulNBits": matmul_nbits}
