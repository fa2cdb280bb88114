"""What a crew does: the rows of a Program as pieces in groups, see `claims`.

A step becomes pieces if it takes long enough; steps between such ones are one piece,
done by one thread in a row. Both are decided here, by estimates, when a plan is made:
the same shapes on the same runway always give the same pieces.
"""

from typing import NamedTuple

import numpy as np

from mdtensor.kernels.cpu import isa
from mdtensor.kernels.cpu.account import Account
from mdtensor.kernels.cpu.program import interpret
from mdtensor.kernels.cpu.program.record import STEP
from mdtensor.kernels.cpu.threads.split import cut
from mdtensor.kernels.cpu.threads.work_queue import MOST_GROUPS

#: A shorter piece costs more to hand over than it saves.
PIECE_NANOSECONDS = 8_000
#: A longer step has twice as many, so that a late helper still finds one.
LONG_NANOSECONDS = 150_000
#: Multiply-accumulates a nanosecond in products and depthwise. Not measured but guessed
#: from instructions: "avx512", "avxvnni" and "neon".
RATES = {
    "generic": (10, 6),
    "neon": (60, 15),
    "avx2": (70, 17),
    "avxvnni": (120, 17),
    "avx512": (80, 20),
    "vnni": (180, 45),
}
#: Nanoseconds for each byte of the result of any other kind.
BYTE_NANOSECONDS = 0.25


class Job(NamedTuple):
    """Rows for `run.run`, how they are shared out, and the rows uncut."""

    rows: np.ndarray
    pieces: np.ndarray
    first: np.ndarray
    whole: np.ndarray
    account: Account


def nanoseconds(row):
    """About how long the row takes one thread."""
    products, depthwise = RATES[isa.RUNWAY]
    window = row.window
    taps = window.kernel_h * window.kernel_w
    outputs = row.images * window.out_h * window.out_w
    if row.kind == interpret.CONV:
        depth = taps * (window.channels // row.groups)
        return outputs * row.out_channels * depth / products
    if row.kind == interpret.DEPTHWISE:
        return outputs * window.channels * taps / depthwise
    if row.kind in (interpret.MAX_POOL, interpret.AVG_POOL):
        return row.out_bytes * taps * BYTE_NANOSECONDS
    return max(row.out_bytes, row.x_bytes) * BYTE_NANOSECONDS


def piece_count(row):
    """Pieces that the row is worth; 1: one thread does it."""
    return len(_pieces(row))


def _pieces(row):
    time = nanoseconds(row)
    if time < 2 * PIECE_NANOSECONDS or not row.out_bytes:
        return [row]
    return cut(row, 4 if time > LONG_NANOSECONDS else 2)


def job(rows):
    """The Job of all rows, or None where one thread is as fast."""
    groups, chain = [], []  # of pieces, which are lists of rows
    for row in rows:
        parts = _pieces(row)
        if len(parts) == 1:
            chain += parts
            continue
        groups += [[chain]] if chain else []
        groups.append([[part] for part in parts])
        chain = []
    if not groups or len(groups) >= MOST_GROUPS:
        return None
    groups += [[chain]] if chain else []
    pieces = [piece for group in groups for piece in group]
    ends = np.cumsum([len(piece) for piece in pieces])
    table = np.stack([np.concatenate([[0], ends[:-1]]), ends], axis=1)
    first = np.cumsum([0, *(len(group) for group in groups)])
    cut_rows = np.array([row for piece in pieces for row in piece], STEP)
    return Job(cut_rows, table, first, rows, Account())
