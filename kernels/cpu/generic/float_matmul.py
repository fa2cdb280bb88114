"""Products of float32 matrices, on any CPU, with a fixed order of the sums.

    out[i, j] = fma(a[i, k-1], w[j, k-1], ... fma(a[i, 0], w[j, 0], bias[j]))

A sum begins at the bias. Each product is added by a fused multiply-add (fma), which
rounds once. So the bytes are the same on every ISA, and a sum may be stored in `out`
between two blocks of k. A CPU without an instruction for fma calls the C library.

Source: IEEE 754-2019, 5.4.1, fusedMultiplyAdd.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from mdtensor.kernels.cpu.generic.activation import KEEP, ZERO, finish, narrowed
from mdtensor.kernels.cpu.generic.float_packing import (
    PANEL,
    pack_f32 as pack_f32,
    padded_columns as padded_columns,
)
from mdtensor.kernels.cpu.generic.opcodes import BEFORE_ADDING
from mdtensor.kernels.cpu.jit import kernel


@kernel
def pack_matrix_f32(y, k, n, ones, packed):
    """Pack y[k, n] as panels [n / 16][ones + k][16]; missing columns are 0.

    Args:
        y: float32 1-D.
        ones: rows of 1 before those of y, in all columns.
        packed: float32 1-D, written.
    """
    at = 0
    for first in range(0, n, PANEL):
        columns = min(PANEL, n - first)
        packed[np.uintp(at) : np.uintp(at + ones * PANEL)] = np.float32(1)
        at += ones * PANEL
        for i in range(k):
            source = y[np.uintp(i * n + first) :]
            target = packed[np.uintp(at) : np.uintp(at + PANEL)]
            if columns == PANEL:
                for j in range(np.uintp(PANEL)):
                    target[j] = source[j]
            else:
                for j in range(np.uintp(columns)):
                    target[j] = source[j]
                for j in range(np.uintp(columns), np.uintp(PANEL)):
                    target[j] = np.float32(0)
            at += PANEL


# Each product is fused and added in order, so that every ISA gives the same bytes
# (decision 0029).
def multiply_add(x, y, z):
    """Return x * y + z as float32, rounded once; for uncompiled code.

    The product is exact in float64. The rounding error of its sum with z is computed
    exactly. If the float64 sum is a tie of float32, the sign of that error decides.
    """
    with np.errstate(all="ignore"):
        product = np.float64(x) * np.float64(y)
        total = product + np.float64(z)
        part = total - product
        lost = (product - (total - part)) + (np.float64(z) - part)
        narrow = np.float32(total)
        other = total + (total - np.float64(narrow))
        is_tie = narrow != total and np.float64(np.float32(other)) == other
        if is_tie and lost != 0:
            total = np.nextafter(total, np.copysign(np.inf, lost))
        return np.float32(total)


@overload(multiply_add, inline="always")
def _multiply_add(x, y, z):
    return lambda x, y, z: fma(x, y, z)


@intrinsic
def fma(typingctx, x, y, z):
    """Return x * y + z, by the instruction or by the C library's fmaf."""

    def emit(context, b, signature, arguments):
        single = ir.FloatType()
        kind = ir.FunctionType(single, [single] * 3)
        found = b.module.declare_intrinsic("llvm.fma", [single], kind)
        return b.call(found, arguments)

    return types.float32(types.float32, types.float32, types.float32), emit


@kernel
def add_products(a, first, depth, weights, sums):
    """Set sums[j] = fma(a[first + i], weights[i, j], sums[j]) for each i < depth."""
    row = a[np.uintp(first) : np.uintp(first + depth)]
    for i in range(np.uintp(depth)):
        x = row[i]
        line = weights[i * np.uintp(PANEL) : (i + np.uintp(1)) * np.uintp(PANEL)]
        for j in range(np.uintp(PANEL)):
            sums[j] = multiply_add(x, line[j], sums[j])


@kernel
def finish_columns(source, first, pitch, rows, columns, after, out, at, ldc):
    """Write out[at + i * ldc + j] from source[first + i * pitch + j], j < columns.

    Args:
        after: residual, activation, low, high, as in `gemm_act_f32`.
    """
    residual, activation, low, high = after
    for i in range(rows):
        line = source[np.uintp(first + i * pitch) :]
        place = np.uintp(at + i * ldc)
        for j in range(np.uintp(columns)):
            x = line[j]
            if len(residual) > 0:
                x = narrowed(x, activation >> BEFORE_ADDING & 3)
                x = np.float32(x + residual[place + j])
            out[place + j] = finish(x, activation, low, high)


@kernel
def multiply_panel(a, lda, m, k, weights, bias, after, out, at, ldc, columns):
    """Write out[at + i * ldc + j] for the `columns` of one panel, weights [k, 16]."""
    # All 16 sums are computed, also for fewer columns: vectors need full panels.
    sums = np.empty(PANEL, np.float32)
    for i in range(m):
        for j in range(np.uintp(PANEL)):
            sums[j] = bias[j]
        add_products(a, i * lda, k, weights, sums)
        finish_columns(sums, 0, 0, 1, columns, after, out, at + i * ldc, ldc)


# No sum over k is split, so that tiles may have any shape without changing a byte
# (decision 0029).
@kernel
def gemm_act_f32(
    a, lda, m, k, packed, n, bias, residual, activation, low, high, out, ldc
):
    """Set out[i, j] = act(bias[j] + sum_k a[i, k] * w[j, k] + residual[i, j]).

    Args:
        a: float32, row i starts at i * lda.
        packed: float32, by `pack_f32`.
        bias: float32 [n padded to 16].
        residual: float32, row i starts at i * ldc; empty: nothing is added.
        activation, low, high: see `activation.py`.
        out: float32, row i starts at i * ldc, written, must not alias `a`.

    Rounding: each step of the sum once, half to even, k in ascending order; then the
    residual and the activation. NaN and infinities are as in IEEE 754.
    """
    after = residual, activation, low, high
    for first in range(0, n, PANEL):
        panel = packed[np.uintp(first * k) : np.uintp((first + PANEL) * k)]
        start = bias[np.uintp(first) : np.uintp(first + PANEL)]
        multiply_panel(
            *(a, lda, m, k, panel, start, after),
            *(out, first, ldc, min(PANEL, n - first)),
        )


@kernel
def gemm_f32f32f32(a, lda, m, k, packed, n, bias, out, ldc):
    """Set out[i, j] = bias[j] + sum_k a[i, k] * w[j, k], as `gemm_act_f32`."""
    nothing = bias[:0]
    gemm_act_f32(a, lda, m, k, packed, n, bias, nothing, KEEP, ZERO, ZERO, out, ldc)


@kernel
def copy_rows(source, pitch, rows, columns, out, ldc):
    """Set out[i * ldc + j] = source[i * pitch + j], j < columns."""
    for i in range(rows):
        line, row = source[np.uintp(i * pitch) :], out[np.uintp(i * ldc) :]
        for j in range(np.uintp(columns)):
            row[j] = line[j]


@kernel
def gemm_from_f32(a, lda, m, k, packed, n, start, lds, out, ldc):
    """Set out[i, j] = start[i, j] + sum_k a[i, k] * w[j, k]; the sum begins at `start`.

    Args:
        start: float32, row i starts at i * lds; must not alias `out`.
        a, packed, out: as for `gemm_act_f32`.
    """
    copy_rows(start, lds, m, n, out, ldc)
    sums = np.empty(PANEL, np.float32)
    for first in range(0, n, PANEL):
        panel = packed[np.uintp(first * k) : np.uintp((first + PANEL) * k)]
        columns = min(PANEL, n - first)
        for i in range(m):
            row = out[np.uintp(i * ldc + first) :]
            for j in range(np.uintp(PANEL)):
                sums[j] = row[j] if j < columns else ZERO
            add_products(a, i * lda, k, panel, sums)
            for j in range(np.uintp(columns)):
                row[j] = sums[j]
