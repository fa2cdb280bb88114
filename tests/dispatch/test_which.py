"""What would run, in one line."""

import copy
import pickle
import re

import pytest

import mdtensor as md
from mdtensor.errors import DispatchError, OptionError


def test_takes_tensors_scalars_and_types() -> None:
    x = md.asarray([1.0])
    by_value = md.which(md.add, x, 1)
    assert by_value == md.which(md.add, md.Float32Tensor, int)
    assert by_value == md.add.select(md.Float32Tensor, int)
    assert by_value == md.which(md.add, md.TensorSpec(md.Float32Tensor, (1,)), 1)
    assert by_value(x, 1).tolist() == [2.0]


def test_takes_names_as_infer_does() -> None:
    """Both take an operation, and each of its names."""
    x = md.asarray([1.0])
    for name in ("add", "tensor.add", "arithmetic.add", md.add):
        assert md.which(name, x, 1) == md.which(md.add, x, 1)
        assert md.infer(name, x, 1) == md.infer(md.add, x, 1)
    for call in (md.which, md.infer):
        with pytest.raises(OptionError, match=r"there is no operation ad\. Use .*add"):
            call("ad", x, 1)
        with pytest.raises(OptionError, match="is not an operation"):
            call(3, x)


def test_takes_options_as_the_call_does() -> None:
    x = md.ones((2, 3))
    found = md.which("reshape", x, (3, 2))
    assert (found.types, str(found.result)) == (
        (md.Float32Tensor,),
        "Float32Tensor[3,2]",
    )
    assert found == md.which(md.reshape, x, shape=(3, 2))
    for given in (
        (md.sum, x, 0),
        (md.concat, [x, x], 0),
        (md.sum, md.Float32Tensor, 0),
    ):
        with pytest.raises(DispatchError, match=r"axis came by position.*axis=0"):
            md.which(*given)


def test_one_readable_line() -> None:
    line = md.which(md.relu, md.Int8Tensor).line
    pattern = (
        r"relu\(Int8Tensor\) -> relu\(RealTensor\)  mdtensor/ops/activation.py:\d+"
    )
    assert re.fullmatch(pattern, line)
    joined = str(md.which(md.concat, md.Int8Tensor, md.BoolTensor))
    assert "-> concat(*NumericTensor | LogicalTensor)  mdtensor/ops/" in joined
    assert "\n  fast path: of mdtensor/ops/manipulation.py:" in joined


def test_names_the_line_where_the_method_is() -> None:
    found = md.which(md.matmul, md.Float32Tensor, md.Float32Tensor).method
    path, line = found.location.split(":")
    assert path == "mdtensor/ops/matmul.py"
    code = found.implementation.__code__
    assert int(line) == code.co_firstlineno


def test_defaults_may_be_left_out() -> None:
    short = md.which(md.conv2d, md.Float32Tensor, md.Float32Tensor)
    assert short.types == (md.Float32Tensor, md.Float32Tensor, type(None))
    with pytest.raises(DispatchError):
        md.which(md.conv2d, md.Float32Tensor)


def test_refuses_what_is_no_operation() -> None:
    with pytest.raises(OptionError) as caught:
        md.which(len, md.Float32Tensor)
    assert str(caught.value) == (
        "<built-in function len> is not an operation. See md.operations()."
    )


def test_why_names_what_was_passed_over() -> None:
    from mdtensor.quant import QInt8Tensor, QInt32Tensor, QUInt8Tensor

    found = md.which(md.conv2d, QUInt8Tensor, QInt8Tensor, QInt32Tensor)
    assert md.why(found).startswith(
        "more specific than conv2d(QuantizedTensor | NumericTensor, "
    )
    assert md.why(md.which(md.neg, md.Int8Tensor)) == "the only method that fits"


def test_answers_are_copied_and_pickled() -> None:
    """The operation and the method stay the ones that there are."""
    x = md.asarray([1.0])
    found = md.which(md.add, x, 2.0)
    shallow, deep = copy.copy(found), copy.deepcopy([found])[0]
    again = pickle.loads(pickle.dumps(found))
    for other in (shallow, deep, again):
        assert other.method is found.method
        assert other.operation is md.add.operation
        assert other.types == found.types
        assert str(other) == str(found)
    assert deep.arguments[0] is not x
    assert copy.deepcopy(md.add.operation) is md.add.operation
    assert pickle.loads(pickle.dumps(md.add.operation)) is md.add.operation
    with md.traced() as calls:
        x + x
    assert str(copy.deepcopy(calls)[0]) == str(calls[0])


@pytest.mark.parametrize("given", ["add", None, md.add, 3, md.Tensor])
def test_why_takes_answers_of_which(given: object) -> None:
    with pytest.raises(OptionError, match=r"^why: .* is not a selection"):
        md.why(given)
