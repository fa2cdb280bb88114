"""`mdtensor run --data`: nothing is lost or doubled when workers or runs are killed."""

import io
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mdtensor.cli.partitions.local import MOST_LOSSES, run_local
from mdtensor.cli.partitions.store import NOTE, partitions
from mdtensor.cli.partitions.work import Task, packed
from mdtensor.errors import DataError
from mdtensor.quant import load

Call = Callable[..., Any]


@pytest.fixture
def network(files: Path) -> Path:
    return files / "net.onnx"


@pytest.fixture
def data(tmp_path: Path, network: Path) -> Path:
    """Five files in two folders, with 1 to 5 samples."""
    rng = np.random.default_rng(1)
    for number in range(5):
        folder = tmp_path / "data" / ("a" if number < 3 else "b")
        folder.mkdir(parents=True, exist_ok=True)
        samples = rng.normal(size=(number + 1, 3, 8, 8)).astype("f4")
        np.save(folder / f"{number}.npy", samples)
    return tmp_path / "data"


def run(call: Call, network: Path, data: Path, *more: object) -> Any:
    pattern = str(data / "*" / "*.npy")
    return call("run", network, "--data", pattern, "--workers", 2, "--json", *more)


def check(network: Path, data: Path, results: Path) -> None:
    """Each file has one result, of the bytes that a single run gives."""
    model = load(network)
    found = {p.relative_to(results).as_posix() for p in results.rglob("*.npz")}
    assert found == {f"{'a' if i < 3 else 'b'}/{i}.npz" for i in range(5)}
    for name in found:
        samples = np.load(data / name.replace("npz", "npy"))
        wanted = [np.asarray(model(sample[None])) for sample in samples]
        with np.load(results / name) as arrays:
            assert arrays["y"].tobytes() == np.concatenate(wanted).tobytes()


def test_each_file_has_its_results(
    call: Call, network: Path, data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    ended = run(call, network, data, "-o", out)
    assert (ended.code, ended.err) == (0, "")
    facts = json.loads(ended.out)
    assert (facts["partitions"], facts["ran"], facts["samples"]) == (5, 5, 15)
    check(network, data, out)
    kept = {path: path.stat().st_mtime_ns for path in out.rglob("*.npz")}
    (out / "a" / "1.npz").unlink()
    facts = json.loads(run(call, network, data, "-o", out).out)
    assert (facts["had_results"], facts["ran"], facts["samples"]) == (4, 1, 2)
    del kept[out / "a" / "1.npz"]
    assert all(path.stat().st_mtime_ns == then for path, then in kept.items())
    check(network, data, out)


def tasks(network: Path, data: Path, out: Path) -> list[Task]:
    found = partitions(str(data / "*" / "*.npy"), out)
    return [Task(network, (), 1, one.absolute()) for one in found]


def blocked(data: Path) -> tuple[Path, bytes]:
    """Make a file a pipe, which blocks its reader; return what it held."""
    path = data / "a" / "0.npy"
    held = path.read_bytes()
    path.unlink()
    os.mkfifo(path)
    return path, held


@pytest.mark.long
def test_the_task_of_a_killed_worker_runs_again(
    network: Path, data: Path, tmp_path: Path
) -> None:
    path, held = blocked(data)
    found = []
    # One worker waits for the pipe, and the other one has done all other tasks.
    for done in run_local(tasks(network, data, tmp_path / "out"), workers=2):
        found.append(done)
        if len(found) == 4:
            path.unlink()
            path.write_bytes(held)
            for worker in multiprocessing.active_children():
                assert worker.pid is not None
                os.kill(worker.pid, signal.SIGKILL)
    assert sorted(done.name for done in found) == ["a/0", "a/1", "a/2", "b/3", "b/4"]
    assert [done.problem for done in found] == [None] * 5
    check(network, data, tmp_path / "out")
    assert not multiprocessing.active_children()


def kill_readers(path: Path) -> None:
    """Kill the workers of this process as soon as one of them reads the pipe."""
    while True:
        try:
            # Opening fails as long as there is no reader.
            opened = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
            break
        except OSError:
            time.sleep(0.02)
    workers = multiprocessing.active_children()
    for worker in workers:
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGKILL)
    os.close(opened)
    for worker in workers:
        worker.join()


@pytest.mark.long
def test_a_task_that_kills_its_workers_fails_alone(
    network: Path, data: Path, tmp_path: Path
) -> None:
    path, _ = blocked(data)

    def kill() -> None:
        for _ in range(MOST_LOSSES):
            kill_readers(path)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    given = tasks(network, data, tmp_path / "out")
    found = {done.name: done for done in run_local(given, workers=1)}
    killer.join()
    failed = found.pop("a/0")
    assert failed.problem is not None and f"{MOST_LOSSES} times" in failed.problem
    assert [done.problem for done in found.values()] == [None] * 4


@pytest.mark.long
def test_a_killed_run_goes_on_where_it_was(
    network: Path, data: Path, tmp_path: Path
) -> None:
    path, held = blocked(data)
    out = tmp_path / "out"
    pattern = str(data / "*" / "*.npy")
    command = [sys.executable, "-m", "mdtensor", "run", str(network), "--data", pattern]
    command += ["-o", str(out), "--workers", "2", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        while len(list(out.rglob("*.npz"))) < 4:
            assert process.poll() is None
            time.sleep(0.05)
        process.kill()
    kept = {p: p.stat().st_mtime_ns for p in out.rglob("*.npz")}
    # The worker that waits for the pipe reads its end, and ends as well.
    os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
    path.unlink()
    path.write_bytes(held)
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert (facts["had_results"], facts["ran"]) == (4, 1)
    assert all(p.stat().st_mtime_ns == then for p, then in kept.items())
    check(network, data, out)


@pytest.mark.long
def test_a_bad_file_does_not_stop_the_others(
    call: Call, network: Path, data: Path, tmp_path: Path
) -> None:
    good = (data / "a" / "2.npy").read_bytes()
    (data / "a" / "2.npy").write_bytes(good[:100])
    ended = run(call, network, data, "-o", tmp_path / "out")
    assert ended.code == 2 and ended.out == ""
    assert "1 of 5 files have no results. " in ended.err
    assert "/a/2.npy does not hold a plain NumPy array" in ended.err
    # One full stop ends the problem.
    assert ".. " not in ended.err
    assert len(list((tmp_path / "out").rglob("*.npz"))) == 4
    (data / "a" / "2.npy").write_bytes(good)
    ended = run(call, network, data, "-o", tmp_path / "out")
    assert (ended.code, ended.err) == (0, "")
    check(network, data, tmp_path / "out")


def test_results_of_another_run_are_not_mixed(
    call: Call, network: Path, data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    run(call, network, data, "-o", out)
    ended = run(call, network.with_name("batch.onnx"), data, "-o", out)
    assert ended.code == 2 and "are of another model" in ended.err
    ended = run(call, network, data, "-o", out, "--shape", "1,3,8,8")
    assert ended.code == 2 and "are of other options" in ended.err
    np.save(data / "b" / "4.npy", np.zeros((9, 3, 8, 8), "f4"))
    ended = run(call, network, data, "-o", out)
    assert ended.code == 2 and "b/4 has changed since" in ended.err
    (out / NOTE).unlink()
    ended = run(call, network, data, "-o", out)
    assert ended.code == 2 and f".npz files and no {NOTE}" in ended.err


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ([], "OptionError: results need a folder. Pass --output FOLDER"),
        (["-o", "out", "--engine", "spark"], "no engine 'spark'. Use local or dask://"),
        (["-o", "out", "--plan"], "--data does not go with --plan"),
        (["-o", "out", "--workers", "0"], "--workers is 0. Pass at least 1"),
    ],
)
def test_wrong_options(
    call: Call, network: Path, data: Path, more: list[str], error: str
) -> None:
    command = ["run", network, "--data", str(data / "*" / "*.npy"), *more]
    ended = call(*command)
    assert ended.code == 2 and error in ended.err
    assert not (network.parent / "out").exists()


def test_patterns(network: Path, data: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no file fits '.*none.npy'"):
        partitions(str(data / "none.npy"), tmp_path)
    with pytest.raises(DataError, match=r"net.onnx is not a .npy or .npz file"):
        partitions(str(network), tmp_path)
    np.savez(data / "a" / "0.npz", np.zeros(3))
    with pytest.raises(DataError, match="would have one result file"):
        partitions(str(data / "a" / "*"), tmp_path)


def test_results_that_differ_in_shape_are_numbered() -> None:
    wide, high = np.zeros((1, 3, 2), "f4"), np.zeros((1, 2, 3), "f4")
    rows = [{"y": wide, "n": np.float32(i), "z": z} for i, z in enumerate((wide, high))]
    with np.load(io.BytesIO(packed(rows))) as arrays:
        shapes = {name: arrays[name].shape for name in arrays}
    assert shapes == {"y": (2, 3, 2), "n": (2,), "z.0": (1, 3, 2), "z.1": (1, 2, 3)}
