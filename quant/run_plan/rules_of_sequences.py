"""What the kernels of recurrent layers read and write; see `rules_of_codes.py`.

`mdtensor.kernels.cpu.program.interpret_recurrent` has the function of each kind.
"""

import numpy as np
import numpy.typing as npt

from mdtensor_run.packing import padded_columns, round_up
from mdtensor_run.row import ALIGN, ITEM, Row, product
from mdtensor_run.rules_of_dynamic import (
    multiplies_floats,
    multiplies_words,
    reads_words,
)

#: Places in the header of a layer, and its length without the lengths of samples.
HAS_LENGTHS, HAS_HOLES, READS_STATES, MULTIPLIES, HEADER = 1, 2, 3, 7, 8
#: What says that the lengths are inputs, float32 behind the states.
COMPUTED = 2
#: What a layer multiplies: floats, codes or words of the state.
FLOATS, CODES, WORDS = range(3)
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


def _products(
    r: Row, header: npt.NDArray[np.int64], k: int, floats: int, *parts: tuple[int, int]
) -> None:
    """Check the weights of the state, and the scratch behind that of the layer.

    Args:
        floats: in the scratch of the layer, for each column of each sample.
        parts: place and columns of each product with the state.
    """
    kind, samples = header[MULTIPLIES], r.fields.images
    r.require(kind in (FLOATS, CODES, WORDS), f"multiplies a state of kind {kind}")
    before = round_up(product((floats, samples, k, ITEM)), ALIGN)
    columns = sum(n for _, n in parts)
    if kind == CODES:
        multiplies_floats(r, samples, columns, k, before)
        return
    if kind == WORDS:
        multiplies_words(r, samples, columns, k, before)
        r.reads_constants(r.fields.multipliers, ITEM * columns)
    for place, n in parts:
        if kind == WORDS:
            reads_words(r, place, n, k)
        else:
            r.reads_constants(place, ITEM * k * padded_columns(n))


def run_lstm(r: Row) -> None:
    """Check an LSTM: scratch has both states and the sums of four gates."""
    k, header = _layer(r, gates=4, states=2, scratch=6)
    _products(r, header, k, 6, (r.fields.weights, 4 * k))


def run_gru(r: Row) -> None:
    """Check a GRU: scratch has the state, three gates, and the state after reset."""
    k, header = _layer(r, gates=3, states=1, scratch=5)
    r.require(header[MULTIPLIES] != CODES, "multiplies codes of the state")
    _products(r, header, k, 5, (r.fields.weights, 2 * k), (r.fields.gains, k))
    r.reads_constants(r.fields.guard, ITEM * padded_columns(k))


def run_rnn(r: Row) -> None:
    """Check a plain layer."""
    k, header = _layer(r, gates=1, states=1, scratch=2)
    r.require(header[MULTIPLIES] != CODES, "multiplies codes of the state")
    _products(r, header, k, 2, (r.fields.weights, k))


RULES = {
    f"program.interpret_recurrent.{name}": rule
    for name, rule in {
        "run_lstm": run_lstm,
        "run_gru": run_gru,
        "run_rnn": run_rnn,
    }.items()
}
