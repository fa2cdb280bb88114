"""Methods for quantized tensors, by family.

The modules of a family are imported when one of its operations is first asked.
"""

from mdtensor import operations
from mdtensor.extend import methods_later
from mdtensor.quant.generics import dequantize, quantize, requantize

#: The modules here that have methods of the operations of a family.
FAMILIES = {
    "activation": ("activation", "float8", "refusals"),
    "arithmetic": ("arithmetic", "scalars", "float8", "refusals"),
    "comparison": ("comparison", "refusals"),
    "conv": ("conv", "refusals"),
    "conversion": ("conversion",),
    "creation": ("creation",),
    "indexing": ("indexing",),
    "linalg": ("manipulation",),
    "manipulation": ("manipulation", "refusals"),
    "math": ("math",),
    "matmul": ("matmul", "refusals"),
    "normalization": ("normalization",),
    "pool": ("pool",),
    "recurrent": ("recurrent",),
    "reduction": ("reduction", "float8"),
    "resize": ("manipulation",),
    "sorting": ("sorting", "float8", "refusals"),
}

for _operation in operations().values():
    _home, _, _family = _operation.__module__.rpartition(".")
    if _home == "mdtensor.generics":
        for _module in FAMILIES.get(_family, ()):
            methods_later(f"{__name__}.{_module}", _operation)
methods_later(f"{__name__}.conversion", dequantize, quantize, requantize)
