"""CUDA C++ on the CPU: planted faults are found, and a text is compiled once."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cuda_text import empty, run

from mdtensor.kernels.emulated import compiler
from mdtensor.kernels.emulated.compiler import EmulationError
from mdtensor.kernels.emulated.launcher import ORDERS
from mdtensor.kernels.loops.cuda import render
from mdtensor.kernels.loops.ir import Input, Loop, apply, load, number
from mdtensor.kernels.loops.kernel import Kernel

pytestmark = pytest.mark.skipif(not compiler.compiler(), reason="needs g++")
I32 = Input("int32")
SUM = render(Loop((I32,), load(0, "int32"), "add"))


def replaced(kernel: Kernel, old: str, new: str) -> Kernel:
    """The kernel of a text in which `old` is `new`, once."""
    assert kernel.text.count(old) >= 1
    text = kernel.text.replace(old, new, 1).replace(kernel.name, kernel.name + "_bad")
    return Kernel(kernel.name + "_bad", text, kernel.inputs, kernel.type, kernel.fold)


def test_a_missing_barrier_shows_in_some_order() -> None:
    inside = "      __syncthreads();\n    }"
    bad = replaced(SUM, inside, "    }")
    x = np.arange(640, dtype=np.int32)[None]
    wrong = [
        order
        for order in ORDERS
        if run(bad, x, out=empty(1, "int32"), axes=(1,), order=order)[0] != x.sum()
    ]
    assert wrong
    assert all(
        run(SUM, x, out=empty(1, "int32"), axes=(1,), order=order)[0] == x.sum()
        for order in ORDERS
    )


def test_divergent_barriers_and_traps() -> None:
    x = np.arange(64, dtype=np.int32)[None]
    bad = replaced(SUM, "__syncthreads();", "if (threadIdx.x) __syncthreads();")
    with pytest.raises(EmulationError, match="wait at different barriers, or some"):
        run(bad, x, out=empty(1, "int32"), axes=(1,))
    trap = replaced(SUM, "__syncthreads();", "__trap();")
    with pytest.raises(EmulationError, match="the kernel trapped"):
        run(trap, x, out=empty(1, "int32"), axes=(1,))


def test_a_text_that_does_not_compile_is_shown() -> None:
    bad = replaced(SUM, "int32 sum", "int31 sum")
    with pytest.raises(EmulationError, match=r"does not compile.*int31"):
        run(bad, np.zeros((1, 1), np.int32), out=empty(1, "int32"), axes=(1,))


def test_no_compiler_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "compiler", lambda: "")
    bad = replaced(SUM, "long long r", "long long  r")
    with pytest.raises(EmulationError) as caught:
        run(bad, np.zeros((1, 1), np.int32), out=empty(1, "int32"), axes=(1,))
    assert str(caught.value) == (
        "g++, which compiles kernels for the emulated device, is not installed. "
        "Install g++, or set CXX."
    )


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache of its own, and nothing known of the other."""
    monkeypatch.setattr(compiler.store, "folder", lambda name: tmp_path)
    for known in (compiler.entry, compiler._place):
        known.cache_clear()
    yield tmp_path
    for known in (compiler.entry, compiler._place):
        known.cache_clear()


def test_a_text_is_compiled_once(empty_cache: Path, monkeypatch: Any) -> None:
    plus = [apply("add", load(0, "int32"), number(n, "int32")) for n in (5, 7)]
    kernels = [render(Loop((I32,), value)) for value in plus]
    calls: list[Any] = []
    compile_text = compiler._compile
    monkeypatch.setattr(
        compiler, "_compile", lambda *given: calls.append(compile_text(*given))
    )
    # Two kernels are one library, also for the next process.
    compiler.prepare(kernels)
    for _ in range(2):
        compiler.entry.cache_clear()
        one = np.array([1], np.int32)
        found = [run(kernel, one, out=empty(1, "int32"))[0] for kernel in kernels]
        assert found == [6, 8]
    assert len(calls) == 1
    ends = sorted(path.suffix for path in empty_cache.iterdir())
    assert ends == [".kernel", ".kernel", ".so"]
