"""A bound call of a model gives the results and errors of a call that binds anew."""

import copy
import gc
import os
import pickle
import sys
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor import quant
from mdtensor.graph import Graph, Node
from mdtensor.kernels import observe
from mdtensor.kernels.cpu import isa
from mdtensor.kernels.cpu.program.program import Executable
from mdtensor.kernels.numpy import threads
from mdtensor.quant import QParams, qint8, quint8, rules
from mdtensor.quant.model import model as models, shaped
from mdtensor.quant.model.model import Model

GRID = QParams(0.25, 3, dtype=quint8)
#: Odd codes of the first lie between two codes of the second: rules differ there.
FINE, COARSE = QParams(0.5, dtype=qint8), QParams(1.0, dtype=qint8)
#: At most so many files and file switches in a steady call (decision 0048).
FILES, SWITCHES = 12, 14


def weights() -> Any:
    numbers = np.random.default_rng(1).normal(size=(5, 6)).astype(np.float32)
    return md.asarray(numbers)


def pixels(rows: int = 2) -> Any:
    numbers = np.random.default_rng(rows).normal(size=(rows, 6))
    return numbers.astype(np.float32)


@pytest.fixture
def network() -> Model:
    """Return a float model, of any number of rows."""
    nodes = (
        Node("layer", md.linear, ("x", "w", None), "a"),
        Node("gate", md.hardswish, ("a",), "b"),
        Node("shares", md.softmax, ("b",), "y", {"axis": 1}),
    )
    spec = md.TensorSpec(md.Float32Tensor, (-1, 6))
    return Model(Graph({"x": spec}, nodes, {"w": weights()}, ("y",)))


@pytest.fixture
def small(network: Model) -> Model:
    """Return it quantized, but for the softmax behind."""
    seen = network.calibrate([pixels(9)])
    return network.quantize(seen, keep_float=["shares"])


def moving() -> Model:
    """Return a model of codes with a node that no compiled step computes."""
    nodes = (
        Node("q", quant.quantize, ("x",), "a", {"qparams": FINE}),
        Node("r", md.roll, ("a",), "b", {"shift": 1}),
        Node("n", quant.requantize, ("b",), "y", {"out": COARSE}),
    )
    spec = md.TensorSpec(md.Float32Tensor, (-1, 6))
    return Model(Graph({"x": spec}, nodes, {}, ("y",)))


def shown(x: Any) -> Any:
    codes = x.codes if isinstance(x, quant.QuantizedTensor) else x
    rest = getattr(x, "qparams", None), getattr(x, "rounding", None)
    return type(x), x.shape, codes.buffer.dtype, codes.buffer.tobytes(), *rest


def called(model: Model, *inputs: Any, **named: Any) -> Any:
    """Return all that can be seen of a call: its result or its error."""
    try:
        return shown(model(*inputs, **named))
    except md.MdtensorError as error:
        return type(error), str(error)


def anew(model: Model, *inputs: Any, **named: Any) -> Any:
    """Return what a model gives that remembers no call."""
    return called(Model(model.graph), *inputs, **named)


def steady(model: Model, *inputs: Any) -> None:
    """Call a model until the next such call is bound."""
    for _ in range(2):
        model(*inputs)


FORMS: dict[str, Callable[[Any], tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "array": lambda x: ((x,), {}),
    "tensor": lambda x: ((md.asarray(x),), {}),
    "keyword": lambda x: ((), {"x": x}),
    "dict": lambda x: (({"x": md.asarray(x)},), {}),
    "list": lambda x: ((memoryview(x),), {}),
    "transposed": lambda x: ((np.asfortranarray(x),), {}),
    "other byte order": lambda x: ((x.astype(">f4"),), {}),
    "subclass": lambda x: ((x.view(np.recarray),), {}),
    "float64": lambda x: ((x.astype(np.float64),), {}),
    "one column less": lambda x: ((x[:, :5],), {}),
    "flat": lambda x: ((x[0],), {}),
    "codes": lambda x: ((quant.quantize(md.asarray(x), GRID),), {}),
    "text": lambda x: (("x",), {}),
    "twice": lambda x: ((x, x), {}),
    "twice by name": lambda x: ((x,), {"x": x}),
    "none": lambda x: ((), {}),
    "another name": lambda x: ((), {"z": x}),
    "NaN": lambda x: ((x * np.float32(np.nan),), {}),
}


def test_all_inputs_in_turn_give_what_a_first_call_gives(small: Model) -> None:
    forms = list(FORMS.values())
    wanted = {}
    for _ in range(3):
        for rows in (2, 1, 3):
            for number, form in enumerate(forms):
                inputs, named = form(pixels(rows))
                key = rows, number
                if key not in wanted:
                    wanted[key] = anew(small, *inputs, **named)
                assert called(small, *inputs, **named) == wanted[key], key


def test_an_array_is_read_at_each_call(small: Model) -> None:
    for kind in ("<f4", ">f4"):
        x = pixels().astype(kind)
        steady(small, x)
        x *= 2
        assert called(small, x) == anew(small, x) != anew(small, pixels())


def test_a_hit_checks_and_plans_nothing(
    small: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted, at = shown(small(pixels())), pixels(3)
    steady(small, md.asarray(pixels()))

    def fail(*_: Any, **__: Any) -> None:
        raise AssertionError("checked again")

    monkeypatch.setattr(models, "checked_feeds", fail)
    assert shown(small(pixels())) == wanted == shown(small(md.asarray(pixels())))
    with pytest.raises(AssertionError, match="checked again"):
        small(at)


def test_a_checked_block_counts_the_losses_of_each_node(small: Model) -> None:
    x = pixels() * 100
    wanted = shown(small(x))
    for _ in range(2):
        steady(small, x)
        with md.checked() as log:
            found = small(x)
        # Node by node, the softmax behind the codes runs on NumPy (decision 0053).
        np.testing.assert_allclose(np.asarray(found), np.asarray(small(x)), rtol=1e-6)
        assert log.lost["saturated"]
        with pytest.raises(md.LossError), md.checked(raises=True):
            small(x)
    assert shown(small(x)) == wanted


def test_a_trace_lists_what_it_lists_of_a_first_call(small: Model) -> None:
    for model in (small, moving()):
        steady(model, pixels())
        lists = []
        for each in (Model(model.graph), model):
            each.plan((2, 6))
            with md.traced() as calls:
                each(pixels())
            lists.append([(c.operation, c.types, c.kernels) for c in calls])
        assert lists[0] == lists[1]


def test_the_rule_of_the_context_does_not_count_and_stays(small: Model) -> None:
    for model in (small, moving()):
        wanted = anew(model, pixels())
        for rule in ("tflite_ref", "onnx"):
            with quant.rounding(rule):
                for _ in range(3):
                    assert called(model, pixels()) == wanted
                assert rules.CURRENT.get() == rule
    assert rules.CURRENT.get() == "exact"


def test_the_rule_of_the_context_stays_after_an_error() -> None:
    def fail(*_: Any, **__: Any) -> None:
        assert rules.CURRENT.get() == "exact"
        raise md.CastError("no result")

    model = moving()
    steady(model, pixels())
    part = next(p for p in model.plan((2, 6)).bound.parts if hasattr(p, "selection"))
    vars(part.selection)["function"] = fail
    try:
        with quant.rounding("onnx"):
            with pytest.raises(md.CastError, match="no result"):
                model(pixels())
            assert rules.CURRENT.get() == "onnx"
    finally:
        del vars(part.selection)["function"]


def test_each_call_reads_how_many_threads_run_it(
    small: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, run = [], Executable.__call__

    def record(self: Any, *arrays: Any, threads: int = 1) -> Any:
        seen.append(threads)
        return run(self, *arrays, threads=threads)

    monkeypatch.delenv(threads.VARIABLE, raising=False)
    steady(small, pixels())
    monkeypatch.setattr(Executable, "__call__", record)
    small(pixels())
    with quant.threads(3):
        small(pixels())
    monkeypatch.setenv(threads.VARIABLE, "2")
    small(pixels())
    with quant.threads(1):
        small(pixels())
    monkeypatch.delenv(threads.VARIABLE)
    small(pixels())
    assert seen == [1, 3, 2, 1, 1]
    assert threads.VARIABLE not in os.environ


@pytest.mark.skipif(isa.ISA == "generic", reason="there is no other runway")
def test_a_method_between_steps_runs_on_the_isa_of_its_block(small: Model) -> None:
    def kernels(model: Model) -> Any:
        with observe.observe_kernels() as seen:
            result = shown(model(pixels()))
        return result, [kernel.isa for kernel in seen.kernels]

    for model in (small, moving()):
        steady(model, pixels())
        fresh, outside = Model(model.graph), kernels(model)
        with quant.runway("generic"):
            assert kernels(model) == kernels(fresh)
            assert kernels(model)[0] == outside[0]
        assert kernels(model) == outside


def test_constants_that_no_step_has_packed_are_read_at_each_call() -> None:
    spec = md.TensorSpec(md.Float32Tensor, (-1, 6))
    sides = md.asarray(np.linspace(0.1, 0.6, 6, dtype=np.float32))
    side = Node("side", md.hypot, ("x", "sides"), "y")
    network = Model(Graph({"x": spec}, (side,), {"sides": sides}, ("y",)))
    steady(network, pixels())
    sides.buffer[0] += 1
    assert called(network, pixels()) == anew(network, pixels())
    before = called(network, pixels())
    network.graph.constants["sides"] = sides * 2  # type: ignore[index]
    assert called(network, pixels()) == anew(network, pixels()) != before


def test_threads_share_bound_calls(small: Model, network: Model) -> None:
    cases = [(m, pixels(rows)) for m in (small, network) for rows in range(1, 6)]
    wanted = [anew(model, x) for model, x in cases]

    def work(number: int) -> bool:
        model, x = cases[number % 10]
        return bool(called(model, x) == wanted[number % 10])

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(work, range(800)))


def test_the_oldest_calls_go(network: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "MOST", 4)
    for rows in (*range(1, 9), 1, 8):
        for x in (pixels(rows), md.asarray(pixels(rows))):
            assert called(network, x) == anew(network, x)
            assert len(network._calls) <= 4
    assert len(network._calls) == 4


def test_a_bound_call_holds_no_input(small: Model) -> None:
    x = md.asarray(pixels())
    steady(small, x)
    place = weakref.ref(x.buffer)
    del x
    gc.collect()
    assert place() is None


def test_results_of_bound_calls_share_no_bytes() -> None:
    spec, constant = {"x": md.Float32Tensor.spec((2, 3))}, md.asarray([1.0, 2.0])
    node = Node("n", md.reshape, ("x",), "y", {"shape": (6,)})
    model = Model(Graph(spec, (node,), {"k": constant}, ("y", "k", "x")))
    x = np.zeros((2, 3), np.float32)
    for _ in range(3):
        results = model(x)
        assert [r.tolist() for r in results] == [[0] * 6, [1, 2], [[0] * 3] * 2]
        for result in results:
            result.buffer[...] = 9
    assert type(results) is tuple


def test_inputs_of_several_types_keep_their_order() -> None:
    specs = {"i": md.Int32Tensor.spec((-1,)), "f": md.Float32Tensor.spec((-1,))}
    node = Node("n", md.take, ("f", "i"), "y", {"axis": 0})
    model = Model(Graph(specs, (node,), {}, ("y",)))
    f = np.asarray([5, 6, 7], np.float32)
    for size in (1, 3, 1, 3):
        i = np.arange(size, dtype=np.int32)[::-1].copy()
        for given in ((i, f), (md.asarray(i), f), (i, md.asarray(f)), (f, i)):
            assert called(model, *given) == anew(model, *given)
        assert called(model, i, f=f) == called(model, f=f, i=i) == anew(model, i, f)


def test_a_copied_or_stored_model_runs_as_before(small: Model) -> None:
    steady(small, pixels())
    wanted = shown(small(pixels()))
    for other in (copy.deepcopy(small), pickle.loads(pickle.dumps(small))):
        assert shown(other(pixels())) == wanted


def frames(call: Callable[[], Any]) -> Iterator[str]:
    """Yield the file of each function of ours that a call enters."""
    files: list[str] = []

    def profile(frame: Any, event: str, _: Any) -> None:
        if event == "call" and "mdtensor" in frame.f_globals.get("__name__", ""):
            files.append(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(before)
    yield from files


@pytest.mark.skipif(isa.IS_JIT_DISABLED, reason="kernels are Python, and enter files")
def test_a_steady_call_enters_few_files(
    small: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(threads.VARIABLE, raising=False)
    for x in (pixels(), md.asarray(pixels())):
        steady(small, x)
        found = list(frames(lambda x=x: small(x)))
        switches = sum(a != b for a, b in pairwise(found))
        assert len(set(found)) <= FILES and switches <= SWITCHES


def test_a_model_keeps_the_plans_that_it_used_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A new size of the batch in each call must not fill the memory."""
    monkeypatch.setattr(shaped, "MOST", 3)
    spec = md.TensorSpec(md.Float32Tensor, (-1, 6))
    nodes = (Node("y", md.linear, ("x", "w", None), "y"),)
    model = Model(Graph({"x": spec}, nodes, {"w": weights()}, ("y",)))
    first = model.plan({"x": (1, 6)})
    for rows in (2, 3):
        model.plan({"x": (rows, 6)})
        assert model.plan({"x": (1, 6)}) is first
    second = model.plan({"x": (2, 6)})
    model.plan({"x": (4, 6)})
    # The plan for 3 rows was used longest ago.
    assert [key for (key,) in model._plans.recent._values] == [(1, 6), (2, 6), (4, 6)]
    assert model.plan({"x": (2, 6)}) is second
    for rows in range(1, 9):
        assert np.asarray(model(pixels(rows))).shape == (rows, 5)
    assert len(model._plans.recent) == 3


@pytest.mark.parametrize(
    ("operation", "text"),
    [
        (md.add, "nodes? 'a'.* need [0-9,]{19,21} bytes. Use smaller inputs"),
        (md.atan2, "node 'a' do not fit into memory. Use smaller inputs"),
    ],
    ids=["step", "call"],
)
def test_values_that_do_not_fit_into_memory(operation: Any, text: str) -> None:
    """No address space has 2**48 elements."""
    node = Node("a", operation, ("x", "y"), "z")
    n = 1 << 24
    sides = {"x": (n, 1), "y": (1, n)}
    specs = {name: md.TensorSpec(md.Float32Tensor, own) for name, own in sides.items()}
    model = Model(Graph(specs, (node,), {}, ("z",)))
    numbers = np.zeros(n, np.float32)
    given = {name: numbers.reshape(own) for name, own in sides.items()}
    with pytest.raises(md.errors.AllocationError, match=text):
        model(given)


def test_a_view_that_does_not_fit_into_memory() -> None:
    """A view is tried on an array of its shape while its step is planned."""
    nodes = (
        Node("a", md.add, ("x", "y"), "s"),
        Node("b", md.flip, ("s",), "z", {"axis": 0}),
    )
    n = 1 << 24
    sides = {"x": (n, 1), "y": (1, n)}
    specs = {name: md.TensorSpec(md.Float32Tensor, own) for name, own in sides.items()}
    model = Model(Graph(specs, nodes, {}, ("z",)))
    with pytest.raises(md.errors.AllocationError, match="of node 'b' do not fit"):
        model.plan()
