"""Products of codes by tiles: the bytes of one thread for each sum, in every order."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support.cuda_text import empty, run

from mdtensor.kernels.emulated import compiler
from mdtensor.kernels.emulated.launcher import ORDERS
from mdtensor.kernels.loops.cuda import render
from mdtensor.kernels.loops.ir import Input, Loop, Value, apply, cast, load, scalar
from mdtensor.kernels.loops.kernel import Kernel

pytestmark = pytest.mark.skipif(not compiler.compiler(), reason="needs g++")


def product(left: str, has_zero: bool, is_tiled: bool = True) -> Kernel:
    """The sums of (a - zero) * b, and one number for each column added."""
    a, b = (cast(load(i, t), "int32") for i, t in enumerate((left, "int8")))
    inputs = [Input(left), Input("int8"), Input("int32")]
    if has_zero:
        a = apply("sub", a, scalar(3, "int32"))
        inputs.append(Input("int32", True))
    finish = apply("add", Value("total", "int32"), load(2, "int32"))
    return render(
        Loop(
            tuple(inputs),
            apply("mul", a, b),
            "dot",
            finish,
            is_serial=True,
            is_tiled=is_tiled,
            name="product",
        )
    )


def codes(type: str, *shape: int, seed: int) -> Any:
    info = np.iinfo(type)
    rng = np.random.default_rng(seed)
    return rng.integers(info.min, info.max, shape, type, endpoint=True)


@settings(max_examples=30)
@given(
    st.sampled_from(["int8", "uint8"]),
    st.booleans(),
    st.integers(1, 70),
    st.integers(2, 70),
    st.integers(0, 75),
    st.booleans(),
    st.sampled_from(ORDERS),
)
def test_sums_are_exact(
    type: str, has_zero: bool, m: int, n: int, k: int, is_turned: bool, order: str
) -> None:
    a, b = codes(type, m, k, seed=m), codes("int8", n, k, seed=n)
    if is_turned:
        b = codes("int8", k, n, seed=n).T
    bias = np.arange(n, dtype=np.int32)[:, None] - 7
    zero = [np.array(-5, np.int32)] * has_zero
    wanted = (a.astype(np.int64) + 5 * has_zero) @ b.T.astype(np.int64) + bias[:, 0]
    out = empty((m, n), "int32")
    given_ = a[:, None, :], b, bias, *zero
    found = run(product(type, has_zero), *given_, out=out, axes=(2,), order=order)
    assert found.tobytes() == wanted.astype(np.int32).tobytes()


def test_sums_wrap_as_those_of_one_thread() -> None:
    """200,000 products of 128 * 128 leave 32 bits."""
    a, b = np.full((3, 200_000), -128, np.int8), np.full((2, 200_000), -128, np.int8)
    bias = np.zeros((2, 1), np.int32)
    found, wanted = (
        run(
            product("int8", False, is_tiled),
            *(a[:, None, :], b, bias),
            out=empty((3, 2), "int32"),
            axes=(2,),
        )
        for is_tiled in (True, False)
    )
    assert found.tobytes() == wanted.tobytes()
    assert found[0, 0] == (200_000 * 128 * 128 + 2**31) % 2**32 - 2**31


@pytest.mark.parametrize("at", [0, 1])
def test_a_removed_barrier_changes_some_order(at: int) -> None:
    kernel = product("int8", False)
    parts = kernel.text.split("__syncthreads();")
    assert len(parts) == 3
    text = parts[0] + (";" if at == 0 else "__syncthreads();") + parts[1]
    text += ("__syncthreads();" if at == 0 else ";") + parts[2]
    text = text.replace(kernel.name, f"removed_{at}")
    broken = replace(kernel, name=f"removed_{at}", text=text)
    a, b = codes("int8", 40, 70, seed=1), codes("int8", 40, 70, seed=2)
    bias = np.zeros((40, 1), np.int32)
    wanted = (a.astype(np.int32) @ b.T.astype(np.int32)).tobytes()
    same = [
        run(one, a[:, None, :], b, bias, out=empty((40, 40), "int32"), axes=(2,),
            order=order).tobytes() == wanted
        for one in (kernel, broken)
        for order in ORDERS
    ]  # fmt: skip
    assert all(same[:3]) and not all(same[3:])


def test_what_has_no_tiles() -> None:
    f32 = Input("float32")
    value = apply("mul", load(0, "float32"), load(1, "float32"))
    loop = Loop((f32, f32), value, "dot", is_serial=True, is_tiled=True)
    with pytest.raises(ValueError, match="is not a product of codes of 8 bits"):
        render(loop)
