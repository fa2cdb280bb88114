"""Pieces that the checks accept are apart, and two threads run them to their end.

Every number of the pieces in a small file is changed, one at a time. A quick run has
one change of several.
"""

import os
import subprocess
import sys
from contextlib import suppress
from itertools import islice, pairwise, permutations, product
from pathlib import Path

import numpy as np
import pytest
from support import stored_plans

from mdtensor.kernels.cpu.program import STEP
from mdtensor.kernels.cpu.threads import split
from mdtensor.quant.plans.machine import Process
from mdtensor_run.errors import PlanError
from mdtensor_run.layout import ALIGN
from mdtensor_run.runner import Runner

TESTS, ROOT = Path(__file__).parents[2:4]
#: Fields of the buffers; their numbers are where two pieces can meet.
BUFFERS = ("x", "y", "out", "x_bytes", "y_bytes", "out_bytes", "scratch_bytes")
#: What a number may become, besides numbers near it.
EXTREMES = (0, 1, -1, 1 << 20, 1 << 40, 2**63 - 1, -(2**63))


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plan")
    model, x = stored_plans.small_network(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(split, "PIECE_NANOSECONDS", 0)
        model.compile(folder / "net.mdt", x.shape)
    return (folder / "net.mdt").read_bytes()


def part_of(content):
    """The description of the only part."""
    header, _ = stored_plans.header_of(content)
    return header["plans"][0]["parts"][0]


def saved(folder, content):
    """The path of a file with this content."""
    (folder / "net.mdt").write_bytes(content)
    return folder / "net.mdt"


def with_number(content, place, value):
    """The file with another int64 at a place."""
    number = value.to_bytes(8, "little", signed=True)
    return stored_plans.sealed(content[:place] + number + content[place + 8 :])


def with_field(content, name, value):
    """The file with another number in the description of the job."""
    header, _ = stored_plans.header_of(content)
    header["plans"][0]["parts"][0]["job"][name] = value
    return stored_plans.with_header(content, header)


def of_header(content):
    """Each section of the job at each place of the file, with other lengths, too."""
    job = part_of(content)["job"]
    for name in ("rows_at", "pieces_at", "first_at"):
        for place in range(0, len(content), ALIGN):
            yield f"{name} {place}", with_field(content, name, place)
    for name in ("rows", "pieces", "groups"):
        for count in (0, 1, job[name] - 1, job[name] + 1, 2 * job[name], 1 << 40):
            yield f"{name} {count}", with_field(content, name, count)


def of_pieces(content):
    """Each number of each piece and group changed."""
    job = part_of(content)["job"]
    for name, count in (("pieces", 2 * job["pieces"]), ("first", job["groups"] + 1)):
        for i in range(count):
            for value in (*range(job["rows"] + 2), *EXTREMES):
                place = job[f"{name}_at"] + 8 * i
                yield f"{name}[{i}] {value}", with_number(content, place, value)


def of_rows(content):
    """Each number of each field changed in each row."""
    job = part_of(content)["job"]
    rows = np.frombuffer(content, STEP, job["rows"], job["rows_at"])
    places = {int(n) for name in BUFFERS for n in rows[name]}
    for i, name in product(range(len(rows)), STEP.names):
        kind, start = STEP.fields[name][:2]
        for at in range(start, start + kind.itemsize, 8):
            place = job["rows_at"] + i * STEP.itemsize + at
            old = int.from_bytes(content[place : place + 8], "little", signed=True)
            found = {old - 64, old - 1, old + 1, old + 64, old // 2, *EXTREMES}
            found |= places if name in BUFFERS else set()
            for value in sorted(found - {old}):
                said = f"row {i}, {name}, byte {at - start}: {old} to {value}"
                yield said, with_number(content, place, value)


def races(job, size):
    """Pieces that may run at once, of which one writes what the other one uses.

    Bytes are marked one by one, in an arena of `size` bytes.
    """
    for first, end in pairwise(job.first.tolist()):
        uses, writes = np.zeros((2, end - first, size), bool)
        for use, write, piece in zip(uses, writes, job.pieces[first:end], strict=True):
            for row in job.rows[slice(*piece)]:
                if not row["out_bytes"]:
                    continue
                for name in ("x", "y", "out"):
                    use[row[name] :][: row[f"{name}_bytes"]] = True
                write[row["out"] :][: row["out_bytes"]] = True
                # That of the thread that calls; a worker has its own.
                write[: row["scratch_bytes"]] = True
        for i, j in permutations(range(end - first), 2):
            if (writes[i] & uses[j]).any():
                yield first + i, first + j


def visit(content, folder, changes, every):
    """Run the changed files that are accepted on two threads; count what happened."""
    ran = refused = 0
    for said, changed in islice(changes(content), 0, None, every):
        try:
            found = Runner(saved(folder, changed), Process)
            job = found.parts[0].job
        except PlanError:
            refused += 1
            continue
        (folder / "said").write_text(said)
        assert not list(races(job, part_of(content)["arena"])), said
        # A kernel may find that its numbers make no sense.
        with suppress(PlanError):
            found(*[np.zeros(v.shape, v.type) for v in found.inputs], threads=2)
        ran += 1
    print(ran, refused)


def run_here(content, folder, changes, every):
    (folder / "plan").write_bytes(content)
    command = sys.executable, "-X", "faulthandler", __file__, folder, changes.__name__
    done = subprocess.run(
        [*map(str, (*command, every))],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT, TESTS)))},
    )
    assert done.returncode == 0, ((folder / "said").read_text(), done.stderr)
    ran, refused = map(int, done.stdout.split())
    assert ran and refused


#: Changes; a quick run has one of so many. Few changed headers are accepted.
CHANGES = {of_header: 7, of_pieces: 20, of_rows: 61}


@pytest.mark.long
@pytest.mark.compiled
@pytest.mark.parametrize(("changes", "every"), CHANGES.items())
def test_changed_numbers(content, tmp_path, changes, every):
    run_here(content, tmp_path, changes, every)


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.parametrize("changes", CHANGES)
def test_all_changed_numbers(content, tmp_path, changes):
    run_here(content, tmp_path, changes, 1)


@pytest.mark.parametrize("last", [0, 1])
def test_a_piece_without_rows(content, tmp_path, last):
    """Its loop would run all rows behind it, and what lies behind them."""
    job = part_of(content)["job"]
    # The first or the last piece: the first row of it, and the row after its last.
    place = job["pieces_at"] + (16 * job["pieces"] - 16 if last else 0)
    begin, end = np.frombuffer(content, np.int64, 2, place).tolist()
    for at, value in ((place, end), (place + 8, begin)):
        found = Runner(saved(tmp_path, with_number(content, at, value)), Process)
        with pytest.raises(PlanError, match="has a piece without rows"):
            found(*[np.zeros(v.shape, v.type) for v in found.inputs], threads=2)


def rows_of(content):
    """(rows of all pieces, writable; a function that seals the file with them)."""
    part = part_of(content)
    job, words = part["job"], np.frombuffer(content, np.uint8).copy()
    size = job["rows"] * STEP.itemsize
    rows = words[job["rows_at"] : job["rows_at"] + size].view(STEP)
    return rows, lambda: stored_plans.sealed(words.tobytes())


def test_scratch_in_a_piece_beside(content, tmp_path):
    """The thread that calls would write what a worker reads."""
    job = Runner(saved(tmp_path, content), Process).parts[0].job
    rows, seal = rows_of(content)
    groups = [job.pieces[a:b, 0].tolist() for a, b in pairwise(job.first.tolist())]
    least = {i: min(rows[i][["x", "y", "out"]].item()) for i in range(len(rows))}
    i = next(i for group in groups for i in group if least[i] > least[group[0]])
    rows[i]["scratch_bytes"] = least[i]
    found = Runner(saved(tmp_path, seal()), Process)
    with pytest.raises(PlanError, match=r"has scratch in \w+ of a piece that may"):
        _ = found.parts[0].job


@pytest.mark.parametrize(
    ("field", "value"), [("pad_left", 64), ("out_w", 1), ("stride_w", 0), ("width", 99)]
)
def test_columns_left_over(content, tmp_path, field, value):
    """A piece leaves rows of an image over; a kernel copies lines as wide as it."""
    rows, seal = rows_of(content)
    i = next(i for i, row in enumerate(rows) if row["window"]["kernel_w"] == 3)
    rows[i]["window"][field] = value
    found = Runner(saved(tmp_path, seal()), Process)
    with pytest.raises(PlanError, match=f"step {i} has"):
        _ = found.parts[0].job


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    given = globals()[sys.argv[2]], int(sys.argv[3])
    visit((folder / "plan").read_bytes(), folder, *given)
