"""Elementwise programs on the arrays of the caller: bytes and results of their own."""

import numpy as np
import pytest

from mdtensor.kernels.cpu.generic import activation, float_elementwise as ops
from mdtensor.kernels.cpu.isa import IS_JIT_DISABLED
from mdtensor.kernels.cpu.program import direct, floats
from mdtensor.kernels.cpu.program.program import Program

F32 = np.dtype(np.float32)


def build(shape, outputs=1):
    """Return a program of `hardswish(x * y + y)` and its first two values."""
    program = Program()
    x, y = (program.input(shape, F32) for _ in range(2))
    product = program.append(
        floats.Elementwise(floats.Instruction(ops.MUL, 0, 1)), x, y
    )
    total = program.append(
        floats.Elementwise(floats.Instruction(ops.ADD, 0, 1)), product, y
    )
    last = floats.Elementwise(floats.Instruction(activation.HARDSWISH, 0))
    slots = [program.append(last, total), product, x]
    return program.build(slots[:outputs])


def numbers(shape):
    rng = np.random.default_rng(7)
    return [rng.standard_normal(shape, np.float32) for _ in range(2)]


@pytest.mark.parametrize("shape", [(3,), (100, 100), (64, 33, 5)])
def test_same_bytes_as_in_an_arena(monkeypatch, shape):
    x, y = numbers(shape)
    for outputs in (1, 2):
        found = build(shape, outputs)
        monkeypatch.setattr(direct, "MOST_STEPS", 0)
        wanted = build(shape, outputs)
        monkeypatch.undo()
        assert found._direct is not None or np.prod(shape) == 3
        assert wanted._direct is None
        pairs = zip(found(x, y), wanted(x, y), strict=True)
        assert all(a.tobytes() == b.tobytes() for a, b in pairs)


def test_results_are_arrays_of_their_own():
    x, y = numbers((9000,))
    made = build((9000,), outputs=2)
    first, second = made(x, y), made(x, y)
    for one in first:
        assert one.flags.writeable
        others = [x, y, *second, *(other for other in first if other is not one)]
        assert not any(np.shares_memory(one, other) for other in others)
    # An output that is an input needs a copy, which an arena makes.
    assert build((9000,), outputs=3)._direct is None


@pytest.mark.skipif(IS_JIT_DISABLED, reason="a million elements in Python")
@pytest.mark.parametrize("threads", [2, 3])
def test_pieces_give_the_same_bytes(threads):
    shape = (1031, 1024)
    x, y = numbers(shape)
    made = build(shape)
    assert made._direct is not None
    alone = made(x, y)[0]
    assert made(x, y, threads=threads)[0].tobytes() == alone.tobytes()


def test_read_only_inputs_are_taken_as_they_are():
    x, y = numbers((9000,))
    made = build((9000,))
    wanted = made(x, y)[0].tobytes()
    x.flags.writeable = False
    assert made(x, y)[0].tobytes() == wanted
