"""`mdtensor serve` as clients meet it: answers, errors, limits, load."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from mdtensor.quant import load

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

SECONDS = 3


class Served(NamedTuple):
    """A server in a process of its own."""

    port: int
    model: Any
    process: Any

    def get(self, path: str, data: Any = None, **headers: str) -> tuple[int, Any, Any]:
        """Return status, headers and body of an answer."""
        url = f"http://127.0.0.1:{self.port}{path}"
        request = urllib.request.Request(url, data, headers)
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read()

    def infer(self, *inputs: Any, **more: Any) -> tuple[int, Any]:
        body = json.dumps({"inputs": inputs, **more}).encode()
        status, _, found = self.get("/v2/models/batch/infer", body)
        return status, json.loads(found)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)


def whole(one: socket.socket) -> bytes:
    """Return all that a server sends until it closes the connection."""
    parts = []
    while part := one.recv(4096):
        parts.append(part)
    return b"".join(parts)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def served(written: Path) -> Iterator[Served]:
    port, model = free_port(), written / "batch.onnx"
    command = [sys.executable, "-m", "mdtensor", "serve", str(model)]
    command += ["--port", str(port), "--max-megabytes", "1", "--timeout", str(SECONDS)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        server = Served(port, load(model), process)
        end = time.monotonic() + 120
        while time.monotonic() < end and process.poll() is None:
            try:
                if server.get("/v2/health/ready")[0] == 200:
                    break
            except OSError:
                time.sleep(0.1)
        yield server
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) in (0, -signal.SIGTERM)


def tensor(x: Any, **more: Any) -> dict[str, Any]:
    data = {"data": x.reshape(-1).tolist()} | more
    return {"name": "x", "shape": list(x.shape), "datatype": "FP32", **data}


def images(seed: int, count: int = 1) -> Any:
    return np.random.default_rng(seed).normal(size=(count, 3, 8, 8)).astype("f4")


def numbers(answer: Any) -> Any:
    (one,) = answer["outputs"]
    return np.asarray(one["data"], "f4").reshape(one["shape"])


def test_health_and_metadata(served: Served) -> None:
    assert json.loads(served.get("/v2/health/live")[2]) == {"live": True}
    assert served.get("/v2/models/batch/ready")[0] == 200
    assert json.loads(served.get("/v2")[2])["extensions"] == ["binary_tensor_data"]
    status, _, found = served.get("/v2/models/batch/versions/1")
    x = {"name": "x", "datatype": "FP32", "shape": [-1, 3, 8, 8]}
    y = {"name": "y", "datatype": "FP32", "shape": [-1, 5]}
    about = {"name": "batch", "versions": ["1"], "platform": "mdtensor"}
    assert status == 200 and json.loads(found) == about | {
        "inputs": [x],
        "outputs": [y],
    }


def test_answers_have_the_bytes_of_a_call(served: Served) -> None:
    x = images(1, 3)
    wanted = np.asarray(served.model(x))
    status, found = served.infer(tensor(x), id="seven")
    assert (status, found["id"], found["model_name"]) == (200, "seven", "batch")
    # JSON holds each float32 as the shortest text of its float64.
    assert numbers(found).tobytes() == wanted.tobytes()
    nested = tensor(x) | {"data": x.tolist()}
    assert numbers(served.infer(nested)[1]).tobytes() == wanted.tobytes()


def test_binary_tensors(served: Served) -> None:
    x = images(2, 2)
    one = tensor(x, parameters={"binary_data_size": x.nbytes})
    del one["data"]
    wanted = [{"name": "y", "parameters": {"binary_data": True}}]
    head = json.dumps({"inputs": [one], "outputs": wanted}).encode()
    length = {"Inference-Header-Content-Length": str(len(head))}
    path = "/v2/models/batch/infer"
    status, headers, body = served.get(path, head + x.tobytes(), **length)
    size = int(headers["inference-header-content-length"])
    (output,) = json.loads(body[:size])["outputs"]
    assert (status, output["shape"]) == (200, [2, 5])
    assert output["parameters"] == {"binary_data_size": len(body) - size}
    assert body[size:] == np.asarray(served.model(x)).tobytes()


BAD = [
    (b"{", "the body is not a JSON object"),
    (b"[" * 100_000, "the body is not a JSON object"),
    (b'{"inputs": 3}', "inputs is not a list of objects"),
    (b"{}", "the model takes 1 input, 'x', and got none"),
    (b'{"inputs": [{"shape": [1]}]}', "name is None. Give a text as name"),
]
X = {"name": "x", "shape": [1, 3, 8, 8], "datatype": "FP32", "data": [0.5] * 192}
WRONG = [
    ({"datatype": "BYTES"}, "datatype is 'BYTES'. Give one of BOOL, UINT8"),
    ({"shape": [1, 3, -8, 8]}, r"shape is [1, 3, -8, 8]. Give a list of sizes"),
    ({"shape": [2, 3, 8, 8]}, "data has 192 numbers. Give 384, as the shape"),
    ({"data": ["a"] * 192}, "data does not hold numbers of FP32"),
    ({"data": [[1], [1, 2]]}, "data does not hold numbers of FP32"),
    ({"datatype": "INT8"}, "data does not hold numbers of INT8"),
    ({"datatype": "FP64"}, "input 'x' must be Float32Tensor"),
    ({"shape": [1, 192]}, "input 'x' must be Float32Tensor"),
    ({"name": "z"}, "the model takes 1 input, 'x', and got 'z'"),
    ({"parameters": {"binary_data_size": 1 << 31}}, "binary_data_size is 2147483648"),
]


@pytest.mark.parametrize(("body", "error"), BAD, ids=range(len(BAD)))
def test_garbage_is_named(served: Served, body: bytes, error: str) -> None:
    status, _, found = served.get("/v2/models/batch/infer", body)
    assert status == 400 and error in json.loads(found)["error"]


@pytest.mark.parametrize(("change", "error"), WRONG, ids=range(len(WRONG)))
def test_wrong_tensors_are_named(served: Served, change: Any, error: str) -> None:
    status, found = served.infer(X | change)
    assert status == 400 and error in found["error"]


def test_other_paths(served: Served) -> None:
    status, _, found = served.get("/v2/models/none/infer", b"{}")
    assert status == 404 and "has the model 'batch'" in json.loads(found)["error"]
    assert served.get("/v2/models/batch/versions/2")[0] == 404
    assert served.get("/v2/models/batch/infer")[0] == 405
    assert served.infer(X, outputs=[{"name": "q"}])[0] == 400


def test_a_body_that_is_announced_too_large_is_not_read(served: Served) -> None:
    with served.connect() as one:
        one.sendall(b"POST /v2/models/batch/infer HTTP/1.1\r\nHost: a\r\n")
        one.sendall(b"Content-Length: 2000000000\r\n\r\n")
        answer = whole(one)
    assert answer.startswith(b"HTTP/1.1 413") and b"2000000000 bytes" in answer


def test_chunks_without_an_end_stop_at_the_limit(served: Served) -> None:
    chunk = b"10000\r\n" + bytes(1 << 16) + b"\r\n"
    with served.connect() as one:
        one.sendall(b"POST /v2/models/batch/infer HTTP/1.1\r\nHost: a\r\n")
        one.sendall(b"Transfer-Encoding: chunked\r\n\r\n")
        answer = b""
        try:
            for _ in range(64):
                one.sendall(chunk)
            answer = one.recv(4096)
        except OSError:
            pass
    assert not answer or answer.startswith(b"HTTP/1.1 413")


def test_a_body_that_does_not_come_ends(served: Served) -> None:
    with served.connect() as one:
        one.sendall(b"POST /v2/models/batch/infer HTTP/1.1\r\nHost: a\r\n")
        one.sendall(b"Content-Length: 1000\r\n\r\n{")
        start = time.monotonic()
        answer = whole(one)
    assert answer.startswith(b"HTTP/1.1 408") and b"did not arrive in 3 s" in answer
    assert time.monotonic() - start < 3 * SECONDS


@pytest.mark.parametrize(
    ("option", "error"),
    [
        ("--max-batch=0", "--max-batch is 0. Pass at least 1"),
        ("--timeout=nan", "--timeout is nan. Pass at least 0.001"),
        ("--queue=0", "--queue is 0. Pass at least 1"),
    ],
)
def test_limits_that_are_none(
    call: Any, written: Path, option: str, error: str
) -> None:
    ended = call("serve", written / "batch.onnx", option)
    assert (ended.code, ended.out) == (2, "") and error in ended.err


def test_a_port_that_is_taken(call: Any, written: Path, served: Served) -> None:
    ended = call("serve", written / "batch.onnx", "--port", served.port)
    assert ended.code == 2 and f"cannot listen at 127.0.0.1:{served.port}" in ended.err


def disturb(served: Served, stop: threading.Event) -> None:
    """Hang, send garbage and announce 2 GB, again and again."""
    hanging = []
    while not stop.is_set():
        try:
            for start in (
                b"",
                b"POST /v2/models/batch/infer HTTP/1.1\r\n",
                os.urandom(999),
            ):
                one = served.connect()
                one.sendall(start)
                hanging.append(one)
            with served.connect() as one:
                one.sendall(b"POST /v2/models/batch/infer HTTP/1.1\r\nHost: a\r\n")
                one.sendall(b"Content-Length: 2000000000\r\n\r\n" + bytes(1 << 16))
            served.get("/v2/models/batch/infer", os.urandom(5000))
        except OSError:
            pass
        while len(hanging) > 60:
            hanging.pop(0).close()
        time.sleep(0.05)
    for one in hanging:
        one.close()


@pytest.mark.parametrize(
    "seconds", [3, pytest.param(600, marks=pytest.mark.slow)], ids=["short", "long"]
)
def test_nothing_is_lost_under_load(served: Served, seconds: int) -> None:
    stop = threading.Event()
    answers: list[list[bool]] = [[] for _ in range(6)]
    wanted = [np.asarray(served.model(images(seed))) for seed in range(20)]

    def ask(own: list[bool]) -> None:
        seed = 0
        while not stop.is_set():
            status, found = served.infer(tensor(images(seed)))
            right = status == 200 and numbers(found).tobytes() == wanted[seed].tobytes()
            own.append(right)
            seed = (seed + 1) % 20

    clients = [threading.Thread(target=ask, args=(own,)) for own in answers]
    clients.append(threading.Thread(target=disturb, args=(served, stop)))
    for client in clients:
        client.start()
    time.sleep(seconds)
    stop.set()
    for client in clients:
        client.join(timeout=60)
    assert not any(client.is_alive() for client in clients)
    assert all(len(own) > seconds for own in answers)
    assert all(map(all, answers))


def test_metrics_after_all_that(served: Served) -> None:
    _, headers, body = served.get("/metrics")
    assert headers["content-type"].startswith("text/plain")
    found = dict(
        line.rsplit(" ", 1) for line in body.decode().splitlines() if line[0] != "#"
    )
    done = int(found['mdtensor_requests_total{status="200"}'])
    assert int(found["mdtensor_model_requests_total"]) >= done > 0
    # Requests that wait at the same time share calls.
    assert int(found["mdtensor_model_calls_total"]) < done
    assert int(found['mdtensor_requests_total{status="413"}']) >= 2
    assert found["mdtensor_requests_waiting"] == "0"
