"""A call that was bound gives the bytes and the errors of one that was not."""

import copy
import gc
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import mdtensor as md
from mdtensor import quant
from mdtensor.quant import QParams, qint4, qint8, qint16, qint32, quint8
from mdtensor.quant.ops import bound, conv

SCALES = (0.5, 0.02, 0.0123)
DTYPES = (qint8, quint8, qint4)
RULES = (None, "exact", "onnx", "tflite_ref", "xnnpack_x86")


class Forgetful(dict[Any, Any]):
    """A table of calls in which nothing stays."""

    def __setitem__(self, key: Any, value: Any) -> None:
        """Drop the call."""


@pytest.fixture(autouse=True)
def calls(monkeypatch: pytest.MonkeyPatch) -> dict[Any, Any]:
    table: dict[Any, Any] = {}
    monkeypatch.setattr(bound, "_CALLS", table)
    return table


def shown(x: Any) -> Any:
    """Return all that can be seen of a result."""
    if isinstance(x, md.MdtensorError):
        return type(x), str(x)
    codes = x.codes if isinstance(x, quant.QuantizedTensor) else x
    rest = getattr(x, "qparams", None), getattr(x, "rounding", None)
    return type(x), x.shape, codes.buffer.dtype, codes.buffer.tobytes(), *rest


def called(call: Any) -> Any:
    try:
        return shown(call())
    except md.MdtensorError as error:
        return shown(error)


def unbound(call: Any) -> Any:
    """Return what a call gives that remembers nothing."""
    table, bound._CALLS = bound._CALLS, Forgetful()
    try:
        return called(call)
    finally:
        bound._CALLS = table


def grid(random: Random, axis: int | None = None, size: int = 4) -> QParams:
    dtype = random.choice(DTYPES)
    if axis is not None:
        scales = [random.choice(SCALES) for _ in range(size)]
        return QParams(scales, dtype=qint8, axis=axis)
    zero = 0 if dtype is qint4 else random.choice((0, 3))
    return QParams(random.choice(SCALES), zero, dtype=dtype)


def tensor(random: Random, shape: tuple[int, ...], on: QParams | None = None) -> Any:
    on = on or grid(random)
    numbers = np.random.default_rng(random.getrandbits(32)).normal(0, 1, shape)
    return quant.quantize(md.asarray(numbers.astype(np.float32)), on)


def rounded(random: Random) -> dict[str, Any]:
    out = random.choice((None, grid(random)))
    if out is None:
        return {}
    rule = random.choice(RULES)
    return {"out": out if rule is None else out.rounded(rule)}


def drawn(random: Random) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Return a random call: the operation, tensors and options."""
    options = rounded(random)
    x = tensor(random, random.choice(((2, 4), (3, 4), (1, 4, 5, 5))))
    name = random.choice(("unary", "binary", "matmul", "linear", "image", "codes"))
    if name == "unary":
        f = random.choice((md.relu, md.tanh, md.relu6, md.abs, md.sqrt, md.silu))
        return f, (x,), options
    if name == "binary":
        f = random.choice((md.add, md.sub, md.mul, md.maximum, md.div))
        on = random.choice((x.qparams, None))
        return f, (x, tensor(random, x.shape[-1:], on)), options
    if name in ("matmul", "linear"):
        x = tensor(random, (random.choice((1, 3)), 4))
        axis = random.choice((None, 0, 1))
        w = tensor(random, (4, 4), grid(random, axis))
        rest = (None,) if name == "linear" else ()
        return getattr(md, name), (x, w, *rest), options
    if name == "image":
        return images(random, options)
    f = random.choice((md.sum, md.mean, md.max, md.softmax, quant.dequantize))
    more = {} if f is quant.dequantize else {"axis": random.choice((0, 1, -1))}
    takes = f in (md.sum, md.mean, md.softmax)
    return f, (x,), more | (options if takes else {})


def images(
    random: Random, options: dict[str, Any]
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    x, one = tensor(random, (1, 4, 5, 5)), random.choice((1, (1, 1), True, 1.0, [1, 1]))
    name = random.choice(("conv2d", "max_pool2d", "avg_pool2d", "global_avg_pool2d"))
    if name == "conv2d":
        w = tensor(random, (4, 4, 3, 3), grid(random, random.choice((None, 0, 1))))
        return md.conv2d, (x, w, None), options | {"stride": one}
    if name == "global_avg_pool2d":
        return md.global_avg_pool2d, (x,), options
    size = {"kernel_size": 2, "stride": one}
    found = options if name == "avg_pool2d" else {}
    return getattr(md, name), (x,), size | found


@given(st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=60)
def test_a_bound_call_gives_what_an_unbound_one_gives(random: Random) -> None:
    made = [drawn(random) for _ in range(3)]
    for _ in range(14):
        f, tensors, options = random.choice(made)
        with ExitStack() as block:
            if random.random() < 0.3:
                block.enter_context(quant.rounding(random.choice(RULES[1:])))
            if random.random() < 0.3:
                block.enter_context(quant.runway("generic"))
            if random.random() < 0.3:
                change(random, tensors[min(len(tensors) - 1, 1)])
            wanted = unbound(partial(f, *copy.deepcopy(tensors), **options))
            assert called(partial(f, *tensors, **options)) == wanted


def change(random: Random, x: Any) -> None:
    """Write into the codes of a tensor, or put them on another grid."""
    if random.random() < 0.7:
        x.buffer.reshape(-1)[:1] ^= 1
    else:
        x.qparams = x.qparams.replace(scale=x.scale * random.choice((0.5, 2.0)))


def test_threads_share_bound_calls() -> None:
    random = Random(7)
    made = [drawn(random) for _ in range(40)]
    wanted = [unbound(partial(f, *copy.deepcopy(xs), **more)) for f, xs, more in made]

    def work(number: int) -> bool:
        f, tensors, options = made[number % 40]
        return called(partial(f, *tensors, **options)) == wanted[number % 40]

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(work, range(1600)))


def test_a_hit_checks_nothing_again(monkeypatch: pytest.MonkeyPatch) -> None:
    x, w = tensor(Random(1), (1, 4, 5, 5)), tensor(Random(2), (4, 4, 3, 3))

    def convolved(**options: Any) -> Any:
        return shown(md.conv2d(x, w, out=QParams(0.3), **options))

    wanted, *_ = [convolved() for _ in range(3)]

    def fail(*_: Any, **__: Any) -> None:
        raise AssertionError("checked again")

    monkeypatch.setattr(conv, "_check", fail)
    assert convolved() == wanted
    with pytest.raises(AssertionError, match="checked again"):
        convolved(padding=1)


def test_the_oldest_calls_go(
    monkeypatch: pytest.MonkeyPatch, calls: dict[Any, Any]
) -> None:
    monkeypatch.setattr(bound, "MOST", 8)
    x = md.asarray([0.25, 1.0])
    for number in range(1, 30):
        found = quant.quantize(x, QParams(number / 16))
        assert found.qparams == QParams(number / 16)
        assert len(calls) <= 8
    assert len(calls) == 8


def test_calls_on_grids_of_many_scales_are_not_remembered(
    calls: dict[Any, Any],
) -> None:
    for size, count in ((bound.MOST_SCALES + 1, 0), (bound.MOST_SCALES, 1)):
        x = md.asarray(np.ones((size, 1), np.float32))
        on = QParams(np.full(size, 0.5), axis=0)
        q = quant.QInt8Tensor(np.ones((size, 1), np.int8), on)
        calls.clear()
        assert quant.quantize(x, on).codes.tolist() == [[2]] * size
        assert quant.dequantize(q).tolist() == [[0.5]] * size
        assert len(calls) == 2 * count


def everything() -> Iterator[tuple[Any, tuple[Any, ...], dict[str, Any]]]:
    random = Random(3)
    for _ in range(150):
        yield drawn(random)


def test_no_bound_call_holds_a_tensor(calls: dict[Any, Any]) -> None:
    places = []
    for f, tensors, options in everything():
        for _ in range(2):
            called(partial(f, *tensors, **options))
        places += [weakref.ref(x.buffer) for x in tensors if x is not None]
        del tensors
    assert len(calls) > 60
    gc.collect()
    assert [place for place in places if place() is not None] == []


def test_numbers_that_are_equal_are_not_the_same_option() -> None:
    x = tensor(Random(5), (1, 4, 5, 5))
    for _ in range(2):
        assert md.max_pool2d(x, kernel_size=2, stride=1).shape == (1, 4, 4, 4)
    for odd in (True, 1.0, (1, True), (1.0, 1)):
        with pytest.raises(md.MdtensorError):
            md.max_pool2d(x, kernel_size=2, stride=odd)


def test_the_rule_and_the_isa_of_a_block_count() -> None:
    x = quant.QInt8Tensor([1], scale=0.5)
    for _ in range(2):
        assert quant.requantize(x, out=QParams(1.0)).codes.tolist() == [0]
        with quant.rounding("tflite_ref"):
            found = quant.requantize(x, out=QParams(1.0))
            assert (found.codes.tolist(), found.rounding) == ([1], "tflite_ref")
        with quant.runway("generic"), md.traced() as seen:
            quant.requantize(x, out=QParams(1.0))
        assert {kernel.isa for kernel in seen[0].kernels} == {"generic"}


def test_checked_blocks_see_bound_calls() -> None:
    x = md.asarray([100.0])
    for _ in range(2):
        quant.quantize(x, QParams(0.5))
        with md.checked() as log:
            quant.quantize(x, QParams(0.5))
        assert log.lost["saturated"] == 1


def test_accumulators_and_16_bits_are_bound_too(calls: dict[Any, Any]) -> None:
    x = quant.QInt16Tensor([1, 2], scale=0.5)
    total = quant.QInt32Tensor([4, 5], QParams(0.5, dtype=qint32))
    for _ in range(3):
        assert md.relu(x, out=QParams(0.5, dtype=qint16)).codes.tolist() == [1, 2]
        assert md.add(total, total).codes.tolist() == [8, 10]
        assert quant.requantize(total, out=QParams(1.0)).codes.tolist() == [2, 2]
    assert len(calls) == 3
