"""Folds of long lines: pieces by many blocks, with one order in all calls."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support import rendered_device

import mdtensor as md
from mdtensor.kernels.emulated.launcher import ORDERS
from mdtensor.rendered.pieces import PIECE

gpu: Any = rendered_device.chosen()
WHY = rendered_device.missing(gpu)
pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)
#: A shape and the axes of its lines; the lines have 1, 2 or 3 pieces.
LINES = [
    *(((PIECE + n,), None) for n in (-1, 0, 1, PIECE, PIECE + 1)),
    *(((3, 9000), 1), ((9000, 3), 0), ((2, 100, 3, 90), (1, 3))),
    ((2, 100, 2, 45), (0, 1, 2, 3)),
]
EXACT = [md.sum, md.prod, md.max, md.min, md.count_nonzero]


@pytest.fixture(autouse=True)
def ascending() -> Iterator[None]:
    yield
    gpu.order = "ascending"
    gpu.synchronize()


def raw(x: Any) -> tuple[Any, ...]:
    here = x.to("cpu")
    return here.shape, here.dtype, np.asarray(here).tobytes()


def whole(shape: tuple[int, ...], dtype: Any, seed: int) -> Any:
    bounds = np.iinfo(dtype)
    rng = np.random.default_rng(seed)
    x = rng.integers(bounds.min, bounds.max, shape, dtype, endpoint=True)
    # Zeros for counts; an odd product of many numbers is seldom 0.
    return np.where(rng.random(shape) < 0.1, 0, x | 1).astype(dtype)


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(LINES),
    st.sampled_from([np.int8, np.uint16, np.int32, np.int64]),
    st.sampled_from(ORDERS),
    st.booleans(),
    st.integers(0, 99),
)
def test_whole_numbers_have_the_bytes_of_the_host(
    line: Any, dtype: Any, order: str, keepdims: bool, seed: int
) -> None:
    gpu.order, (shape, axis) = order, line
    here = md.asarray(whole(shape, dtype, seed))
    there, options = here.to(gpu), {"axis": axis, "keepdims": keepdims}
    for call in (*EXACT, md.any, md.all):
        x, y = here, there
        if call in (md.any, md.all):
            x, y = (md.not_equal(z, 0) for z in (here, there))
        assert raw(call(y, **options)) == raw(call(x, **options))
    if axis is None or isinstance(axis, int):
        for call in (md.argmax, md.argmin):
            assert raw(call(there, **options)) == raw(call(here, **options))


@pytest.mark.parametrize(("shape", "axis"), LINES)
def test_floats_are_within_their_bound(shape: Any, axis: Any) -> None:
    x = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
    wide, count = x.astype(np.float64), x.size // np.sum(x, axis=axis).size
    pieces = -(-count // PIECE)
    steps = 134 + pieces / 64 + 6 if pieces > 1 else count / 64 + 6
    bound = steps * 2.0**-24 * np.abs(wide).sum(axis=axis)
    found = {}
    for order in ORDERS:
        gpu.order = order
        sums = md.sum(md.asarray(x).to(gpu), axis=axis).to("cpu")
        found[order] = np.asarray(sums).tobytes()
        gap = np.abs(np.asarray(sums).astype(np.float64) - wide.sum(axis=axis))
        assert (gap <= bound).all()
    assert len(set(found.values())) == 1


def test_the_order_is_that_of_pieces(rng: np.random.Generator) -> None:
    """Adds as the module says, in NumPy: the bytes are those of this order."""

    def line(x: Any) -> Any:
        sums = np.full(64, -0.0, np.float32)
        for at in range(0, len(x), 64):
            part = x[at : at + 64]
            sums[: len(part)] += part
        while len(sums) > 1:
            sums = sums[: len(sums) // 2] + sums[len(sums) // 2 :]
        return sums[0]

    x = rng.standard_normal(2 * PIECE + 77).astype(np.float32)
    parts = [line(x[at : at + PIECE]) for at in range(0, len(x), PIECE)]
    wanted = line(np.array(parts, np.float32))
    found = md.sum(md.asarray(x).to(gpu)).to("cpu")
    assert np.asarray(found).tobytes() == wanted.tobytes()


def test_special_elements_are_those_of_the_host() -> None:
    x = np.zeros(3 * PIECE, np.float32)
    x[[5, PIECE + 2]] = np.nan, np.inf
    for part in (x, x[6:], -x[6:], -np.abs(x[PIECE + 3 :])):
        here = md.asarray(part.copy())
        for call in (md.max, md.min, md.argmax, md.argmin, md.sum):
            found, wanted = (
                np.asarray(call(y).to("cpu")) for y in (here.to(gpu), here)
            )
            assert np.array_equal(found, wanted, equal_nan=True)


#: What a compiled function joins, and what it leaves apart.
COMPILED: dict[str, Callable[[Any], Any]] = {
    "norm": lambda x: md.sqrt(md.sum(x * x)),
    "standardized": lambda x: (x - md.mean(x)) / md.std(x),
    "softmax": lambda x: md.softmax(x, axis=-1),
    "log_sum_exp": lambda x: md.log(md.sum(md.exp(x - md.max(x)))),
    "rows": lambda x: md.sum(md.exp(x), axis=1) + md.max(x, axis=1),
}


@pytest.mark.parametrize("name", COMPILED)
def test_compiled_functions_have_the_bytes_of_calls(name: str) -> None:
    x = np.random.default_rng(1).standard_normal((2, PIECE + 9)).astype(np.float32)
    there, function = md.asarray(x).to(gpu), COMPILED[name]
    compiled = md.compile(function, device=gpu)
    compiled(there)
    assert raw(compiled(there)) == raw(function(there))


def test_a_long_sum_has_many_blocks_and_two_launches() -> None:
    x = md.asarray(np.ones(5 * PIECE, np.int8)).to(gpu)
    with md.trace_device() as log:
        total = md.sum(x)
    assert len(log.launches) == 2 and total.item() == 5 * PIECE


@pytest.mark.parametrize("call", [md.var, md.std])
@pytest.mark.parametrize("correction", [0, 1, 2.5, 60])
def test_var_and_std_are_close_to_the_host(call: Any, correction: float) -> None:
    rng = np.random.default_rng(2)
    for dtype in (np.float16, np.float32, np.float64, np.int8, np.uint32):
        here = md.asarray((rng.standard_normal((5, 60)) * 9 + 20).astype(dtype))
        for axis in (None, 0, 1, (0, 1)):
            options = {"axis": axis, "correction": correction, "keepdims": True}
            found, wanted = call(here.to(gpu), **options), call(here, **options)
            assert found.dtype == wanted.dtype and found.shape == wanted.shape
            unit = np.finfo(np.asarray(wanted).dtype).eps
            one, two = np.asarray(found.to("cpu")), np.asarray(wanted)
            assert np.allclose(one, two, 16 * unit, 0, equal_nan=True)


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=3),
    st.integers(-9, 9),
    st.data(),
)
def test_rolled_elements_are_those_of_the_host(
    shape: list[int], shift: int, data: Any
) -> None:
    axis = data.draw(st.sampled_from([None, *range(-len(shape), len(shape))]))
    here = md.asarray(np.arange(np.prod(shape, dtype=int)).reshape(shape))
    options = {"shift": shift, "axis": axis}
    assert raw(md.roll(here.to(gpu), **options)) == raw(md.roll(here, **options))


def test_elements_roll_along_several_axes() -> None:
    here = md.asarray(np.arange(60, dtype=np.float32).reshape(3, 4, 5))
    options: dict[str, Any] = {"shift": (1, -2, 7), "axis": (0, 2, 0)}
    assert raw(md.roll(here.to(gpu), **options)) == raw(md.roll(here, **options))
