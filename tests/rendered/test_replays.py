"""Calls of known layouts replay launches: bytes, errors and types of the method."""

import math
from typing import Any

import numpy as np
import pytest
from support import rendered_device
from support.single_launches import single_launches

import mdtensor as md
from mdtensor.quant import QInt8Tensor, QParams
from mdtensor.rendered.replays import MOST, Replayed

gpu: Any = rendered_device.chosen()
WHY = rendered_device.missing(gpu)
pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)


def floats(*shape: int, seed: int = 0) -> Any:
    rng = np.random.default_rng((seed, *shape))
    return md.asarray(rng.standard_normal(shape).astype(np.float32))


def there(x: Any) -> Any:
    return x.to(gpu)


def raw(x: Any) -> bytes:
    return np.ascontiguousarray(np.asarray(x.to("cpu"))).tobytes()


def test_a_call_is_one_launch_and_others_of_its_layout_too() -> None:
    for seed in range(3):
        x = floats(4, 6, seed=seed)
        with md.trace_device() as log:
            found = md.softmax(there(x))
        assert len(log.launches) == 1
        found, wanted = (np.asarray(y) for y in (found.to("cpu"), md.softmax(x)))
        np.testing.assert_allclose(found, wanted, rtol=0, atol=3e-7)


NUMBERS = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, 2.5]


JOINED = {
    "softmax": lambda x: md.softmax(x),
    "log_softmax": lambda x: md.log_softmax(x, axis=0),
    "norm": lambda x: md.rms_norm(x, md.ones(6, device=gpu), normalized_shape=(6,)),
    "pad": lambda x: md.pad(x, ((1, 0), (0, 2)), value=7),
    "tile": lambda x: md.tile(x, (2, 3)),
    "concat": lambda x: md.concat([x, x * 2, x[:1]]),
    "stack": lambda x: md.stack([x, x[::-1]], axis=1),
    "conv2d": lambda x: md.conv2d(
        md.reshape(x, (1, 1, 4, 6)), md.ones((2, 1, 3, 3), device=gpu), padding=1
    ),
    "pool": lambda x: md.avg_pool2d(md.reshape(x, (1, 1, 4, 6)), 3, padding=1),
    "sum": lambda x: md.sum(x),
    "sort": lambda x: md.sort(x, axis=0),
    "running sum": lambda x: md.cumulative_sum(x, axis=1, include_initial=True),
}


@pytest.mark.parametrize("name", JOINED)
def test_replayed_calls_have_the_bytes_of_single_loops(name: str) -> None:
    for seed in range(3):
        x = there(floats(4, 6, seed=seed))
        found = raw(JOINED[name](x))
        with single_launches():
            assert found == raw(JOINED[name](x))


def test_parts_of_new_buffers_are_written_in_compiled_functions() -> None:
    """Not into the buffer of an earlier call, and in the order of the parts."""

    def function(x: Any) -> Any:
        wide = md.pad(x * 2, ((1, 1), (0, 0)))
        return md.concat([wide, md.exp(wide), x], axis=0), wide

    compiled, kept = md.compile(function, device=gpu), []
    for seed in range(4):
        x = there(floats(3, 5, seed=seed))
        found = compiled(x)
        with single_launches():
            wanted = function(x)
        assert [*map(raw, found)] == [*map(raw, wanted)]
        kept.append((found, [*map(raw, wanted)]))
    assert all([*map(raw, found)] == wanted for found, wanted in kept)


def test_numbers_that_are_equal_act_as_what_they_are() -> None:
    x = md.asarray(np.array([1.0, -1.0, 0.0], np.float32))
    for number in (*NUMBERS, *NUMBERS):
        found = md.copysign(there(x), number) * 1.0
        assert raw(found) == raw(md.copysign(x, number)), number
    i = md.asarray(np.array([1, -2, 3], np.int32))
    for number in (1, 1.0, 1, 1.0):
        found, wanted = there(i) * number, i * number
        assert found.dtype is wanted.dtype and raw(found) == raw(wanted)


def test_many_numbers_are_right_and_few_are_kept() -> None:
    x = floats(5)
    far = there(x)
    for number in range(MOST + 20):
        assert raw(far - number) == raw(x - number)
    runs: list[Any] = []
    replayed = Replayed(lambda x, n, /: runs.append(n) or md.add(x, n))
    for number in (*range(MOST + 1), 0, MOST):
        replayed(far, number)
    # The first one was dropped for the last one.
    assert runs == [*range(MOST + 1), 0]


VIEWS = {
    "turned": lambda x: x.T,
    "backwards": lambda x: x[::-1],
    "steps": lambda x: x[:, ::2],
    "a row": lambda x: x[1],
    "repeated": lambda x: md.broadcast_to(x[0], (4, 4)),
}


@pytest.mark.parametrize("name", VIEWS)
def test_strides_are_part_of_the_layout(name: str) -> None:
    x = floats(4, 4)
    for call in (md.neg, md.softmax, md.square):
        for view in (VIEWS[name], lambda x: x):
            np.testing.assert_allclose(
                np.asarray(call(view(there(x))).to("cpu")),
                np.asarray(call(view(x))),
                rtol=1e-6,
            )


def test_results_of_several_parts_and_views() -> None:
    x = floats(3, 4)
    for _ in range(2):
        parts = md.unstack(there(x))
        assert type(parts) is tuple and [raw(p) for p in parts] == [
            raw(p) for p in md.unstack(x)
        ]
        top, wanted = md.topk(there(x), 2), md.topk(x, 2)
        assert type(top) is type(wanted) and list(map(raw, top)) == list(
            map(raw, wanted)
        )
    # A view shares the memory of its tensor, in each call.
    far = there(x)
    turned = [md.permute_dims(far, axes=(1, 0)) for _ in range(2)]
    far[0, 0] = 7.0
    assert [float(one[0, 0]) for one in turned] == [7.0, 7.0]


def test_writes_and_casts_are_not_replayed_with_old_values() -> None:
    x = floats(4)
    for number in (1.0, 2.0, 3.0):
        far = there(x)
        far[1] = number
        assert float(far[1]) == number
    same = there(x)
    assert md.astype(same, md.float32, copy=False) is same
    assert md.astype(same, md.float32, copy=False) is same


def test_errors_are_those_of_each_call() -> None:
    x = there(md.asarray(np.array([7, 8], np.int32)))
    for divisor in ([1, 0], [0, 0], [1, 2], [1, 0]):
        y = there(md.asarray(np.array(divisor, np.int32)))
        zeros = divisor.count(0)
        if zeros:
            with pytest.raises(md.DataError, match=f"{zeros} of 2 divisors"):
                md.floor_divide(x, y)
        else:
            assert md.floor_divide(x, y).tolist() == [7, 4]
    for _ in range(2):
        with pytest.raises(md.ShapeError):
            md.add(x, there(md.asarray(np.zeros(3, np.int32))))


def test_promotion_rules_are_part_of_a_call() -> None:
    i, f = there(md.asarray(np.array([1], np.int64))), there(floats(1))
    usual = (i + f).dtype
    for _ in range(2):
        with md.promotion_rules("strict"), pytest.raises(md.PromotionError):
            i + f
        assert (i + f).dtype is usual


def test_grids_are_part_of_a_call() -> None:
    codes = np.array([[3, -4], [5, 6]], np.int8)
    for scale in (0.5, 0.25, 0.5):
        x = QInt8Tensor(codes, scale=scale)
        for out in (QParams(1.0), QParams(2.0)):
            found, wanted = md.add(there(x), there(x), out=out), md.add(x, x, out=out)
            assert raw(found.codes) == raw(wanted.codes)
            assert found.qparams == wanted.qparams


def test_a_method_that_is_added_later_runs() -> None:
    x = there(floats(3))
    kind = type(x)
    with md.registry.restored():
        md.neg(x)

        @md.method(md.neg, types=(kind,), override=True)
        def neg(x: Any, /) -> Any:
            return md.add(x, 1.0)

        assert raw(md.neg(x)) == raw(md.add(x, 1.0))
    assert raw(md.neg(x)) == raw(md.sub(0.0, x))


def test_a_plan_takes_no_memory_of_its_first_call() -> None:
    x = there(floats(1000))
    md.square(x)
    gpu.synchronize()
    before = md.memory_stats(gpu).used
    for _ in range(5):
        md.square(x)
    # Launches that wait hold what they use.
    gpu.synchronize()
    assert md.memory_stats(gpu).used == before
