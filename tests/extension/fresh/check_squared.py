"""An operation from outside: over all types, those of other packages included."""

import itertools

import pytest
from mdtensor_float8 import Float8Tensor, float8
from mdtensor_squared import squared_difference

import mdtensor as md
from mdtensor.quant import QInt8Tensor

LEAVES = [leaf for leaf in md.leaves() if leaf.device is md.cpu][:15]
NUMBERS = [leaf for leaf in LEAVES if leaf is not md.BoolTensor] + [Float8Tensor]


@pytest.mark.parametrize("leaf", NUMBERS, ids=lambda leaf: leaf.__name__)
def test_every_type_of_numbers(leaf: type[md.Tensor]) -> None:
    x, y = (md.asarray(v, dtype=leaf.dtype) for v in ([[5], [6]], [1, 2, 7]))
    found = squared_difference(x, y)
    assert type(found) is leaf
    want = md.square(md.sub(x, y))
    assert found.tolist() == want.tolist()


PAIRS = [*itertools.product([*LEAVES, Float8Tensor], repeat=2)]


@pytest.mark.parametrize("types", PAIRS, ids=lambda t: "-".join(x.__name__ for x in t))
def test_every_pair_is_promoted_as_by_sub(types: tuple[type[md.Tensor], ...]) -> None:
    x, y = (md.astype(md.asarray([1, 0, 1]), leaf.dtype) for leaf in types)
    specs = [md.TensorSpec(leaf, (3,)) for leaf in types]
    try:
        want = type(md.sub(x, y))
    except md.PromotionError:
        with pytest.raises(md.PromotionError, match=r"^squared_difference\("):
            squared_difference(x, y)
        with pytest.raises(md.PromotionError):
            squared_difference.select(*types).deduce(*specs)
        return
    assert type(squared_difference(x, y)) is want
    deduced = squared_difference.select(*types).deduce(*specs)
    assert deduced == md.TensorSpec(want, (3,))


def test_scalars_are_weak() -> None:
    x = md.asarray([1.5, 2.0], dtype=md.float16)
    assert squared_difference(1.0, x).tolist() == [0.25, 1.0]
    assert type(squared_difference(2, x)) is md.Float16Tensor
    assert squared_difference(x, 1).tolist() == [0.25, 1.0]


def test_integers_wrap_and_nothing_warns() -> None:
    x = md.asarray([-128, 100], dtype=md.int8)
    assert squared_difference(x, 0).tolist() == [0, 16]
    y = md.asarray([3e38], dtype=md.float32)
    assert squared_difference(y, -3e38).tolist() == [float("inf")]


def test_narrow_floats_round_once() -> None:
    """In float16 itself the difference would be rounded, too."""
    x, z = (md.asarray([v], dtype=md.float16) for v in (100.0, 0.03))
    y = md.asarray([0.25], dtype=md.bfloat16)
    assert squared_difference(x, z).tolist() == [9992.0]
    assert md.square(x - z).tolist() == [10000.0]
    assert type(squared_difference(x, y)) is md.Float32Tensor
    assert (
        type(squared_difference(md.asarray([1], dtype=float8), z)) is md.Float16Tensor
    )


def test_errors_come_before_anything_is_computed() -> None:
    x = md.zeros((2, 3))
    with pytest.raises(md.ShapeError) as caught:
        squared_difference(x, md.zeros((2,)))
    text = "squared_difference(Float32Tensor[2,3], Float32Tensor[2]): shapes"
    assert str(caught.value).startswith(text)
    with pytest.raises(md.DispatchError, match="x2 is str, not NumericTensor"):
        squared_difference(x, "y")
    assert squared_difference(md.zeros((0, 3)), md.zeros((3,))).shape == (0, 3)


def test_quantized_tensors_have_a_method_of_their_own() -> None:
    x = QInt8Tensor([1, 4], scale=0.5)
    y = QInt8Tensor([0, 1], scale=0.25)
    assert squared_difference(x, y).tolist() == [0.25, 3.0625]
    with pytest.raises(md.DispatchError, match="dequantize"):
        squared_difference(x, md.ones((2,)))


def test_the_operation_is_among_all() -> None:
    assert squared_difference in md.operations().values()
    assert (
        "mdtensor_squared"
        in md.which(squared_difference, 1, md.Int8Tensor).method.location
    )
