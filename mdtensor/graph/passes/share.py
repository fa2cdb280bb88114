"""Equal constants of a graph, stored once.

Layers that share their weights, such as the steps of an unrolled recurrent network,
read one constant in the file. Each layer is read, folded and quantized by itself, which
gives it a copy of the constant. Without this pass, a saved file would store all copies.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from mdtensor.graph.calls import spec_of
from mdtensor.graph.graph import Graph
from mdtensor.tensor import Tensor

#: Smaller constants are not worth the comparison, in bytes.
SMALL = 64
#: The first bytes of a constant, which tell most of them apart.
HEAD = 256


def share_constants(graph: Graph) -> Graph:
    """Let all readers of constants with equal types, grids and bytes read one of them.

    Outputs keep their names.
    """
    groups: dict[Hashable, list[str]] = {}
    renames: dict[str, str] = {}
    for name, tensor in graph.constants.items():
        if tensor.nbytes < SMALL or name in graph.outputs:
            continue
        same = groups.setdefault(_key(tensor), [])
        for first in same:
            if _are_equal(graph.constants[first], tensor):
                renames[name] = first
                break
        else:
            same.append(name)
    return graph.rewritten(renames=renames) if renames else graph


def _key(tensor: Tensor) -> Hashable:
    """Return a key that equal constants share, without reading all bytes."""
    spec = spec_of(tensor)
    head = np.asarray(tensor.buffer).reshape(-1)[:HEAD].tobytes()
    grid = None if spec.qparams is None else str(spec.qparams)
    return spec.type, spec.shape, grid, head


def _are_equal(x1: Any, x2: Any) -> bool:
    """Return whether two tensors of one type and shape have equal grids and bytes."""
    if spec_of(x1) != spec_of(x2):
        return False
    # Bytes, because 0.0 and -0.0 are equal, and a NaN does not equal itself.
    first, second = (np.ascontiguousarray(x.buffer).view(np.uint8) for x in (x1, x2))
    return x1.buffer is x2.buffer or bool(np.array_equal(first, second))
