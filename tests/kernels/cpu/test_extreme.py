"""The larger or smaller of two codes behind tables, and its union with tables."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from mdtensor.kernels.cpu import isa, kernel_set
from mdtensor.kernels.cpu.program.program import Program
from mdtensor.kernels.cpu.program.steps import IDENTITY, Extreme, Lookup

RNG = np.random.default_rng(11)
#: ISAs whose kernels run here without emulation.
HERE = [name for name in isa.here() if not name.endswith(isa.EMULATED)]


def table():
    return RNG.integers(0, 256, 256, np.uint8)


def codes(*shape):
    return RNG.integers(0, 256, shape, np.uint8)


def chosen(is_maximum, tables, x, y):
    """The oracle: NumPy, table by table."""
    first, second, last = (IDENTITY if t is None else t for t in tables)
    return last[(np.maximum if is_maximum else np.minimum)(first[x], second[y])]


@pytest.mark.parametrize("name", HERE)
@pytest.mark.parametrize("used", range(8))
@pytest.mark.parametrize("is_maximum", [True, False])
def test_every_pair_of_codes(name, used, is_maximum):
    tables = [table() if used >> i & 1 else None for i in range(3)]
    x, y = np.indices((256, 256), dtype=np.uint8)
    kernels = kernel_set.kernels(name)
    step = kernel_set.make_on(kernels, Extreme, is_maximum, tables)
    assert np.array_equal(step(x, y), chosen(is_maximum, tables, x, y))
    assert step.bytes == 256 * used.bit_count()
    assert step.kernel == "choose_u8"


@pytest.mark.parametrize("size", [0, 1, 31, 33, 4095, 4096, 4097, 9000])
def test_any_length(size):
    tables = [table(), None, table()]
    x, y = codes(size), codes(size)
    assert np.array_equal(Extreme(True, tables)(x, y), chosen(True, tables, x, y))


def test_unequal_shapes_raise():
    with pytest.raises(AssertionError, match="expected equal shapes"):
        Extreme(True).prepare((2, 3), (3, 2))


@pytest.mark.parametrize("is_maximum", [True, False])
def test_a_function_of_one_value_is_one_table(is_maximum):
    """max(x, slope · x), rounded on the way, is a function of the code x."""
    program = Program()
    x = program.input((3, 40), np.uint8)
    slope = program.append(Lookup(table()), x)
    either = program.append(Extreme(is_maximum, [table(), None, None]), x, slope)
    last = program.append(Lookup(table()), either)
    built, given = program.build([last]), codes(3, 40)
    assert built.done_by == [2, 2, 2]
    assert np.array_equal(built(given)[0], built.values(given)[-1])


def test_a_table_of_a_reshaped_value_is_joined():
    program = Program()
    x, y = (program.input((3, 40), np.uint8) for _ in range(2))
    flat = program.reshape(program.append(Lookup(table()), x), (120,))
    either = program.append(Extreme(True), flat, program.reshape(y, (120,)))
    back = program.append(Lookup(table()), program.reshape(either, (40, 3)))
    built, given = program.build([back]), (codes(3, 40), codes(3, 40))
    assert built.done_by == [2, 2, 2] and built(*given)[0].shape == (40, 3)
    assert np.array_equal(built(*given)[0], built.values(*given)[-1])


@given(st.data())
def test_any_program_gives_the_codes_of_its_steps(data):
    program = Program()
    slots = [program.input((2, 40), np.uint8), program.input((2, 40), np.uint8)]
    for _ in range(data.draw(st.integers(1, 12))):
        a, b = data.draw(st.sampled_from(slots)), data.draw(st.sampled_from(slots))
        if data.draw(st.booleans()):
            slots.append(program.append(Lookup(table()), a))
        else:
            tables = [table() if data.draw(st.booleans()) else None for _ in "abc"]
            slots.append(
                program.append(Extreme(data.draw(st.booleans()), tables), a, b)
            )
    outputs = data.draw(st.lists(st.sampled_from(slots[2:]), min_size=1))
    given = codes(2, 40), codes(2, 40)
    built = program.build(outputs)
    values = built.values(*given)
    for slot, found in zip(outputs, built(*given), strict=True):
        assert np.array_equal(found, values[slots.index(slot) - 2])
