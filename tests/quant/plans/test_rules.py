"""Rows that the rules accept touch no other bytes: unreadable pages lie beside them."""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from support import guards
from support.stored_steps import programs

from mdtensor.kernels.cpu import kernel_set
from mdtensor.kernels.cpu.generic import opcodes
from mdtensor.kernels.cpu.program import STEP, Window
from mdtensor.kernels.cpu.program.invoke import invokers
from mdtensor.kernels.cpu.threads import split
from mdtensor.quant.plans.machine import KINDS
from mdtensor_run import (
    check,
    rules_of_codes,
    rules_of_dynamic,
    rules_of_floats,
    rules_of_plain,
    rules_of_sequences,
)
from mdtensor_run.packing import PACKINGS
from mdtensor_run.row import SLACK, Refused

#: Programs of all kinds, and changed rows of each, in a quick run and in a long one.
QUICK, LONG = (2, 20), (40, 120)
#: Numbers that a changed field may get, besides those nearby.
EXTREMES = (0, 1, -1, 7, 63, 64, 65, 1 << 20, 1 << 31, 1 << 40, -(1 << 40), 2**63 - 1)
FIELDS = [name for name in STEP.names if name not in ("function", "kind", "window")]
OWN = kernel_set.HOST.name if kernel_set.HOST.name in PACKINGS else "generic"


def checked(rows, names, contents, isa=OWN, are_pieces=False):
    """The rows after all checks; constants are copied, since a check writes them."""
    size, constants = int(contents.arena), contents.constants.copy()
    given = rows, names, size, constants, PACKINGS[isa]
    return check.check_rows(*given, are_pieces)


def test_every_kind_has_a_rule():
    assert set(check.RULES) == set(KINDS)
    parts = (rules_of_codes, rules_of_floats, rules_of_sequences, rules_of_dynamic)
    parts = (*parts, rules_of_plain)
    assert sum(len(part.RULES) for part in parts) == len(KINDS)


def made(seed, isa=OWN):
    return kernel_set.make_on(kernel_set.kernels(isa), lambda: list(programs(seed)))


def cut(seed, isa=OWN):
    """The first and the last piece of each step of the programs, as rows of theirs."""
    own = kernel_set.kernels(isa)
    for contents, rows, names in made(seed, isa):
        for i, row in enumerate(contents.rows):
            pieces = kernel_set.make_on(own, split.cut, row, 3)
            for piece in (pieces[0], pieces[-1])[: len(pieces)]:
                found = np.array([piece], rows.dtype)
                found["kind"] = i
                yield contents, found, names


def test_rules_state_what_was_planned(rng):
    """Sizes by the rule are those that a program gives its buffers."""
    seen = set()
    for contents, rows, names in made(3):
        for row in checked(rows, names, contents):
            f, needs = row.fields, row.needs
            assert needs["out"] == f.out_bytes and needs["x"] == f.x_bytes, names
            assert needs["y"] in (0, f.y_bytes)
            assert needs["constants"] <= f.constants_bytes
            # A rule may leave out what a planner adds to be safe, but not much of it.
            assert needs["scratch"] <= f.scratch_bytes
            seen.add(names[f.kind])
    # The window of a product decides whether it is one of windows.
    windows = {
        "program.interpret_floats.convolve_windows",
        "program.interpret_windows.convolve_code_windows",
    }
    assert set(KINDS) - seen <= windows


def test_pieces_stay_in_what_was_planned():
    seen = set()
    for contents, rows, names in cut(3):
        # Some begin where their constants may not, so their steps stay whole.
        with suppress(Refused):
            for row in checked(rows, names, contents, are_pieces=True):
                f, needs = row.fields, row.needs
                assert needs["out"] == f.out_bytes and needs["x"] <= f.x_bytes, names
                assert needs["scratch"] <= f.scratch_bytes
                seen.add(names[f.kind])
    assert len(seen) > 20


def changed(rng, rows):
    """The rows with other numbers in one to three fields."""
    rows = rows.copy()
    row = rows[rng.integers(len(rows))]
    for _ in range(rng.integers(1, 4)):
        if rng.random() < 0.35:
            place, name = row["window"], str(rng.choice(Window._fields))
        else:
            place, name = row, str(rng.choice(FIELDS))
        old = np.array(place[name])
        if old.dtype.kind == "f":
            place[name] = rng.choice([0.0, -1.0, np.nan, np.inf, 3.0])
        else:
            near = old + rng.integers(-3, 4, old.shape)
            far = rng.choice(EXTREMES, old.shape)
            scaled = old * int(rng.choice([0, 2, 3]))
            place[name] = [near, far, scaled][rng.integers(3)]
    return rows


def changed_header(rng, contents, rows, names):
    """The contents with other numbers in the header of a step, if one has a header."""
    plain = [row for row in rows if "interpret_plain" in names[row["kind"]]]
    if not plain or rng.random() < 0.2:
        return contents
    constants = contents.constants.copy()
    start = int(plain[rng.integers(len(plain))]["constants"])
    header = constants[start : start + rules_of_plain.HEADER_BYTES].view(np.int64)
    for _ in range(rng.integers(1, 3)):
        place = rng.integers(header.size)
        near = header[place] + rng.integers(-3, 4)
        header[place] = rng.choice([near, 2 * near, rng.choice(EXTREMES)])
    return contents._replace(constants=constants)


def visit(programs_count, changes, isa, are_pieces):
    """Run planned and changed rows on buffers that end where the rules say."""
    rng = np.random.default_rng(programs_count)
    counts = {"ran": 0, "refused": 0}
    for seed in range(programs_count):
        for contents, rows, names in (cut if are_pieces else made)(seed, isa):
            for number in range(changes + 1):
                other, held = rows, contents
                if number:
                    held = changed_header(rng, contents, rows, names)
                    other = changed(rng, rows) if held is contents else rows
                try:
                    found = checked(other, names, held, isa, are_pieces)
                except Refused:
                    assert number or are_pieces
                    counts["refused"] += 1
                    continue
                _run(rng, held, other, found, names, invokers(isa))
                counts["ran"] += 1
    print(counts["ran"], counts["refused"])


def _run(rng, contents, rows, found, names, functions):
    for i, row in enumerate(found):
        f, needs = row.fields, row.needs
        if not f.out_bytes:
            continue
        kind = KINDS.index(names[f.kind])
        for at_end in (True, False):
            # An input of one value is given twice.
            sizes = needs["x"] + SLACK, needs["y"] + SLACK
            x, y = (guards.room(size, at_end) for size in sizes)
            out = guards.room(needs["out"], at_end)
            # Numbers in scratch begin at whole words, as they do in an arena.
            scratch = guards.room(-(-needs["scratch"] // 8) * 8, at_end)
            constants = guards.room(max(needs["constants"], 1), at_end)
            first = f.constants
            constants[:] = contents.constants[first : first + constants.size]
            for array in (x, y):
                array[:] = rng.integers(0, 256, array.size)
            given = x, y if needs["y"] else x, out, scratch, constants
            # An error is clean: a size that no memory holds, or a division by 0.
            with suppress(MemoryError, ArithmeticError, ValueError):
                functions[kind].call(rows, i, *given)


def run_here(numbers, isa, are_pieces):
    given = *numbers, isa, int(are_pieces)
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", str(Path(__file__)), *map(str, given)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert done.returncode == 0, done.stderr
    ran, refused = map(int, done.stdout.split())
    assert ran and refused


def test_stored_products_have_no_biases_in_their_left_side():
    found = 0
    for contents, rows, names in made(3):
        changed = rows.copy()
        for row in changed:
            if names[row["kind"]].endswith("multiply_matrices_floats"):
                row["bias"] = 1
                found += 1
        if (changed != rows).any():
            with pytest.raises(Refused, match="columns of biases"):
                checked(changed, names, contents)
    assert found


def test_stored_plans_have_no_reductions_of_rows():
    # Their rows have lengths that no rule checks.
    assert rules_of_floats.OPERATIONS == min(opcodes.REDUCTIONS) == opcodes.SOFTPLUS + 1


needs_mprotect = pytest.mark.skipif(sys.platform != "linux", reason="needs mprotect")


@pytest.mark.long
@pytest.mark.compiled
@needs_mprotect
@pytest.mark.parametrize("are_pieces", [False, True])
def test_accepted_rows_touch_only_their_bytes(are_pieces):
    run_here(QUICK, OWN, are_pieces)


@pytest.mark.slow
@pytest.mark.compiled
@needs_mprotect
@pytest.mark.parametrize("are_pieces", [False, True])
@pytest.mark.parametrize("isa", sorted({OWN, "generic"}))
def test_many_changed_rows(isa, are_pieces):
    run_here(LONG, isa, are_pieces)


if __name__ == "__main__":
    programs_count, changes, isa, are_pieces = sys.argv[1:]
    visit(int(programs_count), int(changes), isa, are_pieces == "1")
