"""The unsigned view of codes stands for the same numbers."""

import numpy as np
import pytest

from mdtensor import TensorSpec
from mdtensor.graph.storage import storage_of
from mdtensor.quant import QInt8Tensor, QParams, QUInt8Tensor, codes, qint32, quint8

SIGNED, BYTES = QParams(0.5, -3), QParams(0.5, 125, dtype=quint8)


def test_unsigned_codes_stand_for_the_same_numbers(exact):
    x = QInt8Tensor(np.arange(-128, 128).astype(np.int8), SIGNED)
    grid = codes.unsigned_grid(SIGNED)
    assert grid == BYTES
    seen = QUInt8Tensor(codes.unsigned(x), grid)
    assert np.array_equal(exact.reals(seen), exact.reals(x))
    assert np.array_equal(
        codes.from_unsigned(codes.unsigned(x), SIGNED).buffer, x.buffer
    )


def test_unsigned_codes_stay_as_they_are():
    x = QUInt8Tensor([0, 255], BYTES)
    assert codes.unsigned_grid(BYTES) is BYTES
    assert np.shares_memory(codes.unsigned(x), x.buffer)
    wide = QParams(0.5, dtype=qint32)
    assert codes.unsigned_grid(wide) is wide


def test_zero_points_along_an_axis_move_too():
    grid = QParams([0.5, 1], [-128, 127], axis=1)
    assert codes.unsigned_grid(grid).zero_point.tolist() == [0, 255]
    assert codes.unsigned_grid(grid).axis == 1


VIEWS = {
    "turned": lambda a: a.T,
    "sliced": lambda a: a[::2, 1:4],
    "reversed": lambda a: a[::-1],
    "repeated": lambda a: np.broadcast_to(a[:1], (4, a.shape[1])),
    "one": lambda a: a[1, 2],
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_keep_their_order(name):
    array = np.arange(-12, 12, dtype=np.int8).reshape(4, 6)
    view = np.asarray(VIEWS[name](array))
    seen = codes.unsigned(QInt8Tensor.wrap(view, SIGNED))
    assert np.array_equal(seen, view.astype(int) + 128)
    laid = codes.contiguous(seen)
    assert laid.shape == view.shape and laid.flags.c_contiguous
    assert np.array_equal(laid, seen)


@pytest.mark.parametrize(("grid", "code"), [(SIGNED, 12), (BYTES, 140)])
def test_results_without_axes_are_tensors(grid, code):
    kind = QInt8Tensor if grid is SIGNED else QUInt8Tensor
    spec = TensorSpec(kind, (), grid)
    found = storage_of(kind).wrap(np.array(140, np.uint8), spec)
    assert type(found) is kind
    assert type(found.buffer) is np.ndarray
    assert found.shape == ()
    assert int(found.codes) == code
