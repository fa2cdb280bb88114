"""Every type of codes: what it holds, how it is stored, what it refuses."""

import copy
import pickle
import subprocess
import sys
from fractions import Fraction
from functools import partial

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st

import mdtensor as md
from mdtensor import quant
from mdtensor.quant import (
    QFloat8E4M3Tensor,
    QFloat8E5M2Tensor,
    QInt4Tensor,
    QInt16Tensor,
    QParams,
    QUInt4Tensor,
    qfloat8_e4m3,
    qfloat8_e5m2,
    qint4,
    qint16,
    quint4,
)
from mdtensor.quant.ops.matmul import linear_step
from mdtensor.quant.tensor import spec_of

RANGES = {
    qint4: (-8, 7),
    quint4: (0, 15),
    qint16: (-(2**15), 2**15 - 1),
    qfloat8_e4m3: (-448, 448),
    qfloat8_e5m2: (-57344, 57344),
}
FLOATS = {
    QFloat8E4M3Tensor: ml_dtypes.float8_e4m3fn,
    QFloat8E5M2Tensor: ml_dtypes.float8_e5m2,
}


@pytest.mark.parametrize("dtype", RANGES)
def test_a_type_says_its_range(dtype):
    grid = QParams(1, dtype=dtype)
    assert (grid.minimum, grid.maximum) == RANGES[dtype]
    assert (dtype.minimum, dtype.maximum) == RANGES[dtype]
    assert dtype.kind == "quantized" and md.leaf(dtype).dtype is dtype


def test_two_codes_of_4_bits_share_a_byte():
    x = QInt4Tensor([[1, 2, 3], [-4, -8, 7]], scale=0.5)
    assert x.shape == (2, 3) and x.ndim == 2 and x.size == 6 and len(x) == 2
    assert x.buffer.tolist() == [[0x21, 0x03], [0x8C, 0x07]]
    assert x.nbytes == 4 + 4
    assert type(x.codes) is md.Int8Tensor
    assert x.codes.tolist() == [[1, 2, 3], [-4, -8, 7]]
    y = QUInt4Tensor([1, 15, 8], scale=0.5, zero_point=8)
    assert type(y.codes) is md.UInt8Tensor and y.codes.tolist() == [1, 15, 8]
    assert quant.dequantize(y).tolist() == [-3.5, 3.5, 0]
    assert QInt4Tensor(np.zeros((64, 128), np.int8), scale=1.0).nbytes == 4096 + 4


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0), (2, 5), (3, 2, 4)])
@pytest.mark.parametrize("leaf", [QInt4Tensor, QUInt4Tensor])
def test_packed_codes_survive_pickle_and_copy(leaf, shape):
    drawn = np.random.default_rng(0).integers(*RANGES[leaf.dtype], shape)
    x = leaf(
        drawn.tolist() if drawn.size else drawn.astype(leaf.dtype.storage), scale=2.0
    )
    for y in (
        x,
        pickle.loads(pickle.dumps(x)),
        copy.deepcopy(x),
        leaf(x.codes, x.qparams),
    ):
        assert type(y) is leaf and y.shape == shape and y.qparams == x.qparams
        assert np.array_equal(np.asarray(y.codes), drawn)
    assert copy.deepcopy(x).buffer is not x.buffer


def test_bytes_alone_do_not_say_how_many_codes_they_are():
    x = QInt4Tensor([1, 2, 3], scale=0.5)
    with pytest.raises(md.ShapeError) as raised:
        QInt4Tensor.wrap(x.buffer, x.qparams)
    assert str(raised.value) == (
        "QInt4Tensor: bytes of shape (2,) do not hold codes of shape None. "
        "Use from_codes, or give the shape of the codes."
    )
    with pytest.raises(md.ShapeError, match=r"do not hold codes of shape \(5,\)"):
        QInt4Tensor.wrap(x.buffer, x.qparams, (5,))
    assert QInt4Tensor.wrap(x.buffer, x.qparams, (3,)).codes.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("leaf", "codes", "text"),
    [
        (QInt4Tensor, [7, 8], "codes from -8 to 7, given 7 to 8. Use quantize"),
        (QUInt4Tensor, [16], "codes from 0 to 15, given 16 to 16."),
        (QInt16Tensor, [2**15], "codes are from -32768 to 32767, given"),
        (QFloat8E4M3Tensor, [256], "uint8 represents 0 to 255"),
        (QFloat8E4M3Tensor, [1.5], "are bytes or float8_e4m3fn, not float64. Use"),
    ],
)
def test_what_is_no_code_is_refused(leaf, codes, text):
    with pytest.raises(md.CastError) as raised:
        leaf(codes, scale=0.5)
    assert text in str(raised.value)


@pytest.mark.parametrize("dtype", [qint16, qfloat8_e4m3, qfloat8_e5m2])
def test_symmetric_types_have_no_zero_point(dtype):
    with pytest.raises(md.GridError, match=r"given 1\. Use 0\.$"):
        QParams(1, 1, dtype=dtype)
    assert QParams(1, dtype=dtype).is_symmetric


@pytest.mark.parametrize("leaf", FLOATS)
def test_every_byte_is_a_float(leaf):
    bytes_ = np.arange(256, dtype=np.uint8)
    numbers = bytes_.view(FLOATS[leaf]).astype(np.float32)
    x = leaf(bytes_, scale=0.5)
    assert x.codes.tolist() == bytes_.tolist()
    assert np.asarray(quant.dequantize(x) * 2).tobytes() == numbers.tobytes()
    again = leaf(bytes_.view(FLOATS[leaf]), scale=0.5)
    assert again.codes.tolist() == bytes_.tolist()
    finite = md.asarray(numbers[np.isfinite(numbers)])
    back = quant.dequantize(quant.quantize(finite, QParams(1, dtype=leaf.dtype)))
    assert np.asarray(back).tobytes() == np.asarray(finite).tobytes()


@pytest.mark.parametrize("leaf", FLOATS)
def test_floats_saturate_and_refuse_nan(leaf):
    grid, most = QParams(0.5, dtype=leaf.dtype), leaf.dtype.maximum / 2
    x = quant.quantize(md.asarray([1e30, np.inf, -np.inf, most, -most * 1.1]), grid)
    assert quant.dequantize(x).tolist() == [most, most, -most, most, -most]
    for function in (lambda x: quant.quantize(x, grid), lambda x: x):
        with pytest.raises(md.CastError, match="cannot quantize NaN"):
            function(quant.quantize(md.asarray([np.nan]), grid))
    nan = leaf([0x7F], scale=0.5)
    assert np.isnan(np.asarray(quant.dequantize(nan))).all()
    with pytest.raises(md.CastError) as raised:
        quant.requantize(nan, out=QParams(0.5))
    assert str(raised.value) == (
        f"requantize({leaf.__name__}[1]): cannot quantize an infinity or NaN. "
        "Replace them first."
    )


@pytest.mark.parametrize("dtype", FLOATS.values())
@given(seed=st.integers(0, 999))
def test_float64_rounds_once(dtype, seed, exact):
    """Numbers a hair beside the ties, which float32 would move onto them."""
    target = {FLOATS[k]: k.dtype for k in FLOATS}[dtype]
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 120, 16).astype(np.uint8)
    low, high = (b.view(dtype).astype(float) for b in (bits, bits + np.uint8(1)))
    values = (low + high) / 2 * (1 + rng.choice([-1, 0, 1], 16) * 2.0**-50)
    grid = QParams(rng.choice([0.5, 1.0, 0.1, 3.0]), dtype=target)
    numbers = values * float(grid.scale)
    got = quant.quantize(md.asarray(numbers, dtype=md.float64), grid)
    wanted = exact.codes(np.array([Fraction(v) for v in numbers], object), grid)
    assert np.array_equal(got.buffer.astype(float), wanted)


def test_products_of_narrow_types_are_exact_in_any_mix(exact):
    rng = np.random.default_rng(0)
    given = [
        quant.QInt8Tensor(rng.integers(-128, 128, (3, 5)).tolist(), scale=0.1),
        quant.QUInt8Tensor(rng.integers(0, 256, (3, 5)).tolist(), scale=0.3),
        QInt4Tensor(rng.integers(-8, 8, (3, 5)).tolist(), scale=0.2, zero_point=1),
        QUInt4Tensor(rng.integers(0, 16, (3, 5)).tolist(), scale=0.7, zero_point=8),
    ]
    for a in given:
        for b in given:
            acc = md.matmul(a, b.T)
            assert type(acc) is quant.QInt32Tensor
            wanted = exact.reals(a) @ exact.reals(b).T
            assert np.array_equal(exact.reals(acc), wanted)
            assert np.array_equal(exact.reals(md.linear(a, b, None)), wanted)
            product = md.mul(a, b)
            assert np.array_equal(exact.reals(product), exact.reals(a) * exact.reals(b))
            out = QParams(2.0, 1, dtype=qint4)
            rounded = md.add(a, b, out=out)
            sums = exact.codes(exact.reals(a) + exact.reals(b), out)
            assert type(rounded) is QInt4Tensor
            assert np.array_equal(np.asarray(rounded.codes), sums)


def test_floats_multiply_as_numbers():
    x = quant.quantize(md.asarray([[1.0, 2.0]]), QParams(0.5, dtype=qfloat8_e4m3))
    w = quant.quantize(md.asarray([[3.0], [4.0]]), QParams(0.5, dtype=qfloat8_e5m2))
    for got in (md.matmul(x, w), md.matmul(md.asarray([[1.0, 2.0]]), w)):
        assert type(got) is md.Float32Tensor and got.tolist() == [[11.0]]


REFUSED = {
    "the result of add for 8-bit floats is not exact on any grid. Use dequantize(x), "
    "and quantize the result.": lambda f, i, w: md.add(f, f),
    "8-bit floats and integer codes do not have a common type. Use requantize(x, "
    "out=QParams(...)) to give both one type.": lambda f, i, w: md.mul(f, i),
    "matmul takes codes of at most 16 bits, not accumulators. Use requantize(acc, "
    "out=QParams(...)) first.": lambda f, i, w: md.matmul(w, md.add(i, i)),
    "the result of add with a Python number needs a grid. Pass out=QParams(...).": (
        lambda f, i, w: md.add(i, 1)
    ),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_has_no_meaning_says_the_way_out(text):
    leaves = QFloat8E4M3Tensor, QInt4Tensor, QInt16Tensor
    with pytest.raises(md.PromotionError) as raised:
        REFUSED[text](*(leaf([1], scale=0.5) for leaf in leaves))
    problem, _, fix = text.partition(". ")
    assert f"): {problem}; the grid" in str(raised.value)
    assert str(raised.value).endswith(f"(scale=0.5, zero_point=0). {fix}")


@pytest.mark.parametrize("leaf", [QFloat8E4M3Tensor, QInt16Tensor, QInt4Tensor])
def test_no_method_and_no_silent_numbers(leaf):
    x = leaf([1], scale=0.5)
    with pytest.raises(md.DispatchError, match=r"Use dequantize\(x\)"):
        md.cumulative_sum(x)
    with pytest.raises(md.GridError, match="is not an array of numbers"):
        np.asarray(x)
    with pytest.raises(md.GridError, match="holds codes, not floats"):
        float(x)


def test_sums_of_16_bits_are_exact():
    x = QInt16Tensor([30000, -30000], scale=0.5)
    assert md.add(x, x).codes.tolist() == [60000, -60000]
    assert (-x).codes.tolist() == [-30000, 30000]
    assert md.relu(x).codes.tolist() == [30000, 0]
    out = QParams(1.0, dtype=qint16)
    assert md.add(x, x, out=out).codes.tolist() == [30000, -30000]
    with pytest.raises(md.GridError, match=r"-\(-2\*\*15\) does not fit 16 bits"):
        md.neg(QInt16Tensor([-(2**15)], scale=1.0))


def test_weights_of_4_bits_run_in_the_kernels_of_8():
    rng = np.random.default_rng(0)
    x = quant.QInt8Tensor(rng.integers(-128, 128, (5, 70)).tolist(), scale=0.1)
    w = QInt4Tensor(rng.integers(-8, 8, (9, 70)).tolist(), scale=[0.1] * 9, axis=0)
    wide = quant.QInt8Tensor(w.codes, w.qparams.replace(dtype=quant.qint8))
    out = QParams(2.0, 3)
    step = linear_step(spec_of(x), w, None, out=out)
    codes = step(x.buffer.view(np.uint8) ^ np.uint8(128)) ^ np.uint8(128)
    for got in (md.linear(x, w, None, out=out), md.matmul(x, w.T, out=out)):
        assert np.array_equal(got.buffer.view(np.uint8), codes)
    sums = [md.linear(x, v, None).buffer for v in (w, wide)]
    assert np.array_equal(*sums)
    for options in ({}, {"out": out}):
        image, kernel = md.reshape(x[:, :64], (5, 4, 4, 4)), (9, 4, 2, 2)
        four, eight = (md.reshape(v[:, :16], kernel) for v in (w, wide))
        found = [md.conv2d(image, v, **options).buffer for v in (four, eight)]
        assert np.array_equal(*found)


@pytest.mark.parametrize(
    ("name", "ours"),
    [("int4", "qint4"), ("uint4", "quint4"), ("float8_e4m3fn", "qfloat8_e4m3")],
)
def test_the_names_of_others_lead_to_ours(name, ours):
    with pytest.raises(md.OptionError) as caught:
        md.dtype(name)
    start = f"no element type {name}. Use {ours}. Known are bool, int8, "
    assert str(caught.value).startswith(start)


@pytest.mark.parametrize("name", ["int8", "uint8", "int16", "int32"])
def test_a_type_of_storage_leads_to_its_codes(name):
    for make in (
        lambda: QParams(1.0, dtype=name),
        lambda: quant.grid_of(0, 1, dtype=name),
    ):
        with pytest.raises(md.GridError) as caught:
            make()
        assert str(caught.value) == (
            f"QParams: {name} is not a quantized type. Use q{name}."
        )


NUMBERS = {
    "asarray": partial(md.asarray, [1.0]),
    "asarray of integers": partial(md.asarray, [[1, 2]]),
    "arange": partial(md.arange, 3),
    "linspace": partial(md.linspace, 0, 1, 3),
    "zeros": partial(md.zeros, (2, 3)),
    "ones": partial(md.ones, 3),
    "empty": partial(md.empty, (2, 3)),
    "full": partial(md.full, 3, 1.0),
    "eye": partial(md.eye, 3),
    "zeros_like": partial(md.zeros_like, md.ones(3)),
    "full_like": partial(md.full_like, md.ones(3), fill_value=2),
}
CASTS = {
    "astype(Float32Tensor[3], str)": lambda name: md.ones(3).astype(name),
    "astype(BoolTensor[], DType)": lambda name: md.asarray(np.bool_(1), dtype=name),
    "astype(Int8Tensor[2], DType)": lambda name: md.astype(
        md.asarray([1, 2], dtype="int8"), md.dtype(name)
    ),
}


def of_a_grid(name):
    leaf = md.leaf(name).__name__
    return (
        f"{leaf} needs a grid of {name}. Use quantize(x, QParams(s, dtype='{name}')) "
        f"for real values, {leaf}(codes, scale=s) for codes."
    )


@pytest.mark.parametrize("make", NUMBERS.values(), ids=NUMBERS)
def test_numbers_alone_make_no_codes(make):
    for name in ("qint4", "qint8", "qfloat8_e4m3"):
        with pytest.raises(md.GridError) as caught:
            make(dtype=name)
        # Functions of tensors name their call as well.
        assert str(caught.value).rpartition("]): ")[2] == of_a_grid(name)
        with pytest.raises(md.GridError):
            make(dtype=md.dtype(name))


@pytest.mark.parametrize(("call", "cast"), CASTS.items(), ids=CASTS)
def test_numbers_are_not_cast_to_codes(call, cast):
    for name in ("qint4", "qint8", "qfloat8_e4m3"):
        with pytest.raises(md.GridError) as caught:
            cast(name)
        assert str(caught.value) == f"{call}: {of_a_grid(name)}"


def test_what_the_error_says_is_what_works():
    x = md.asarray([1.0, -0.5])
    assert quant.quantize(x, QParams(0.5, dtype="qint8")).codes.tolist() == [2, -1]
    assert quant.QInt8Tensor([2, -1], scale=0.5).codes.tolist() == [2, -1]


def test_a_star_takes_all_names_and_no_modules():
    names: dict[str, object] = {}
    exec("from mdtensor.quant import *", names)  # not allowed in a function
    taken = {name for name in names if not name.startswith("__")}
    assert taken == {n for n in dir(quant) if n[0] != "_"} - {"onnx_backend"}
    assert taken >= {"QParams", "load", "quantize_weights", "MinMaxObserver"}


def test_names_of_codes_ask_for_the_import():
    code = "import mdtensor as md; md.zeros(2, dtype='qint8')"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "no element type qint8. Import mdtensor.quant first. Known" in ended.stderr


def test_a_grid_and_parts_of_one_are_refused():
    for part in ({"scale": 0.2}, {"zero_point": 5}, {"axis": 0}, {"block_size": 2}):
        with pytest.raises(md.GridError) as raised:
            quant.QInt8Tensor([1], QParams(0.1), **part)
        assert str(raised.value) == (
            "got qparams together with parts of another grid. Pass qparams alone, or "
            "scale and zero_point."
        )
