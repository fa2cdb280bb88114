"""Readers of TFLite's operators: one small function for each, by family.

A feature that is not supported raises; it is never approximated.
"""

from mdtensor.quant.model.tflite.operators import (
    branches as branches,
    creation as creation,
    detection as detection,
    elementwise as elementwise,
    fourier as fourier,
    moves as moves,
    products as products,
    reductions as reductions,
    selection as selection,
    variables as variables,
    windows as windows,
)
from mdtensor.quant.model.tflite.operators.table import READERS as READERS
