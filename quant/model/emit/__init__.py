"""Operations as operators of ONNX: one small function for each, the reader's mirror."""

from mdtensor.quant.model.emit import windows as windows
from mdtensor.quant.model.emit.table import EMITTERS as EMITTERS
from mdtensor.quant.model.onnx import write_operators as write_operators
from mdtensor.quant.model.onnx.write_operators import (
    SINCE as SINCE,
    element_code as element_code,
    real_storage as real_storage,
)
