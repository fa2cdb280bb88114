"""Calls of compiled functions that run as one compiled call, with equal bytes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

import mdtensor as md
from mdtensor import quant
from mdtensor.errors import CastError
from mdtensor.graph.join import Joined
from mdtensor.kernels.cpu.program.program import Executable

GRID = quant.QParams(0.05, 3, dtype=quant.quint8)
FINE = quant.QParams(0.02, -7, dtype=quant.qint8)
WEIGHTS = np.random.default_rng(1).normal(0, 1, (4, 3, 3, 3)).astype(np.float32)
KERNEL = quant.quantize(md.asarray(WEIGHTS), quant.QParams(0.02, dtype=quant.qint8))


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of steps of each compiled call, in order."""
    found: list[int] = []
    run = Executable.__call__

    def record(self: Any, *arrays: Any, threads: int = 1) -> Any:
        found.append(len({*self.done_by}))
        return run(self, *arrays, threads=threads)

    monkeypatch.setattr(Executable, "__call__", record)
    return found


def raw(x: Any) -> Any:
    if isinstance(x, (tuple, list)):
        return [*map(raw, x)]
    bits = x.to_parts()[0][""]
    # IEEE 754 leaves the bits of a NaN open; those of NumPy depend on its place.
    if bits.dtype.kind == "f":
        bits = np.where(np.isnan(bits), np.float32(np.nan), bits)
    return type(x), x.shape, bits.tobytes(), getattr(x, "qparams", None)


def repeat(function: Callable[..., Any], *given: Any) -> md.graph.Trace:
    """Call a compiled function three times; its bytes are those of eager calls."""
    compiled = md.compile(function)
    wanted = raw(function(*given))
    for _ in range(3):
        assert raw(compiled(*given)) == wanted
    (trace,) = compiled.traces
    return trace


def joined(trace: md.graph.Trace) -> list[list[str]]:
    items = [x for x in trace.items() if isinstance(x, Joined)]
    return [[call.name for call in item.calls] for item in items]


def test_quantized_calls_are_joined(runs: list[int]) -> None:
    def network(x: Any) -> Any:
        y = md.relu(md.conv2d(quant.quantize(x, GRID), KERNEL, out=FINE))
        return quant.dequantize(md.max_pool2d(y, 2))

    x = np.random.default_rng(2).normal(0, 2, (2, 3, 9, 9)).astype(np.float32)
    trace = repeat(network, md.asarray(x))
    assert joined(trace) == [["quantize", "conv2d", "relu", "max_pool2d", "dequantize"]]
    assert len(runs) == 2


def test_floats_between_codes_stay_calls(runs: list[int]) -> None:
    def network(x: Any) -> Any:
        y = quant.dequantize(md.relu(quant.quantize(x, GRID)))
        return md.relu(quant.quantize(md.exp(y) * 2 + 1, GRID))

    x = md.asarray(np.linspace(-4, 4, 12, dtype=np.float32).reshape(3, 4))
    trace = repeat(network, x)
    assert joined(trace) == [["quantize", "relu", "dequantize"], ["quantize", "relu"]]
    kinds = [line.split("  ")[0] for line in trace.explain().splitlines()]
    floats = ["exp, mul, add"]
    assert kinds == ["quantize, relu, dequantize", *floats, "quantize, relu"]


def test_a_view_that_leaves_shares_memory_as_in_an_eager_call() -> None:
    x = md.asarray(np.arange(6, dtype=np.float32))
    function = md.compile(lambda x: (md.reshape(x, (2, 3)), x * 2 + 1))
    for _ in range(3):
        view, _ = function(x)
        x[0] = float(x[0]) + 1
        assert view[0, 0] == x[0]


def test_other_rules_and_audits_run_the_calls(runs: list[int]) -> None:
    x = quant.quantize(md.asarray(np.linspace(-3, 3, 40, dtype=np.float32)), FINE)
    function = md.compile(lambda x: md.relu(md.add(x, x, out=FINE)))
    wanted = raw(function(x)), raw(function(x))
    assert wanted[0] == wanted[1] and len(runs) == 1
    with quant.rounding("tflite_ref"):
        eager = raw(md.relu(md.add(x, x, out=FINE)))
        assert [raw(function(x)) for _ in range(3)] == [eager] * 3
    with md.checked() as log:
        assert [raw(function(x)) for _ in range(3)] == [wanted[0]] * 3
    assert len(runs) == 1
    assert sum(entry.calls for entry in log) == 6


def test_a_write_into_a_constant_is_seen() -> None:
    y = quant.quantize(md.asarray(np.linspace(1, 2, 64, dtype=np.float32)), FINE)
    function = md.compile(lambda x: md.relu(md.add(x, y, out=FINE)))
    x = quant.quantize(md.asarray(np.linspace(-2, 2, 64, dtype=np.float32)), FINE)
    for _ in range(2):
        for _ in range(3):
            assert raw(function(x)) == raw(md.relu(md.add(x, y, out=FINE)))
        y[:] = 0.0


def test_nan_that_is_rounded_names_the_line() -> None:
    function = md.compile(lambda x: md.relu(quant.quantize(x, GRID)))
    for _ in range(2):
        function(md.asarray([1.0, 2.0]))
    with pytest.raises(CastError, match=r"NaN.*quantize at test_join.py:\d+"):
        function(md.asarray([1.0, float("nan")]))


UNARY: list[Callable[..., Any]] = [
    *(md.relu, md.relu6, md.abs, md.neg, lambda x: md.sigmoid(x, out=FINE)),
    *(lambda x: md.hardswish(x, out=FINE), lambda x: md.tanh(x, out=FINE)),
    lambda x: quant.requantize(x, out=FINE),
    lambda x: quant.quantize(quant.dequantize(x), FINE),
    lambda x: md.reshape(x, x.shape),
]
BINARY: list[Callable[..., Any]] = [
    *(lambda a, b: md.add(a, b, out=FINE), lambda a, b: md.mul(a, b, out=FINE)),
    *(lambda a, b: md.maximum(a, b, out=FINE), lambda a, b: md.sub(a, b, out=FINE)),
]


@settings(max_examples=150, deadline=None)
@given(
    x=hnp.arrays(
        np.float32,
        hnp.array_shapes(max_dims=4, max_side=4),
        elements=st.floats(-5, 5, width=32),
    ),
    steps=st.lists(
        st.tuples(st.sampled_from(UNARY), st.sampled_from(BINARY), st.integers(0, 9)),
        min_size=1,
        max_size=5,
    ),
)
def test_joined_calls_have_the_bytes_of_calls(x: Any, steps: Any) -> None:
    def program(x: Any) -> Any:
        values = [quant.quantize(x, FINE)]
        for unary, binary, place in steps:
            other = values[place % len(values)]
            values.append(binary(unary(values[-1]), other))
        return quant.dequantize(md.relu6(md.relu(values[-1])))

    trace = repeat(program, md.asarray(x))
    assert joined(trace)[-1][-3:] == ["relu", "relu6", "dequantize"]


def test_plans_of_compiled_functions_have_the_lines_of_explain() -> None:
    f = md.compile(lambda x, by: md.sum(md.relu(x * by)))
    spec = md.TensorSpec(md.Float32Tensor, (2000,))
    lines = f.plan(spec, by=2.0)
    assert not f.traces
    assert [line.calls for line in lines] == [("mul", "relu"), ("sum",)]
    assert [line.results[0].shape for line in lines] == [(2000,), ()]
    f(md.ones(2000), by=2.0)
    assert f.plan(md.ones(2000), by=2.0) == lines
    shown = f.explain(spec, by=2.0).splitlines()
    assert [" ".join(text.split()) for text in shown] == [
        " ".join(str(line).split()) for line in lines
    ]
    assert len(f.traces) == 1
    assert f.freeze(spec, by=2.0).plan() == lines
    with pytest.raises(md.TraceError):
        md.compile(lambda x: x + 1 if x[0] else x).explain(spec)


FILTERS = md.asarray(WEIGHTS[:, :, :1, :1])
TO_MORE_AXES: list[Callable[..., Any]] = [
    *(md.add, md.sub, md.maximum, md.less),
    lambda x, y: md.where(x < y, x, y),
    lambda x, y: md.where(y > 0, md.relu(x), y) * x,
]


@pytest.mark.parametrize("operation", TO_MORE_AXES)
@pytest.mark.parametrize("shape", [(2, 1, 4, 3, 3), (3, 2, 4, 3, 3), (2, 1, 1, 1, 1)])
def test_an_image_is_broadcast_to_more_axes(
    operation: Callable[..., Any], shape: tuple[int, ...]
) -> None:
    """Convolutions write channels last, and values of five axes are in rows."""
    rng = np.random.default_rng(3)
    image, other = (
        md.asarray(rng.standard_normal(sizes).astype(np.float32))
        for sizes in ((2, 3, 3, 3), shape)
    )

    def program(x: Any, y: Any) -> Any:
        found = md.relu(md.conv2d(x, FILTERS))
        return operation(found, y), operation(y, found)

    repeat(program, image, other)
    repeat(lambda x: program(x, other), image)
