"""The grammar of errors, and what they are to Python."""

import copy
import pickle

import pytest

import mdtensor as md
from mdtensor import errors

KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, errors.MdtensorError)
]
BUILTIN = {
    "AllocationError": MemoryError,
    "ShapeError": ValueError,
    "BoundsError": IndexError,
    "PromotionError": TypeError,
    "CastError": ValueError,
    "LossError": ArithmeticError,
    "BudgetError": ArithmeticError,
    "DeviceError": ValueError,
    "ExchangeError": BufferError,
    "ProtocolError": AttributeError,
    "DispatchError": TypeError,
    "CallError": TypeError,
    "AmbiguousDispatchError": LookupError,
    "NoMethodError": LookupError,
    "PointError": TypeError,
    "RegistrationError": TypeError,
    "CompileError": TypeError,
    "CoverageError": TypeError,
    "OptionError": ValueError,
    "LinAlgError": ValueError,
    "GridError": ValueError,
    "ModelError": ValueError,
    "StorageError": ValueError,
    "TransposeError": AttributeError,
    "DataError": ValueError,
    "TraceError": TypeError,
    "WriteError": ValueError,
}


@pytest.mark.parametrize("kind", KINDS)
def test_fields_survive_pickle_and_copy(kind: type[errors.MdtensorError]) -> None:
    error = kind("sizes differ, 3 and 4", "Make them equal", "add(Int8Tensor[3])")
    for twin in (pickle.loads(pickle.dumps(error)), copy.deepcopy(error)):
        assert type(twin) is kind
        assert (twin.problem, twin.fix, twin.call) == error.args
        assert str(twin) == (
            "add(Int8Tensor[3]): sizes differ, 3 and 4. Make them equal."
        )


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_is_made_as_dask_makes_it(kind: type[errors.MdtensorError]) -> None:
    """Its workers send errors with a reduction of their own."""
    assert type(kind.__new__(kind)) is kind


def test_text_without_call_or_fix() -> None:
    assert str(errors.ShapeError("bad")) == "bad."
    assert str(errors.ShapeError("bad", "Better")) == "bad. Better."
    assert str(errors.ShapeError("bad", "", "f()")) == "f(): bad."


@pytest.mark.parametrize(("name", "builtin"), BUILTIN.items())
def test_caught_as_what_python_would_raise(name: str, builtin: type) -> None:
    kind = getattr(md, name)
    assert issubclass(kind, errors.MdtensorError)
    assert issubclass(kind, builtin)


def test_every_error_is_public() -> None:
    assert {kind.__name__ for kind in KINDS} == {*BUILTIN, "MdtensorError"}


def test_describe_shows_types_and_shapes_never_values() -> None:
    x, scalar = md.asarray([[1.0, 2.0]]), md.asarray(3)
    assert errors.describe("f", x, scalar, 4.5, None, "text") == (
        "f(Float32Tensor[1,2], Int64Tensor[], float, NoneType, str)"
    )


LITERAL = {
    "matmul(Float32Tensor[2,3], Float32Tensor[4,5]): inner sizes differ, 3 and 4. "
    "Give the shapes [..., m, k] and [..., k, n].": (
        lambda: md.matmul(md.ones((2, 3)), md.ones((4, 5)))
    ),
    "add(Float32Tensor[2], Float32Tensor[3]): shapes (2,) and (3,) do not broadcast. "
    "Make the sizes equal.": lambda: md.ones((2,)) + md.ones((3,)),
    "add(Int8Tensor[1], int): int8 represents -128 to 127; cannot represent 128. "
    "Use astype(x, int16) first.": (lambda: md.asarray([1], dtype=md.int8) + 128),
    "mul(UInt64Tensor[1], Int8Tensor[1]): uint64 and int8 do not have a common type. "
    "Use astype(x, int8) or astype(x, uint64) to choose one.": (
        lambda: md.ones((1,), dtype=md.uint64) * md.ones((1,), dtype=md.int8)
    ),
    "div(BoolTensor[1], BoolTensor[1]): bool cannot represent fractions. "
    "Use astype(x, float32) on one operand.": (
        lambda: md.asarray([True]) / md.asarray([True])
    ),
    "add(BoolTensor[1], BoolTensor[1]): bool is not a number type. "
    "Use astype(x, int8) on one operand.": (
        lambda: md.asarray([True]) + md.asarray([False])
    ),
    "clip(Float32Tensor[1]): min 2 is above max 1. Swap them.": (
        lambda: md.clip(md.ones((1,)), 2, 1)
    ),
    "conv2d(Float32Tensor[1,3,8,8], Float32Tensor[4,2,3,3]): the image has 3 channels, "
    "but the weights take 2 x 1 groups = 2. Give an image of 2 channels, or other "
    "weights or groups.": (
        lambda: md.conv2d(md.ones((1, 3, 8, 8)), md.ones((4, 2, 3, 3)))
    ),
    "linear(Float32Tensor[2,3], Float32Tensor[4,3], Float32Tensor[5]): the bias has "
    "shape (5,), but the weights have 4 output channels. Give the bias shape (4,).": (
        lambda: md.linear(md.ones((2, 3)), md.ones((4, 3)), md.ones((5,)))
    ),
    "max_pool2d(Float32Tensor[1,1,4,4]): padding (2, 2, 2, 2) is not below the kernel "
    "(2, 2). Use less padding.": (
        lambda: md.max_pool2d(md.ones((1, 1, 4, 4)), 2, padding=2)
    ),
    "reshape(Float32Tensor[4]): 4 elements do not fill shape (3,).": (
        lambda: md.reshape(md.ones((4,)), (3,))
    ),
    "concat(): no arguments. Give at least one.": lambda: md.concat([]),
    "getitem(Float32Tensor[3]): index 3 is outside an axis of size 3.": (
        lambda: md.ones((3,))[3]
    ),
    "batch_norm(Float32Tensor[1,2], Float32Tensor[3], Float32Tensor[2], "
    "Float32Tensor[2], Float32Tensor[2]): a statistic has shape (3,), but there are 2 "
    "channels. Give it shape (2,).": (
        lambda: md.batch_norm(
            md.ones((1, 2)), md.ones((3,)), md.ones((2,)), md.ones((2,)), md.ones((2,))
        )
    ),
}


@pytest.mark.parametrize("text", LITERAL)
def test_texts_of_calls(text: str) -> None:
    with pytest.raises(errors.MdtensorError) as caught:
        LITERAL[text]()
    assert str(caught.value) == text


def test_dispatch_error_names_the_argument_and_the_nearest_method() -> None:
    with pytest.raises(errors.DispatchError) as caught:
        md.sigmoid(md.asarray([1]))
    text = str(caught.value)
    assert text.startswith(
        "sigmoid(Int64Tensor): no method: x is Int64Tensor, not FloatingTensor. "
        "Use astype(x, float32), lossy beyond 2**24. Nearest: "
    )
    assert "sigmoid(FloatingTensor) at mdtensor/ops/activation.py:" in text


@pytest.mark.parametrize(
    ("call", "fix"),
    [
        (lambda x: md.sin(x), "Use astype(x, float32), lossy beyond 2**24"),
        (lambda x: md.imag(x), "Use astype(x, complex64)"),
        (lambda x: md.logical_or(x, x), "Use astype(x, bool)"),
        (lambda x: md.bitwise_or(md.sqrt(x + 0.5), x), "Use astype(x1, int64), lossy"),
        (lambda x: md.less(x + 1j, x), "Use real(x), imag(x) or abs(x)"),
        (lambda x: md.sin("text"), "Nearest: sin("),
        (lambda x: md.logical_and(x, "text"), "Nearest: logical_and("),
    ],
)
def test_dispatch_error_names_a_cast_that_fits(call, fix) -> None:
    with pytest.raises(errors.DispatchError) as caught:
        call(md.asarray([1]))
    assert f". {fix}" in str(caught.value)


IMAGE = md.ones((1, 2, 4, 4))
FILTERS = md.ones((2, 2, 1, 1))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: md.pad(IMAGE, 1),
            (
                "pad(Float32Tensor[1,2,4,4]): pad_width is 1. "
                "For 1 on all sides give [(1, 1)] * 4."
            ),
        ),
        (
            lambda: md.concat(5),
            "concat(int): the argument is not a sequence. Give a list of tensors.",
        ),
        (
            lambda: md.conv2d(IMAGE, FILTERS, groups=True),
            (
                "conv2d(Float32Tensor[1,2,4,4], Float32Tensor[2,2,1,1]): "
                "groups is True. Use an integer of 1 or more."
            ),
        ),
        (
            lambda: md.conv2d(IMAGE, FILTERS, padding=10**30),
            (
                "conv2d(Float32Tensor[1,2,4,4], Float32Tensor[2,2,1,1]): "
                f"padding is {10**30}. Use one, two or four integers of 0 or more."
            ),
        ),
        (
            lambda: md.clip(IMAGE, "a", "b"),
            (
                "clip(Float32Tensor[1,2,4,4]): min is a str. "
                "Give a Python number or a tensor."
            ),
        ),
        (
            lambda: md.hardsigmoid(IMAGE, alpha="a"),
            (
                "hardsigmoid(Float32Tensor[1,2,4,4]): 'a' is not a number. "
                "Give a Python number."
            ),
        ),
        (
            lambda: md.arange("a"),
            (
                "arange(int, str, int): a bound is a str. "
                "Give a number, or a 0-d tensor."
            ),
        ),
    ],
    ids=["pad", "concat", "groups", "padding", "clip", "hardsigmoid", "arange"],
)
def test_options_of_the_wrong_kind(call, text) -> None:
    with pytest.raises(md.MdtensorError) as caught:
        call()
    assert str(caught.value) == text
