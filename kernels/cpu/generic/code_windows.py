"""Convolutions of codes, channels last, on windows where they lie.

A window is read in groups of four codes, whose places are known, so nothing is copied
for it. `pair_packing.py` packs the weights.
"""

import numpy as np

from mdtensor.kernels.cpu.generic.pair_packing import GROUP, GROUP_BYTES, PANEL
from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.rounding import requantize_s32u8


@kernel
def pad_codes(x, window, line, lines, width, padding, out):
    """Copy the input lines of some lines of outputs, with `padding` around the image.

    Args:
        x: uint8 1-D [h, w, c].
        line: the first line of outputs.
        lines, width: of the padded image.
        out: uint8 1-D [lines, width, c], written.
    """
    h, w, c = window.height, window.width, window.channels
    size, left = width * c, min(window.pad_left, width) * c
    count = max(0, min(w * c, size - left))
    for i in range(lines):
        y = line * window.stride_h - window.pad_top + i
        target = out[np.uintp(i * size) : np.uintp((i + 1) * size)]
        if y < 0 or y >= h:
            target[:] = np.uint8(padding)
            continue
        target[: np.uintp(left)] = np.uint8(padding)
        target[np.uintp(left + count) :] = np.uint8(padding)
        source = x[np.uintp(y * w * c) :]
        own = target[np.uintp(left) :]
        for n in range(np.uintp(count)):
            own[n] = source[n]


@kernel
def windows_u8s8u8(
    a, rows, starts, entries, packed, n, bias, multiplier, limbs, zero_point, lo, hi,
    out, ldc,
):  # fmt: skip
    """out[p, j] = clamp(rhe((bias[j] + sum of window p * w[j]) * P/Q) + zp, lo, hi).

    Args:
        a: uint8 1-D.
        rows: (images, lines, columns, image pitch, line pitch, column pitch, tap
            pitch): the outputs, where their windows begin in `a`, and bytes from one
            kernel line to the next.
        starts: int64 [panels + 1], the first group of each panel.
        entries: int32 [2, groups]: kernel line of the codes of a group, place in it.
        packed: int8 [groups * 64], by `pack_pairs`.
        n, bias, multiplier, limbs, zero_point, lo, hi, out, ldc: as in `gemm_u8s8u8`.

    Rounding, overflow: as in `gemm_u8s8u8`.
    """
    images, lines, columns, image_pitch, line_pitch, pitch, tap_pitch = rows
    sums = np.empty(PANEL, np.int32)
    for p in range(images * lines * columns):
        image, y, x = p // (lines * columns), p // columns % lines, p % columns
        first = image * image_pitch + y * line_pitch + x * pitch
        for j in range(n):
            if j % PANEL == 0:
                for lane in range(PANEL):
                    sums[lane] = bias[j + lane]
                for i in range(starts[j // PANEL], starts[j // PANEL + 1]):
                    at = first + entries[0, i] * tap_pitch + entries[1, i]
                    for g in range(GROUP):
                        code = np.int32(a[at + g])
                        place = i * GROUP_BYTES + g
                        for lane in range(PANEL):
                            weight = np.int32(packed[place + lane * GROUP])
                            sums[lane] = np.int32(sums[lane] + np.int32(code * weight))
            out[p * ldc + j] = requantize_s32u8(
                sums[j % PANEL], multiplier[j], limbs, j, zero_point, lo, hi
            )
