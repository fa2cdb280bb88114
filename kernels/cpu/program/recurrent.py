"""Recurrent layers on float32: one step of products, and one that walks the sequence.

All products of the inputs are one linear step. The second step adds the products of the
state, and applies the functions, for one step of the sequence after the other.
"""

from math import prod

import numpy as np

from mdtensor.kernels.cpu.generic.float_packing import pad_rows
from mdtensor.kernels.cpu.program import kinds
from mdtensor.kernels.cpu.program.dynamic import (
    DynamicLinear,
    pack_weights,
    rows_at_once,
    scratch_bytes,
)
from mdtensor.kernels.cpu.program.floats import FloatStep, Linear
from mdtensor.kernels.cpu.program.kinds import ALIGN, COMPUTED, ITEM, SLACK
from mdtensor.kernels.cpu.program.row_words import (
    WordLinear,
    pack_words,
    scratch_of_words,
    strip_of,
    wide_scales,
)
from mdtensor.kernels.cpu.program.step import Constants, Plan
from mdtensor.kernels.cpu.program.steps import F32, Concat

#: Functions that the kernels know, by number.
FUNCTIONS = ("sigmoid", "tanh", "relu", "hardsigmoid")
#: What the state is multiplied as, see `interpret_recurrent`.
FLOATS, CODES, WORDS = range(3)
#: Of each layer: kind, kernel, gates, states, products of the scratch.
LAYERS = {
    "lstm": (kinds.LSTM_F32, "lstm_f32", 4, 2, 4),
    "gru": (kinds.GRU_F32, "gru_f32", 3, 1, 4),
    "rnn": (kinds.RNN_F32, "rnn_f32", 1, 1, 1),
}


def has_computed(lengths):
    """Return whether lengths are an input of a step."""
    return isinstance(lengths, int) and lengths == COMPUTED


class Sequence(FloatStep):
    """The walk over a sequence; the inputs are products, and states if they vary.

    Args: as for `Recurrent`, whose second step this is.
    """

    def __init__(
        self,
        name,
        r,
        bias,
        holes,
        states,
        lengths,
        functions,
        limit,
        flag,
        reads,
        scale,
        has_words,
    ):
        self.kind, kernel, self._gates, self.states, self._products = LAYERS[name]
        self._factors = FLOATS if scale is None else WORDS if has_words else CODES
        products = {CODES: ("gemm_u8s8s32",), WORDS: ("gemm_s16s8s32",)}
        self.kernels = (*products.get(self._factors, ()), kernel)
        self._k = k = r.shape[1]
        self.input_types = (F32, F32) if reads else (F32,)
        constants = Constants()
        fields = {"columns": k}
        kept = COMPUTED if has_computed(lengths) else int(lengths is not None)
        header = [int(flag), kept, holes is not None, int(reads)]
        header += [FUNCTIONS.index(one) for one, _, _ in functions]
        header += [0] * (7 - len(header)) + [self._factors]
        numbers = [np.inf if limit is None else limit]
        numbers += [x for _, *both in functions for x in both]
        self._header = header
        self._lengths = None if has_computed(lengths) else lengths
        fields["numbers"] = constants.add(np.array([*numbers, *[0] * 6], np.float32))[0]
        self._constants = constants
        fields |= self._weights(name, r, scale)
        if name == "gru":
            fields["guard"] = constants.add(pad_rows(bias))[0]
        if holes is not None:
            fields["limbs"] = constants.add(holes)[0]
        if states is not None:
            fields["offsets"] = constants.add(states)[0]
        self._fields, self._states = fields, states

    def _weights(self, name, r, scale):
        """Add the weights of the state; return the fields that describe them."""
        constants, k = self._constants, r.shape[1]
        if self._factors == CODES:
            return {**pack_weights(self.on, constants, r, scale), "columns": k}
        # A GRU multiplies the state for its gates first.
        parts = [r[: 2 * k], r[2 * k :]] if name == "gru" else [r]
        places = zip(("weights", "gains"), parts, strict=False)
        if self._factors == FLOATS:
            packed = {at: self.on.pack_f32(np.ascontiguousarray(w)) for at, w in places}
            return {at: constants.add(one)[0] for at, one in packed.items()}
        found = {at: constants.add(pack_words(w))[0] for at, w in places}
        found["multipliers"] = constants.add(wide_scales(len(r), scale))[0]
        return {**found, "depth": k}

    def output_shape(self, x, y=None):
        """Return the shape of the result."""
        return (x[0] + self.states, x[1], self._k)

    def plan(self, x, y=None):
        """Return the `Plan` for these input shapes."""
        steps, samples, _ = x
        lengths = np.zeros(samples) if self._lengths is None else self._lengths
        fields, constants = dict(self._fields), self._copied()
        header = np.array([*self._header, *lengths], np.int64)
        fields["operands"] = constants.add(header)[0]
        if self._states is None:
            nothing = np.zeros((self.states, samples, self._k), np.float32)
            fields["offsets"] = constants.add(nothing)[0]
        fields |= {"rows": steps, "images": samples}
        rows = self.states + self._products + (self.kind == kinds.GRU_F32)
        scratch = rows * samples * self._k * ITEM + SLACK
        columns = self._gates * self._k
        if self._factors == CODES:
            fields["strip"] = rows_at_once(samples, columns)
            scratch += ALIGN + scratch_bytes(samples, columns, self._k)
        elif self._factors == WORDS:
            fields["strip"] = strip_of(samples, columns)
            scratch += ALIGN + scratch_of_words(fields["strip"], columns, self._k)
        return Plan(fields, constants.array(), self.output_shape(x), scratch)

    def _copied(self):
        """Return a copy of the constants that every shape shares, to add others to."""
        found = Constants()
        found.add(self._constants.array()[: self._constants.size])
        return found

    def macs(self, x, y=None):
        """Return the multiply-accumulates of one call."""
        return prod(x) * self._k

    @property
    def bytes(self):
        """Return the bytes of the packed constants."""
        return self._constants.size


# One product covers the inputs of all steps, so the walk multiplies only the state
# (decision 0066).
class Recurrent(FloatStep):
    """A recurrent layer: x [t, n, i], and its states if they vary, give all states.

    Args:
        name: lstm, gru or rnn.
        w, r: float32 [gates * k, i] and [gates * k, k].
        b: float32 [2, gates * k], or None.
        holes: float32 [3, k] of an LSTM, or None.
        states: constant float32 [states, n, k]; None for zeros, or for states that are
            inputs of the step.
        lengths: integers [n], or None; COMPUTED if they are one more input of the step,
            float32, behind the states, which are inputs then.
        functions: (name, alpha, beta) of each function, of `FUNCTIONS`.
        limit: of the arguments of functions, or None.
        flag: coupled gates of an LSTM; a GRU's reset after the product.
        reads: whether the states are inputs of the step, one for each.
        scales: for w and r that are int8: their scales, each one number or [gates * k].
            Inputs and states are rounded to codes, see `dynamic.py`; only of an LSTM.
        has_words: round them to words instead, see `row_words.py`; of all layers.
    """

    def __init__(
        self,
        name,
        w,
        r,
        b=None,
        holes=None,
        states=None,
        lengths=None,
        *,
        functions,
        limit=None,
        flag=False,
        reads=False,
        scales=None,
        has_words=False,
    ):
        has_codes = scales is not None and not has_words
        assert not has_codes or name == "lstm", "only an LSTM multiplies codes"
        k = r.shape[1]
        left, right = np.zeros((2, len(w)), np.float32) if b is None else b
        after = np.zeros(k, np.float32)
        if name == "gru" and flag:
            after, right = right[2 * k :], right.copy()
            right[2 * k :] = 0
        bias, (first, scale) = left + right, scales or (None, None)
        if first is None:
            self._linear = Linear(w, bias)
        else:
            made = WordLinear if has_words else DynamicLinear
            self._linear = made(w, first, bias)
        self._sequence = Sequence(
            *(name, r, after, holes, states, lengths, functions, limit, flag, reads),
            *(scale, has_words),
        )
        self.kind, self.kernels = self._sequence.kind, self._sequence.kernels
        count = self._sequence.states + has_computed(lengths) if reads else 0
        self.input_types = (F32,) * (1 + count)

    @property
    def parts(self):
        """Return the steps that a Program stores in place of this step, in order."""
        return self._linear, self._sequence

    def lead_in(self, program, x, *states):
        """Append the products; return them, and the states as one value."""
        products = program.append(self._linear, x)
        if not states:
            return (products,)
        rows = [program.reshape(one, (prod(one.shape),)) for one in states]
        joined = rows[0]
        for row in rows[1:]:
            joined = program.append(Concat(0, F32), joined, row)
        return products, joined

    def output_shape(self, x, *states):
        """Return the shape of the result."""
        return self._sequence.output_shape(x)

    def macs(self, x, *states):
        """Return the multiply-accumulates of one call."""
        products = self._linear.output_shape(x)
        return self._linear.macs(x) + self._sequence.macs(products)

    @property
    def bytes(self):
        """Return the bytes of the packed constants."""
        return self._linear.bytes + self._sequence.bytes
