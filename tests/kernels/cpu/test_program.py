"""A Program gives the bytes of its steps called one by one, on every runway."""

import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numba
import numpy as np
import pytest
from support import mixed_net

from mdtensor.kernels.cpu import isa
from mdtensor.kernels.cpu.program.program import Program
from mdtensor.kernels.cpu.program.steps import Add, Lookup


@pytest.fixture(scope="module")
def built():
    net, outputs = mixed_net.record()
    return net, net.program.build(outputs)


def test_values_are_those_of_the_steps(built):
    net, executable = built
    x = mixed_net.sample()
    known = {net.program.inputs[0].storage: x}
    for (step, slots, result), found in zip(
        net.calls, executable.values(x), strict=True
    ):
        want = step(*(known[slot.storage] for slot in slots))
        assert found.dtype == want.dtype == step.output_type
        assert found.shape == want.shape
        assert np.array_equal(found, want), step.kernel
        known[result.storage] = want


def test_reused_bytes_change_nothing(built):
    net, executable = built
    x = mixed_net.sample()
    values = executable.values(x)
    places = [result.storage for _, _, result in net.calls]
    wanted = [values[places.index(slot.storage)] for slot in executable.outputs]
    for _ in range(2):
        for found, want in zip(executable(x), wanted, strict=True):
            assert np.array_equal(found, want)
    assert executable.arena_bytes < sum(net.program.sizes)


def test_an_input_may_be_strided(built):
    _, executable = built
    x = mixed_net.sample()
    strided = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    assert np.array_equal(executable(strided)[0], executable(x)[0])


def test_results_are_fresh(built):
    _, executable = built
    first = executable(mixed_net.sample())
    copies = [array.copy() for array in first]
    executable(-mixed_net.sample())
    for array, copy in zip(first, copies, strict=True):
        assert np.array_equal(array, copy)


def test_profile_times_each_step(built):
    net, executable = built
    seconds = executable.profile(mixed_net.sample(), repeat=2)
    assert seconds.shape == (len(net.calls),)
    assert (seconds >= 0).all() and seconds.sum() > 0


@pytest.mark.compiled
def test_eight_threads(built):
    _, executable = built
    inputs = [mixed_net.sample() * (i + 1) / 8 for i in range(8)]
    wanted = [mixed_net.digest(executable(x)) for x in inputs]

    def work(i):
        return [mixed_net.digest(executable(inputs[i])) for _ in range(5)]

    with ThreadPoolExecutor(8) as pool:
        for want, found in zip(wanted, pool.map(work, range(8)), strict=True):
            assert set(found) == {want}


def _run(executable, x, queue):
    queue.put(mixed_net.digest(executable(x)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_forked_child(built):
    _, executable = built
    x = mixed_net.sample()
    want = mixed_net.digest(executable(x))
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=_run, args=(executable, x, queue))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert queue.get() == want


RUNS = {
    "generic": {"MDTENSOR_ISA": "generic"},
    "avx2": {"MDTENSOR_ISA": "avx2"},
    "avx512": {"MDTENSOR_ISA": "avx512"},
    "vnni": {"MDTENSOR_ISA": "vnni"},
    "uncompiled": {"NUMBA_DISABLE_JIT": "1"},
}


#: Compiling all is slow; the quick certificate compiles a part of it.
SLOW = pytest.param("generic", marks=pytest.mark.slow)


@pytest.mark.parametrize("name", [SLOW, *(n for n in RUNS if n != "generic")])
def test_bytes_on_every_runway(built, name):
    needed = set(isa.NEEDED.get(name, ()))
    if needed - isa.FEATURES or (needed and numba.config.DISABLE_JIT):
        pytest.skip(f"this process cannot run {name}")
    _, executable = built
    want = mixed_net.digest(executable.values(mixed_net.sample()))
    places = {k: v for k, v in os.environ.items() if k != "MDTENSOR_ISA"}
    found = subprocess.run(
        [sys.executable, str(mixed_net.__file__)],
        env=places | RUNS[name],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == want


def test_no_images():
    net, outputs = mixed_net.record(images=0)
    executable = net.program.build(outputs)
    x = mixed_net.sample()[:0]
    for found, slot in zip(executable(x), outputs, strict=True):
        assert found.shape == slot.shape and found.dtype == slot.dtype
    assert all(value.size == 0 for value in executable.values(x))
    assert (executable.profile(x, repeat=1) >= 0).all()


def test_reshape_shares_bytes():
    program = Program()
    x = program.input((2, 3), np.uint8)
    table = np.arange(256, dtype=np.uint8)[::-1].copy()
    y = program.reshape(program.append(Lookup(table), x), (3, 2))
    z = program.append(Lookup(table), y)
    first, second = program.build([y, z])(np.arange(6, dtype=np.uint8).reshape(2, 3))
    assert first.tolist() == [[255, 254], [253, 252], [251, 250]]
    assert second.tolist() == [[0, 1], [2, 3], [4, 5]]


def test_one_value_read_twice_and_returned():
    program = Program()
    x = program.input((5,), np.uint8)
    y = program.append(Add((Fraction(1), Fraction(1)), (0, 0)), x, x)
    codes = np.array([0, 1, 100, 127, 200], np.uint8)
    assert program.build([y, x])(codes)[0].tolist() == [0, 2, 200, 254, 255]


def test_a_bound_call_writes_where_it_wrote_before():
    program = Program()
    x = program.input((3,), np.uint8)
    turned = np.arange(256, dtype=np.uint8)[::-1].copy()
    y = program.append(Lookup(turned), x)
    executable, codes = program.build([y]), np.array([1, 2, 3], np.uint8)
    call = executable.bound(codes)
    (first,), _ = call(), codes.fill(0)
    assert call()[0] is first and first.tolist() == [254, 253, 252]
    assert executable.bound(codes, threads=2)()[0].tolist() == [255] * 3


def test_wrong_inputs_are_refused():
    program = Program()
    x = program.input((5,), np.uint8)
    run = program.build([program.append(Lookup(np.zeros(256, np.uint8)), x)])
    for bad in (np.zeros(4, np.uint8), np.zeros(5, np.float32)):
        with pytest.raises(AssertionError, match="input"):
            run(bad)
    with pytest.raises(AssertionError, match="number of inputs"):
        run()
