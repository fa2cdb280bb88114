"""Generated loops: the bytes of the interpreter, or the interpreter itself."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor.errors import OptionError
from mdtensor.kernels.cpu.generic import opcodes as ops
from mdtensor.kernels.cpu.program import agreement, chain, generated
from mdtensor.kernels.cpu.program.elementwise import Formula, Instruction, walk
from mdtensor.kernels.numpy.threads import ThreadPool

pytestmark = pytest.mark.compiled


def normal(*shape: int, seed: int = 0) -> Any:
    values = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    return md.from_numpy(np.asarray(values))


def formula_of(*instructions: Instruction, inputs: int = 1) -> Formula:
    whole = walk((8,), (8,))
    return Formula(instructions, (whole,) * inputs, (), 8)


def made(formula: Formula) -> chain.Chain:
    found = chain.Chain(formula, (8,))
    found.generate()
    return found


@pytest.mark.parametrize("some", range(0, len(generated.EXPRESSIONS), 8))
def test_each_instruction_agrees_with_the_interpreter(some: int) -> None:
    # Several in one loop, which is compiled once; each result takes part in the last.
    operations = [*generated.EXPRESSIONS][some : some + 8]
    rows = [Instruction(one, 0, 1, low=0.5, high=2.5) for one in operations]
    for at in range(1, len(operations)):
        last = ops.INPUTS + len(rows) - 1
        rows.append(Instruction(ops.SUB, ops.INPUTS + at, last if at > 1 else 4))
    found = made(formula_of(*rows, inputs=2))
    assert found.text.count("\n") > len(operations)


def test_every_instruction_has_an_expression() -> None:
    # Whole numbers, comparisons and choices are instructions of networks only.
    # Sines of large numbers are a second loop.
    more = {ops.TO_FLOAT16, ops.TO_BFLOAT16, ops.SOFTPLUS}
    assert {*generated.EXPRESSIONS} == {*range(ops.FLOOR)} | more


def long_chain(x: Any, w: Any, b: Any) -> Any:
    y = x * w + b
    y = y * 0.5 + x
    return md.tanh((y - 1) * y) / md.maximum(w, 0.25)


def test_compiled_functions_generate_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    function = md.compile(long_chain, generate=True)
    for shape in ((), (1,), (7, 5), (1 << 20,), (1025, 1030)):
        given = [normal(*shape, seed=seed) for seed in range(3)]
        wanted = np.asarray(long_chain(*given)).tobytes()
        for threads in (1, 2):
            monkeypatch.setattr(chain, "POOL", ThreadPool(threads))
            for _ in range(3):
                assert np.asarray(function(*given)).tobytes() == wanted
    # Texts hold neither shapes nor numbers, so one is compiled.
    assert len({*function.kernels()}) == 1
    assert function.traces[0].explain().split("  ")[-1].startswith("chain_")


def test_numbers_are_not_part_of_the_text() -> None:
    texts = set()
    for factor in (2.0, 3.5):
        function = md.compile(lambda x, by: md.relu(x * by), generate=True)
        x = normal(9)
        assert function(x, factor).tolist() == md.relu(x * factor).tolist()
        assert function(x, factor).tolist() == md.relu(x * factor).tolist()
        texts |= {*function.kernels()}
    assert len(texts) == 1


def test_one_element_is_repeated_and_rows_stay_interpreted() -> None:
    x, one, row = normal(6, 4), normal(), normal(4)
    function = md.compile(lambda x, y: md.exp(x * y) + y, generate=True)
    for other in (one, row):
        for _ in range(3):
            wanted = md.exp(x * other) + other
            assert function(x, other).tolist() == wanted.tolist()
    assert len(function.kernels()) == 1
    softmax = md.compile(lambda x: x / md.sum(x, axis=-1, keepdims=True), generate=True)
    softmax(x), softmax(x)
    assert softmax.kernels() == ()


WRONG = {
    "a lost -0": (ops.NEGATIVE, "np.float32(0) - {a}"),
    "a lost limit": (ops.CLAMP, "{a}"),
    "a lost NaN": (ops.MAXIMUM, "{a} if {a} > {b} else {b}"),
    "a quotient by a reciprocal": (ops.DIV, "np.float32({a} * np.float32(ONE / {b}))"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_loops_are_not_used(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    operation, text = WRONG[name]
    monkeypatch.setitem(generated.EXPRESSIONS, operation, text)
    found = made(formula_of(Instruction(operation, 0, 1, -1, 1), inputs=2))
    assert found.text == "" and found.call is chain.run_chain.call
    assert "has other bytes and is not used" in caplog.text


def test_samples_have_special_and_ordinary_numbers() -> None:
    (x,) = agreement.samples(formula_of(Instruction(ops.EXP)))
    assert len(x) == agreement.COUNT
    bits = {*agreement.SPECIAL.view(np.uint32).tolist()}
    assert bits <= {*x.view(np.uint32).tolist()}


def test_a_traceback_shows_the_text() -> None:
    import linecache

    found = generated.compiled(generated.render(formula_of(Instruction(ops.ABS))))
    line = linecache.getline(f"<mdtensor {found.__name__}>", 5)
    assert line == "        out[i] = abs(x0[j])\n"


def test_generate_is_a_bool() -> None:
    act: Callable[..., Any] = lambda x: x  # noqa: E731
    with pytest.raises(OptionError, match="generate"):
        md.compile(act, generate="yes")  # type: ignore[arg-type]


SECOND = """
import numpy as np, mdtensor as md
from numba.core import event
found = []
class Listen(event.Listener):
    def on_start(self, event): found.append(event)
    def on_end(self, event): pass
event.register("numba:compile", Listen())
act = md.compile(lambda x, w: md.relu(x * w + 0.75), generate=True)
x = md.from_numpy(np.arange(9, dtype=np.float32))
act(x, x), act(x, x)
print(len(act.kernels()), len(found))
"""


@pytest.mark.slow
def test_a_second_process_compiles_nothing() -> None:
    runs = [
        subprocess.run([sys.executable, "-c", SECOND], capture_output=True, text=True)
        for _ in range(2)
    ]
    assert runs[1].stdout.split() == ["1", "0"], runs[1].stderr
