"""What cuBLAS is asked for: the same sums as the loop, in each layout that it takes."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support import cublas_double

from mdtensor.kernels.cuda import blas
from mdtensor.kernels.loops import ir
from mdtensor.kernels.loops.ir import Input, Loop, apply, cast, load
from mdtensor.kernels.loops.kernel import Launch


def loop(type: str = "float32", to: str | None = None, **given: Any) -> Loop:
    sums = ir.widen(load(0, type)).type
    value = apply("mul", *(cast(load(i, type), sums) for i in (0, 1)))
    finish = cast(ir.total(sums), to or type)
    fields = {"is_serial": True, "name": "product", **given}
    return Loop((Input(type), Input(type)), value, "dot", finish, **fields)


class Memory:
    """A buffer around an array of the host, which is not one of NumPy's."""

    def __init__(self, array: Any) -> None:
        self.array, self.shape, self.strides = array, array.shape, array.strides
        self.dtype, self.size = array.dtype, array.size
        self.address = array.ctypes.data


def bound(a: Any, b: Any, out: Any, axes: tuple[int, ...], type: str) -> Launch:
    kernel = blas.product(loop(type, out.dtype.name))
    assert isinstance(kernel, blas.Product)
    return kernel.bind([*map(Memory, (a, b, out)), axes])


def multiply(a: Any, b: Any, out: Any, axes: tuple[int, ...]) -> bool:
    """Let the double compute the sums; return whether cuBLAS takes the layout."""
    type = a.dtype.name
    launch = bound(a, b, out, axes, type)
    if launch.product is None:
        return False
    with pytest.MonkeyPatch.context() as patch:
        stream = SimpleNamespace(ptr=1, add=lambda task: task())
        cublas_double.install(patch, lambda at: stream, [])
        kernel = blas.product(loop(type, out.dtype.name))
        addresses = [x.address for x in launch.operands]
        blas.Blas().run(kernel, launch.product, addresses, stream)
    return True


def drawn(rng: Any, shape: tuple[int, ...], turns: bool, type: str) -> Any:
    """Small whole numbers, whose sums are exact, in row-major order or turned."""
    if turns:
        back = shape[:-2] + shape[-2:][::-1]
        return rng.integers(-9, 10, back).astype(type).swapaxes(-1, -2)
    return rng.integers(-9, 10, shape).astype(type)


@settings(max_examples=200)
@given(
    groups=st.lists(st.integers(1, 3), max_size=2),
    sizes=st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(1, 6)),
    turns=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    repeats=st.sampled_from(["", "left", "right"]),
    type=st.sampled_from(["float32", "float64", "float16"]),
    seed=st.integers(0, 99),
)
def test_products_of_matrices_and_stacks(
    groups: Any, sizes: Any, turns: Any, repeats: str, type: str, seed: int
) -> None:
    m, n, k = sizes
    rng = np.random.default_rng(seed)
    few = tuple(1 for _ in groups)
    a = drawn(rng, (*(few if repeats == "left" else groups), m, k), turns[0], type)
    b = drawn(rng, (*(few if repeats == "right" else groups), n, k), turns[1], type)
    out = drawn(rng, (*groups, m, n), turns[2], type)
    wanted = np.einsum("...mk,...nk->...mn", a, b)
    left, right = a[..., :, None, :], b[..., None, :, :]
    is_taken = multiply(left, right, out, (out.ndim,))
    assert is_taken
    assert np.array_equal(out, wanted)


def test_columns_of_windows_and_weights() -> None:
    """As convolutions have: n, g, 1, oh, ow, c, kh, kw and g, o, 1, 1, c, kh, kw."""
    rng = np.random.default_rng(0)
    n, g, c, o, kh, kw, oh, ow = 2, 3, 4, 5, 3, 2, 6, 7
    image = rng.integers(-9, 10, (n, g, 1, c, kh, kw, oh, ow)).astype(np.float32)
    weights = rng.integers(-9, 10, (g, o, c, kh, kw)).astype(np.float32)
    out = np.zeros((n, g, o, oh, ow), np.float32)
    columns = image.transpose(0, 1, 2, 6, 7, 3, 4, 5)
    assert multiply(columns, weights[:, :, None, None], out, (5, 6, 7))
    wanted = np.einsum("ngxcijhw,gocij->ngohw", image, weights)
    assert np.array_equal(out, wanted)


def test_sums_of_halves_are_rounded_once() -> None:
    a, b = (np.full((1, 2048), v, np.float16) for v in (1.0, 1.0))
    b[0, 0] = 0.5
    out = np.zeros((1, 1), np.float16)
    assert multiply(a[:, None], b[None], out, (2,))
    # In float16 a sum beyond 2048 would stay there.
    assert out[0, 0] == np.float16(2047.5)


def spread(array: Any, shape: Any, strides: Any) -> Any:
    return np.lib.stride_tricks.as_strided(array, shape, strides)


BASE = np.arange(64, dtype=np.float32)
REFUSED = {
    # No axis of the left matrix has neighbours.
    "steps of 2 and 8": (spread(BASE, (3, 1, 4), (32, 0, 8)), BASE[:8].reshape(2, 4)),
    "backwards": (BASE[:12].reshape(3, 1, 4)[:, :, ::-1], BASE[:8].reshape(2, 4)),
    "lines that overlap": (spread(BASE, (3, 1, 4), (4, 0, 4)), BASE[:8].reshape(2, 4)),
    "nothing to add": (np.zeros((3, 1, 0), np.float32), np.zeros((2, 0), np.float32)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_layouts_that_the_text_computes(name: str) -> None:
    a, b = REFUSED[name]
    out = np.zeros((3, 2), np.float32)
    found = bound(a, b[None], out, (2,), "float32")
    assert found.product is None and found.grid == 1


def test_groups_of_several_steps_are_calls_and_many_are_the_text() -> None:
    for count, taken in ((4, True), (blas.MOST_CALLS + 1, False)):
        whole = np.random.default_rng(1).integers(-9, 10, (count, 4, 5, 6))
        a = whole[:, ::2].astype(np.float32)[:, :, :, None]
        b = np.ones((1, 2, 3, 6), np.float32)[:, :, None]
        out = np.zeros((count, 2, 5, 3), np.float32)
        assert multiply(a, b, out, (4,)) is taken
        wanted = np.einsum("ghmxk,yhznk->ghmn", a, b)
        assert np.array_equal(out, wanted) is taken


@pytest.mark.parametrize(
    "other",
    [
        {"start": load(0, "float32")},
        {"finish": apply("neg", ir.total("float32"))},
    ],
    ids=str,
)
def test_only_plain_sums_of_products(other: Any) -> None:
    assert blas.is_product(loop())
    assert not blas.is_product(replace(loop(), **other))


def test_integers_and_two_types_are_loops() -> None:
    assert not blas.is_product(loop("int32"))
    value = apply("mul", load(0, "float32"), cast(load(1, "float16"), "float32"))
    mixed = Loop((Input("float32"), Input("float16")), value, "dot", is_serial=True)
    assert not blas.is_product(mixed)
    twice = Loop((Input("float32"),), apply("mul", *[load(0, "float32")] * 2), "dot")
    assert not blas.is_product(twice)
