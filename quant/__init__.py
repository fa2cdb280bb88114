"""Quantized tensors: an extension of mdtensor, built on its public names.

    from mdtensor import quant

    x = quant.QInt8Tensor([1, 2], scale=0.5)      # codes and their grid
    md.add(x, x, out=quant.QParams(0.25))         # rounded once, half to even
    model = quant.load("model.onnx")              # see `mdtensor.quant.model`

The import registers the types and methods.
"""

if __name__ != "mdtensor.quant":
    raise ImportError("import mdtensor.quant, not quant: two copies break dispatch")

import importlib
import types

from mdtensor import CudaInt8Tensor as _CudaTensor
from mdtensor.extend import (
    audits_later as _audits_later,
    hint_in as _hint_in,
    on_rendered_device,
    register_later as _register_later,
)
from mdtensor.quant import ops as ops, rendered as _rendered
from mdtensor.quant.contexts import runway as runway, threads as threads
from mdtensor.quant.dtypes import (
    qfloat8_e4m3 as qfloat8_e4m3,
    qfloat8_e5m2 as qfloat8_e5m2,
    qint4 as qint4,
    qint8 as qint8,
    qint16 as qint16,
    qint32 as qint32,
    quint4 as quint4,
    quint8 as quint8,
)
from mdtensor.quant.generics import (
    dequantize as dequantize,
    quantize as quantize,
    requantize as requantize,
)
from mdtensor.quant.qparams import QParams as QParams, grid_of as grid_of
from mdtensor.quant.rules import rounding as rounding
from mdtensor.quant.tensor import (
    AffineTensor as AffineTensor,
    NarrowTensor as NarrowTensor,
    PackedTensor as PackedTensor,
    QFloat8E4M3Tensor as QFloat8E4M3Tensor,
    QFloat8E5M2Tensor as QFloat8E5M2Tensor,
    QInt4Tensor as QInt4Tensor,
    QInt8Tensor as QInt8Tensor,
    QInt16Tensor as QInt16Tensor,
    QInt32Tensor as QInt32Tensor,
    QuantizedTensor as QuantizedTensor,
    QUInt4Tensor as QUInt4Tensor,
    QUInt8Tensor as QUInt8Tensor,
    ScaledFloatTensor as ScaledFloatTensor,
    ShortTensor as ShortTensor,
)

# Types for GPUs, and types and methods for devices that run rendered loops.
# Named by its types: `device("cuda")` would open a GPU.
_rendered.types.declare(_CudaTensor.device)
on_rendered_device(_rendered.register)
_register_later("shadow", "mdtensor.quant.shadows", "SHADOW")
_audits_later("mdtensor.quant.losses")
del _CudaTensor, _audits_later, _register_later, _rendered, on_rendered_device
#: Names that are imported at first use, with their modules.
_LATER = {
    **dict.fromkeys(
        ("Budget", "Calibration", "DecidedModel", "Model", "SizedModel", "load"),
        "mdtensor.quant.model",
    ),
    **dict.fromkeys(("Comparison", "compare"), "mdtensor.quant.model.compare.compare"),
    "ShadowModel": "mdtensor.quant.model.shadowed",
    "Stream": "mdtensor.quant.model.stream",
    **dict.fromkeys(("ShadowTensor", "shadow"), "mdtensor.quant.shadows"),
    "Table": "mdtensor.quant.lookup.table",
    **dict.fromkeys(
        ("Blocks", "GGUFFile", "read_gguf", "write_gguf"), "mdtensor.quant.gguf"
    ),
    **dict.fromkeys(
        (
            *("EntropyObserver", "MSEObserver", "MinMaxObserver"),
            *("MovingAverageObserver", "PercentileObserver"),
        ),
        "mdtensor.quant.observers",
    ),
    **dict.fromkeys(
        (
            *("InputMoments", "QuantizedWeights", "correct_bias", "equalize"),
            *("output_error", "patches", "quantize_weights", "smooth"),
        ),
        "mdtensor.quant.weights",
    ),
    **dict.fromkeys(("StoredNetwork", "load_plan"), "mdtensor.quant.plans"),
}
_BACKEND = "onnx_backend"
# Without this list, `from mdtensor.quant import *` would take the modules above, and
# none of the names that are imported at first use.
__all__ = sorted(
    name
    for name, value in {**globals(), **_LATER}.items()
    if not name.startswith("_") and not isinstance(value, types.ModuleType)
)


def __getattr__(name: str) -> object:
    """Import models, weights, observers and the ONNX backend at first use."""
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name]), name)
    if name == _BACKEND:
        return importlib.import_module(f"mdtensor.quant.{name}")
    fix = _hint_in("quant", name, __dir__())
    raise AttributeError(f"module 'mdtensor.quant' has no attribute {name!r}.{fix}")


def __dir__() -> list[str]:
    modules = {
        n for n, value in globals().items() if isinstance(value, types.ModuleType)
    }
    return sorted({*globals(), *_LATER} - modules | {_BACKEND})
