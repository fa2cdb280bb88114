"""`mdtensor run --engine dask://...`: one of two workers is killed, nothing is lost."""

import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.planted import chain, images

from mdtensor import cli, quant

distributed: Any = pytest.importorskip("distributed")

pytestmark = pytest.mark.slow
FILES = 6


@pytest.fixture
def cluster() -> Any:
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as found:
        yield found


def kill_reader(path: Path, cluster: Any) -> None:
    """Kill the worker that waits for a pipe, and make it a file again."""
    held = path.with_suffix(".held").read_bytes()
    while True:
        try:
            # Opening fails as long as there is no reader.
            opened = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
            break
        except OSError:
            time.sleep(0.02)
    readers: list[int] = []
    while not readers:
        pids = [nanny.pid for nanny in cluster.workers.values()]
        readers = [pid for pid in pids if _has_open(pid, path)]
    path.unlink()
    path.write_bytes(held)
    os.kill(readers[0], signal.SIGKILL)
    os.close(opened)


def _has_open(pid: int, path: Path) -> bool:
    links = Path(f"/proc/{pid}/fd").iterdir()
    return any(os.path.realpath(link) == str(path) for link in links)


@pytest.mark.filterwarnings("ignore")
def test_a_killed_worker_loses_nothing(
    cluster: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = chain(1)
    model.save(tmp_path / "net.onnx")
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    for i in range(FILES):
        np.save(data / f"{i}.npy", np.concatenate(images(i + 1, i)))
    pipe = data / "0.npy"
    pipe.rename(pipe.with_suffix(".held"))
    os.mkfifo(pipe)
    killer = threading.Thread(target=kill_reader, args=(pipe, cluster), daemon=True)
    killer.start()
    engine = "dask://" + cluster.scheduler_address.removeprefix("tcp://")
    command = ["run", tmp_path / "net.onnx", "--data", data / "*.npy", "-o", out]
    command += ["--engine", engine, "--json"]
    code = cli.execute([str(word) for word in command])
    facts = json.loads(capsys.readouterr().out)
    killer.join(timeout=10)
    assert code == 0 and not killer.is_alive()
    assert (facts["partitions"], facts["ran"]) == (FILES, FILES)
    assert facts["samples"] == sum(range(1, FILES + 1))
    known = quant.load(tmp_path / "net.onnx")
    assert sorted(p.name for p in out.glob("*.npz")) == [f"{i}.npz" for i in range(6)]
    for i in range(FILES):
        wanted = np.concatenate([np.asarray(known(x)) for x in images(i + 1, i)])
        with np.load(out / f"{i}.npz") as arrays:
            (found,) = arrays.values()
            assert found.tobytes() == wanted.tobytes()


def test_no_scheduler(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chain(1).save(tmp_path / "net.onnx")
    np.save(tmp_path / "x.npy", np.concatenate(images(1, 0)))
    command = ["run", tmp_path / "net.onnx", "--data", tmp_path / "x.npy"]
    command += ["-o", tmp_path / "out", "--engine", "dask://127.0.0.1:9"]
    assert cli.execute([str(word) for word in command]) == 2
    assert "no dask scheduler answers at 127.0.0.1:9" in capsys.readouterr().err
