"""Keys of calls of a compiled function, which choose the trace that runs.

Calls with equal keys run one trace. Tensors in arguments are inputs, so their types,
shapes and grids are in the key. Other values are constants of the trace, see `keys.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mdtensor.graph.keys import (
    PLAIN,
    add_constant,
    add_names,
    is_dead as is_dead,
    parts_of,
)
from mdtensor.graph.lazy import LazyTensor
from mdtensor.tensor import Tensor, from_numpy

ARRAYS: Any = (Tensor, np.ndarray)


def guard(value: Any, tensors: list[Any], key: list[Any]) -> None:
    """Append to `key` all that two arguments must share to have one trace.

    Args:
        value: one argument, or nested arguments.
        tensors: a list that gets their tensors, in order.
        key: a list of hashable values.
    """
    kind = type(value)
    if issubclass(kind, Tensor):
        tensors.append(value)
        # A lazy tensor runs the trace of its host type, call by call. A spec would take
        # ten times as long to make and to compare.
        key += kind.host if issubclass(kind, LazyTensor) else kind, value.shape
        if kind.dtype.kind == "quantized":
            key.append(value.qparams)
    elif kind in PLAIN:
        key += kind, value
    elif issubclass(kind, np.ndarray):
        guard(from_numpy(value), tensors, key)
    elif (parts := parts_of(value)) is not None:
        key += kind, len(parts)
        if kind is dict:
            add_names(value, key)
        for part in parts:
            guard(part, tensors, key)
    else:
        add_constant(value, key, set())
