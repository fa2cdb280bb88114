"""Recorded calls run as compiled functions do: joined, planned once, with equal bytes.

Most tests name a row that the reference of lazy graphs, zyx, promises.
"""

import gc
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import mdtensor as md
from mdtensor import quant
from mdtensor.errors import CastError, MdtensorError
from mdtensor.graph import known
from mdtensor.graph.calls import pending
from mdtensor.kernels import numpy as numpy_kernels, observe

#: More elements than this are joined the first time; see `known._Known`.
LARGE = 1 << 21


def normal(*shape: int, seed: int = 0) -> Any:
    values = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    return md.from_numpy(np.asarray(values))


def raw(x: Any) -> Any:
    return type(x), x.shape, x.to_parts()[0][""].tobytes(), getattr(x, "qparams", None)


@pytest.fixture(autouse=True)
def nothing_known() -> Iterator[None]:
    """No test depends on the graphs of another one."""
    known._KNOWN.clear()
    yield
    known._KNOWN.clear()


@pytest.fixture
def joined_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs are joined the first time, whatever that costs."""
    monkeypatch.setattr(known, "JOINING", 0.0)
    monkeypatch.setattr(known, "LOADING", 0.0)


@pytest.fixture
def joins(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of calls of each graph that was joined."""
    found: list[int] = []

    class Counted(known.Realized):
        def __init__(self, content: Any, *given: Any) -> None:
            found.append(len(content.calls))
            super().__init__(content, *given)

    monkeypatch.setattr(known, "Realized", Counted)
    return found


def kernels(function: Callable[[], Any]) -> list[str]:
    """The compiled kernels that run, as often as they run."""
    found: list[str] = []
    report = mock.patch.object(observe, "ran", lambda name, isa: found.append(name))
    with observe.observe_kernels(), report:
        function()
    return found


def realized_as(
    function: Callable[..., Any], *tensors: Any, runs: int = 2
) -> tuple[list[str], str]:
    """The kernels and lines of a graph, whose bytes are those of eager calls."""
    wanted = raw(function(*tensors))
    for _ in range(runs):
        y = function(*(x.to("lazy") for x in tensors))
        lines, found = md.graph.explain(y), kernels(lambda y=y: md.realize(y))
        assert raw(md.realize(y)) == wanted
    return found, lines


def ten(x: Any, y: Any) -> Any:
    """Ten elementwise calls."""
    x = md.relu(x * 1.5 + y) - md.exp(y)
    return md.tanh(md.maximum(md.abs(x), 0.25) / 3.0) * y


def softmax(x: Any) -> Any:
    powers = md.exp(x - md.max(x, axis=-1, keepdims=True))
    return powers / md.sum(powers, axis=-1, keepdims=True)


def layer_norm(x: Any, w: Any, b: Any) -> Any:
    centered = x - md.mean(x, axis=-1, keepdims=True)
    variance = md.mean(md.square(centered), axis=-1, keepdims=True)
    return centered / md.sqrt(variance + 1e-5) * w + b


ROWS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "chain of 10": (ten, [(40, 50), (40, 50)]),
    "softmax": (softmax, [(40, 250)]),
    "layer norm": (layer_norm, [(40, 250), (250,), (250,)]),
    "add, matmul, relu": (lambda x, w, b: md.relu(x @ w + b), [(9, 8), (8, 7), (7,)]),
    "shared subexpression": (
        lambda x, w: md.exp(x * w) + md.exp(x * w),
        [(40, 50), (50,)],
    ),
}


@pytest.mark.parametrize("row", ROWS)
def test_row_is_one_kernel(row: str, joined_at_once: None) -> None:
    function, shapes = ROWS[row]
    given = [normal(*shape, seed=i) for i, shape in enumerate(shapes)]
    found, lines = realized_as(function, *given)
    assert len(found) == len(lines.splitlines()) == 1


def test_row_one_kernel_the_first_time_for_large_tensors() -> None:
    x = normal(LARGE)
    found, _ = realized_as(lambda x: ten(x, x), x, runs=1)
    assert len(found) == 1


def test_row_nothing_runs_and_memory_is_flat_until_realize(
    joined_at_once: None,
) -> None:
    x = normal(1003, 1009).to("lazy")
    kept = md.realize(ten(x, x))
    # Results would take the memory of earlier ones.
    numpy_kernels._FREE.clear()
    tracemalloc.start()
    made: list[Any] = []
    assert kernels(lambda: made.append(ten(x, x))) == []
    assert tracemalloc.get_traced_memory()[0] < 100_000
    (y,) = made
    md.realize(y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert kept.nbytes <= peak < 1.1 * kept.nbytes, "ten calls, one result"


def test_row_a_dead_branch_is_never_launched(joined_at_once: None) -> None:
    x = normal(30, 40)
    for _ in range(2):
        lazy = x.to("lazy")
        shared = md.exp(lazy)
        live, dead = shared * 2 + 1, md.sqrt(md.abs(shared @ shared.mT))
        assert md.graph.explain(live).split()[:3] == ["exp,", "mul,", "add"]
        assert len(kernels(lambda live=live: md.realize(live))) == 1
        assert "matmul" in [call.name for call in pending([dead.buffer])]


@pytest.mark.parametrize("size", [30, 1500])
def test_row_a_constant_subtree_is_folded(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if size < 100:
        monkeypatch.setattr(known, "JOINING", 0.0)
        monkeypatch.setattr(known, "LOADING", 0.0)
    w, counts = normal(size, size), []

    def function(x: Any, w: Any) -> Any:
        return md.relu(x @ (md.exp(w) + 1))

    for seed in range(6):
        if seed == 4:
            w[0, 0] = 5.0
        x = normal(size, size, seed=seed)
        y = function(x.to("lazy"), w.to("lazy"))
        counts.append(len(kernels(lambda y=y: md.realize(y))))
        assert raw(md.realize(y)) == raw(function(x, w))
    # The loop over w runs until w stayed the same once, and again after the write.
    assert counts == [2, 2, 1, 1, 2, 1]


def test_a_folded_part_does_not_outlive_its_tensors(joined_at_once: None) -> None:
    w = normal(300, 300)
    for seed in range(4):
        md.realize(md.relu(normal(300, seed=seed).to("lazy") * md.exp(w.to("lazy"))))
    (found,) = known._KNOWN.values()
    folded = found._graph._folded
    assert folded._kept is not None
    del w
    gc.collect()
    assert folded._kept is None


def test_results_of_a_folded_part_are_not_shared(joined_at_once: None) -> None:
    w = normal(4, 4)
    for seed in range(6):
        x = normal(4, seed=seed)
        lazy = md.exp(w.to("lazy"))
        _, z = md.realize(x.to("lazy") + 1, md.reshape(lazy, (16,))[:3])
        assert raw(z) == raw(md.reshape(md.exp(w), (16,))[:3])
        z[0] = 0.0
        inner = md.relu(lazy) + x.to("lazy")
        del lazy
        assert raw(md.realize(inner)) == raw(md.relu(md.exp(w)) + x)


def test_row_1_kernelization_for_100_iterations(joins: list[int]) -> None:
    w, made = normal(50, seed=1).to("lazy"), []
    for i in range(100):
        x = normal(40, 50, seed=i)
        made.append(raw(md.realize(ten(x.to("lazy") * w, w))))
    assert joins == [11]
    host = md.realize(w)
    assert made == [raw(ten(normal(40, 50, seed=i) * host, host)) for i in range(100)]


SECOND = """
import numpy as np, mdtensor as md
from mdtensor.graph import known
from numba.core import event
known.JOINING = 0.0
found = []
class Listen(event.Listener):
    def on_start(self, event): found.append(event)
    def on_end(self, event): pass
event.register("numba:compile", Listen())
x = md.from_numpy(np.arange(900, dtype=np.float32).reshape(30, 30)).to("lazy")
y = md.softmax(md.relu(x * 0.5 + 1)) * md.sum(md.exp(-x), axis=-1, keepdims=True)
md.realize(y)
print(len(found))
"""


@pytest.mark.slow
def test_row_a_second_process_compiles_nothing() -> None:
    runs = [
        subprocess.run([sys.executable, "-c", SECOND], capture_output=True, text=True)
        for _ in range(2)
    ]
    assert runs[1].stdout.split() == ["0"], runs[1].stderr


def test_small_graphs_are_joined_once_they_ran_often(joins: list[int]) -> None:
    x = normal(16)
    runs = 0
    while not joins:
        md.realize(ten(x.to("lazy"), x))
        runs += 1
        assert runs < 100
    assert runs > 5, "joining takes longer than a few runs"


def test_without_the_compiler_graphs_wait_longer() -> None:
    script = (
        "import sys, numpy as np, mdtensor as md\n"
        "x = md.from_numpy(np.zeros(9, np.float32)).to('lazy')\n"
        "for _ in range(50): md.realize(md.relu(x * 2) + 1)\n"
        "print('numba' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True
    )
    assert done.stdout == "False\n", done.stderr


def test_several_outputs_share_what_they_need(joined_at_once: None) -> None:
    x = normal(20, 30)
    for _ in range(2):
        lazy = x.to("lazy")
        shared = md.exp(lazy * 2)
        some = md.realize(shared + 1, md.relu(shared - 3), shared)
        eager = md.exp(x * 2)
        assert [*map(raw, some)] == [
            raw(eager + 1),
            raw(md.relu(eager - 3)),
            raw(eager),
        ]


def test_what_is_held_and_not_asked_for_stays_lazy(joined_at_once: None) -> None:
    x = normal(20, 30)
    for _ in range(2):
        inner = md.exp(x.to("lazy"))
        outer = inner * 2 + 1
        md.realize(outer)
        assert [call.name for call in pending([inner.buffer])] == ["exp"]
        assert raw(md.realize(inner)) == raw(md.exp(x))
        assert raw(md.realize(md.sin(inner) + outer)) == raw(
            md.sin(md.exp(x)) + (md.exp(x) * 2 + 1)
        )


def test_equal_calls_recorded_often_are_one_call() -> None:
    x = normal(4).to("lazy")
    first = x * 2
    for _ in range(1000):
        x * 2
    assert len(first.buffer.call.handles) <= 65
    assert first.buffer.call.is_held


def test_what_is_held_is_kept_if_it_is_costly(joined_at_once: None) -> None:
    x, w = normal(20, 30), normal(30, 30, seed=1)
    inner = md.relu(x.to("lazy") @ w)
    outer = inner * 2 + 1
    md.realize(outer)
    assert pending([inner.buffer]) == [], "a product is not computed twice"
    assert raw(md.realize(inner)) == raw(md.relu(x @ w))


def test_results_are_not_shared_between_graphs(joined_at_once: None) -> None:
    x = normal(5)
    first = md.realize(md.exp(x.to("lazy")) + 1)
    second = md.realize(md.exp(x.to("lazy")) + 1)
    first[0] = 0.0
    assert raw(second) == raw(md.exp(x) + 1)


def test_equal_graphs_of_other_values_types_and_numbers(joined_at_once: None) -> None:
    for dtype in (md.float32, md.float64, md.int32):
        for by in (2, 2.0, 0.0, -0.0, True):
            for rule in ("default", "torch"):
                x = md.asarray([1, -2, 3], dtype=dtype)
                with md.promotion_rules(rule):
                    wanted, y = x * by + 1, x.to("lazy") * by + 1
                assert raw(md.realize(y)) == raw(wanted)


def test_grids_and_rounding_rules_are_a_part_of_the_content(
    joined_at_once: None,
) -> None:
    codes = quant.quantize(normal(3, 4), quant.QParams(0.03))
    for scale in (0.01, 0.3):
        for rule in ("exact", "onnx", "exact"):
            grid = quant.QParams(scale).rounded(rule)

            def function(q: Any, grid: Any = grid) -> Any:
                return md.add(md.add(q, q, out=grid), q, out=grid)

            found = md.realize(function(codes.to("lazy")))
            wanted = function(codes)
            assert raw(found) == raw(wanted)
            assert found.rounding == wanted.rounding


def test_a_write_before_realize_does_not_reach_the_graph(joined_at_once: None) -> None:
    for _ in range(3):
        host = md.asarray([1.0, 2.0])
        y = md.exp(host.to("lazy") * 2) + host
        wanted = raw(md.exp(host * 2) + host)
        host[0] = 9.0
        assert raw(md.realize(y)) == wanted


def test_a_new_method_is_the_one_that_runs(
    joined_at_once: None, registered_as_before: Any
) -> None:
    @md.generic(deduce=lambda x: x)
    def scaled(x: Any, /) -> Any:
        """Return a multiple."""

    @md.method(scaled)
    def scaled(x: md.NumericTensor, /) -> Any:
        return x * 2

    x = normal(4)
    assert raw(md.realize(scaled(x.to("lazy")) + 1)) == raw(x * 2 + 1)

    @md.method(scaled, override=True)
    def scaled(x: md.NumericTensor, /) -> Any:
        return x * 3

    assert raw(md.realize(scaled(x.to("lazy")) + 1)) == raw(x * 3 + 1)


def test_an_error_names_the_line_of_its_own_call(joined_at_once: None) -> None:
    def cast(x: Any) -> Any:
        return md.astype(md.exp(x) * 2, md.int8)

    md.realize(cast(md.asarray([1.0]).to("lazy")))
    y = md.astype(md.exp(md.asarray([9.0]).to("lazy")) * 2, md.int8)
    line = sys._getframe().f_lineno - 1
    with pytest.raises(CastError) as caught:
        md.realize(y)
    assert caught.value.__notes__ == [f"recorded at {__file__}:{line}"]


def test_observers_and_audits_see_each_call(joined_at_once: None) -> None:
    x = normal(4)
    md.realize(md.exp(x.to("lazy")) + 1)
    with md.traced() as calls:
        md.realize(md.exp(x.to("lazy")) + 1)
    assert {"exp", "add"} <= {call.operation for call in calls}
    with md.checked() as log:
        md.realize(md.exp(x.to("lazy") * 1e9) + 1)
    assert any("exp" in str(found) for found in log), "exp overflows"


def test_a_lazy_block_joins_as_well(joined_at_once: None) -> None:
    x = normal(30, 40)
    with md.lazy():
        y = ten(x, x)
        assert len(kernels(lambda: md.realize(y))) == 1
    assert raw(md.realize(y)) == raw(ten(x, x))


def test_graphs_do_not_keep_tensors_alive(joined_at_once: None) -> None:
    tracemalloc.start()
    for seed in range(3):
        md.realize(ten(normal(500, 500, seed=seed).to("lazy"), normal(500)))
        gc.collect()
    assert tracemalloc.get_traced_memory()[0] < 1e6
    tracemalloc.stop()


def test_few_graphs_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "MOST", 5)
    x = normal(4)
    for number in range(20):
        md.realize(x.to("lazy") * number + 1)
    assert len(known._KNOWN) == 5


def test_arrays_and_other_arguments_run_call_by_call(joined_at_once: None) -> None:
    x = normal(4)
    places = np.array([0, 2])
    for _ in range(2):
        assert raw(md.realize(x.to("lazy")[places] + 1)) == raw(x[places] + 1)
        places[0] = 3


CALLS: list[Any] = [
    *(md.exp, md.abs, md.relu, md.tanh, md.neg, md.sin, md.gelu),
    *(lambda x: x * 3, lambda x: 1 - x, lambda x: x[..., :2], md.flip),
    lambda x: md.sum(x, axis=-1, keepdims=True),
    *(softmax, lambda x: md.mean(x, axis=0)),
    lambda x: md.astype(x, md.float16),
    lambda x: quant.dequantize(quant.quantize(x, quant.QParams(0.05))),
]
PAIRS: list[Any] = [md.add, md.sub, md.mul, md.maximum, lambda a, b: a @ b.mT]
STEPS = st.tuples(
    st.integers(0, len(CALLS) + len(PAIRS) - 1), st.integers(0, 99), st.integers(0, 99)
)


def values(operands: Any, steps: Any) -> list[Any]:
    """The values of a program; a call that is refused gives its operand."""
    found = list(operands)
    for number, first, second in steps:
        a, b = found[first % len(found)], found[second % len(found)]
        try:
            is_one = number < len(CALLS)
            call = CALLS[number] if is_one else PAIRS[number - len(CALLS)]
            found.append(call(a) if is_one else call(a, b))
        except MdtensorError:
            found.append(a)
    return found


@settings(max_examples=100, suppress_health_check=list(HealthCheck))
@given(
    steps=st.lists(STEPS, min_size=2, max_size=9),
    asked=st.lists(st.integers(0, 99), min_size=1, max_size=3),
    is_held=st.booleans(),
    seed=st.integers(0, 99),
)
def test_any_program_has_the_bytes_of_eager_calls(
    steps: Any, asked: Any, is_held: bool, seed: int, joined_at_once: None
) -> None:
    operands = [normal(3, 4, seed=seed), normal(4, seed=seed + 1)]
    eager = values(operands, steps)
    for _ in range(2):
        lazy = values([x.to("lazy") for x in operands], steps)
        some = [lazy[at % len(lazy)] for at in asked]
        rest = lazy if is_held else some
        del lazy
        found = md.realize(*some, operands[0])
        assert [*map(raw, found[:-1])] == [raw(eager[at % len(eager)]) for at in asked]
        if is_held:
            assert [raw(md.realize(x)) for x in rest] == [*map(raw, eager)]
