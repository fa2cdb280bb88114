"""Calls of traces as functions of buffers: bytes of eager calls, and their errors."""

from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor.errors import BoundsError, MdtensorError
from mdtensor.graph.acts import act_of

CALLS: dict[str, Any] = {
    "matmul": lambda x, w: x @ w,
    "linear": lambda x, w: md.linear(x, w),
    "linear with bias": lambda x, w: md.linear(x, w, w[0]),
    "sum": lambda x, w: md.sum(x, axis=0),
    "mean": lambda x, w: md.mean(x, axis=(0, 1)),
    "prod": lambda x, w: md.prod(x, keepdims=True),
    "sort": lambda x, w: md.sort(x, descending=True),
    "argmax": lambda x, w: md.argmax(x, axis=1),
    "where": lambda x, w: md.where(x > w, x, w),
    "concat": lambda x, w: md.concat([x, w, x], axis=1),
    "stack": lambda x, w: md.stack([x, w]),
    "reshape": lambda x, w: md.reshape(x, (2, 8)),
    "transposed": lambda x, w: md.permute_dims(x, axes=(1, 0)),
    "astype": lambda x, w: md.astype(x, md.float64),
    "cumulative sum": lambda x, w: md.cumulative_sum(x, axis=1),
    "softmax": lambda x, w: md.softmax(x, axis=1),
    "layer norm": lambda x, w: md.layer_norm(x, w[0], w[1], normalized_shape=(4,)),
}
TYPES = (md.float32, md.float64, md.float16)


def normal(dtype: Any, seed: int = 0) -> Any:
    values = np.random.default_rng(seed).normal(size=(4, 4))
    return md.astype(md.asarray(values), dtype)


def raw(x: Any) -> Any:
    return type(x), x.shape, np.asarray(x).tobytes()


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_eager_compiled_and_frozen_calls_have_the_same_bytes(name, dtype) -> None:
    call, x, w = CALLS[name], normal(dtype), normal(dtype, 1)
    compiled = md.compile(call)
    frozen = compiled.freeze(x, w)
    for seed in range(5):
        x = normal(dtype, seed)
        wanted = raw(call(x, w))
        assert raw(compiled(x, w)) == wanted
        assert raw(frozen(x, w)) == wanted
        assert raw(frozen(md.permute_dims(x, axes=(1, 0)), w)) == raw(call(x.T, w))


def test_a_product_is_a_function_of_buffers() -> None:
    x, w = normal(md.float32), normal(md.float32, 1)
    (step,) = md.trace(lambda x: md.linear(x, w), x).steps
    act = act_of(step.call)
    assert act is not None
    assert act(x.buffer, w.buffer).tobytes() == raw(md.linear(x, w))[2]


def test_the_method_raises_its_own_error() -> None:
    def pick(x: Any, at: Any) -> Any:
        return md.take(x, at, axis=0)

    x, at = normal(md.float32), md.asarray([0, 3])
    wrong = md.asarray([0, 4])
    compiled = md.compile(pick)
    frozen = compiled.freeze(x, at)
    with pytest.raises(BoundsError) as eager:
        pick(x, wrong)
    for _ in range(4):
        compiled(x, at)
    for call in (compiled, frozen):
        with pytest.raises(BoundsError) as found:
            call(x, wrong)
        assert str(found.value) == str(eager.value)
        (line,) = found.value.__notes__
        assert line.startswith("recorded at ") and "test_acts.py" in line
        assert raw(call(x, at)) == raw(pick(x, at))


def test_a_dead_result_is_freed_after_its_last_reader() -> None:
    x, w = normal(md.float32), normal(md.float32, 1)

    def network(x: Any) -> Any:
        first = md.linear(x, w)
        second = md.sum(md.relu(first) + x, axis=1)
        return md.argmax(second, axis=0), second

    compiled = md.compile(network)
    for _ in range(4):
        found = compiled(x)
    assert [*map(raw, found)] == [*map(raw, network(x))]


def test_an_option_that_is_a_tensor_stays_a_call() -> None:
    x, out = normal(md.float32), normal(md.float32, 1)
    frozen = md.compile(lambda x: md.exp(x) * 2).freeze(x)
    assert raw(frozen(x)) == raw(md.exp(x) * 2)
    with pytest.raises(MdtensorError):
        md.compile(lambda x: md.add(x, x, out=out))(x)
