"""Functions that run products of float32 with codes, on a grid of each call.

Scratch, each part from a multiple of 64 bytes: the ends of the grid; for each column
what the zero point adds to a sum, and the factor of the sum; the sums of some rows; all
codes of the input.
"""

import numpy as np

from mdtensor.kernels.cpu import kernel_set
from mdtensor.kernels.cpu.generic.dynamic import codes_f32u8, grid_f32, scale_s32f32
from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.program import kinds
from mdtensor.kernels.cpu.program.interpret_floats import floats_at
from mdtensor.kernels.cpu.program.kinds import ALIGN, ITEM

gemm_u8s8s32 = kernel_set.compiled(kernel_set.HOST.name).gemm_u8s8s32


@kernel
def multiply_floats(step, values, m, n, bias, out, scratch, constants):
    """Set out[m, n] = values[m, k] · weights · scale + bias, of codes of values."""
    k, padded = step.depth, step.padded_columns
    scale, zero = grid_f32(values, floats_at(scratch, 0, 2))
    part = padded * ITEM
    shifts = scratch[np.uintp(ALIGN) :][: np.uintp(part)].view(np.int32)
    factors = floats_at(scratch[np.uintp(ALIGN + part) :], 0, padded)
    totals = constants[np.uintp(step.exception_sums) :][: np.uintp(part)].view(np.int32)
    scales = floats_at(constants[np.uintp(step.multipliers) :], 0, padded)
    start = np.int32(zero)
    for j in range(np.uintp(padded)):
        shifts[j] = np.int32(-np.int32(start * totals[j]))
        factors[j] = np.float32(scale * scales[j])
    place, pace = ALIGN + 2 * part, step.strip
    room = -(-pace * n * ITEM // ALIGN) * ALIGN
    sums = scratch[np.uintp(place) : np.uintp(place + room)].view(np.int32)
    codes = scratch[np.uintp(place + room) :]
    codes_f32u8(values, scale, zero, codes)
    weights = constants[np.uintp(step.weights) :][: np.uintp(step.weight_bytes)]
    for first in range(0, m, pace):
        rows = min(pace, m - first)
        a = codes[np.uintp(first * k) :]
        gemm_u8s8s32(a, k, rows, k, weights.view(np.int8), n, shifts, sums, n)
        target = out[np.uintp(first * n) :][: np.uintp(rows * n)]
        scale_s32f32(sums, rows, n, factors, bias, target)


@kernel
def run_dynamic_linear(steps, i, x, y, out, scratch, constants):
    """Run a DynamicLinear."""
    step = steps[i]
    m, n = step.rows, step.columns
    count = step.padded_columns if step.bias != 0 else 0
    bias = floats_at(constants[np.uintp(step.bias) :], 0, count)
    values = floats_at(x, 0, m * step.depth)
    target = floats_at(out, 0, m * n)
    multiply_floats(step, values, m, n, bias, target, scratch, constants)


INVOKE = tuple(globals()[name] for name in kinds.DYNAMIC)
#: Functions that `INVOKE` calls and that call kernels.
HELPERS = (multiply_floats,)
