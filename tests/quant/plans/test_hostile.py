"""Files that are damaged, foreign or made to harm give one clear error."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support import stored_plans
from support.plain_calls import tagger

from mdtensor.kernels.cpu.threads import split
from mdtensor.quant.plans.machine import Process
from mdtensor_run.errors import PlanError
from mdtensor_run.runner import Runner

TESTS, ROOT = Path(__file__).parents[2:4]
#: Files of each of the three sorts in a quick run and in a part of the long one.
QUICK, LONG = 150, 4000
#: Parts of the long run: 108,000 files together.
PARTS = 9


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plan")
    model, x = stored_plans.small_network(folder)
    # Short steps are cut, too, so that the file has rows for threads.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(split, "PIECE_NANOSECONDS", 0)
        model.compile(folder / "net.mdt", x.shape)
    return (folder / "net.mdt").read_bytes()


def opened(folder, content):
    path = folder / "net.mdt"
    path.write_bytes(content)
    return Runner(path, Process)


def test_every_flipped_bit_of_a_byte_is_seen(content, tmp_path, rng):
    places = [*range(64), *rng.integers(64, len(content), 200).tolist()]
    # Bytes from 32 to 64 are reserved and covered by the checksum, too.
    for place in places:
        found = bytearray(content)
        found[place] ^= 1 << int(rng.integers(8))
        with pytest.raises(PlanError):
            opened(tmp_path, bytes(found))


def test_every_truncation_is_seen(content, tmp_path, rng):
    for size in [0, 1, 8, 63, 64, 65, *rng.integers(0, len(content), 50).tolist()]:
        with pytest.raises(PlanError):
            opened(tmp_path, content[:size])
    with pytest.raises(PlanError, match=r"has \d+ bytes of \d+"):
        opened(tmp_path, content + b"\0")


@pytest.mark.parametrize("foreign", [b"", b"mdt", bytes(200), b"\x08\x08" * 99])
def test_foreign_files(foreign, tmp_path):
    with pytest.raises(PlanError, match="is not a stored plan"):
        opened(tmp_path, foreign)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("stamp", "other", "compiled for other kernels, by mdtensor"),
        ("plans", [], "has plans for , and this machine runs"),
        ("inputs", [], "nothing writes the value 'x'"),
        ("outputs", 3, "has no outputs"),
    ],
)
def test_headers(content, tmp_path, name, value, said):
    header, _ = stored_plans.header_of(content)
    header[name] = value
    with pytest.raises(PlanError, match=said):
        opened(tmp_path, stored_plans.with_header(content, header))


# Format 1 has no records of slopes; its readers would take them for tables.
@pytest.mark.parametrize("number", [1, 9])
def test_a_plan_of_another_format(content, tmp_path, number):
    said = f"has format {number}, and this version reads format 3. Compile the model"
    with pytest.raises(PlanError, match=said):
        opened(tmp_path, content[:8] + bytes([number]) + content[9:])


def test_missing_files_and_folders(tmp_path):
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(PlanError, match="cannot be read"):
            Runner(path, Process)


def visit(content, folder, count, seed):
    """Open and run changed files, whose checksums are right; count what happened."""
    rng = np.random.default_rng(seed)
    header, _ = stored_plans.header_of(content)
    ran = refused = 0
    for _ in range(count):
        for changed in (
            stored_plans.sealed(stored_plans.changed_bytes(content, rng)),
            stored_plans.with_header(content, stored_plans.changed_header(header, rng)),
            stored_plans.changed_row(content, rng),
        ):
            try:
                found = opened(folder, changed)
                x = [np.zeros(v.shape, v.type) for v in found.inputs]
                found(*x)
                found(*x, threads=2)
                ran += 1
            except PlanError:
                refused += 1
    print(ran, refused)


def run_here(content, folder, count, seed):
    (folder / "plan").write_bytes(content)
    command = [sys.executable, "-X", "faulthandler", __file__, folder, count, seed]
    done = subprocess.run(
        [*map(str, command)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT, TESTS)))},
    )
    assert done.returncode == 0, done.stderr
    ran, refused = map(int, done.stdout.split())
    assert ran and refused


@pytest.fixture(scope="module")
def of_words(tmp_path_factory):
    path = tmp_path_factory.mktemp("words") / "net.mdt"
    tagger(np.random.default_rng(5)).compile(path)
    return path.read_bytes()


@pytest.mark.long
@pytest.mark.compiled
@pytest.mark.parametrize("name", ["content", "of_words"])
def test_sealed_files(name, request, tmp_path):
    run_here(request.getfixturevalue(name), tmp_path, QUICK, seed=QUICK)


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.parametrize("part", range(PARTS))
def test_many_sealed_files(part, content, tmp_path):
    run_here(content, tmp_path, LONG, seed=part)


if __name__ == "__main__":
    place = Path(sys.argv[1])
    visit((place / "plan").read_bytes(), place, *map(int, sys.argv[2:]))
