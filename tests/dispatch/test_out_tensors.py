"""`out=` with a tensor: plain operations write their result into it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.each import each

import mdtensor as md
from mdtensor import quant

X = md.asarray([0.25, 0.5])
#: Calls of operations that declare out=, as methods, on sequences and with reductions.
CALLS: dict[str, Callable[..., Any]] = {
    "add": lambda **out: md.add(X, X, **out),
    "weak": lambda **out: md.mul(X, 3, **out),
    "numpy": lambda **out: md.sub(np.ones(2, np.float32), X, **out),
    "sin": lambda **out: md.sin(X, **out),
    "method": lambda **out: X.exp(**out),
    "relu": lambda **out: md.relu(X, **out),
    "softmax": lambda **out: md.softmax(X, axis=0, **out),
    "concat": lambda **out: md.concat([X[:1], X[1:]], **out),
    "sum": lambda **out: X[None].sum(axis=0, **out),
    "matmul": lambda **out: md.matmul(X, md.asarray([[1.0, 2.0], [3.0, 4.0]]), **out),
    "clip": lambda **out: md.clip(X, min=0.3, **out),
}


@pytest.mark.parametrize("name", CALLS)
def test_plain_operations_write_into_out(name: str) -> None:
    call, whole = CALLS[name], md.zeros((2, 4))
    out = whole[1, ::2]
    for _ in range(2):  # the first call selects the method, the second looks it up
        assert call(out=out) is out
        assert out.tolist() == call().tolist()
    assert whole[0].tolist() == whole[1, 1::2].tolist() * 2 == [0.0] * 4


def test_numpys_reductions_write_into_out() -> None:
    total: Any = md.asarray(0.0)
    assert np.sum(X, out=total) is total
    assert float(total) == 0.75
    assert np.add(X, X, out=X[:]).tolist() == [0.5, 1.0]
    X[:] = X / 2


def test_operands_are_read_before_out_is_written() -> None:
    x = md.asarray([1.0, 2.0, 3.0])
    assert md.add(x, x[::-1], out=x).tolist() == [4.0, 4.0, 4.0]


@each(
    "out, kind",
    [
        (md.zeros((3,)), md.ShapeError),
        (md.zeros((2, 1)), md.ShapeError),
        (md.zeros((2,), dtype=md.float64), md.PromotionError),
        (md.zeros((2,), dtype=md.int8), md.PromotionError),
        (quant.QInt8Tensor([1, 2], scale=0.5), md.PromotionError),
        (md.broadcast_to(md.zeros(()), (2,)), md.WriteError),
        (quant.QParams(0.5), md.OptionError),
        (np.zeros(2, np.float32), md.OptionError),
        (3, md.OptionError),
        (quant.QParams, md.OptionError),
    ],
)
@each("name", CALLS)
def test_another_out_is_refused(name: str, out: Any, kind: type[Exception]) -> None:
    before = np.array(out) if type(out) is md.Tensor else None
    with pytest.raises(kind):
        CALLS[name](out=out)
    assert before is None or np.array_equal(before, np.asarray(out))


def test_a_rounding_rule_needs_a_grid() -> None:
    with pytest.raises(md.OptionError, match="rounds to a grid, and out is a tensor"):
        md.add(X, X, out=md.zeros((2,)), rounding="onnx")


def test_quantized_results_take_a_grid_only() -> None:
    q = quant.QInt8Tensor([1, 2], scale=0.5)
    with pytest.raises(md.OptionError, match=r"out is a QInt8Tensor. Pass out=QParams"):
        md.add(q, q, out=q)
