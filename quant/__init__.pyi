"""Types for type checkers, written by `mdtensor stubs`: do not edit.

They come from the operations and methods that are registered, under the default
promotion rules. `mdtensor stubs --check` tells what has changed since.
"""

# mypy: disable-error-code="assignment, misc, overload-cannot-match, overload-overlap"
# mypy: disable-error-code="override"


from typing import Final

from mdtensor import _calls
from mdtensor.dtypes import DType

from mdtensor.quant.tensor import QFloat8E4M3Tensor as QFloat8E4M3Tensor, QFloat8E5M2Tensor as QFloat8E5M2Tensor, QInt16Tensor as QInt16Tensor, QInt32Tensor as QInt32Tensor, QInt4Tensor as QInt4Tensor, QInt8Tensor as QInt8Tensor, QUInt4Tensor as QUInt4Tensor, QUInt8Tensor as QUInt8Tensor
from mdtensor.extend import hint_in as _hint_in
from mdtensor.quant.contexts import (
    runway as runway,
    threads as threads,
)
qfloat8_e4m3: Final[DType[QFloat8E4M3Tensor]]
qfloat8_e5m2: Final[DType[QFloat8E5M2Tensor]]
qint4: Final[DType[QInt4Tensor]]
qint8: Final[DType[QInt8Tensor]]
qint16: Final[DType[QInt16Tensor]]
qint32: Final[DType[QInt32Tensor]]
quint4: Final[DType[QUInt4Tensor]]
quint8: Final[DType[QUInt8Tensor]]
dequantize: _calls.Dequantize
"""Return the real numbers that codes represent: scale · (codes - zero_point)."""
quantize: _calls.Quantize
"""Quantize real numbers to codes on a grid."""
requantize: _calls.Requantize
"""Round codes to another grid: once, half to even; saturates."""
from mdtensor.quant.qparams import (
    QParams as QParams,
    grid_of as grid_of,
)
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
from mdtensor.quant.gguf.blocks import Blocks as Blocks
from mdtensor.quant.model.budget import Budget as Budget
from mdtensor.quant.model.quantize.calibrate import Calibration as Calibration
from mdtensor.quant.model.compare.compare import Comparison as Comparison
from mdtensor.quant.model.decided import DecidedModel as DecidedModel
from mdtensor.quant.observers.relative import EntropyObserver as EntropyObserver
from mdtensor.quant.gguf.file import GGUFFile as GGUFFile
from mdtensor.quant.weights.moments import InputMoments as InputMoments
from mdtensor.quant.observers.histogram import MSEObserver as MSEObserver
from mdtensor.quant.observers.minmax import MinMaxObserver as MinMaxObserver
from mdtensor.quant.model.model import Model as Model
from mdtensor.quant.observers.minmax import MovingAverageObserver as MovingAverageObserver
from mdtensor.quant.observers.relative import PercentileObserver as PercentileObserver
from mdtensor.quant.weights.layer import QuantizedWeights as QuantizedWeights
from mdtensor.quant.model.shadowed import ShadowModel as ShadowModel
from mdtensor.quant.shadows.tensor import ShadowTensor as ShadowTensor
from mdtensor.quant.model.sized import SizedModel as SizedModel
from mdtensor.quant.plans.network import StoredNetwork as StoredNetwork
from mdtensor.quant.model.stream import Stream as Stream
from mdtensor.quant.lookup.table import Table as Table
from mdtensor.quant.model.compare.compare import compare as compare
from mdtensor.quant.weights.transforms import correct_bias as correct_bias
from mdtensor.quant.weights.transforms import equalize as equalize
from mdtensor.quant.model.load import load as load
from mdtensor.quant.plans.network import load_plan as load_plan
from mdtensor.quant import onnx_backend as onnx_backend
from mdtensor.quant.weights.layer import output_error as output_error
from mdtensor.quant.weights.moments import patches as patches
from mdtensor.quant.weights.quantize import quantize_weights as quantize_weights
from mdtensor.quant.gguf.file import read_gguf as read_gguf
from mdtensor.quant.shadows.tensor import shadow as shadow
from mdtensor.quant.weights.transforms import smooth as smooth
from mdtensor.quant.gguf.file import write_gguf as write_gguf
