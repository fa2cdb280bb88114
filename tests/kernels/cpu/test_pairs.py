"""Pairs, quads and vectors of rows against NumPy, operation by operation."""

from typing import Any

import numpy as np
from hypothesis import given, settings, strategies as st

from mdtensor.kernels.cpu.generic import opcodes as ops
from mdtensor.kernels.cpu.generic.float_pairs import ALONE, find_pairs
from mdtensor.kernels.cpu.generic.float_quads import FIELDS, find_quads
from mdtensor.kernels.cpu.generic.row_reduction import run_reduction
from mdtensor.kernels.cpu.program.chain import Chain
from mdtensor.kernels.cpu.program.elementwise import (
    Formula,
    Instruction,
    tables_of,
    walk,
)

SPECIAL = np.float32([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-42, 3e38, -3.0, 2.5])
NUMBERS = {
    ops.ADD_NUMBER: lambda x, low: x + low,
    ops.MUL_NUMBER: lambda x, low: x * low,
    ops.SUB_FROM: lambda x, low: low - x,
}
BINARY = {ops.ADD: np.add, ops.SUB: np.subtract, ops.MUL: np.multiply}
OTHERS = {ops.ABS: np.abs, ops.NEGATIVE: np.negative, ops.KEEP: np.array}


def numbers(count: int, seed: int) -> Any:
    """Return normal numbers, and a tenth of special ones."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=count).astype(np.float32)
    where = rng.random(count) < 0.1
    x[where] = rng.choice(SPECIAL, where.sum())
    return x


def same(x: Any, y: Any) -> bool:
    """Return whether both have the same bytes; NaNs are equal."""
    both = np.isnan(x) & np.isnan(y)
    return bool((both | (x.view(np.uint32) == y.view(np.uint32))).all())


@st.composite
def programs(draw: Any) -> tuple[Instruction, ...]:
    """Draw instructions, each on two inputs and on any results before it."""
    found: list[Instruction] = []
    for i in range(draw(st.integers(1, 9))):
        operation = draw(st.sampled_from([*NUMBERS, *BINARY, *BINARY, *OTHERS]))
        # Most read the last result, so that pairs are common.
        values = [0, 1, *(ops.INPUTS + j for j in range(i)), *[ops.INPUTS + i - 1] * i]
        read = st.sampled_from(values)
        low = draw(st.sampled_from([0.5, -0.0, 3.0, -1.25, 1e30]))
        found.append(Instruction(operation, draw(read), draw(read), low))
    return tuple(found)


def by_numpy(program: tuple[Instruction, ...], *inputs: Any) -> Any:
    """Return the result of the last instruction, each of them computed by NumPy."""
    values = dict(enumerate(inputs))
    with np.errstate(all="ignore"):
        for i, one in enumerate(program):
            x, y, low = values[one.first], values[one.second], np.float32(one.low)
            if one.operation in NUMBERS:
                found = NUMBERS[one.operation](x, low)
            elif one.operation in BINARY:
                found = BINARY[one.operation](x, y)
            else:
                found = OTHERS[one.operation](x)
            values[ops.INPUTS + i] = found
    return values[ops.INPUTS + len(program) - 1]


@settings(max_examples=60)
@given(programs(), st.sampled_from([1, 31, 32, 33, 100, 1030, 9001]))
def test_pairs_round_as_their_instructions_do(program: Any, count: int) -> None:
    inputs = numbers(count, 1), numbers(count, 2)
    shape = (count,)
    walks = (walk(shape, shape),) * 2
    chain = Chain(Formula(program, walks, (), count), shape)
    with np.errstate(all="ignore"):
        assert same(chain(*inputs), by_numpy(program, *inputs))


def pairs_of(*program: Instruction) -> list[int]:
    """Return which instructions are computed with the next one."""
    walks = (walk((8,), (8,)),) * 2
    table = tables_of(Formula(program, walks, (), 8)).program
    pairs = np.full((len(table), 4), ALONE)
    find_pairs(table, pairs)
    return [i for i, pair in enumerate(pairs) if pair[0] != ALONE]


def test_a_result_that_is_read_again_is_kept() -> None:
    add, square = Instruction(ops.ADD, 0, 1), Instruction(ops.MUL, 4, 4)
    number, last = Instruction(ops.MUL_NUMBER, 4, 0, 2.0), Instruction(ops.SUB, 5, 4)
    assert pairs_of(add, number) == [0]
    assert pairs_of(add, square) == []
    assert pairs_of(add, number, last) == [1]
    assert pairs_of(add, number, Instruction(ops.ADD, 1, 5), last) == []
    assert pairs_of(add, Instruction(ops.ABS, 4), Instruction(ops.ADD, 5, 0)) == []


def quads_of(*program: Instruction) -> dict[int, int]:
    """Return how many instructions are computed together, by the first of them."""
    walks = (walk((32,), (32,)),) * 2
    table = tables_of(Formula(program, walks, (), 32)).program
    quads = np.full((len(table), FIELDS), ALONE)
    find_quads(table, quads)
    return {i: int(row[1]) for i, row in enumerate(quads) if row[0] != ALONE}


def test_three_or_four_that_nobody_else_reads_are_one_pass() -> None:
    add, number = Instruction(ops.ADD, 0, 1), Instruction(ops.MUL_NUMBER, 4, 0, 2.0)
    third, fourth = Instruction(ops.SUB, 1, 5), Instruction(ops.SUB_FROM, 6, 0, -0.0)
    assert quads_of(add, number) == {}
    assert quads_of(add, number, third) == {0: 3}
    assert quads_of(add, number, third, fourth) == {0: 4}
    assert quads_of(add, number, third, fourth, Instruction(ops.ADD, 7, 0)) == {0: 4}
    assert quads_of(add, number, third, Instruction(ops.ADD, 6, 5)) == {}
    assert quads_of(add, number, Instruction(ops.ABS, 5), third) == {}


@settings(max_examples=40, deadline=None)
@given(st.data(), st.sampled_from([32, 96, 1000, 8200]))
def test_chains_of_four_round_as_their_instructions_do(data: Any, count: int) -> None:
    found = []
    for i in range(data.draw(st.integers(3, 9))):
        operation = data.draw(st.sampled_from([*NUMBERS, *BINARY]))
        before = ops.INPUTS + i - 1 if i else 0
        first, second = (before, 1) if data.draw(st.booleans()) else (1, before)
        if operation in NUMBERS:
            first = before
        low = data.draw(st.sampled_from([0.5, -0.0, 3.0, -1.25, 1e30]))
        found.append(Instruction(operation, first, second, low))
    program, shape = tuple(found), (count,)
    inputs = numbers(count, 1), numbers(count, 2)
    chain = Chain(Formula(program, (walk(shape, shape),) * 2, (), count), shape)
    with np.errstate(all="ignore"):
        assert same(chain(*inputs), by_numpy(program, *inputs))


@given(st.integers(1, 300), st.integers(0, 99), st.sampled_from([0.0, 0.02]))
def test_rows_are_reduced_as_numpy_does(length: int, seed: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(3, length)).astype(np.float32)
    x[rng.random(x.shape) < share] = rng.choice(SPECIAL)
    found, flat = np.empty(x.size, np.float32), x.reshape(-1)
    wanted = {ops.ROW_SUM: np.sum, ops.ROW_MAX: np.max, ops.ROW_MIN: np.min}
    for operation, of_numpy in wanted.items():
        with np.errstate(all="ignore"):
            run_reduction(operation, flat, length, found)
            rows = np.broadcast_to(of_numpy(x, axis=-1, keepdims=True), x.shape)
        if operation == ops.ROW_SUM:
            assert same(found, rows.reshape(-1).copy())
        else:
            np.testing.assert_array_equal(found, rows.reshape(-1))


def test_zero_is_above_minus_zero_in_a_row() -> None:
    for length in (3, 8, 9, 40):
        x, found = np.full(length, -0.0, np.float32), np.empty(length, np.float32)
        x[length // 2] = 0.0
        run_reduction(ops.ROW_MAX, x, length, found)
        assert not np.signbit(found).any()
        run_reduction(ops.ROW_MIN, x, length, found)
        assert np.signbit(found).all()
