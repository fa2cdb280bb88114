"""Products of a trace, whose results the loop behind them may overwrite.

    calls     matmul(%0, %1), add(%3, %2), relu(%4)
    joined    the product, then one loop, which writes where the product wrote

The product runs as its call does, so no byte changes.
"""

from __future__ import annotations

from typing import Any

from mdtensor.dtypes import bfloat16, float16, float32
from mdtensor.generics.conv import conv1d, conv2d, conv_transpose2d
from mdtensor.generics.matmul import linear, matmul, tensordot
from mdtensor.graph.calls import Call
from mdtensor.ops import conv, matmul as products

#: Operations whose methods of ours return memory that nothing else holds.
PRODUCTS = frozenset((matmul, linear, tensordot, conv1d, conv2d, conv_transpose2d))
_OURS = (products.__name__, conv.__name__)


# A sum in another order would change bytes, so the call itself runs (decision 0082).
def is_product(item: Any) -> bool:
    """Return whether an item is the call of a product of floats in fresh memory."""
    if not isinstance(item, Call) or item.operation not in PRODUCTS:
        return False
    is_known = item.specs[0].type.dtype in (float32, float16, bfloat16)
    if not is_known or item.options.get("out") is not None:
        return False
    # A method of yours may return a tensor that it keeps.
    return item.select().method.implementation.__module__ in _OURS
