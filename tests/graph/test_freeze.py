"""Frozen functions: equal bytes, fixed types and shapes, our errors for all others."""

from threading import Thread
from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor import quant
from mdtensor.errors import OptionError, TraceError
from mdtensor.graph.freeze import Frozen

SPEC = md.TensorSpec(md.Float32Tensor, (3, 4))


def normal(*shape: int, seed: int = 0) -> Any:
    values = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    return md.from_numpy(np.asarray(values))


def raw(x: Any) -> Any:
    parts = x if isinstance(x, tuple) else (x,)
    return [(type(part), part.shape, np.asarray(part).tobytes()) for part in parts]


@md.compile
def scores(x: Any, w: Any, factor: float = 0.5) -> Any:
    y = md.exp(x * w * factor)
    return y / md.sum(y, axis=-1, keepdims=True), md.sin(y)


def test_specs_and_examples_freeze_one_function() -> None:
    x, w = normal(3, 4), normal(4, seed=1)
    wanted = raw(scores(x, w))
    for given in ((SPEC, md.TensorSpec(md.Float32Tensor, (4,))), (x, w), (x.buffer, w)):
        frozen = scores.freeze(*given)
        assert raw(frozen(x, w)) == wanted
        assert raw(frozen(x.buffer, w)) == wanted
    assert frozen.inputs == (SPEC, md.TensorSpec(md.Float32Tensor, (4,)))
    assert frozen.explain().startswith("mul, mul, exp")
    assert repr(frozen) == "<frozen scores(Float32Tensor[3,4], Float32Tensor[4])>"


def test_other_arguments_keep_their_values() -> None:
    x, w = normal(3, 4), normal(4, seed=1)
    assert raw(scores.freeze(x, w, factor=2.0)(x, w)) == raw(scores(x, w, 2.0))
    nested = md.compile(lambda pair, scale: pair["a"] * scale + pair["b"])
    frozen = nested.freeze({"a": x, "b": w}, 3)
    assert raw(frozen(x, w)) == raw(x * 3 + w)


def test_wrong_tensors_raise() -> None:
    x, w = normal(3, 4), normal(4)
    frozen = scores.freeze(x, w)
    pattern = r"the frozen scores takes Float32Tensor\[3,4\], Float32Tensor\[4\], got "
    for given, got in [
        ((), "nothing"),
        ((x,), r"Float32Tensor\[3,4\]\. Freeze it"),
        ((w, x), r"Float32Tensor\[4\], Float32Tensor\[3,4\]"),
        ((x, w, w), r"Float32Tensor\[3,4\], Float32Tensor\[4\], Float32Tensor\[4\]"),
        ((x, md.astype(w, md.float64)), r"Float32Tensor\[3,4\], Float64Tensor\[4\]"),
        ((x, None), r"Float32Tensor\[3,4\]"),
        ((x, "w"), "Float32Tensor"),
        ((x, 2.0), "2.0"),
    ]:
        with pytest.raises(OptionError, match=pattern + f".*{got}"):
            frozen(*given)
    with pytest.raises(OptionError, match="unknown size"):
        scores.freeze(md.TensorSpec(md.Float32Tensor, (-1, 4)), w)
    with pytest.raises(TraceError):
        md.compile(lambda x: x if float(md.sum(x)) > 0 else -x).freeze(x)


def test_layouts_are_no_part_of_the_guard() -> None:
    wide = np.random.default_rng(5).normal(size=(4, 6)).astype(np.float32)
    fixed = wide.T[::2].copy()
    fixed.flags.writeable = False
    w = normal(4)
    frozen = scores.freeze(SPEC, w)
    for array in (wide.T[::2], fixed, wide[:, :3].T):
        x = md.from_numpy(array)
        assert raw(frozen(x, w)) == raw(scores(x, w))


def test_quantized_tensors_have_their_grid_in_the_guard() -> None:
    grid = quant.QParams(0.05, dtype=quant.qint8)
    x = quant.quantize(normal(3, 4), grid)
    frozen = md.compile(lambda x: md.relu(x)).freeze(x)
    assert frozen(x).codes.tolist() == md.relu(x).codes.tolist()
    other = quant.quantize(normal(3, 4), quant.QParams(0.1, dtype=quant.qint8))
    with pytest.raises(OptionError, match="scale"):
        frozen(other)


def test_a_write_into_a_constant_is_seen() -> None:
    x, w = normal(5), normal(5, seed=1)
    frozen = md.compile(lambda x: md.relu(x * w + w)).freeze(x)
    assert raw(frozen(x)) == raw(md.relu(x * w + w))
    w[:] = 0.5
    assert raw(frozen(x)) == raw(md.relu(x * w + w))
    assert frozen.trace.is_current


def test_calls_keep_the_settings_of_freeze() -> None:
    x = md.asarray([1, 2], dtype=md.int8)
    y = md.asarray([0.5, 1.5])
    add = md.compile(lambda x, y: x + y)
    frozen = add.freeze(x, y)
    with md.promotion_rules("strict"):
        assert frozen(x, y).tolist() == [1.5, 3.5]
    with md.promotion_rules("strict"), pytest.raises(md.PromotionError):
        add.freeze(x, y)


def test_lazy_tensors_and_observers_see_the_calls() -> None:
    x, w = normal(3, 4), normal(4)
    frozen = scores.freeze(x, w)
    wanted = raw(frozen(x, w))
    lazy = frozen(x.to("lazy"), w)
    assert type(lazy[0]).__name__ == "LazyFloat32Tensor"
    assert raw(md.realize(*lazy)) == wanted
    with md.traced() as calls:
        assert raw(frozen(x, w)) == wanted
    assert len(calls) == 6


def test_errors_of_calls_name_their_line() -> None:
    grid = quant.QParams(0.05, dtype=quant.qint8)
    frozen = md.compile(
        lambda x: md.sin(quant.dequantize(quant.quantize(x, grid)))
    ).freeze(md.TensorSpec(md.Float32Tensor, (2,)))
    assert frozen(md.asarray([0.0, 1.0])).shape == (2,)
    with pytest.raises(md.CastError, match="NaN"):
        frozen(md.asarray([0.0, float("nan")]))


def test_threads_share_a_frozen_function() -> None:
    frozen: Frozen = scores.freeze(SPEC, normal(4))
    found: dict[int, bool] = {}

    def work(seed: int) -> None:
        x, w = normal(3, 4, seed=seed), normal(4, seed=seed + 9)
        wanted = raw(scores(x, w))
        found[seed] = all(raw(frozen(x, w)) == wanted for _ in range(50))

    threads = [Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(found.values()) == [True] * 4


def test_a_frozen_function_keeps_its_settings_when_it_is_traced_again() -> None:
    x, y = md.asarray([1, 2], dtype=md.int8), md.asarray([0.5, 1.5])
    w = md.asarray([1.0, 1.0])
    frozen = md.compile(lambda x, y: (x + y) * w).freeze(x, y)
    w[:] = 2.0
    with md.promotion_rules("strict"):
        for _ in range(3):
            assert frozen(x, y).tolist() == [3.0, 7.0]
    assert frozen(x, y).tolist() == [3.0, 7.0]
