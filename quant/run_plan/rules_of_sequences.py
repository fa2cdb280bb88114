"""What the kernels of recurrent layers read and write; see `rules_of_codes.py`.

`mdtensor.kernels.cpu.program.interpret_recurrent` has the function of each kind.
"""

import numpy as np
import numpy.typing as npt

from mdtensor_run.packing import padded_columns, round_up
from mdtensor_run.row import ALIGN, ITEM, Row, product
from mdtensor_run.rules_of_dynamic import multiplies_floats

#: Places in the header of a layer, and its length without the lengths of samples.
HAS_LENGTHS, HAS_HOLES, READS_STATES, HAS_CODES, HEADER = 1, 2, 3, 7, 8
#: What says that the lengths are inputs, float32 behind the states.
COMPUTED = 2
#: Numbers of a layer, and of its peepholes for each column.
FACTORS, HOLES = 7, 3


def _layer(
    r: Row, gates: int, states: int, scratch: int
) -> tuple[int, npt.NDArray[np.int64]]:
    """Check what all layers have; return the columns of the state, and the header.

    Args:
        gates: products of the inputs for each column.
        states: values that a step hands to the next one.
        scratch: floats for each column.
    """
    f = r.fields
    steps, samples, k = r.ints("rows", "images", "columns")
    header = r.numbers(f.operands, HEADER + samples, 1).reshape(-1)
    size = ITEM * product((samples, k))
    r.reads_x(product((size, steps, gates)))
    if header[HAS_LENGTHS] == COMPUTED:
        r.reads_y(states * size + product((ITEM, samples)))
    elif header[READS_STATES]:
        r.reads_y(states * size)
    if not header[READS_STATES]:
        r.reads_constants(f.offsets, states * size)
    if header[HAS_HOLES]:
        r.reads_constants(f.limbs, ITEM * HOLES * k)
    r.reads_constants(f.numbers, ITEM * FACTORS)
    r.uses_scratch(scratch * size)
    r.writes(product((size, steps + states)))
    return k, header


def _products(r: Row, weights: int, k: int, columns: int) -> None:
    """Check the place of packed weights of the state."""
    r.reads_constants(weights, ITEM * k * padded_columns(columns))


def run_lstm(r: Row) -> None:
    """Check an LSTM: scratch has both states and the sums of four gates.

    Behind them is what a product of codes takes.
    """
    k, header = _layer(r, gates=4, states=2, scratch=6)
    if not header[HAS_CODES]:
        _products(r, r.fields.weights, k, 4 * k)
        return
    samples = r.fields.images
    before = round_up(product((6, samples, k, ITEM)), ALIGN)
    multiplies_floats(r, samples, 4 * k, k, before)


def run_gru(r: Row) -> None:
    """Check a GRU: scratch has the state, three gates, and the state after reset."""
    k, _ = _layer(r, gates=3, states=1, scratch=5)
    _products(r, r.fields.weights, k, 2 * k)
    _products(r, r.fields.gains, k, k)
    r.reads_constants(r.fields.guard, ITEM * padded_columns(k))


def run_rnn(r: Row) -> None:
    """Check a plain layer."""
    k, _ = _layer(r, gates=1, states=1, scratch=2)
    _products(r, r.fields.weights, k, k)


RULES = {
    f"program.interpret_recurrent.{name}": rule
    for name, rule in {
        "run_lstm": run_lstm,
        "run_gru": run_gru,
        "run_rnn": run_rnn,
    }.items()
}
