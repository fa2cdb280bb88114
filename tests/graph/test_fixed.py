"""Guards of compiled functions: any other call finds its own trace, or raises."""

from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor.errors import MdtensorError, TraceError


def normal(*shape: int, seed: int = 0) -> Any:
    values = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    return md.from_numpy(np.asarray(values))


def raw(x: Any) -> Any:
    return type(x), x.shape, np.asarray(x).tobytes()


def settled(function: Any, *given: Any) -> Any:
    """Return the compiled function, called until its guard runs first."""
    compiled = md.compile(function)
    for _ in range(4):
        compiled(*given)
    return compiled


def test_other_calls_behind_a_guard_find_their_own_traces() -> None:
    def scaled(x: Any, y: Any = None, scale: float = 2.0) -> Any:
        return md.tanh(x if y is None else x * y) * scale

    x = normal(3, 4)
    compiled = settled(scaled, x)
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((normal(3, 4, seed=1),), {}),
        ((normal(4, 3),), {}),
        ((md.astype(x, md.float64),), {}),
        ((x, None), {}),
        ((x, None, 2.0), {}),
        ((x, x), {}),
        ((x, x, 0.5), {}),
        ((), {"x": x}),
        ((x,), {"scale": -0.0}),
        ((x,), {"scale": 0.0}),
        ((x,), {"y": x, "scale": 1.5}),
        ((x.buffer,), {}),
    ]
    for _ in range(4):
        for given, named in calls:
            assert raw(compiled(*given, **named)) == raw(scaled(*given, **named))
            assert raw(compiled(x)) == raw(scaled(x))


def test_traces_alternate_behind_one_guard() -> None:
    compiled = settled(md.tanh, normal(3))
    for size in (3, 4, 4, 4, 3, 4, 5, 5, 5, 3):
        assert raw(compiled(normal(size))) == raw(md.tanh(normal(size)))
    assert len(compiled.traces) == 3


def test_wrong_arguments_raise_as_the_function_does() -> None:
    compiled = settled(lambda x: x * 2, normal(3))
    for given, named in (((), {}), ((normal(3),) * 2, {}), ((normal(3),), {"y": 1})):
        with pytest.raises(TypeError):
            compiled(*given, **named)


def test_a_guard_knows_settings_writes_and_methods() -> None:
    x, y = md.asarray([1, 2], dtype=md.int8), md.asarray([0.5, 1.5])
    w = md.asarray([1.0, 2.0])
    compiled = settled(lambda x, y: (x + y) * w, x, y)
    with md.promotion_rules("strict"), pytest.raises(md.PromotionError):
        compiled(x, y)
    assert compiled(x, y).tolist() == [1.5, 7.0]
    w[:] = 3.0
    assert compiled(x, y).tolist() == [4.5, 10.5]


def test_a_guard_knows_new_methods() -> None:
    @md.generic(deduce=lambda x: x)
    def scaled(x: Any, /) -> Any:
        """Return a multiple of x."""

    @md.method(scaled)
    def scaled(x: md.NumericTensor, /) -> Any:
        return x * 2

    x = normal(3)
    compiled = settled(lambda x: scaled(x), x)
    assert raw(compiled(x)) == raw(x * 2)

    @md.method(scaled, override=True)
    def scaled(x: md.NumericTensor, /) -> Any:
        return x * 3

    assert raw(compiled(x)) == raw(x * 3)


def test_lazy_tensors_and_blocks_record_behind_a_guard() -> None:
    x = normal(3, 4)
    compiled = settled(lambda x: md.tanh(x * 2), x)
    wanted = raw(compiled(x))
    lazy = compiled(x.to("lazy"))
    with md.lazy():
        recorded = compiled(x)
    for found in (lazy, recorded):
        assert type(found).__name__ == "LazyFloat32Tensor"
        assert raw(md.realize(found)) == wanted
    assert str(md.trace(compiled, x)).count("tanh") == 1
    with pytest.raises(TraceError):
        settled(lambda x: x if float(md.sum(x)) > 0 else -x, x)


def test_an_error_names_its_line_once() -> None:
    compiled = settled(lambda x, at: md.take(x, at) * 2, normal(3), md.asarray([0]))
    with pytest.raises(MdtensorError) as found:
        compiled(normal(3), md.asarray([3]))
    assert len(found.value.__notes__) == 1


def test_a_bound_method_has_no_guard() -> None:
    class Layer:
        def __init__(self) -> None:
            self.scale = 2.0

        def __call__(self, x: Any) -> Any:
            return x * self.scale

    layer, x = Layer(), normal(3)
    compiled = settled(layer.__call__, x)
    layer.scale = 3.0
    assert raw(compiled(x)) == raw(x * 3.0)
