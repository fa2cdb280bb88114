"""Codes and grids in files: bit for bit, or an error and nothing."""

import json

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy as peer
from hypothesis import given, strategies as st

import mdtensor as md
from mdtensor import quant
from mdtensor.kernels.numpy.conversion import pack_int4
from mdtensor.quant import QParams
from mdtensor.quant.dtypes import FLOATS, SYMMETRIC
from mdtensor.safetensors import SafeTensors, load, save

TYPES = [
    quant.qint4,
    quant.quint4,
    quant.qint8,
    quant.quint8,
    quant.qint16,
    quant.qint32,
    quant.qfloat8_e4m3,
    quant.qfloat8_e5m2,
]
RULES = [None, "onnx", "tflite_ref"]


@st.composite
def tensors(draw: st.DrawFn, dtype: md.DType) -> quant.QuantizedTensor:
    """Codes of any bits on a grid of any granularity."""
    shape = draw(st.lists(st.integers(0, 5), max_size=3).map(tuple))
    axis = draw(st.sampled_from([None, *range(len(shape))]))
    block = draw(st.none() | st.integers(1, 6)) if axis is not None else None
    narrow = dtype not in FLOATS | {quant.qint32} and draw(st.booleans())
    least = int(dtype.minimum) + narrow if dtype not in FLOATS else 0
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    scales: tuple[int, ...] = ()
    if axis is not None:
        scales = (shape[axis],)
        if block is not None:
            scales = (*shape[:axis], -(-shape[axis] // block), *shape[axis + 1 :])
    zeros = rng.integers(least, int(dtype.maximum), scales, endpoint=True)
    if dtype in SYMMETRIC or draw(st.booleans()):
        zeros = np.full(scales, max(0, least))
    grid = QParams(
        np.exp2(rng.uniform(-120, 120, scales)),
        zeros,
        dtype=dtype,
        axis=axis,
        block_size=block,
        narrow_range=narrow,
        rounding=draw(st.sampled_from(RULES)),
    )
    if dtype in FLOATS:
        codes = rng.integers(0, 256, shape, np.uint8)
    else:
        codes = rng.integers(least, int(dtype.maximum), shape, endpoint=True)
        codes = codes.astype(dtype.storage)
    return md.leaf(dtype).from_codes(np.asarray(codes), grid)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@given(data=st.data())
def test_every_type_and_granularity_round_trips(dtype, data) -> None:
    x = data.draw(tensors(dtype))
    stored = save({"w": x, "b": md.ones(2)})
    y = load(stored)["w"]
    assert type(y) is type(x) and y.shape == x.shape
    assert y.qparams == x.qparams and y.rounding == x.rounding
    assert y.buffer.dtype == x.buffer.dtype
    assert y.buffer.tobytes() == x.buffer.tobytes()
    assert save({"w": y, "b": md.ones(2)}) == stored


def test_anyone_reads_codes_scales_and_zero_points() -> None:
    grid = QParams([[0.5, 0.25]], [[3, -4]], axis=1, block_size=2)
    x = quant.QInt8Tensor([[1, -2, 3]], grid)
    found = peer.load(save({"w": x, "acc": quant.QInt32Tensor([7], scale=0.1)}))
    assert found["w"].tolist() == [[1, -2, 3]] and found["w"].dtype == np.int8
    assert found["w_scale"].tolist() == [[0.5, 0.25]]
    assert found["w_zero_point"].dtype == np.int8
    assert found["w_zero_point"].tolist() == [[3, -4]]
    assert found["acc_scale"] == 0.1 and found["acc_scale"].dtype == np.float64
    assert sorted(found) == ["acc", "acc_scale", "w", "w_scale", "w_zero_point"]


def test_four_bits_are_stored_packed_and_floats_as_floats() -> None:
    four = quant.QInt4Tensor([1, 2, 3, -4], scale=0.5)
    floats = np.array([1.5, -448.0], ml_dtypes.float8_e4m3fn)
    eight = quant.QFloat8E4M3Tensor(floats, scale=2.0)
    file = SafeTensors(np.frombuffer(save({"four": four, "f8": eight}), np.uint8))
    assert file.array("four").tolist() == [0x21, 0xC3]
    assert file.array("f8").dtype == ml_dtypes.float8_e4m3fn
    assert b'"F8_E4M3"' in save({"f8": eight})
    assert [*file] == ["f8", "four"]


def test_8_bit_floats_of_others_become_tensors_with_their_scale() -> None:
    header = b'{"w":{"dtype":"F8_E5M2","shape":[2],"data_offsets":[0,2]}}'
    data = len(header).to_bytes(8, "little") + header + bytes([0x3C, 0x40])
    file = SafeTensors(np.frombuffer(data, np.uint8))
    w = quant.QFloat8E5M2Tensor(file.array("w"), scale=0.5)
    assert quant.dequantize(w).tolist() == [0.5, 1.0]


def test_two_tensors_do_not_share_a_name() -> None:
    x = quant.QInt8Tensor([1], scale=0.5)
    with pytest.raises(md.StorageError) as raised:
        save({"w": x, "w_scale": md.ones(())})
    assert str(raised.value) == (
        "'w_scale' needs the array 'w_scale' of another tensor. Rename one of them."
    )


def noted(arrays: dict[str, np.ndarray], note: dict[str, object]) -> bytes:
    text = json.dumps({"version": 1, "tensors": {"w": note}})
    return peer.save(arrays, {"mdtensor": text})


CODES = np.array([1, -2, 3], np.int8)
ONE = np.array(0.5, np.float32)
HOSTILE = {
    "qint8 needs codes and scales, and one is missing": ({"": CODES}, {}),
    "qint8 does not have the part or fact '_more'": (
        {"": CODES, "_scale": ONE, "_more": ONE},
        {},
    ),
    "qint8 does not have the part or fact 'axes'": (
        {"": CODES, "_scale": ONE},
        {"axes": 0},
    ),
    "axis is True": ({"": CODES, "_scale": ONE}, {"axis": True}),
    "codes of type uint8, not int8": (
        {"": CODES.view(np.uint8), "_scale": ONE},
        {},
    ),
    "scale of type float64, not float32": (
        {"": CODES, "_scale": np.ones(())},
        {},
    ),
    "zero_point of type int32, not int8": (
        {"": CODES, "_scale": ONE, "_zero_point": np.zeros((), np.int32)},
        {},
    ),
    "qint8 takes its shape from its array. Omit the fact shape": (
        {"": CODES, "_scale": ONE},
        {"shape": [3]},
    ),
    "QParams: a scale is nan. Use finite numbers of 1.18e-38 or more": (
        {"": CODES, "_scale": np.full(3, np.nan, np.float32)},
        {"axis": 0},
    ),
    "QParams: a scale is 0. Use finite numbers of 1.18e-38 or more": (
        {"": CODES, "_scale": np.array(0, np.float32)},
        {},
    ),
    "QParams: a scale is -0.5. Use finite numbers of 1.18e-38 or more": (
        {"": CODES, "_scale": np.array(-0.5, np.float32)},
        {},
    ),
    "QParams: 4 scales with axis=None. Give one number, or a sequence and its axis": (
        {"": CODES, "_scale": np.ones(4, np.float32)},
        {},
    ),
    "QInt8Tensor: (4 scales=1.0..1.0, axis=0) does not fit codes of shape (3,). Give": (
        {"": CODES, "_scale": np.ones(4, np.float32)},
        {"axis": 0},
    ),
    "(scale=0.5, zero_point=0, narrow_range=True) has codes from -127 to 127, given": (
        {"": CODES - np.int8(126), "_scale": ONE},
        {"narrow_range": True},
    ),
    "rounding is 'mine'. Use one of": (
        {"": CODES, "_scale": ONE},
        {"rounding": "mine"},
    ),
}
HOSTILE_4 = {
    "the shape of codes is [-3]": {"shape": [-3]},
    "the shape of codes is 'ab'": {"shape": "ab"},
    "QInt4Tensor: bytes of shape (2,) do not hold codes of shape (5,)": {"shape": [5]},
    "there are bits after the last code": {"shape": [3]},
    "(scale=0.5, zero_point=0, narrow_range=True) has codes from -7 to 7, given -8": {
        "shape": [4],
        "narrow_range": True,
    },
}


@pytest.mark.parametrize("text", HOSTILE)
def test_damaged_notes(text: str) -> None:
    parts, facts = HOSTILE[text]
    note = {"type": "qint8", "parts": [*parts], "facts": facts}
    stored = noted({"w" + ending: a for ending, a in parts.items()}, note)
    with pytest.raises(md.StorageError) as raised:
        load(stored)
    assert str(raised.value).startswith(f"'w': {text}")


@pytest.mark.parametrize("text", HOSTILE_4)
def test_damaged_notes_on_four_bits(text: str) -> None:
    packed = pack_int4(np.array([1, 2, 3, -8], np.int8))
    note = {"type": "qint4", "parts": ["", "_scale"], "facts": HOSTILE_4[text]}
    with pytest.raises(md.StorageError) as raised:
        load(noted({"w": packed, "w_scale": ONE}, note))
    assert str(raised.value).startswith(f"'w': {text}")
