"""Traces and compiled functions: the calls of a function, run again without Python."""

import copy
import gc
import re
import weakref
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import mdtensor as md
from mdtensor import quant
from mdtensor.errors import MdtensorError, OptionError, TraceError
from mdtensor.graph import known

GRID = quant.QParams(0.25, 3)
X = md.asarray([1.0, -2.0, 3.0])


def names(trace: Any) -> list[str]:
    return [step.call.name for step in trace.steps]


def test_a_trace_holds_what_the_result_needs_once() -> None:
    def function(x: Any) -> Any:
        md.sin(x)  # unused
        return md.exp(x * x) + md.exp(x * x)

    found = md.trace(function, X)
    assert names(found) == ["mul", "exp", "add"]
    assert found(X).tolist() == function(X).tolist()


def test_constant_parts_run_while_the_function_is_traced() -> None:
    weights = md.asarray([1.0, 2.0, 3.0])
    found = md.trace(lambda x: x * md.exp(weights.to("lazy") + 1), X)
    assert names(found) == ["mul"]
    assert found(X).tolist() == (X * md.exp(weights + 1)).tolist()


def test_a_trace_takes_tensors_of_its_specs() -> None:
    found = md.trace(md.relu, X)
    with pytest.raises(OptionError, match=r"takes Float32Tensor\[3\], got .*\[2\]"):
        found(X[:2])
    with pytest.raises(OptionError, match="an argument of trace is 3"):
        md.trace(md.relu, 3)


def test_results_keep_their_nesting() -> None:
    found = md.trace(lambda x: {"a": (x, [md.neg(x)]), "b": 1}, X)(X)
    assert found["a"][0] is X
    assert found["a"][1][0].tolist() == [-1.0, 2.0, -3.0]
    assert found["b"] == 1
    pair = md.trace(lambda x: md.linalg.slogdet(x), md.eye(2))(md.eye(2))
    assert pair.logabsdet.tolist() == 0.0


def assigned(x: Any) -> Any:
    x = x + 1
    x[0] = 5.0
    return x


def added(x: Any) -> Any:
    x += 1
    return x


def into(x: Any) -> Any:
    return md.abs(x, out=x)


@pytest.mark.parametrize("function", [assigned, added, into])
@pytest.mark.parametrize("run", [md.compile, lambda f: lambda x: md.trace(f, x)])
def test_a_write_is_an_error_that_names_the_line(function: Any, run: Any) -> None:
    with pytest.raises(md.WriteError) as caught:
        run(function)(X)
    frame = next(f for f in caught.traceback if f.name == function.__name__)
    assert caught.value.problem == (
        f"{__file__}:{frame.lineno + 1} writes into a traced tensor, which is read-only"
    )
    way = (
        "Omit out= and use" if function is into else "where(mask, value, x), concat, or"
    )
    assert way in caught.value.fix
    assert caught.value.fix.endswith("Or write before or after the traced function")


def test_the_ways_to_write_in_a_compiled_function() -> None:
    @md.compile
    def function(x: Any) -> Any:
        x = md.where(x < 0, 5.0, x)
        return md.concat([x[:1], x[1:] + 1])

    x = md.asarray([1.0, -2.0, 3.0])
    assert function(x).tolist() == [1.0, 6.0, 4.0]
    x[0] = 2.0
    assert function(x).tolist() == [2.0, 6.0, 4.0]


def test_reading_a_value_is_an_error_that_names_the_line() -> None:
    @md.compile
    def choose(x: Any) -> Any:
        if md.sum(x) > 0:  # the line
            return x
        return -x

    line = choose.__wrapped__.__code__.co_firstlineno + 2
    wanted = rf"choose\(Float32Tensor\[3\]\): .* at .*test_trace.py:{line}, .*where\("
    with pytest.raises(TraceError, match=wanted):
        choose(X)


def test_a_guard_chooses_the_trace() -> None:
    runs = []

    @md.compile
    def scale(x: Any, by: float = 2.0, *, parts: Any = ()) -> Any:
        runs.append(x.shape)
        return x * by

    q = quant.quantize(X, GRID)
    for _ in range(2):
        assert scale(X).tolist() == [2.0, -4.0, 6.0]
        assert scale(X, 3.0).tolist() == [3.0, -6.0, 9.0]
        assert scale(X[:2]).shape == (2,)
        assert scale(md.astype(X, md.int8), 3).dtype is md.int8
        assert scale(q, 2).qparams == quant.QParams(0.5, 3)
        assert quant.dequantize(scale(q, 2)).tolist() == [2.0, -4.0, 6.0]
        assert np.signbit(scale(X, -0.0).tolist()[0]) != np.signbit(
            scale(X, 0.0).tolist()[0]
        )
        assert scale(np.asarray([1.0], np.float32)).tolist() == [2.0]
    assert len(runs) == len(scale.traces) == 8
    with pytest.raises(OptionError, match="cannot be hashed"):
        scale(X, parts={1, 2})


def test_the_settings_are_a_part_of_the_guard() -> None:
    half = md.compile(lambda x: x / 2)
    whole = md.asarray([3], dtype=md.int32)
    assert half(whole).dtype is md.float64
    with md.promotion_rules("torch"):
        assert half(whole).dtype is md.float32
    assert half(whole).dtype is md.float64
    assert len(half.traces) == 2


def test_a_write_into_a_captured_tensor_traces_again() -> None:
    weights = md.asarray([1.0, 2.0, 3.0])
    scale = md.compile(lambda x: x * weights)
    assert scale(X).tolist() == [1.0, -4.0, 9.0]
    weights[0] = 5.0
    assert scale(X).tolist() == [5.0, -4.0, 9.0]
    md.flat_out(weights)[1] = 0.0
    assert scale(X).tolist() == [5.0, 0.0, 9.0]


def test_a_traced_value_is_not_written_into_a_host_tensor() -> None:
    def by_value(x: Any) -> Any:
        y = md.zeros((3,))
        y[0] = x[1]
        return y

    def by_mask(x: Any) -> Any:
        y = md.zeros((3,))
        y[x > 1] = 0.0
        return y

    def by_index(x: Any) -> Any:
        y = md.zeros((3,))
        y[md.argmax(x)] = 1.0
        return y

    for function in (by_value, by_mask, by_index):
        for run in (md.compile(function), md.compile(function).freeze):
            with pytest.raises(md.WriteError) as caught:
                run(X)
            line = function.__code__.co_firstlineno + 2
            where = f"{__file__}:{line} writes into a host tensor"
            assert caught.value.problem.startswith(where)
            assert "where(mask, value, x)" in caught.value.fix

    def constant(x: Any) -> Any:
        y = md.zeros((3,))
        y[0] = 3.0
        return x + y

    assert md.compile(constant)(X).tolist() == (X + md.asarray([3.0, 0, 0])).tolist()


@pytest.mark.parametrize(
    "read",
    [copy.copy, copy.deepcopy, lambda x: md.asarray(x, copy=True)],
)
def test_a_copy_names_the_line_of_the_function(read: Any) -> None:
    def copied(x: Any) -> Any:
        return (
            x,
            read(x),
        )

    with pytest.raises(TraceError) as caught:
        md.compile(copied)(X)
    assert "copy.py" not in str(caught.value)
    assert f" at {__file__}:" in str(caught.value)


def test_methods_are_compiled_as_functions() -> None:
    class Layer:
        def __init__(self, weight: float) -> None:
            self.weight = weight

        @md.compile
        def __call__(self, x: Any) -> Any:
            return x * self.weight

    assert Layer(2.0)(X).tolist() == [2.0, -4.0, 6.0]
    assert Layer(3.0)(X).tolist() == [3.0, -6.0, 9.0]


def test_a_write_into_what_a_constant_was_computed_from_traces_again() -> None:
    weights, flag = md.asarray([1.0, 2.0, 3.0]), md.asarray([1.0])

    @md.compile
    def scale(x: Any) -> Any:
        return x * md.neg(weights) if md.sum(flag) > 0 else x * weights.to("lazy")

    outer = md.compile(lambda x: scale(x) + 0)
    for function in (scale, outer):
        assert function(X).tolist() == (X * -weights).tolist()
        weights[0] = weights[0] + 4
        assert function(X).tolist() == (X * -weights).tolist()
    flag[0] = -1.0
    assert scale(X).tolist() == outer(X).tolist() == (X * weights).tolist()


def test_a_changed_attribute_of_an_object_traces_again() -> None:
    class Layer:
        def __init__(self, weight: Any) -> None:
            self.weight, self.parts = weight, [1.0]
            self.own = self

        @md.compile
        def __call__(self, x: Any) -> Any:
            return x * self.weight * self.parts[0]

    layer = Layer(2.0)
    assert layer(X).tolist() == [2.0, -4.0, 6.0]
    layer.weight = md.asarray([1.0, 0.0, 0.0])
    assert layer(X).tolist() == [1.0, -0.0, 0.0]
    layer.weight[1] = 1.0
    layer.parts[0] = 3.0
    for _ in range(2):
        assert layer(X).tolist() == [3.0, -6.0, 0.0]
    gone = weakref.ref(layer)
    del layer
    gc.collect()
    assert gone() is None
    Layer(3.0)(X)
    assert len(Layer.__dict__["__call__"].traces) == 1


def test_a_dataclass_is_its_fields() -> None:
    @dataclass
    class Scale:
        by: Any

        @md.compile
        def __call__(self, x: Any) -> Any:
            return x * self.by

    scale = Scale(0.0)
    for by in (0.0, -0.0, 2.0, X):
        scale.by = by
        assert described(scale(X)) == described(Scale(by)(X)) == described(X * by)
    assert len(Scale.__dict__["__call__"].traces) == 4


def test_the_object_of_a_bound_method_is_looked_at() -> None:
    class Scale:
        by = 2.0

        def __call__(self, x: Any) -> Any:
            return x * self.by

    scale = Scale()
    functions = md.compile(scale), md.compile(scale.__call__)
    for by in (2.0, 3.0):
        scale.by = by
        for function in functions:
            assert function(X).tolist() == (X * by).tolist()


def test_numbers_of_one_value_and_another_sign_are_two() -> None:
    scale = md.compile(lambda x, by: x * by)
    for kind in (float, np.float32, np.float64, lambda zero: complex(1, zero)):
        for zero in (0.0, -0.0):
            eager, found = X * kind(zero), scale(X, kind(zero))
            assert described(found) == described(eager)
    scale(X, np.float32("nan"))
    count = len(scale.traces)
    scale(X, np.float32("nan"))
    assert len(scale.traces) == count


def test_lazy_inputs_are_recorded() -> None:
    function = md.compile(lambda x, by=2: md.exp(x) * by + X)
    wanted = function(X).tolist()
    found = function(X.to("lazy"))
    assert type(found).__name__ == "LazyFloat32Tensor"
    assert found.tolist() == wanted
    assert md.trace(lambda x: x * 2, X.to("lazy"))(X.to("lazy")).tolist() == [2, -4, 6]
    assert len(function.traces) == 1
    with md.lazy():
        found = function(X)
    assert type(found).__name__ == "LazyFloat32Tensor"
    assert found.tolist() == wanted


def test_compiled_functions_call_compiled_functions() -> None:
    @md.compile
    def power(x: Any, times: int) -> Any:
        return x if times == 0 else power(x, times - 1) * x

    cube = md.compile(lambda x: power(x, 2) + power(x, 2))
    for _ in range(2):
        assert cube(X).tolist() == (X * X * X * 2).tolist()
    assert names(cube.traces[0]) == ["mul", "mul", "add"]


def test_observers_see_the_calls_of_a_compiled_function() -> None:
    function = md.compile(lambda x: md.exp(x) * 2)
    function(X)
    with md.traced() as calls:
        function(X)
    assert [c.operation for c in calls if c.depth == 0] == ["exp", "mul"]


def test_a_traced_tensor_can_index_a_host_tensor() -> None:
    table, places = md.asarray([[1.0], [2.0], [3.0]]), md.asarray([2, 0])
    look_up = md.compile(lambda places: table[places])
    assert look_up(places).tolist() == look_up(places).tolist() == [[3.0], [1.0]]


def test_results_are_tensors_of_their_own() -> None:
    twice = md.compile(lambda x: (md.exp(x), md.exp(x), md.exp(X)))
    first, second, constant = twice(X)
    first[0] = constant[0] = 9.0
    assert second.tolist() == twice(X)[2].tolist() == md.exp(X).tolist()


def test_a_result_that_hides_tensors_is_an_error() -> None:
    def generate(x: Any) -> Any:
        yield x * 2

    class Pair:
        def __init__(self, x: Any) -> None:
            self.x = x

    facts = md.compile(lambda x: (x.dtype, x.shape, x.device.name, None, GRID))
    assert facts(X) == (md.float32, (3,), "lazy", None, GRID)
    for function in (generate, Pair, lambda x: OrderedDict(a=x)):
        with pytest.raises(OptionError, match="a traced function returns a"):
            md.compile(lambda x, function=function: function(x))(X)


def test_nested_arguments_are_plain_containers() -> None:
    class Pair(list[Any]):
        pass

    first = md.compile(lambda pair: pair[0] * 2)
    assert first((X, 1)).tolist() == first([X]).tolist() == [2.0, -4.0, 6.0]
    with pytest.raises(OptionError, match="cannot be hashed"):
        first(Pair([X]))


def test_a_new_method_is_the_one_that_runs() -> None:
    @md.generic(deduce=lambda x: x)
    def changed(x: Any, /) -> Any: ...

    @md.method(changed)
    def changed(x: md.NumericTensor, /) -> Any:
        return x * 2

    function = md.compile(lambda x: changed(x))
    assert function(X).tolist() == (X * 2).tolist()

    @md.method(changed)
    def changed(x: md.FloatingTensor, /) -> Any:
        return x * 3

    assert function(X).tolist() == (X * 3).tolist()


def test_a_trace_takes_arrays_and_known_sizes() -> None:
    assert md.trace(md.neg, X)(np.asarray([1, 2, 3], np.float32)).tolist() == [
        -1,
        -2,
        -3,
    ]
    with pytest.raises(OptionError, match="unknown size"):
        md.trace(md.neg, md.TensorSpec(md.Float32Tensor, (-1,)))


def test_only_functions_are_compiled() -> None:
    with pytest.raises(OptionError, match=r"linalg\.trace\(x\)"):
        md.trace(md.eye(2))
    with pytest.raises(OptionError, match="not a function"):
        md.compile(3)


def test_the_text_of_a_trace_names_calls_and_specs() -> None:
    weights = md.asarray([[1.0, 2.0, 3.0]])
    text = str(md.trace(lambda x: md.sum(md.linear(x, weights), axis=-1), X))
    assert re.sub(r"\s+", " ", text) == (
        "%0 = input Float32Tensor[3] "
        "%1 = linear(%0, Float32Tensor[1,3]) Float32Tensor[1] "
        "%2 = sum(%1, axis=-1) Float32Tensor[] return %2"
    )


UNARY: list[Any] = [md.exp, md.abs, md.neg, md.relu, md.tanh, md.sign, md.floor]
UNARY += [md.sigmoid, md.square, md.flip, lambda x: md.reshape(x, (-1,))]
UNARY += [lambda x: md.sum(x, axis=-1, keepdims=True), lambda x: md.softmax(x, axis=-1)]
UNARY += [lambda x: md.astype(x, md.int16, casting="saturate"), lambda x: x[..., :2]]
UNARY += [lambda x: md.max(x, axis=0), lambda x: md.quant.quantize(x, GRID)]
UNARY += [md.quant.dequantize, lambda x: x * 3, lambda x: 1 - x]
BINARY: list[Any] = [md.add, md.sub, md.mul, md.div, md.maximum, md.less, md.matmul]
BINARY += [lambda a, b: md.where(a > b, a, b), lambda a, b: md.concat([a, b], axis=-1)]
TYPES = [md.float32, md.float64, md.float16, md.bfloat16, md.int8, md.uint8, md.int32]


@st.composite
def programs(draw: Any) -> Any:
    """Operands, and calls of functions by the places of their arguments."""
    operands = []
    for _ in range(draw(st.integers(1, 3))):
        shape = draw(st.sampled_from([(3,), (2, 3), (1, 3), (3, 3), ()]))
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        reals = md.asarray(np.round(rng.normal(0, 3, shape), 2).astype(np.float32))
        dtype = draw(st.sampled_from(TYPES))
        is_quantized = draw(st.booleans())
        operands.append(
            quant.quantize(reals, GRID)
            if is_quantized
            else md.astype(reals, dtype, casting="saturate")
        )
    calls: list[tuple[Any, tuple[int, ...]]] = []
    for _ in range(draw(st.integers(1, 9))):
        count = len(operands) + len(calls)
        places = st.integers(0, count - 1)
        if draw(st.booleans()):
            calls.append((draw(st.sampled_from(UNARY)), (draw(places),)))
        else:
            pair = draw(places), draw(places)
            calls.append((draw(st.sampled_from(BINARY)), pair))
    return operands, calls


def run(operands: Any, calls: Any) -> list[Any]:
    """The values of a program; a call that the library refuses gives its operand."""
    values = list(operands)
    for function, places in calls:
        given = [values[place] for place in places]
        try:
            values.append(function(*given))
        except MdtensorError:
            values.append(given[0])
    return values


def described(x: Any) -> Any:
    x = md.realize(x)
    return type(x), x.shape, x.to_parts()[0][""].tobytes(), getattr(x, "qparams", None)


@pytest.mark.long
@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(program=programs())
def test_lazy_traced_compiled_and_eager_calls_give_equal_bytes(program: Any) -> None:
    operands, calls = program
    eager = run(operands, calls)
    wanted = [*map(described, eager)]
    try:
        # Call by call, and joined.
        for joining in (known.JOINING, 0.0):
            with mock.patch.multiple(known, JOINING=joining, LOADING=joining):
                lazy = run([x.to("lazy") for x in operands], calls)
                assert described(lazy[-1]) == wanted[-1]
                found = [*map(described, md.realize(*lazy, X)[:-1])]
            assert found == wanted
    except md.CastError:
        # A cast that overflows raises when it runs, so the rest of a lazy program
        # cannot take the operand in its place, as `run` does.
        return
    function = md.compile(lambda *given: run(given, calls))
    for _ in range(2):
        assert [*map(described, function(*operands))] == wanted
