"""Operations as operators of ONNX: one small function for each, the reader's mirror."""

from mdtensor.quant.model.emit import operations as operations, windows as windows
from mdtensor.quant.model.emit.operations import (
    SINCE as SINCE,
    element_code as element_code,
    real_storage as real_storage,
)
from mdtensor.quant.model.emit.table import EMITTERS as EMITTERS
