"""Lazy tensors: the results of eager calls, computed when they are read."""

import copy
import gc
import pickle
import threading
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from support.draws import DRAWS
from support.samples import call, sample

import mdtensor as md
from mdtensor import errors, quant
from mdtensor.errors import DeviceError, MdtensorError, ShapeError, WriteError
from mdtensor.graph.calls import pending
from mdtensor.graph.lazy import LazyTensor
from mdtensor.graph.writes import _READERS

WRITERS = {"setitem", "to", "empty_like"}
OPERATIONS = [op for op in md.operations().values() if op.__name__ not in WRITERS]


def made_lazy(value: Any) -> Any:
    """The same arguments with lazy tensors."""
    if isinstance(value, md.Tensor):
        return value.to("lazy")
    if type(value) in (tuple, list):
        return type(value)(map(made_lazy, value))
    if isinstance(value, dict):
        return {name: made_lazy(part) for name, part in value.items()}
    return value


def outcome(run: Any) -> Any:
    """Types, shapes, bytes and grids of the result; the class of an error."""
    try:
        found = run()
        parts = found if isinstance(found, (tuple, list)) else (found,)
        return type(found), [described(md.realize(part)) for part in parts]
    except MdtensorError as error:
        return type(error)


def described(x: Any) -> Any:
    if not isinstance(x, md.Tensor):
        return x
    return type(x), x.shape, x.to_parts()[0][""].tobytes(), getattr(x, "qparams", None)


def bare(found: Any) -> Any:
    """An outcome without the class of the result: lazy types are others."""
    if isinstance(found, tuple) and issubclass(found[0], md.Tensor):
        return md.Tensor, found[1]
    return found


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda op: op.__name__)
def test_a_valid_call_gives_the_bytes_of_the_eager_call(operation: Any) -> None:
    arguments, options = sample(operation)
    eager = outcome(lambda: call(operation, arguments, options))
    lazy = outcome(lambda: call(operation, *made_lazy((arguments, options))))
    assert bare(lazy) == bare(eager)


@pytest.mark.parametrize("operation", DRAWS, ids=lambda op: op.__name__)
@settings(max_examples=7, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_call_ends_as_the_eager_one(operation: Any, data: Any) -> None:
    ends_as_the_eager_one(operation, data)


@pytest.mark.slow
@pytest.mark.parametrize("operation", DRAWS, ids=lambda op: op.__name__)
@settings(max_examples=100, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_of_100_calls_ends_as_the_eager_one(operation: Any, data: Any) -> None:
    ends_as_the_eager_one(operation, data)


def ends_as_the_eager_one(operation: Any, data: Any) -> None:
    if operation.__name__ in WRITERS:
        return
    arguments, options = DRAWS[operation](data.draw)
    eager = outcome(lambda: call(operation, arguments, options))
    lazy = outcome(lambda: call(operation, *made_lazy((arguments, options))))
    assert bare(lazy) == bare(eager)


GRID = quant.QParams(0.25, 3)
X = md.asarray([[1.0, -2.0, 3.0]])
Q = quant.quantize(X, GRID)


def kernels_run(make: Any) -> int:
    with md.traced() as calls:
        make()
    return len(calls)


def test_nothing_runs_or_is_allocated_before_a_read() -> None:
    x = md.zeros((1000, 1000)).to("lazy")
    md.exp(x)
    found = []
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    count = kernels_run(lambda: found.append(md.sum(md.exp(x) * 2 + 1)))
    tracemalloc.stop()
    assert count == 0
    assert tracemalloc.get_traced_memory()[0] - before < 100_000
    assert float(found[0]) == 3e6


def test_only_what_is_read_runs_and_once() -> None:
    x = X.to("lazy")
    shared = md.exp(x)
    y, unused = shared + shared, md.sin(shared)
    with md.traced() as calls:
        y.tolist()
        y.tolist()
    assert [c.operation for c in calls if c.depth == 0] == ["exp", "add"]
    with md.traced() as calls:
        unused.tolist()
    assert [c.operation for c in calls if c.depth == 0] == ["sin"]


def test_equal_calls_are_one_until_they_run() -> None:
    x = X.to("lazy")
    y = md.exp(x * x) + md.exp(x * x)
    assert [c.name for c in pending([y.buffer])] == ["mul", "exp", "add"]
    with_zeros = [x * 0.0, x * -0.0]
    assert (
        np.signbit(with_zeros[0].tolist()).tolist()
        != np.signbit(with_zeros[1].tolist()).tolist()
    )


def test_several_outputs_run_together() -> None:
    x = X.to("lazy")
    shared = md.exp(x)
    with md.traced() as calls:
        md.realize(shared + 1, shared + 2)
    assert [c.operation for c in calls if c.depth == 0] == ["exp", "add", "add"]


def test_dropped_tensors_free_their_calls_and_results() -> None:
    x = md.zeros((1000, 1000)).to("lazy")
    y = md.exp(md.exp(md.exp(x)))
    tracemalloc.start()
    md.realize(y)
    gc.collect()
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 4.5e6, "the result alone"
    assert peak < 13e6, "an intermediate is freed once it is read"


def test_the_types_and_grids_are_known_at_once() -> None:
    q = Q.to("lazy")
    assert type(q).__name__ == "LazyQInt8Tensor"
    assert isinstance(q, quant.QuantizedTensor)
    assert q.qparams == GRID
    y = md.add(q, q, out=GRID)
    assert (type(y).__name__, y.shape, y.qparams) == ("LazyQInt8Tensor", (1, 3), GRID)
    assert y.dtype is quant.qint8
    assert repr(y) == f"Lazy{md.add(Q, Q, out=GRID)!r}"
    assert type(y.to("cpu")) is quant.QInt8Tensor


def test_errors_of_shapes_and_types_come_at_the_call() -> None:
    x = X.to("lazy")
    with pytest.raises(ShapeError, match=r"matmul\(LazyFloat32Tensor\[1,3\]"):
        md.matmul(x, x)
    with pytest.raises(md.NoMethodError):
        md.bitwise_and(x, x)


def test_an_error_at_the_read_names_the_line_of_the_call() -> None:
    y = md.astype(X.to("lazy") * 1e9, md.int8)
    with pytest.raises(md.CastError) as caught:
        y.tolist()
    assert any("test_lazy.py:" in note for note in caught.value.__notes__)


def test_a_call_runs_under_the_settings_of_its_moment() -> None:
    x = md.asarray([1], dtype=md.int32).to("lazy")
    with md.promotion_rules("torch"):
        y = x / 2
    assert md.realize(y).dtype is md.float32
    assert md.realize(x / 2).dtype is md.float64
    third = quant.QParams(1 / 3)
    with quant.rounding("onnx"):
        ruled = md.mul(Q.to("lazy"), Q.to("lazy"), out=third)
    assert md.realize(ruled).rounding == "onnx"


def test_a_write_does_not_change_what_was_recorded() -> None:
    host = md.asarray([1.0, 2.0])
    y = md.asarray([0.0, 0.0]).to("lazy") + host
    host[0] = 9.0
    again = md.asarray([0.0, 0.0]).to("lazy") + host
    assert (y.tolist(), again.tolist()) == ([1.0, 2.0], [9.0, 2.0])
    z = md.asarray([0.0, 0.0]).to("lazy") + host[:1]
    md.flat_out(host)[0] = 5.0
    assert z.tolist() == [9.0, 9.0]


def test_a_lazy_tensor_cannot_be_written() -> None:
    x = X.to("lazy")
    with pytest.raises(WriteError) as caught:
        x[0] = 1.0
    line = caught.traceback[0].lineno + 1
    assert caught.value.problem == (
        f"{__file__}:{line} writes into a lazy tensor, which is read-only"
    )
    assert caught.value.fix == (
        "Make a new tensor: where(mask, value, x), concat, or x = x + y for x += y. "
        "Or write into a host tensor: x = realize(x)"
    )
    with pytest.raises(WriteError):
        x += 1
    with pytest.raises(md.PromotionError, match="in place"):
        md.add(X, X, out=x)


def test_codes_of_a_lazy_tensor_need_its_result() -> None:
    with pytest.raises(DeviceError, match=r"realize\(x\)"):
        Q.to("lazy").codes  # noqa: B018


def test_a_block_records_the_calls_of_host_tensors() -> None:
    with md.lazy():
        y = md.sum(X * X)
        assert isinstance(y, LazyTensor)
        assert kernels_run(lambda: y + 1) == 0
    assert float(y) == 14.0
    assert isinstance(X * X, md.Float32Tensor)


def test_copies_and_pickles_are_of_the_result() -> None:
    y = md.exp(X.to("lazy"))
    assert isinstance(pickle.loads(pickle.dumps(y)), md.Float32Tensor)
    assert copy.deepcopy(y).tolist() == y.tolist() == np.asarray(y).tolist()


def test_results_that_depend_on_values_are_computed_at_once() -> None:
    x = md.asarray([0.0, 1.0, 2.0]).to("lazy")
    (places,) = md.nonzero(x)
    assert places.shape == (2,)
    assert x[x > 0].tolist() == [1.0, 2.0]


def test_a_long_chain_runs_without_recursion() -> None:
    x = md.asarray([0.0]).to("lazy")
    for _ in range(5000):
        x = x + 1
    assert x.tolist() == [5000.0]
    y = md.asarray([0.0]).to("lazy")
    for _ in range(5000):
        y = y + 1
    del y


def test_devices_lists_only_places_that_compute() -> None:
    assert all(device.name != "lazy" for device in md.devices())
    assert md.device("lazy").name == "lazy"


def test_a_lazy_tensor_keeps_its_value_when_host_memory_is_written() -> None:
    host = md.asarray([1.0, 2.0])
    x = host.to("lazy")
    y = x + 1
    host[0] = 9.0
    assert (x.tolist(), y.tolist()) == ([1.0, 2.0], [2.0, 3.0])
    z = y * 2
    result = md.realize(y)
    result[0] = 9.0
    assert (y.tolist(), z.tolist()) == ([2.0, 3.0], [4.0, 6.0])


def test_a_block_reads_writes_and_chooses_by_values() -> None:
    host = md.asarray([0.0, 1.0, 2.0])
    with md.lazy():
        y = host * 2
        assert y.tolist() == [0.0, 2.0, 4.0]
        assert bool(md.sum(y) > 0)
        assert md.nonzero(y)[0].tolist() == [1, 2]
        host[host < 1] = md.sum(y)
        host += 1
    assert y.tolist() == [0.0, 2.0, 4.0]
    assert (type(host), host.tolist()) == (md.Float32Tensor, [7.0, 2.0, 3.0])


def test_a_result_goes_into_a_host_tensor_at_once() -> None:
    host = md.asarray([1.0, 2.0])
    with md.lazy():
        for _ in range(2):
            assert md.add(host, 1, out=host) is host
    assert host.tolist() == [3.0, 4.0]
    x = host.to("lazy")
    assert md.add(x, x, out=host) is host
    host += x
    assert (x.tolist(), host.tolist()) == ([3.0, 4.0], [9.0, 12.0])
    with pytest.raises(WriteError, match=r"add\(LazyFloat32Tensor") as caught:
        md.add(x, x, out=md.exp(x))
    assert "Omit out= and use the result: x = add(...)." in str(caught.value)
    x = md.realize(x)
    x[0] = 0.0  # as the error says
    assert x.tolist() == [0.0, 4.0]


def test_two_operations_of_one_name_are_two() -> None:
    def times(factor: float) -> Any:
        @md.generic(deduce=lambda x: x)
        def scaled(x: Any, /) -> Any: ...

        @md.method(scaled)
        def scaled(x: md.NumericTensor, /) -> Any:
            return x * factor

        return scaled

    x = X.to("lazy")
    with md.registry.restored():
        double, triple = times(2)(x), times(3)(x)
    assert (double.tolist(), triple.tolist()) == ((X * 2).tolist(), (X * 3).tolist())


def test_an_iterator_is_read_once() -> None:
    shape = [3, 1]
    assert md.reshape(X.to("lazy"), iter(shape)).shape == (3, 1)
    assert md.realize(md.reshape(X.to("lazy"), iter(shape))).shape == (3, 1)


def test_threads_that_read_one_result_get_it() -> None:
    found: list[Any] = []
    for _ in range(20):
        x = md.asarray(np.arange(500.0)).to("lazy")
        y = x
        for _ in range(30):
            y = md.exp(y * 0.001) + x
        start = threading.Barrier(4)

        def read(y: Any = y, start: Any = start) -> None:
            start.wait()
            found.append(y.tolist())

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(found) == 80


def test_readers_are_dropped_with_their_memory() -> None:
    gc.collect()
    before = len(_READERS)
    for i in range(50):
        md.realize(md.exp(md.asarray([float(i)]).to("lazy")))
    gc.collect()
    assert len(_READERS) <= before


def test_the_rule_of_a_lazy_tensor_is_that_of_its_result() -> None:
    q = quant.quantize(X, GRID.rounded("onnx"))
    for make in (lambda q: q, lambda q: q[0], md.neg):
        assert make(q.to("lazy")).rounding == make(q).rounding


def test_which_answers_for_the_types_of_the_results() -> None:
    found = md.which(md.add, X.to("lazy"), X)
    assert not found.is_refusal
    assert found.method is md.which(md.add, X, X).method


PAIRS: list[Any] = [md.add, md.mul, md.maximum, lambda a, b: a[::-1], lambda a, b: -b]
PAIRS += [lambda a, b: a[:], lambda a, b: md.concat([a, b])[:3]]
STEPS = st.tuples(st.integers(-2, len(PAIRS) - 1), st.integers(0, 9), st.integers(0, 9))


def with_writes(steps: Any, keep: Any) -> list[Any]:
    """The values of calls of host tensors that are written between them."""
    hosts = [md.asarray([1.0, -2.0, 0.0]), md.asarray([4.0, 5.0, -6.0])]
    values: list[Any] = []
    for number, first, second in steps:
        known = hosts + values
        if number == -2:
            hosts[first % 2][second % 3] = float(first)
        elif number == -1:
            md.realize(known[first % len(known)])
        else:
            pair = known[first % len(known)], known[second % len(known)]
            values.append(keep(PAIRS[number](*pair)))
    return [described(md.realize(x)) for x in hosts + values]


@settings(max_examples=80)
@given(steps=st.lists(STEPS, max_size=12))
def test_calls_between_writes_give_the_bytes_of_copies(steps: Any) -> None:
    wanted = with_writes(steps, copy.deepcopy)
    with md.lazy():
        assert with_writes(steps, lambda x: x) == wanted


def test_an_operation_without_a_shape_rule_runs_at_once(
    registered_as_before: Any,
) -> None:
    @md.generic
    def hypotenuse(x1: Any, x2: Any, /) -> Any:
        """Return the root of the sum of squares."""

    @md.method(hypotenuse)
    def hypotenuse(x1: md.FloatingTensor, x2: md.FloatingTensor, /) -> Any:
        return md.sqrt(x1 * x1 + x2 * x2)

    found = hypotenuse(X.to("lazy"), X)
    assert type(found).__name__ == "LazyFloat32Tensor"
    assert found.tolist() == hypotenuse(X, X).tolist()
    with md.lazy():
        assert hypotenuse(X, X).tolist() == found.tolist()
    with pytest.raises(errors.TraceError):
        md.trace(lambda x: hypotenuse(x, x), X)
