"""The operators of ONNX as operations: one small function for each, by family.

Where the meaning changed between versions of the operator set, the function asks for
the version. What is not supported is refused by name, never approximated.
"""

from mdtensor.quant.model.operators import (
    conversion as conversion,
    elementwise as elementwise,
    indexing as indexing,
    manipulation as manipulation,
    normalization as normalization,
    products as products,
    reduction as reduction,
    resize as resize,
    windows as windows,
)
from mdtensor.quant.model.operators.table import READERS as READERS
