"""What is no device, observer, calibration, sample or text gets an error of ours."""

import numpy as np
import pytest

import mdtensor as md
import mdtensor.safetensors as safetensors
from mdtensor import quant
from mdtensor.quant import QInt8Tensor, QParams
from mdtensor.quant.model.graph import Graph, Node
from mdtensor.quant.model.model import Model

Q = QInt8Tensor([1, 2], scale=0.5)
ROWS = md.asarray([[7.5, 8.5]])
LIKES = (md.zeros_like, md.ones_like, md.empty_like)


def model():
    spec = md.TensorSpec(md.Float32Tensor, (2, 3))
    return Model(Graph({"x": spec}, (Node("n", md.relu, ("x",), "y"),), {}, ("y",)))


def seen():
    return model().calibrate([np.ones((2, 3), np.float32)])


def entropy():
    observer = quant.EntropyObserver()
    observer.observe(np.ones(3, np.float32))
    return observer.qparams(quant.qint32)


CALLS = {
    "ragged bytes": lambda: quant.QFloat8E4M3Tensor([[1], [1, 2]], scale=1.0),
    "codes of 32 bits to count": entropy,
    **{f.__name__: lambda f=f: f(Q, device=np.ones(2)) for f in LIKES},
    "a tensor for a device": lambda: md.full_like(Q, 1, device=ROWS),
    "an array to cast by": lambda: md.astype(Q, QParams(1.0), casting=np.ones((2, 2))),
    "a class to merge": lambda: quant.MinMaxObserver().merge(quant.MinMaxObserver),
    "a number to join": lambda: quant.MSEObserver().join(3),
    "an array for a method": lambda: model().quantize(seen(), method=np.ones((2, 2))),
    "no samples": lambda: model().calibrate(np.array(3)),
    "no samples to smooth by": lambda: model().smooth(np.array(3)),
    "no calibration": lambda: seen().merged(3),
    "no value": lambda: seen().range({}),
    "no texts": lambda: safetensors.save({"x": md.ones(2)}, 1),
    "an array of texts": lambda: safetensors.save({"x": md.ones(2)}, np.array(["a"])),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_an_error_of_ours_without_contents(call):
    with pytest.raises(md.MdtensorError) as raised:
        call()
    assert "7.5" not in str(raised.value)


def test_a_number_beside_no_codes_is_inferred():
    nothing = QInt8Tensor(np.zeros((2, 0), np.int8), scale=[0.5, 0.3], axis=0)
    for operation in (md.maximum, md.minimum):
        found = operation(nothing, 7)
        assert md.infer(operation, nothing, 7).shape == found.shape == (2, 0)
