"""Tables behind tables are one step, and give the codes of all of them in turn."""

import numpy as np
from hypothesis import given, strategies as st

from mdtensor.kernels.cpu.program.program import Program
from mdtensor.kernels.cpu.program.steps import Add, Lookup

RNG = np.random.default_rng(5)
SHAPE = (2, 40)


def table():
    return Lookup(RNG.integers(0, 256, 256, np.uint8))


def chain(length, kept=()):
    """An Executable of so many tables, one behind the other, and the numbers kept."""
    program = Program()
    slots = [program.input(SHAPE, np.uint8)]
    for _ in range(length):
        slots.append(program.append(table(), slots[-1]))
    return program.build([slots[1 + at] for at in (*kept, length - 1)])


def codes():
    return RNG.integers(0, 256, SHAPE, np.uint8)


def test_a_chain_is_one_step():
    built, x = chain(5), codes()
    assert built.done_by == [4] * 5
    assert np.array_equal(built(x)[0], built.values(x)[-1])
    seconds = built.profile(x, repeat=1)
    assert not seconds[:-1].any() and seconds[-1] > 0
    assert built.pieces == [1] * 5


def test_what_is_kept_ends_a_chain():
    built, x = chain(5, kept=(1,)), codes()
    assert built.done_by == [1, 1, 4, 4, 4]
    second, last = built(x)
    values = built.values(x)
    assert np.array_equal(second, values[1]) and np.array_equal(last, values[-1])


def test_a_value_in_another_shape_goes_on():
    program = Program()
    first = program.append(table(), program.input(SHAPE, np.uint8))
    last = program.append(table(), program.reshape(first, (80,)))
    built, x = program.build([last]), codes()
    assert built.done_by == [1, 1]
    assert built(x)[0].shape == (80,)
    assert np.array_equal(built(x)[0], built.values(x)[-1])


@given(st.data())
def test_any_program_gives_the_codes_of_its_steps(data):
    program = Program()
    slots = [program.input(SHAPE, np.uint8)]
    for _ in range(data.draw(st.integers(1, 12))):
        a, b = data.draw(st.sampled_from(slots)), data.draw(st.sampled_from(slots))
        if data.draw(st.integers(0, 3)):
            slots.append(program.append(table(), a))
        else:
            slots.append(program.append(Add((0.5, 0.25), (3, 200)), a, b))
    outputs = data.draw(st.lists(st.sampled_from(slots[1:]), min_size=1))
    built, x = program.build(outputs), codes()
    values = built.values(x)
    for slot, found in zip(outputs, built(x), strict=True):
        assert np.array_equal(found, values[slots.index(slot) - 1])
