"""Codes that are written and chosen: the numbers are those of arrays of numbers."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from support.grids import EVERY, tensors

import mdtensor as md
from mdtensor import quant
from mdtensor.quant import QInt4Tensor, QInt8Tensor, QParams

KEYS = [0, (..., 0), slice(None, None, 2), (..., slice(1, None)), (..., None)]
Q = QInt8Tensor([[1, 2], [3, -4]], scale=0.5)
SPLIT = QInt8Tensor([[1, 2], [3, -4]], scale=[0.5, 0.25], axis=0)


def test_in_place_the_grid_stays():
    q = QInt8Tensor([1, 2], scale=0.5)
    with pytest.raises(md.GridError) as raised:
        q *= 2
    assert str(raised.value) == (
        "mul(QInt8Tensor[2], int): the result is on (scale=1.0, zero_point=0), which "
        "QInt8Tensor[2] cannot take in place. Use x = mul(x, ...) for a new tensor."
    )
    q *= 1
    assert q.codes.tolist() == [1, 2]


def numbers(x: Any) -> Any:
    return np.array(quant.dequantize(x).buffer)


@given(x=tensors(EVERY), key=st.sampled_from(KEYS), data=st.data())
def test_codes_are_written_as_numbers_are(x: Any, key: Any, data: Any) -> None:
    try:
        places = x[key]
    except md.MdtensorError:
        return
    turned = places.with_qparams(places.qparams)
    if not isinstance(places, quant.PackedTensor):
        turned = (
            type(places).wrap(places.buffer[::-1].copy(), places.qparams)
            if (places.ndim and places.qparams.axis is None)
            else places
        )
    value = data.draw(st.sampled_from([turned, 0]))
    wanted = numbers(x)
    wanted[key] = 0 if isinstance(value, int) else numbers(value)
    again = x.__deepcopy__(None)
    again[key] = value
    assert np.array_equal(numbers(again), wanted)
    assert again.qparams == x.qparams


def test_what_is_read_and_written_may_be_the_same() -> None:
    for kind in (QInt8Tensor, QInt4Tensor):
        q = kind([1, 2, 3, 4, 5], scale=0.5)
        q[1:] = q[:-1]
        assert q.codes.tolist() == [1, 1, 2, 3, 4]
        q[q > 1.0] = -1.0
        assert q.codes.tolist() == [1, 1, 2, -2, -2]


def test_a_number_has_a_code_of_its_own_on_every_grid() -> None:
    q = SPLIT.__deepcopy__(None)
    q[:, 0] = 1
    assert q.codes.tolist() == [[2, 2], [4, -4]]
    scaled = quant.quantize(md.ones((3,)), QParams(0.5, dtype=quant.qfloat8_e4m3))
    scaled[0] = -0.75
    assert quant.dequantize(scaled).tolist() == [-0.75, 1, 1]


GRIDS = (
    "the grids differ: (scale=0.5, zero_point=0) and (scale=0.25, zero_point=0). "
    "Use requantize(x, out=QParams(...)) to bring one to the grid of the other."
)
REFUSED = [
    (Q, 0, SPLIT[1], GRIDS),
    (Q, 0, 0.3, "0.3 is not on the grid (scale=0.5, zero_point=0). Pass a "),
    (Q, 0, 64, "64 is not on the grid (scale=0.5, zero_point=0). Pass a "),
    (Q, 0, "0", "the value is a str. Pass codes on the same grid, or a number "),
    (Q, 0, Q, "shape (2, 2) does not broadcast to (2,)."),
    (Q, 2, 0, "index 2 is outside an axis of size 2."),
    (Q, 0, Q[0].codes, "the value is a Int8Tensor, but QInt8Tensor takes only "),
    (md.broadcast_to(Q, (2, 2, 2)), 0, 0, "the buffer is read-only. Write into a de"),
]


@pytest.mark.parametrize(("x", "key", "value", "text"), REFUSED, ids=range(8))
def test_what_the_grid_has_not_is_not_written(
    x: Any, key: Any, value: Any, text: str
) -> None:
    before = np.array(x.buffer)
    with pytest.raises(md.MdtensorError) as raised:
        x[key] = value
    assert str(raised.value).startswith(
        f"setitem({md.errors.type_and_shape(x)}): {text}"
    )
    assert np.array_equal(x.buffer, before)


def test_one_or_the_other_on_one_grid() -> None:
    mask = md.asarray([True, False])
    assert md.where(mask, Q, Q[::-1]).codes.tolist() == [[1, -4], [3, 2]]
    assert md.where(mask, SPLIT, 0).codes.tolist() == [[1, 0], [3, 0]]
    packed = QInt4Tensor([1, 2], scale=0.5)
    found = md.where(mask, -1, packed)
    assert type(found) is QInt4Tensor and found.codes.tolist() == [-2, 2]
    with pytest.raises(md.GridError) as raised:
        md.where(mask, Q, SPLIT)
    assert str(raised.value) == (
        "where(BoolTensor[2], QInt8Tensor[2,2], QInt8Tensor[2,2]): the grids differ: "
        "(scale=0.5, zero_point=0) and (2 scales=0.25..0.5, axis=0). Use requantize("
        "x, out=QParams(...)) to bring one to the grid of the other."
    )
    with pytest.raises(md.CastError, match=r"0\.3 is not on the grid"):
        md.where(mask, Q, 0.3)
    with pytest.raises(
        md.PromotionError, match="quantized and float operands do not have a common"
    ):
        md.where(mask, Q, md.ones((2, 2)))


def test_the_number_that_is_meant_is_named() -> None:
    """0.1 is no float32, of which a scale is one."""
    q = QInt8Tensor([[1, 2, 3]], scale=0.1)
    with pytest.raises(md.CastError) as raised:
        q[0, 0] = 0.1
    assert str(raised.value) == (
        "setitem(QInt8Tensor[1,3]): 0.1 is not on the grid (scale=0.1, zero_point=0). "
        "Pass a number on the grid, such as 0.10000000149011612."
    )
    q[0, 0] = 0.10000000149011612
    assert q.codes.tolist() == [[1, 2, 3]]


def test_tensors_like_others() -> None:
    grid = QParams([0.5, 0.25], [1, 2], axis=0)
    x = QInt8Tensor([[5, 6], [7, 8]], grid)
    assert md.zeros_like(x).codes.tolist() == [[1, 1], [2, 2]]
    assert md.ones_like(x).codes.tolist() == [[3, 3], [6, 6]]
    assert md.full_like(x, -0.5).codes.tolist() == [[0, 0], [0, 0]]
    assert md.empty_like(x).qparams == md.zeros_like(x).qparams == grid
    assert md.zeros_like(x, dtype=QParams(1.0, 3)).codes.tolist() == [[3, 3], [3, 3]]
    with pytest.raises(md.CastError) as raised:
        md.full_like(x, 0.25)
    assert str(raised.value) == (
        "full_like(QInt8Tensor[2,2]): "
        "0.25 is not on the grid (scale=0.5, zero_point=1). "
        "Pass a number on the grid, such as 0."
    )
    with pytest.raises(md.CastError, match="does not cast to float32"):
        md.zeros_like(x, dtype="float32")


def test_codes_stay_on_the_host() -> None:
    assert Q.to("cpu") is Q and md.to(Q, md.cpu) is Q
    with pytest.raises(md.DeviceError) as raised:
        Q.to("cuda")
    assert str(raised.value) == (
        f"to(QInt8Tensor[2,2], str): cuda:0 cannot be used: {md.cuda.missing}. Use cpu."
    )


def test_parts_of_packed_codes_are_copies_and_say_so():
    q = QInt4Tensor([[1, 2, 3], [4, 5, 6]], scale=0.5)
    bytes_too = QInt8Tensor([[1, 2, 3], [4, 5, 6]], scale=0.5)
    for part in (
        lambda x: x[0],
        lambda x: x.T,
        lambda x: md.reshape(x, (6,)),
        lambda x: md.flip(x),
    ):
        view = part(bytes_too)
        view[0] = view[-1]  # reaches the whole
        copied = part(q)
        with pytest.raises(md.WriteError) as raised:
            copied[0] = copied[-1]
        assert str(raised.value).partition(": ")[2] == (
            "two codes share a byte, so this part is a copy. "
            "Write q[i, j] = v instead of q[i][j] = v, or into a deep copy."
        )
        own = copy.deepcopy(copied)
        own[0] = own[-1]
    q[0, 1] = q[1, 2]
    assert q.codes.tolist() == [[1, 6, 3], [4, 5, 6]]
    read = pickle.loads(pickle.dumps(q))
    for fresh in (q[np.array([1, 0])], md.concat([q, q]), read):
        fresh[0] = fresh[1]
