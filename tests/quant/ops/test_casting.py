"""astype of codes: to a grid, by a policy, and to nothing else."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from support.grids import EVERY, grids, tensors

import mdtensor as md
from mdtensor import quant
from mdtensor.quant import QInt8Tensor, QParams, qint4, quint8

X = QInt8Tensor([2, 4, -6], scale=0.5)


@given(x=tensors(dtypes=EVERY), data=st.data())
def test_a_cast_rounds_as_requantize_or_is_refused(x, data, exact):
    grid = data.draw(grids(x.shape, EVERY))
    wanted = quant.requantize(x, out=grid)
    got = md.astype(x, grid, casting="saturate")
    assert got.qparams == grid
    assert np.array_equal(np.asarray(got.codes), np.asarray(wanted.codes))
    reals = exact.reals(x)
    is_exact = np.array_equal(reals, exact.reals(wanted))
    try:
        assert np.array_equal(md.astype(x, grid, casting="exact").codes, wanted.codes)
        assert is_exact
    except md.CastError:
        assert not is_exact
    except (md.GridError, md.PromotionError):  # accumulators that do not compare
        assert quant.qint32 in (x.dtype, grid.dtype)


def test_a_policy_says_what_happens_to_the_rest():
    assert md.astype(X, QParams(1.0)).codes.tolist() == [1, 2, -3]
    assert X.astype(QParams(0.25, 3, dtype=quint8, axis=None), casting="saturate").dtype
    narrow = QParams(0.5, dtype=qint4)
    assert md.astype(X, narrow, casting="exact").codes.tolist() == [2, 4, -6]
    with pytest.raises(md.CastError) as raised:
        md.astype(X, QParams(0.25, dtype=qint4))
    assert str(raised.value) == (
        "astype(QInt8Tensor[3]): 2 of 3 numbers lie outside of (scale=0.25, "
        "zero_point=0, range=-2..1.75). Use requantize, which rounds and saturates."
    )
    with pytest.raises(md.CastError, match="3 of 3 numbers are not on"):
        md.astype(X, QParams(0.3), casting="exact")
    with pytest.raises(md.CastError, match="1 of 1 numbers lie outside of"):
        md.astype(QInt8Tensor([100], scale=9.0), QParams(1.0, dtype=quant.qfloat8_e4m3))


def test_its_own_type_is_itself():
    same = md.astype(X, quant.qint8, copy=False)
    assert same is X and md.astype(X, X.qparams, copy=False) is X
    copied = md.astype(X, "qint8")
    assert copied.buffer is not X.buffer and copied.codes.tolist() == [2, 4, -6]


REFUSED = {
    "quint8 alone is not a grid. Use QParams(scale, dtype=quint8).": "quint8",
    "a quantized tensor does not cast to float32. Cast dequantize(x) "
    "instead.": md.float32,
    "it is ambiguous whether a cast to int8 converts codes or real values. Use "
    "x.codes, or cast dequantize(x).": "int8",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_would_be_a_guess_is_refused(text):
    with pytest.raises(md.MdtensorError) as raised:
        md.astype(X, REFUSED[text])
    assert str(raised.value) == f"astype(QInt8Tensor[3]): {text}"
    with pytest.raises(md.OptionError, match="Use exact, check, saturate"):
        md.astype(X, X.qparams, casting="wrap")
    with pytest.raises(md.ShapeError, match="does not fit shape"):
        md.astype(X, QParams([1, 2], axis=0))


def test_what_is_inferred_is_what_comes_out():
    spec = quant.tensor.spec_of(X)
    found = md.infer(md.astype, spec, QParams(0.1, dtype=qint4), casting="saturate")
    assert found == md.TensorSpec(quant.QInt4Tensor, (3,), QParams(0.1, dtype=qint4))
    with pytest.raises(md.CastError):
        md.infer(md.astype, spec, md.float32)


@pytest.mark.parametrize("casting", ["exact", "check"])
def test_accumulators_of_many_scales_are_cast(casting):
    """Comparisons refuse them, a cast compares number by number."""
    sums = quant.QInt32Tensor([[3, 4], [5, 6]], scale=[0.5, 0.25], axis=0)
    for dtype in ("qint8", "qfloat8_e4m3"):
        fine = quant.QParams(0.125, dtype=dtype)
        found = md.astype(sums, fine, casting=casting)
        numbers = [[1.5, 2.0], [1.25, 1.5]]
        assert quant.dequantize(found).tolist() == numbers
    odd = quant.QInt32Tensor([[3, 2**20 + 1], [5, 6]], scale=[0.5, 0.25], axis=0)
    with pytest.raises(md.CastError, match=r"1 of 4 numbers (are not on|lie outside)"):
        md.astype(odd, fine, casting=casting)
