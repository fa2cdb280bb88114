"""Compiled functions on a device: fewer launches, with the bytes of the calls."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support import rendered_device
from support.single_launches import single_launches

import mdtensor as md
from mdtensor import quant
from mdtensor.errors import CastError, DeviceError
from mdtensor.kernels.emulated.launcher import ORDERS
from mdtensor.rendered import fusion

gpu: Any = rendered_device.chosen()
WHY = rendered_device.missing(gpu)
pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)


@pytest.fixture(autouse=True)
def ascending() -> Iterator[None]:
    yield
    gpu.order = "ascending"
    gpu.synchronize()


def floats(*shape: int) -> Any:
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


def raw(x: Any) -> list[bytes]:
    if isinstance(x, tuple):
        return [part for one in x for part in raw(one)]
    here = x.to("cpu")
    return [
        np.asarray(getattr(here, "codes", here)).tobytes(),
        str(here.shape).encode(),
    ]


def same(function: Callable[..., Any], *given_: Any) -> tuple[int, int]:
    """Compare compiled calls with single loops; return the launches of both."""
    there = [(x if isinstance(x, md.Tensor) else md.asarray(x)).to(gpu) for x in given_]
    with md.trace_device() as eager, single_launches():
        wanted = function(*there)
    compiled = md.compile(function, device=gpu)
    compiled(*there)
    with md.trace_device() as log:
        found = compiled(*there)
    assert raw(found) == raw(wanted)
    assert [type(x) for x in _flat(found)] == [type(x) for x in _flat(wanted)]
    assert not log.copies
    assert len(compiled.kernels()) <= len(log.launches)
    return len(eager.launches), len(log.launches)


def _flat(x: Any) -> tuple[Any, ...]:
    return x if isinstance(x, tuple) else (x,)


def ten(x: Any, y: Any) -> Any:
    """Ten elementwise calls."""
    x = md.relu(x * 1.5 + y) - md.exp(y)
    return md.tanh(md.maximum(md.abs(x), 0.25) / 3.0) * y


def standardized(x: Any) -> Any:
    centred = x - md.mean(x, axis=-1, keepdims=True)
    var = md.mean(centred * centred, axis=-1, keepdims=True)
    return centred / md.sqrt(var + 1e-5)


def log_sum_exp(x: Any) -> Any:
    top = md.max(x, axis=1)
    return md.log(md.sum(md.exp(x - md.expand_dims(top, axis=1)), axis=1)) + top


def norm(x: Any, w: Any, b: Any) -> Any:
    return md.layer_norm(x, w, b, normalized_shape=(x.shape[-1],))


#: Functions that are one launch, with shapes of their arguments.
ONE: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "ten": (ten, [(7, 33), (7, 33)]),
    "softmax": (md.softmax, [(5, 70)]),
    "softmax of columns": (lambda x: md.softmax(x, axis=0), [(70, 5)]),
    "log_softmax": (md.log_softmax, [(2, 3, 65)]),
    "layer_norm": (norm, [(2, 3, 70), (70,), (70,)]),
    "rms_norm": (lambda x: md.rms_norm(x, normalized_shape=(6, 5)), [(4, 6, 5)]),
    "group_norm": (lambda x: md.group_norm(x, num_groups=2), [(3, 4, 5, 2)]),
    "standardized": (standardized, [(4, 65)]),
    "log_sum_exp": (log_sum_exp, [(4, 65)]),
    "norm of all": (lambda x: md.sqrt(md.sum(x * x)), [(9, 8)]),
    "argmax": (lambda x: md.argmax(md.relu(x) - x, axis=1), [(4, 65)]),
    "transposed": (lambda x: md.permute_dims(md.exp(x), (1, 0)) * 2, [(4, 6)]),
    "parts": (lambda x: (x * 3)[1:, ::2] + 1, [(4, 6)]),
    "mirrored": (lambda x: (lambda y: y + md.flip(y))(md.exp(x)), [(4, 6)]),
    "masked": (
        lambda x, m: md.softmax(md.where(m < 0.0, -1e9, x * 0.125)),
        [(2, 3, 20), (3, 20)],
    ),
    "smooth": (lambda x: md.gelu(md.silu(x)) * md.sigmoid(x), [(50,)]),
}


@pytest.mark.parametrize("name", ONE)
def test_one_launch_has_the_bytes_of_all(name: str) -> None:
    function, shapes = ONE[name]
    arrays = [floats(*shape) for shape in shapes]
    for order in ORDERS:
        gpu.order = order
        eager, fused = same(function, *arrays)
        assert eager > 1 and fused == 1


def test_texts_and_explain() -> None:
    compiled = md.compile(ten)
    x, y = (md.asarray(floats(40)).to(gpu) for _ in range(2))
    compiled(x, y)
    (text,) = compiled.kernels()
    for word in ("mul", "add", "exp", "tanh", "maximum", "sub", "div"):
        assert f"{word}<float>(" in text
    (line,) = compiled.traces[0].explain().splitlines()
    assert "one launch" in line and "_more_f32" in line
    frozen = compiled.freeze(x, y)
    with md.trace_device() as log:
        found = frozen(x, y)
    assert len(log.launches) == 1 and raw(found) == raw(ten(x, y))


def test_what_leaves_is_written() -> None:
    def function(x: Any) -> Any:
        y = md.exp(x)
        z = y * 2 + 1
        return z - 3, y, md.reshape(z, (-1,)), md.sum(y, axis=0)

    eager, fused = same(function, floats(4, 6))
    assert (eager, fused) == (5, 4)


def test_other_calls_stay_between() -> None:
    eager, fused = same(
        lambda x, w: md.softmax(md.relu(md.matmul(x * 2 + 1, w)) + 1),
        *(floats(4, 6), floats(6, 5)),
    )
    assert (eager, fused) == (9, 3)


@pytest.mark.parametrize(
    "dtype", [md.bool, md.int8, md.uint64, md.float16, md.bfloat16]
)
def test_other_element_types(dtype: Any) -> None:
    x = md.astype(md.asarray(floats(5, 70) * 50), dtype, casting="saturate")

    def function(x: Any) -> Any:
        y = md.where(x == x, x, x)
        y = md.logical_not(y) if dtype is md.bool else md.maximum(y * 3 - y, y)
        return y, md.max(y, axis=1) if dtype is not md.bool else md.any(y, axis=1)

    eager, fused = same(function, x)
    assert eager > fused == 2


def test_codes() -> None:
    grid = quant.QParams(0.043, 3)
    codes = quant.quantize(md.asarray(floats(300)), grid)
    eager, fused = same(
        lambda q: quant.dequantize(md.relu(md.add(q, q, out=grid))) * 2, codes
    )
    assert eager > fused == 1
    eager, fused = same(lambda q: md.relu(md.mul(q, q, out=grid)), codes)
    assert (eager, fused) == (2, 1)


def test_arguments_with_other_strides() -> None:
    """A reshape that was planned as a view is none of these: the calls run."""
    compiled = md.compile(lambda x: norm(x * 2, *(md.ones(6, device=gpu),) * 2))
    for array in (
        floats(4, 5, 6),
        floats(4, 6, 5).swapaxes(1, 2),
        floats(4, 5, 6)[::-1],
    ):
        there = md.asarray(array.copy()).to(gpu)
        if not array.flags.c_contiguous:
            there = md.flip(there, axis=0)
        for _ in range(3):
            found = compiled(there)
        assert raw(found) == raw(norm(there * 2, *(md.ones(6, device=gpu),) * 2))
    columns = md.compile(lambda x: md.exp(md.reshape(x, (-1,))) + 1)
    x = md.asarray(floats(4, 6)).to(gpu)
    for given_ in (x, x, md.permute_dims(md.reshape(x, (6, 4)), (1, 0))):
        assert raw(columns(given_)) == raw(md.exp(md.reshape(given_, (-1,))) + 1)


def test_long_rows_have_more_than_one_block() -> None:
    eager, fused = same(md.softmax, floats(2, fusion.LONGEST_ROW + 1))
    # Each of the two folds is one of pieces, and one of their results.
    assert (eager, fused) == (6, 6)
    eager, fused = same(md.softmax, floats(2, fusion.LONGEST_ROW))
    assert (eager, fused) == (4, 1)


def test_more_arrays_than_a_launch_reads() -> None:
    arrays = [floats(4, n) for n in range(1, fusion.MOST_ARRAYS + 3)]
    arrays = [np.broadcast_to(x[:, :1], (4, 5)).copy() for x in arrays]
    eager, fused = same(lambda *xs: md.exp(sum(xs[1:], xs[0])), *arrays)
    assert eager == len(arrays) and fused == 2


def test_small_results_are_not_computed_again() -> None:
    _, fused = same(lambda x, w: x * md.exp(w), floats(40, 30), floats(30))
    assert fused == 2
    # To double a number again is cheaper than to write and read it.
    _, fused = same(lambda x, w: x * (w * 2), floats(40, 30), floats(30))
    assert fused == 1


def test_calls_that_look_at_elements_raise_their_errors() -> None:
    compiled = md.compile(lambda x: md.astype(x * 100, md.int8) + 1)
    low, high = (md.asarray(np.float32([1.0, v])).to(gpu) for v in (1.25, 3.0))
    for _ in range(3):
        assert compiled(low).tolist() == [101, 126]
    with pytest.raises(CastError) as caught:
        compiled(high)
    with pytest.raises(CastError) as eager:
        md.astype(high * 100, md.int8)
    assert str(caught.value) == str(eager.value)


def test_a_launch_in_another_stream_needs_an_event() -> None:
    compiled = md.compile(ten)
    x, y = (md.asarray(floats(40)).to(gpu) for _ in range(2))
    compiled(x, y)
    compiled(x, y)
    stream = gpu.stream()
    late = x * 2
    with stream, pytest.raises(DeviceError, match=r"stream.wait\(other.record\(\)\)"):
        compiled(late, y)
    stream.wait(gpu.main_stream().record())
    with stream:
        found = compiled(late, y)
    stream.synchronize()
    assert raw(found) == raw(ten(late, y))


def test_a_tensor_from_outside_that_is_written() -> None:
    w = md.asarray(floats(6)).to(gpu)
    compiled = md.compile(lambda x: md.relu(x + w) * w)
    x = md.asarray(floats(4, 6)).to(gpu)
    for _ in range(3):
        assert raw(compiled(x)) == raw(md.relu(x + w) * w)
    w[2] = 5.0
    for _ in range(3):
        assert raw(compiled(x)) == raw(md.relu(x + w) * w)


def test_a_new_operation_is_joined_without_code() -> None:
    with md.registry.restored():

        @md.generic
        def bump(x: Any, /) -> Any:
            """x · exp(-x²)."""

        @md.method(bump, anywhere=True)
        def bump(x: md.FloatingTensor, /) -> Any:
            return x * md.exp(-(x * x))

        eager, fused = same(lambda x: bump(bump(x)) + 1, floats(40))
        assert (eager, fused) == (9, 1)


@st.composite
def programs(draw: Any) -> list[tuple[str, int, int]]:
    """Steps of an operation and the numbers of the values that it reads."""
    count = draw(st.integers(2, 7))
    return [
        (
            draw(st.sampled_from(sorted(STEPS))),
            *(draw(st.integers(0, at)) for _ in "ab"),
        )
        for at in range(count)
    ]


STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b - 1,
    "relu": lambda a, b: md.relu(a),
    "flip": lambda a, b: md.flip(a, axis=1) + b,
    "turn": lambda a, b: md.permute_dims(md.reshape(a, (8, 6)), (1, 0)) + 0 * b,
    "centre": lambda a, b: a - md.max(b, axis=1, keepdims=True),
    "share": lambda a, b: a / (1 + md.sum(md.abs(b), axis=0, keepdims=True)),
    "count": lambda a, b: md.astype(a < b, md.float32) + md.mean(a),
    "softmax": lambda a, b: md.softmax(a * b, axis=1),
}


def require_same_bytes(program: list[tuple[str, int, int]], order: str) -> None:
    def function(x: Any) -> Any:
        values = [x]
        for name, a, b in program:
            values.append(STEPS[name](values[a], values[b]))
        return values[-1], values[len(values) // 2] + 1

    gpu.order = order
    eager, fused = same(function, floats(6, 8))
    assert fused <= eager


@settings(max_examples=6)
@given(programs(), st.sampled_from(ORDERS))
def test_programs(program: list[tuple[str, int, int]], order: str) -> None:
    require_same_bytes(program, order)


@pytest.mark.slow
@settings(max_examples=100)
@given(programs(), st.sampled_from(ORDERS))
def test_many_programs(program: list[tuple[str, int, int]], order: str) -> None:
    require_same_bytes(program, order)
