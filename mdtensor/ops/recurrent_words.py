"""Recurrent layers whose weights are int8, and that round rows to 16-bit words.

Each row of the inputs, and each hidden state, has a grid of its own; see
`kernels/numpy/row_words.py`. A package that has a type for such weights makes methods
of `lstm`, `gru` and `rnn` from this.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from mdtensor.errors import OptionError
from mdtensor.generics.recurrent import functions_of
from mdtensor.kernels.numpy import recurrent as kernel, row_words
from mdtensor.ops.recurrent import buffer_of, sizes_of
from mdtensor.ops.recurrent_steps import known_functions, layer_step, limit_of
from mdtensor.spec.options import flag

#: Of each layer: how many functions and states it has, what computes it, and the option
#: that is on or off.
LAYERS: dict[str, tuple[int, int, Any, str]] = {
    "lstm": (3, 2, kernel.lstm_of_products, "coupled"),
    "gru": (2, 1, kernel.gru_of_products, "reset_after"),
    "rnn": (1, 1, kernel.rnn_of_products, ""),
}
#: The terms of a sum: with more of them, words would have fewer than 8 bits.
MOST_TERMS = 1 << 17


def recurrent_word_step(
    name: str, given: tuple[Any, ...], scales: Any, options: Mapping[str, Any]
) -> Any:
    """Return the compiled step of a layer with constant weights.

    Args:
        name: lstm, gru or rnn.
        given: the operands of the operation, with Int8Tensors for w and r.
        scales: float32 arrays, of w and of r, each one number or one for each row.
        options: of the operation.

    Raises:
        OptionError: no step computes it.
    """
    count, states, _, option = LAYERS[name]
    functions = known_functions(options["activations"], count)
    found = {"functions": functions, "limit": limit_of(options["clip"])}
    found |= {"flag": flag(options[option], option)} if option else {}
    x, w, r, b, *rest = given
    if max(w.shape[1], r.shape[1]) > MOST_TERMS:
        raise OptionError(f"a compiled layer adds at most {MOST_TERMS} products")
    holes = rest[states] if len(rest) > states + 1 else None
    operands, found["scales"] = (x, w, r, b, holes), tuple(scales)
    found["has_words"] = True
    return layer_step(name, operands, tuple(rest[:states]), rest[-1], found)


def recurrent_word_states(
    operation: Any, given: tuple[Any, ...], scales: Any, options: Mapping[str, Any]
) -> Any:
    """Return the states of a layer as a host array, computed by NumPy.

    Args:
        operation: md.lstm, md.gru or md.rnn.
        given, scales, options: as for `recurrent_word_step`, all of them tensors.

    Raises:
        BoundsError: a length is outside of the sequence.
    """
    count, _, compute, option = LAYERS[operation.__name__]
    x, w, r, b, h, *rest = given
    sizes = sizes_of(operation, given[:-1], given[-1])
    start = np.zeros((x.shape[1], r.shape[1]), np.float32) if h is None else h.buffer
    products = [
        partial(row_words.multiply, w=one.buffer.astype(np.float64), scale=scale)
        for one, scale in zip((w, r), scales, strict=True)
    ]
    own: list[Any] = [functions_of(options["activations"], count)]
    own += [limit_of(options["clip"])]
    own += [flag(options[option], option)] if option else []
    others = map(buffer_of, rest[:-1])
    return compute(x.buffer, *products, buffer_of(b), start, *others, sizes, *own)
