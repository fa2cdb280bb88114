"""One image of a stored plan on several threads gives the bytes of one thread."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from support import libraries, stored_plans, tiny_network

from mdtensor.errors import DataError
from mdtensor.kernels.cpu.threads import split, words
from mdtensor.quant import load_plan
from mdtensor_run import run
from mdtensor_run.threads import Job, Pool

needs_library = pytest.mark.skipif(
    bool(libraries.missing()), reason=f"{libraries.missing()}: run make native"
)


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    return stored_plans.small_network(tmp_path_factory.mktemp("network"))


@pytest.fixture
def path(network, tmp_path, monkeypatch):
    """A plan whose steps are cut although they are short."""
    monkeypatch.setattr(split, "PIECE_NANOSECONDS", 0)
    model, x = network
    model.compile(tmp_path / "net.mdt", x.shape)
    return tmp_path / "net.mdt"


def job_of(content):
    header, _ = stored_plans.header_of(content)
    return header, header["plans"][0]["parts"][0]["job"]


def test_same_bytes(network, path):
    model, x = network
    _, job = job_of(path.read_bytes())
    assert job["pieces"] > job["groups"] > 2
    found, want = load_plan(path), np.asarray(model(x))
    for threads in (1, 2, 3, 2, 64):
        for _ in range(5):
            assert np.array_equal(np.asarray(found(x, threads=threads)), want)
    many = tiny_network.images(3, 5)
    assert np.array_equal(np.asarray(found(many, threads=2)), np.asarray(model(many)))


@needs_library
@pytest.mark.compiled
def test_the_runner(network, path):
    model, x = network
    found, want = run(path), np.asarray(model(x))
    for threads in (1, 2, 3):
        assert np.array_equal(found(x, threads=threads), want)


def test_callers_at_once(network, path):
    """One caller has the workers; the others run alone."""
    model, x = network
    found, want = load_plan(path), np.asarray(model(x))
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: found(x, threads=2), range(40)))
    assert all(np.array_equal(np.asarray(result), want) for result in results)


def test_short_steps_are_not_cut(network, tmp_path):
    model, x = network
    model.compile(tmp_path / "net.mdt", x.shape)
    _, job = job_of((tmp_path / "net.mdt").read_bytes())
    assert job is None
    found = load_plan(tmp_path / "net.mdt")(x, threads=2)
    assert np.array_equal(np.asarray(found), np.asarray(model(x)))


def changed(content, place, count, change):
    """The file with other numbers of int64 in a section."""
    words = np.frombuffer(content, np.uint8).copy()
    numbers = words[place : place + 8 * count].view(np.int64)
    numbers[:] = change(numbers.copy())
    return stored_plans.sealed(words.tobytes())


@pytest.mark.parametrize(
    ("section", "change", "said"),
    [
        ("pieces", lambda n: n + 1000, "a piece of rows that do not exist"),
        ("pieces", lambda n: -n, "a piece of rows that do not exist"),
        ("pieces", lambda n: n % 2, "a piece of rows .* of another piece"),
        ("first", lambda n: n[::-1], "groups of pieces that do not exist"),
        ("first", lambda n: n + 1, "groups of pieces that do not exist"),
        # Steps that wait for each other would run at once.
        ("first", lambda n: n * 0 + n[-1] * (np.arange(len(n)) > 0), "may run at once"),
    ],
)
def test_wrong_pieces_are_refused(network, path, section, change, said):
    """A file of one thread's rows is whole, so the first call with threads raises."""
    _, x = network
    content = path.read_bytes()
    _, job = job_of(content)
    count = {"pieces": 2 * job["pieces"], "first": job["groups"] + 1}[section]
    path.write_bytes(changed(content, job[f"{section}_at"], count, change))
    found = load_plan(path)
    with pytest.raises(DataError, match=said):
        found(x, threads=2)


class Failing:
    """Functions of a library, of which the loop fails once on two threads."""

    def __init__(self):
        self.pool, self.runs = None, 0

    def function(self, key):
        return self.run if key == "program.run.run" else lambda words: None

    def run(self, *arguments):
        self.runs += 1
        if self.runs == 1:
            self.pool._error = ValueError("of a worker")
            raise ValueError("of the caller")


def test_errors_of_two_threads_end_one_call():
    library = Failing()
    library.pool = pool = Pool(library, words.describe() | {"can_wait": True})
    given = Job(*[np.zeros(0)] * 3), *[np.zeros(0)] * 3
    with pytest.raises(ValueError, match="of the caller"):
        pool.run(1, *given)
    assert pool.run(1, *given) and library.runs == 2
