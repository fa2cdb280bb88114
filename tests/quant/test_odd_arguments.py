"""What is no device, observer, calibration, sample or text gets an error of ours."""

import inspect

import numpy as np
import pytest

import mdtensor as md
import mdtensor.safetensors as safetensors
from mdtensor import quant
from mdtensor.graph import Graph, Node
from mdtensor.quant import QInt8Tensor, QParams
from mdtensor.quant.model.model import Model


class Broken:
    def __repr__(self):
        raise ZeroDivisionError

    __str__ = __repr__


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
    "a tensor for a grid": lambda: QInt8Tensor([1], qparams=ROWS),
    "an array for a grid": lambda: QInt8Tensor([1], qparams=np.array([7.5])),
    "no repr for a rule": lambda: quant.rounding(Broken()),
    "no repr for an ISA": lambda: quant.runway(Broken()),
    "no repr for a number of threads": lambda: quant.threads(Broken()),
    "a span of time for an axis": lambda: QParams([1.0], axis=np.timedelta64(0, "s")),
    "no file": lambda: safetensors.SafeTensors(5),
    "a path as a text": lambda: safetensors.SafeTensors("a"),
    "a list of bytes": lambda: safetensors.SafeTensors([1, 2]),
    "dates for a file": lambda: safetensors.load(np.array([1], "m8[s]")),
    "dates for an open file": lambda: safetensors.SafeTensors(np.array([1], "M8[s]")),
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


NO_NUMBERS = {
    "date": np.datetime64(1, "s"),
    "span": np.timedelta64(1, "s"),
    "dates": np.array([1, 2], "M8[s]"),
    "text": "0.5",
    "texts": ["0.5", "1"],
    "bytes": b"0.5",
    "complex": 0.5 + 1j,
}


@pytest.mark.parametrize("value", NO_NUMBERS.values(), ids=NO_NUMBERS)
@pytest.mark.filterwarnings("error")
def test_numpy_reads_more_numbers_than_there_are(value):
    """NumPy converts dates and texts to floats, and drops imaginary parts."""
    axis = 0 if np.ndim(value) else None
    for call in (
        lambda: QParams(value, axis=axis),
        lambda: QParams([0.5] * np.size(value), value, axis=0),
        lambda: QInt8Tensor([1, 2], scale=value, axis=axis),
        lambda: quant.grid_of(value, 1.0, dtype="qint8"),
    ):
        with pytest.raises(md.GridError):
            call()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -1.0, 0.0, 1e-40])
@pytest.mark.parametrize("kind", [float, np.float16, np.float32, np.float64])
def test_scales_that_are_none_give_no_warning(kind, value):
    with np.errstate(all="ignore"):
        given = kind(value)
    for scale, axis in ((given, None), (np.array([1, given]), 0)):
        with pytest.raises(md.GridError):
            QParams(scale, axis=axis)


#: Functions of which a call may be one of many in a network.
SHORT = {"grid_of"}
PLAIN = [
    function
    for name, function in sorted(vars(quant).items())
    if inspect.isfunction(function)
    and not (name.startswith("_") or name in SHORT or hasattr(function, "operation"))
]
#: Classes that you make objects of.
CLASSES = (
    *(QParams, quant.Table, quant.Blocks, quant.Budget, quant.rounding, quant.runway),
    *(quant.threads, quant.MinMaxObserver, quant.MSEObserver, quant.EntropyObserver),
    *(quant.PercentileObserver, quant.MovingAverageObserver, quant.QInt8Tensor),
    *(quant.QUInt4Tensor, quant.QFloat8E4M3Tensor, quant.QInt32Tensor),
)
METHODS = "calibrate compile equalize plan quantize rounded save smooth to"


@pytest.mark.parametrize("function", PLAIN, ids=lambda f: f.__name__)
def test_a_keyword_that_a_function_lacks(function):
    with pytest.raises(md.DispatchError, match=f"{function.__name__}: no_such is not"):
        function(no_such=1)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_a_keyword_that_a_constructor_lacks(kind):
    with pytest.raises(md.DispatchError, match=f"{kind.__name__}: no_such is not"):
        kind(no_such=1)


def test_constructors_say_what_they_take():
    with pytest.raises(md.DispatchError) as raised:
        QParams(0.5, zeropoint=3)
    assert str(raised.value) == (
        "QParams: takes zero_point=, not zeropoint=. Write QParams(scale, "
        "zero_point=0, *, dtype=mdtensor.qint8, axis=None, block_size=None, "
        "narrow_range=False, rounding=None)."
    )
    with pytest.raises(md.DispatchError, match="QInt8Tensor: codes is missing"):
        quant.QInt8Tensor()
    # The signature is that of the declaration.
    assert list(inspect.signature(quant.Table).parameters)[:2] == ["function", "source"]


def test_a_misspelled_keyword_names_the_nearest():
    with pytest.raises(md.DispatchError, match="load: takes device=, not devise="):
        quant.load("model.onnx", devise="cpu")


@pytest.mark.parametrize("name", METHODS.split())
@pytest.mark.parametrize("kind", [quant.Model, quant.SizedModel])
def test_a_keyword_that_a_method_of_models_lacks(kind, name):
    method = getattr(kind, name)
    if "options" in inspect.signature(method).parameters:
        return  # It hands them to the model of some shape, which checks them.
    with pytest.raises(md.DispatchError, match="no_such is not an argument"):
        method(model(), no_such=1)
