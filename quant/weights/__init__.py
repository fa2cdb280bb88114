"""Weight quantization: algorithms that choose grids and codes for single layers.

    from mdtensor import quant

    found = quant.quantize_weights(w, method="gptq", dtype="qint4", samples=x)
    found.tensor, found.output_error

    rtn        round to nearest                      Jacob et al. 2018
    mse        range of least squared error          Banner et al. 2019
    hqq        half-quadratic, no samples            Badri and Shaji 2023
    awq        scales by mean magnitude of inputs    Lin et al. 2023
    gptq       second order, errors compensated      Frantar et al. 2022
    smooth     ranges move from inputs to weights    Xiao et al. 2022
    equalize   equal ranges of neighbouring layers   Nagel et al. 2019
    correct    biases without the mean shift         Nagel et al. 2019

An algorithm is a function of a `Layer` (weights, a format and the moments of the
inputs) and returns codes and grids. Compare algorithms by the error of outputs, not of
weights.
"""

from mdtensor.quant.weights.format import WeightFormat as WeightFormat
from mdtensor.quant.weights.layer import (
    QuantizedWeights as QuantizedWeights,
    output_error as output_error,
)
from mdtensor.quant.weights.moments import (
    InputMoments as InputMoments,
    patches as patches,
)
from mdtensor.quant.weights.quantize import (
    METHODS as METHODS,
    quantize_weights as quantize_weights,
)
from mdtensor.quant.weights.transforms import (
    correct_bias as correct_bias,
    equalize as equalize,
    smooth as smooth,
)
