"""Calls that are bound once give the results and the errors of their methods."""

import numpy as np
import pytest
from support.shelf import shelved

import mdtensor as md
from mdtensor.errors import BoundsError, MdtensorError, OptionError, ShapeError

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.mark.parametrize("axis", [0, -1, (0, 2), None])
def test_the_second_call_gives_what_the_first_gave(axis) -> None:
    x = md.asarray(X)
    for reduce, theirs in ((md.sum, np.sum), (md.max, np.max), (md.mean, np.mean)):
        first, second = (reduce(x, axis=axis, keepdims=True) for _ in range(2))
        assert first.tolist() == theirs(X, axis=axis, keepdims=True).tolist()
        assert second.tolist() == first.tolist()


@pytest.mark.parametrize("wrong", [True, 1.0, (True,), (0, 1.0), "0"])
def test_an_option_equal_to_a_bound_one_is_still_refused(wrong) -> None:
    x = md.asarray(X)
    # 1, 1.0 and True are equal and have one hash.
    for right in (1, 0, (1,), (0, 1)):
        md.sum(x, axis=right)
    with pytest.raises(MdtensorError):
        md.sum(x, axis=wrong)


def test_shapes_are_bound_apart() -> None:
    for shape in ((2, 3, 4), (4, 3, 2), (24,)):
        x = md.asarray(X.reshape(shape))
        assert md.reshape(x, (-1, 2)).shape == (12, 2)
        assert md.flip(x).tolist() == np.flip(X.reshape(shape)).tolist()
    with pytest.raises(ShapeError, match="24"):
        md.reshape(md.asarray(X), (5, 5))


def test_promotion_rules_are_part_of_a_call() -> None:
    x, y = md.asarray([1], dtype=md.int32), md.asarray([0.5])
    mask = md.asarray([True])
    assert md.where(mask, x, y).dtype is md.float32
    with md.promotion_rules("strict"), pytest.raises(MdtensorError):
        md.where(mask, x, y)
    with md.promotion_rules("numpy"):
        assert md.where(mask, x, y).dtype is md.float64


def test_views_stay_views_and_elements_are_checked_at_each_call() -> None:
    x = md.asarray(X.copy())
    for _ in range(2):
        md.permute_dims(x, (2, 0, 1))[0, 0, 0] = 7.0
        assert x[0, 0, 0].item() == 7.0
    at = md.asarray([0, 1])
    assert md.take(x, at, axis=0).shape == (2, 3, 4)
    with pytest.raises(BoundsError, match="size 2"):
        md.take(x, md.asarray([0, 2]), axis=0)


def test_a_cast_to_another_device_moves() -> None:
    x = md.asarray(X)
    assert md.astype(x, md.float64).device is md.cpu
    with shelved([md.float32, md.float64]) as shelf:
        moved = md.astype(x, md.float64, device=shelf)
        assert moved.device is shelf
        assert moved.to("cpu").tolist() == X.tolist()


@pytest.mark.parametrize("wrong", [300.0, -1.0, np.nan, np.inf])
def test_elements_of_a_cast_are_checked_at_each_call(wrong) -> None:
    right = md.asarray([1.5, -0.5, 255.5])
    for _ in range(2):
        assert md.astype(right, md.uint8).tolist() == [1, 0, 255]
        with pytest.raises(MdtensorError, match="1 of 3 values"):
            md.astype(md.asarray([1.0, wrong, 2.0]), md.uint8)


def test_lists_as_options_are_as_good_as_tuples() -> None:
    assert md.permute_dims(md.asarray(X), [2, 0, 1]).shape == (4, 2, 3)
    with pytest.raises(OptionError):
        md.permute_dims(md.asarray(X), [0.0, 1, 2])


@pytest.mark.parametrize("dtype", [md.bool, md.int8, md.float32, md.float16])
def test_writes_of_numbers_are_checked(dtype) -> None:
    x = md.zeros((3, 2), dtype=dtype)
    x[0], x[1, 0], x[md.asarray([2])] = True, 1, 1
    assert x.tolist() == [[1, 1], [1, 0], [1, 1]]
    wrong = {md.bool: 2, md.int8: 128, md.float32: 1e39, md.float16: 70000}[dtype]
    for key in (0, slice(0, 1), md.asarray([0]), (0, 1)):
        with pytest.raises(MdtensorError):
            x[key] = wrong
    with pytest.raises(BoundsError):
        x[3] = 0
    assert x.tolist() == [[1, 1], [1, 0], [1, 1]]


def test_overlapping_writes_read_first() -> None:
    x = md.asarray(np.arange(6, dtype=np.int32))
    x[1:] = x[:-1]
    assert x.tolist() == [0, 0, 1, 2, 3, 4]
    x[md.asarray([0, 1, 2])] = x[3:]
    assert x.tolist() == [2, 3, 4, 2, 3, 4]
    with pytest.raises(BoundsError):
        x[md.asarray([0, 6, 1])] = x[:3]
    assert x.tolist() == [2, 3, 4, 2, 3, 4]


def test_a_complex_tensor_and_a_real_number_have_no_imaginary_zero() -> None:
    x = md.asarray(np.array([complex(np.inf, 0)], np.complex64))
    found = np.asarray(x * 2.0)
    assert found.real[0] == np.inf and found.imag[0] == 0


@pytest.mark.parametrize("dtype", [md.uint8, md.int16, md.int32, md.float64])
def test_members_are_found_as_numpy_finds_them(dtype, rng) -> None:
    x = rng.integers(0, 100, 600).astype(dtype.storage)
    for count in (0, 3, 90):
        members = x[:count]
        found = md.isin(md.asarray(x), md.asarray(members))
        assert found.tolist() == np.isin(x, members).tolist()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8])
def test_layers_with_and_without_a_bias(dtype) -> None:
    rng = np.random.default_rng(1)
    x, w, b = (rng.integers(-9, 9, n).astype(dtype) for n in ((2, 3, 5), (4, 5), 4))
    given = [md.asarray(a) for a in (x, w, b)]
    wanted = (x.astype(np.int64) @ w.T.astype(np.int64)).astype(dtype)
    for _ in range(2):
        # The function for (x, w, b) must not be taken for that of (x, w).
        with_bias, without = md.linear(*given), md.linear(*given[:2])
        assert without.tolist() == wanted.tolist()
        assert with_bias.tolist() == (wanted + b).astype(dtype).tolist()
        assert with_bias.dtype is without.dtype is given[0].dtype
        row = md.linear(given[0][0, 0], *given[1:])
        assert row.tolist() == (wanted + b).astype(dtype)[0, 0].tolist()
        assert given[2].tolist() == b.tolist()
        for wrong in (md.asarray(w.T.copy()), md.asarray(w[0])):
            with pytest.raises(ShapeError):
                md.linear(given[0], wrong)
        with pytest.raises(ShapeError):
            md.linear(given[0], given[1], given[1])


def test_layers_overflow_without_a_warning() -> None:
    x = md.asarray(np.full((2, 2), 3e38, np.float32))
    for _ in range(2):
        assert np.isinf(np.asarray(md.linear(x, x))).all()
        assert np.isinf(np.asarray(md.linear(x, x, x[0]))).all()
