"""Loops with folds before and with local values, against NumPy on integers."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support.cuda_text import empty, run

from mdtensor.kernels.emulated import compiler
from mdtensor.kernels.emulated.launcher import ORDERS
from mdtensor.kernels.loops import wgsl
from mdtensor.kernels.loops.cuda import render
from mdtensor.kernels.loops.ir import (
    Fold,
    Input,
    Loop,
    Value,
    apply,
    folded,
    load,
    local,
)
from mdtensor.kernels.loops.kernel import Kernel

pytestmark = pytest.mark.skipif(not compiler.compiler(), reason="needs g++")
I32 = Input("int32")
X, Y = load(0, "int32"), load(1, "int32")
BELOW = apply("sub", X, folded(0, "int32"))
#: x - max, its square summed up, and both together.
SQUARE = apply("mul", local(0, "int32"), local(0, "int32"))
BEFORE = (
    Fold(X, "maximum"),
    Fold(SQUARE, "add", apply("add", Value("total", "int32"), Y)),
)
VALUE = apply("sub", apply("mul", X, folded(1, "int32")), local(0, "int32"))
LOOP = Loop((I32, I32), VALUE, locals=(BELOW,), before=BEFORE, name="rows")
LAST = Loop(
    (I32, I32),
    apply("add", folded(1, "int32"), folded(0, "int32")),
    locals=(BELOW,),
    before=BEFORE,
    is_row=True,
    name="row",
)


def wanted(x: Any, y: Any, axes: tuple[int, ...]) -> tuple[Any, Any]:
    """The elements, and one number for each row, in 32 bits that wrap."""
    least = np.iinfo(np.int32).min
    top = x.max(axes, keepdims=True, initial=least)
    below = x - top
    total = np.add.reduce(below * below, axes, np.int32, keepdims=True) + y
    return x * total - below, total + top


@settings(max_examples=25)
@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=4),
    st.sampled_from(ORDERS),
    st.data(),
)
def test_rows_over_any_axes(shape: list[int], order: str, data: Any) -> None:
    axes = tuple(sorted(data.draw(st.sets(st.sampled_from(range(len(shape)))))))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    x = rng.integers(-(2**31), 2**31, shape, np.int32)
    x = x.transpose(data.draw(st.permutations(range(len(shape)))))
    kept = tuple(1 if at in axes else n for at, n in enumerate(x.shape))
    y = rng.integers(-9, 9, kept, np.int32)
    elements, rows = wanted(x, y, axes)
    how = {"axes": axes, "order": order}
    found = run(render(LOOP), x, y, out=empty(x.shape, "int32"), **how)
    assert found.tobytes() == elements.tobytes()
    one = rows.reshape([n for at, n in enumerate(x.shape) if at not in axes])
    found = run(render(LAST), x, y, out=empty(one.shape, "int32"), **how)
    assert found.tobytes() == one.tobytes()


@pytest.mark.parametrize("count", [1, 63, 64, 65, 1000])
@pytest.mark.parametrize("order", ORDERS)
def test_the_sum_has_the_order_of_a_fold_alone(count: int, order: str) -> None:
    f32, x = Input("float32"), load(0, "float32")
    data = np.random.default_rng(count).standard_normal((3, count)).astype(np.float32)
    alone = Loop((f32,), x, "add")
    total = run(render(alone), data, out=empty(3, "float32"), axes=(1,), order=order)
    loop = Loop((f32,), apply("div", x, folded(0, "float32")), before=(Fold(x, "add"),))
    out = empty(data.shape, "float32")
    found = run(render(loop), data, out=out, axes=(1,), order=order)
    assert found.tobytes() == (data / total[:, None]).tobytes()


@pytest.mark.parametrize("at", range(4))
def test_a_removed_barrier_changes_some_order(at: int) -> None:
    """Those around the tree of each fold, and those inside it."""
    kernel = render(LOOP)
    barrier = "__syncthreads();"
    parts = kernel.text.split(barrier)
    assert len(parts) == 7
    cut = (0, 1, 3, 4)[at]
    text = barrier.join(parts[: cut + 1]) + ";" + barrier.join(parts[cut + 1 :])
    name = f"removed_{at}"
    text = text.replace(kernel.name, name)
    broken = Kernel(name, text, kernel.inputs, kernel.type, has_rows=True)
    x = np.arange(640, dtype=np.int32).reshape(5, 128) * 7 % 251
    y = np.zeros((5, 1), np.int32)
    elements, _ = wanted(x, y, (1,))
    same = [
        run(one, x, y, out=empty(x.shape, "int32"), axes=(1,), order=order).tobytes()
        == elements.tobytes()
        for one in (kernel, broken)
        for order in ORDERS
    ]
    assert all(same[:3]) and not all(same[3:])


def test_many_local_values_are_one_line_each() -> None:
    """A tree of 2⁴⁰ nodes, and a chain that is longer than Python's stack is deep."""
    f32, count = Input("float32"), 400
    values = [load(0, "float32")]
    for at in range(count):
        values.append(apply("mul", local(at, "float32"), local(at, "float32")))
    loop = Loop((f32,), local(count, "float32"), locals=tuple(values), name="powers")
    for text in (render(loop).text, wgsl.render(loop).text):
        assert text.count("v4") > 1 and text.count("\n") < count + 200
    x = np.array([1.0, -1.0, 0.5], np.float32)
    found = run(render(loop), x, out=empty(3, "float32"))
    assert found.tolist() == [1.0, 1.0, 0.0]


def test_a_launch_takes_the_axes() -> None:
    x = np.zeros((2, 3), np.int32)
    with pytest.raises(ValueError, match="takes 2 operands, out and axes, got 3"):
        render(LOOP).bind([x, x, x])
