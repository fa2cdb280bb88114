"""Peers do the same work as mdtensor, and the limits do all of theirs."""

import numpy as np
import pytest

from bench.harness.agreement import Disagreement
from bench.harness.ratio import Ratio
from bench.harness.reading import Reading
from bench.rivals import peaks, streams
from bench.sizes import BENCH, moving, products, task
from bench.sizes.task import LIMIT, NUMPY, OURS, SHAPES
from mdtensor.kernels.cpu import isa

pytestmark = pytest.mark.compiled
TASKS = {task.name: task for task in moving.TASKS}
KINDS = {kind.name: kind for kind in products.KINDS}


@pytest.mark.parametrize("name", TASKS)
def test_all_libraries_agree(name: str) -> None:
    race = TASKS[name].race(100)
    results = {one.name: one.result() for one in race.make()}
    race.check(results)
    assert {OURS, NUMPY, LIMIT} <= set(results)
    with pytest.raises(Disagreement, match="NumPy"):
        race.check(results | {NUMPY: results[NUMPY] + 9})


@pytest.mark.parametrize("name", KINDS)
def test_products_agree(name: str) -> None:
    race = KINDS[name].race(2 if KINDS[name].images else 10)
    race.check({one.name: one.result() for one in race.make()})


def test_whatever_is_slower_than_a_peer_has_a_reason() -> None:
    """But for numexpr on large operands, of which the limits say that nothing is."""
    races = [(one.race(n), one.statements) for one in moving.TASKS for n in SHAPES]
    for kind in products.KINDS:
        names = [one.name for one in kind.contenders(2)]
        sides = products.IMAGE_SIDES if kind.images else products.SIDES
        races += [(kind.race(side), names) for side in sides]
    for race, names in races:
        for rival in {*names, "ONNX Runtime"} - {OURS, LIMIT, "numexpr"}:
            worse = Reading("", race.name, rival, 1, 1, 1, ratio=Ratio(2, 2, 2))
            assert BENCH.explained(worse).why, (race.name, rival)


def test_operands_have_as_many_elements_as_the_row_says() -> None:
    assert all(rows * columns == count for count, (rows, columns) in SHAPES.items())
    assert products.KINDS[0].race(10).name == "matmul float32, 100"


def test_without_a_library_its_column_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(task, "numexpr", None)
    monkeypatch.setattr(task, "torch", None)
    names = [one.name for one in TASKS["add"].contenders(100)]
    assert names == [OURS, NUMPY, "NumPy, out=", "ONNX Runtime", LIMIT]


@pytest.mark.parametrize(("reads", "writes"), [(1, 1), (2, 1), (4, 1), (1, 4)])
@pytest.mark.parametrize("is_streaming", [0, 1])
def test_streams_write_what_they_read(
    reads: int, writes: int, is_streaming: int
) -> None:
    """All that is read is combined, and written to all."""
    unit = 3 * streams.STEP
    source, target = (streams.aligned_bytes(n * unit) for n in (reads, writes))
    source[:], target[:] = np.arange(len(source)) % 251, 7
    streams.mover(reads, writes, is_streaming)(source, target, 3)
    wanted = np.bitwise_xor.reduce(source.reshape(reads, unit), axis=0)
    assert (target.reshape(writes, unit) == wanted).all()


def test_all_that_is_read_alone_counts() -> None:
    source = np.zeros(2 * streams.STEP, np.uint8)
    for word in range(0, len(source), peaks.WIDTH):
        source[word] ^= word // peaks.WIDTH + 1
    found = streams.mover(1, 0, 0)(source, source, 2)
    assert found == np.bitwise_xor.reduce(source[:: peaks.WIDTH])


def test_peaks_add_products() -> None:
    """The sum of all chains after a few steps, as Python's integers have it."""
    steps = 3
    chains = list(range(peaks.CHAINS))
    for _ in range(steps):
        chains = [chain * steps + steps for chain in chains]
    assert peaks.run_floats(steps) == sum(chains)


@pytest.mark.skipif("sse2" not in isa.FEATURES, reason="no such instruction")
def test_peaks_add_products_of_codes() -> None:
    """`steps` is a code or a half word of the factor, the others of which are 0."""
    steps = 3
    chains = list(range(peaks.CHAINS))
    for _ in range(steps):
        part = 0xFF if peaks.HAS_DOT else 0xFFFF
        chains = [chain + (chain & part) * steps for chain in chains]
    assert peaks.run_codes(steps) == sum(chains)
