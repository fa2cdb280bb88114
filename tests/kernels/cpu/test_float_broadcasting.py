"""Elementwise steps that broadcast inputs and constants: NumPy's bytes, in pieces."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from mdtensor.kernels.cpu.generic import activation, opcodes as ops
from mdtensor.kernels.cpu.program import elementwise, kinds
from mdtensor.kernels.cpu.program.elementwise import Elementwise, Instruction, walk
from mdtensor.kernels.cpu.program.program import Program
from mdtensor.kernels.cpu.threads import split
from mdtensor.kernels.cpu.threads.pool import run_alone

FORMULAS: dict[int, Any] = {
    ops.ADD: np.add,
    ops.SUB: np.subtract,
    ops.MUL: np.multiply,
    ops.DIV: np.divide,
    ops.MAXIMUM: np.maximum,
    ops.MINIMUM: np.minimum,
}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


def normal(shape: tuple[int, ...], seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@st.composite
def shapes(draw: Any, count: int = 3, most: int = 1500) -> list[tuple[int, ...]]:
    """Shapes that broadcast to the first of them."""
    sizes = st.sampled_from([1, 2, 3, 5, 7, 16, 33, 64, 130, 1100])
    whole = draw(st.lists(sizes, min_size=1, max_size=4))
    while np.prod(whole) > most:
        whole[int(np.argmax(whole))] = 2
    found = [tuple(whole)]
    for _ in range(count - 1):
        kept = draw(st.lists(st.booleans(), min_size=len(whole), max_size=len(whole)))
        shape = [n if keep else 1 for n, keep in zip(whole, kept, strict=True)]
        found.append(tuple(shape[draw(st.integers(0, len(shape))) :]))
    return found


@given(shapes(), st.sampled_from([*FORMULAS]), st.booleans())
def test_inputs_are_broadcast(
    given: list[tuple[int, ...]], number: int, is_swapped: bool
) -> None:
    x, y = normal(given[0]), normal(given[1], seed=1)
    if is_swapped:
        x, y = y, x
    found = Elementwise(Instruction(number, 0, 1))(x, y)
    wanted = FORMULAS[number](x, y)
    assert found.shape == wanted.shape and found.tobytes() == wanted.tobytes()


@given(shapes(4), st.sampled_from([*FORMULAS]), st.sampled_from([*FORMULAS]))
def test_constants_are_broadcast(
    given: list[tuple[int, ...]], first: int, second: int
) -> None:
    x, y, a, b = (normal(shape, seed) for seed, shape in enumerate(given))
    rows = Instruction(first, -1, 0), Instruction(second, 4, 1)
    rows += (Instruction(ops.SUB, 5, -2),)
    found = Elementwise(*rows, constants=(a, b))(x, y)
    wanted = FORMULAS[second](FORMULAS[first](a, x), y) - b
    assert found.tobytes() == wanted.tobytes()


@pytest.mark.compiled
@given(shapes(4, 40_000), st.integers(2, 4))
def test_pieces_broadcast_at_their_place(
    given: list[tuple[int, ...]], count: int
) -> None:
    x, y, a, b = (normal(shape, seed) for seed, shape in enumerate(given))
    program = Program()
    slots = [program.input(v.shape, np.float32) for v in (x, y)]
    rows = Instruction(ops.ADD, 0, -1), Instruction(ops.MUL, 4, 1)
    step = Elementwise(*rows, Instruction(ops.SUB, -2, 5), constants=(a, b))
    made = program.build([program.append(step, *slots)])
    layout = made._layout
    arena = np.zeros(layout.size, np.uint8)
    for slot, array in zip(slots, (x, y), strict=True):
        layout.view(arena, slot)[...] = array
    for part in reversed(split.cut(layout.rows[0], count)):
        run_alone(part.reshape(1), arena, made._constants)
    found = layout.view(arena, made.outputs[0])
    assert found.tobytes() == (b - (x + a) * y).tobytes()


def test_large_results_are_cut() -> None:
    program = Program()
    slot = program.input((90, 300), np.float32)
    step = Elementwise(Instruction(ops.ADD, 0, -1), constants=(normal((90, 1)),))
    made = program.build([program.append(step, slot)])
    assert len(split.cut(made._layout.rows[0], 4)) == 4


# The masks, biases and factors of networks, and whether their block is made only once.
PATTERNS: dict[str, Any] = {
    "mask of keys": ((2, 3, 16, 64), (1, 1, 1, 64)),
    "mask of a batch": ((2, 3, 64, 64), (2, 1, 1, 64)),
    "causal mask": ((1, 3, 64, 64), (64, 64)),
    "channels last": ((2, 20, 20, 24), (24,)),
    "channels first": ((2, 24, 20, 20), (24, 1, 1)),
    "factors": ((2, 20, 20, 24), (2, 1, 1, 24)),
    "wide channels": ((2, 5, 3000), (3000,)),
    "rows": ((40, 70), (40, 1)),
    "long rows": ((3, 4000), (3, 1)),
    "every other axis": ((3, 5, 7, 11), (3, 1, 7, 1)),
}


@pytest.mark.parametrize("name", PATTERNS)
def test_patterns_of_networks(name: str) -> None:
    whole, part = PATTERNS[name]
    x, y = normal(whole), normal(part, seed=1)
    step = Elementwise(Instruction(ops.ADD, 0, 1), Instruction(activation.RELU, 4))
    wanted = np.maximum(x + y, np.float32(0))
    assert step(x, y).tobytes() == wanted.tobytes()
    fixed = Instruction(ops.ADD, 0, -1), Instruction(activation.RELU, 4)
    assert Elementwise(*fixed, constants=(y,))(x).tobytes() == wanted.tobytes()


def test_too_many_axes_raise() -> None:
    with pytest.raises(ValueError, match="more than 4 axes"):
        Elementwise(Instruction(ops.ADD, 0, 1)).prepare(
            (2, 2, 2, 2, 2), (2, 1, 2, 1, 2)
        )


@given(shapes(2))
def test_a_walk_finds_what_broadcasting_finds(given: list[tuple[int, ...]]) -> None:
    whole, part = given
    one = walk(part, whole)
    places = np.broadcast_to(np.arange(np.prod(part)).reshape(part), whole).reshape(-1)
    grid = np.indices(one.sizes).reshape(len(one.sizes), len(places))
    assert (np.array(one.jumps, int) @ grid == places).all()
    assert one.is_whole == (np.prod(part) == np.prod(whole))


def test_registers_are_used_again() -> None:
    chain = [Instruction(ops.MUL_NUMBER, 4 + i, low=1.5) for i in range(9)]
    rows = elementwise.assign_registers((Instruction(ops.EXP), *chain))
    assert set(rows[:-1, 1]) == {4, 5}
    for _, target, *reads in rows:
        assert target not in reads or target == 0


# Joined formulas give the bytes of all steps alone.

UNARIES = st.sampled_from([*range(6), ops.ABS, ops.SQUARE, ops.ADD_NUMBER])


@given(st.data())
def test_joined_formulas_give_the_bytes_of_all(data: Any) -> None:
    program = Program()
    whole, *parts = data.draw(shapes(4, 600))
    inputs = [normal(shape, seed) for seed, shape in enumerate((whole, parts[0]))]
    values = [program.input(x.shape, np.float32) for x in inputs]
    values[1:] = [program.append(Elementwise(Instruction(activation.RELU)), values[1])]
    for number in range(data.draw(st.integers(1, 7))):
        x = data.draw(st.sampled_from(values[-2:]))
        which = data.draw(st.integers(0, 3))
        if which == 0:
            step = Elementwise(Instruction(data.draw(UNARIES), low=0.5, high=0.75))
            values.append(program.append(step, x))
        elif which == 1:
            array = normal(data.draw(st.sampled_from(parts)), seed=number)
            order = data.draw(st.sampled_from([(0, -1), (-1, 0)]))
            one = Instruction(data.draw(st.sampled_from([*FORMULAS])), *order)
            values.append(program.append(Elementwise(one, constants=(array,)), x))
        elif which == 2:
            y = data.draw(st.sampled_from(values))
            one = Instruction(data.draw(st.sampled_from([*FORMULAS])), 0, 1)
            values.append(program.append(Elementwise(one), x, y))
        else:
            flat = program.reshape(x, (int(np.prod(x.shape)),))
            made = program.append(Elementwise(Instruction(ops.ABS)), flat)
            values.append(program.reshape(made, x.shape))
    outputs = [values[-1]]
    made = program.build(outputs)
    slots = [step[3] for step in program.steps]
    seen = dict(zip((s.storage for s in slots), made.values(*inputs), strict=True))
    (found,) = made(*inputs)
    assert found.tobytes() == seen[outputs[0].storage].tobytes()
    assert {row.kind for row in made._layout.rows} == {kinds.ELEMENTWISE_F32}


def test_a_gelu_of_single_operations_is_one_step() -> None:
    program = Program()
    x = program.input((3, 700), np.float32)

    def add(one: Instruction, *values: Any) -> Any:
        return program.append(Elementwise(one), *values)

    curve = add(Instruction(ops.DIV_NUMBER, low=2**0.5), x)
    share = add(Instruction(ops.ADD_NUMBER, low=1), add(Instruction(ops.ERF), curve))
    y = add(
        Instruction(ops.MUL_NUMBER, low=0.5), add(Instruction(ops.MUL, 0, 1), x, share)
    )
    made = program.build([y])
    assert len(made._layout.rows) == 1 and set(made.done_by) == {4}
    array = normal((3, 700))
    assert made(array)[0].tobytes() == made.values(array)[-1].tobytes()


@pytest.mark.parametrize(
    ("instructions", "inputs", "constants", "value"),
    [
        ([Instruction(ops.MUL, 0, 1)], 1, 0, 1),
        ([Instruction(ops.MUL, 0, 2)], 2, 0, 2),
        ([Instruction(ops.EXP, 4)], 1, 0, 4),
        ([Instruction(ops.EXP), Instruction(ops.EXP, 5)], 1, 0, 5),
        ([Instruction(ops.MUL, 0, -2)], 1, 1, -2),
    ],
)
def test_values_that_do_not_exist(instructions, inputs, constants, value):
    arrays = [np.ones(3, np.float32)] * constants
    step = Elementwise(*instructions, constants=arrays)
    with pytest.raises(ValueError, match=f"reads value {value}, which is not there"):
        step.plan(*[(3,)] * inputs)
