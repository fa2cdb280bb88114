"""A context chooses the instructions of what is made in it, and changes no byte."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from support import mixed_net

import mdtensor as md
from mdtensor import OptionError, quant
from mdtensor.kernels.cpu import isa, kernel_set
from mdtensor.kernels.cpu.program import interpret, kinds, layers
from mdtensor.kernels.cpu.program.products import Conv2d
from mdtensor.kernels.cpu.program.program import Program
from mdtensor.kernels.cpu.program.steps import Lookup
from mdtensor.kernels.native import library
from mdtensor.quant.ops.kernels import reuse_or_make

REVERSED = np.arange(256, dtype=np.uint8)[::-1].copy()
OTHERS = [name for name in isa.here() if name != isa.ISA]


def own():
    return kernel_set.CHOSEN.get().name


def test_a_context_chooses_and_ends():
    assert own() == isa.ISA
    generic = quant.runway("generic")
    with generic as name, quant.runway(isa.here()[-1]):
        assert name == "generic"
        with generic:
            assert own() == "generic"
        assert own() == isa.here()[-1].removesuffix(isa.EMULATED)
    assert own() == isa.ISA
    assert repr(generic) == "runway('generic')"


def test_a_context_is_of_its_thread():
    seen = []
    with quant.runway("generic"):
        other = threading.Thread(target=lambda: seen.append(own()))
        other.start()
        other.join()
    assert seen == [isa.ISA]


@pytest.mark.parametrize("name", isa.here())
def test_steps_and_layers_keep_the_runway_on_which_they_were_made(name):
    folders = {name.removesuffix(isa.EMULATED), "generic"}  # which serves where none is
    with quant.runway(name):
        step = Conv2d(np.ones((8, 8, 1, 1), np.int8))
        layer = layers.Linear(np.ones((8, 8), np.float32))
    assert step.on is layer.on is kernel_set.kernels(name.removesuffix(isa.EMULATED))
    assert step.runway in folders
    assert step.kernel == kernel_set.HOST.gemm_u8s8s32.__name__


def light(x):
    """By a table, to floats and back: kernels that are compiled at once."""
    numbers = quant.dequantize(x)
    return [
        md.relu(x).codes,
        numbers,
        quant.quantize(numbers, quant.QParams(0.7)).codes,
    ]


def heavy(x):
    """By products of codes and of floats, and sums of two grids."""
    w = quant.QInt8Tensor((np.arange(33 * 70) % 251 - 125).reshape(33, 70), scale=0.25)
    grid = quant.QParams(9.7)
    codes = [md.linear(x, w, out=grid), md.add(x, x, out=grid), md.mul(x, x, out=grid)]
    return [*(found.codes for found in codes), md.linear(quant.dequantize(x), w)]


#: Compiling products for another runway takes half a minute.
CALLS = [light, pytest.param(heavy, marks=pytest.mark.slow)]


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("calls", CALLS)
def test_operations_give_the_same_bytes(name, calls, rng):
    x = quant.QInt8Tensor(rng.integers(-128, 128, (5, 70), np.int8), scale=0.5)
    want = calls(x)
    with quant.runway(name):
        found = calls(x)
    for a, b in zip(found, want, strict=True):
        assert a.buffer.tobytes() == b.buffer.tobytes()


def test_packed_weights_are_kept_for_their_runway(rng):
    w = quant.QInt8Tensor(rng.integers(-128, 128, (3, 4), np.int8), scale=0.25)

    def make(w):
        return layers.Linear(w.buffer.astype(np.float32))

    def made():
        return [reuse_or_make(make, ("key",), w).on.name for _ in range(3)]

    assert made() == [isa.ISA] * 3
    with quant.runway("generic"):
        assert made() == ["generic"] * 3
    assert made() == [isa.ISA] * 3


def test_a_program_runs_on_the_runway_on_which_it_was_made():
    x = np.arange(256, dtype=np.uint8)
    with quant.runway("generic"):
        program = Program()
        slot = program.append(Lookup(REVERSED), program.input((256,), np.uint8))
        executable = program.build([slot])
    assert np.array_equal(executable(x, threads=2)[0], REVERSED)
    assert executable.pieces == [1]
    assert executable.profile(x, repeat=1).shape == (1,)
    assert interpret.invokers(isa.ISA) is interpret.INVOKE
    ran = interpret.invokers("generic")[kinds.LOOKUP]
    by_numba = library.function("generic", "program.interpret.look_up") is None
    assert isa.IS_JIT_DISABLED or len(ran.signatures) == by_numba


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_all_kinds_of_steps_give_the_same_bytes(name):
    x = mixed_net.sample()
    net, outputs = mixed_net.record()
    want = net.program.build(outputs).values(x)
    with quant.runway(name):
        net, outputs = mixed_net.record()
        executable = net.program.build(outputs)
    for a, b in zip(executable.values(x, threads=2), want, strict=True):
        assert a.tobytes() == b.tobytes()


#: A product on the runway "generic", which is the process's own or that of a block.
PRODUCT = """
from mdtensor import linear, quant
x = quant.QInt8Tensor([1, 2, 3], scale=0.5)
w = quant.QInt8Tensor([[1, -1, 2]], scale=0.25)
with quant.runway("generic"):
    print(linear(x, w, out=quant.QParams(0.5)).codes.tolist())
"""


@pytest.mark.slow
@pytest.mark.compiled
def test_processes_of_two_runways_share_a_cache(tmp_path):
    for runway_of_process in ("generic", isa.ISA, isa.ISA):
        given = {"NUMBA_CACHE_DIR": str(tmp_path), "MDTENSOR_ISA": runway_of_process}
        found = subprocess.run(
            [sys.executable, "-c", PRODUCT],
            env=os.environ | given,
            capture_output=True,
            text=True,
            check=True,
        )
        assert found.stdout == "[1]\n"


@pytest.mark.parametrize("name", ["sse", "", 3, None, ["avx2"]])
def test_what_is_no_runway(name):
    known = ", ".join(isa.here())
    text = f"runway({name!r}): no such runway. Use one of {known}."
    with pytest.raises(OptionError) as error:
        quant.runway(name)
    assert str(error.value) == text


@pytest.mark.parametrize(
    ("features", "text"),
    [
        ({"avx2", "fma"}, "this CPU lacks avx512f, avx512bw, avx512dq, avx512vl."),
        (
            {"avx2", "fma", *isa.VNNI_FEATURES},
            "this process has vnni. Start one with MDTENSOR_ISA=avx512, or use one of",
        ),
    ],
)
def test_what_this_process_has_not(monkeypatch, features, text):
    monkeypatch.setattr(isa, "FEATURES", frozenset(features))
    monkeypatch.setattr(isa, "DOT_ISA", "vnni")
    monkeypatch.setattr(isa, "IS_EMULATED", "avx512f" not in features)
    monkeypatch.setattr(isa, "IS_JIT_DISABLED", False)
    with pytest.raises(OptionError) as error:
        quant.runway("avx512")
    assert str(error.value).startswith(f"runway('avx512'): {text}")


def test_without_a_compiler_there_is_one(monkeypatch):
    monkeypatch.setattr(isa, "IS_JIT_DISABLED", True)
    with pytest.raises(OptionError) as error:
        quant.runway("avx2")
    text = "runway('avx2'): NUMBA_DISABLE_JIT is set. Use one of generic."
    assert str(error.value) == text
