"""Requests that share a call: when they may, and what happens when one is bad."""

import asyncio
from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor import quant
from mdtensor.cli.serve.batches import Batches, Busy, why_alone
from mdtensor.cli.serve.metrics import LIMITS, Metrics
from mdtensor.cli.serve.protocol import described, read_request, write_answer
from mdtensor.errors import DataError, ModelError
from mdtensor.graph import Graph, Node
from mdtensor.graph.calls import spec_of
from mdtensor.quant import Model


def network(*nodes: Node, shape: tuple[int, ...] = (-1, 4)) -> Model:
    spec = md.TensorSpec(md.Float32Tensor, shape)
    return Model(Graph({"x": spec}, nodes, {}, (nodes[-1].output,)))


RELU = Node("relu", md.relu, ("x",), "y")
CENTRE = (
    Node("mean", md.mean, ("x",), "m", {"axis": 0, "keepdims": True}),
    Node("centre", md.sub, ("x", "m"), "y"),
)
FLAT = Node("flat", md.reshape, ("x",), "y", {"shape": (-1,)})


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (network(RELU), None),
        (network(RELU, shape=(1, 4)), "the first size of the input 'x' is fixed"),
        (network(RELU, shape=(-1, -1)), "more than the first size of the input 'x'"),
        (network(*CENTRE), "samples in one call change each other's output 'y'"),
        (network(FLAT), "the output 'y' does not have a row for each sample"),
    ],
)
def test_who_runs_alone(model: Model, why: str | None) -> None:
    found = why_alone(model)
    assert found is None if why is None else found is not None and why in found


def served(model: Any, most: int, job: Any, length: int = 8) -> Any:
    """Run a coroutine on a queue, which is stopped afterwards."""
    metrics = Metrics()

    async def run() -> Any:
        batches = Batches(model, most, 0.01, length, 1, metrics)
        batches.start()
        try:
            return await job(batches)
        finally:
            await batches.stop()

    return asyncio.run(run()), metrics


def rows(count: int, first: float) -> dict[str, Any]:
    return {"x": np.full((count, 4), first, "f4")}


def test_waiting_requests_share_calls_and_get_their_own_rows() -> None:
    async def ask(batches: Batches) -> Any:
        sizes = (1, 2, 3, 1)
        return await asyncio.gather(
            *(batches.submit(rows(n, i)) for i, n in enumerate(sizes))
        )

    found, metrics = served(network(RELU), 4, ask)
    assert [x["y"].tolist() for x in found] == [
        [[float(i)] * 4] * n for i, n in enumerate((1, 2, 3, 1))
    ]
    # One and two rows make three, and the next three do not fit below four.
    assert (metrics.calls, metrics.requests_in_calls) == (2, 4)


class Moody:
    """A network that fails on calls with a negative number."""

    outputs = ("y",)

    def __call__(self, x: Any) -> Any:
        if x.min() < 0:
            raise RuntimeError("negative")
        return x


def test_a_request_that_fails_does_not_fail_others() -> None:
    async def ask(batches: Batches) -> Any:
        given = (rows(1, 1.0), rows(1, -1.0), rows(1, 2.0))
        tasks = (batches.submit(feeds) for feeds in given)
        return await asyncio.gather(*tasks, return_exceptions=True)

    (one, bad, other), _ = served(Moody(), 8, ask)
    assert one["y"].tolist() == [[1.0] * 4] and other["y"].tolist() == [[2.0] * 4]
    assert isinstance(bad, RuntimeError)


def test_a_full_queue_and_clients_that_have_gone() -> None:
    async def ask(batches: Batches) -> Any:
        tasks = [asyncio.create_task(batches.submit(rows(1, i))) for i in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Busy, match="2 requests wait already"):
            await batches.submit(rows(1, 9.0))
        tasks[0].cancel()
        return await tasks[1]

    found, metrics = served(network(RELU), 8, ask, length=2)
    assert found["y"].tolist() == [[1.0] * 4]
    assert metrics.requests_in_calls == 1


def test_times_are_counted_up_to_their_limits() -> None:
    metrics = Metrics()
    for seconds in (LIMITS[0], 0.3, 99.0):
        metrics.count_answer(200, seconds)
    lines = metrics.text(0).splitlines()
    assert f'mdtensor_request_seconds_bucket{{le="{LIMITS[0]}"}} 1' in lines
    assert 'mdtensor_request_seconds_bucket{le="0.5"} 2' in lines
    assert 'mdtensor_request_seconds_bucket{le="+Inf"} 3' in lines


def test_json_cannot_hold_nan_but_bytes_can() -> None:
    results = {"y": np.array([[1.0, np.nan]], "f4")}
    with pytest.raises(DataError, match=r"'y' holds a NaN .* Ask for it with binary"):
        write_answer({}, results, frozenset())
    body, headers = write_answer({}, results, frozenset("y"))
    assert (
        body[int(headers["inference-header-content-length"]) :]
        == results["y"].tobytes()
    )


def test_bytes_behind_the_last_tensor() -> None:
    with pytest.raises(DataError, match="3 bytes are left behind"):
        read_request(b"{}abc", 2, ("y",))
    with pytest.raises(DataError, match="should have 9 bytes, but the body has 2"):
        read_request(b"{}", 9, ("y",))


def test_types_that_the_protocol_has_and_lacks() -> None:
    grid = quant.QParams(0.5, dtype=quant.qint8)
    codes = spec_of(quant.quantize(md.ones((2, 3)), grid))
    assert described({"y": codes}) == [
        {"name": "y", "datatype": "FP32", "shape": [2, 3]}
    ]
    with pytest.raises(ModelError, match="'x' has elements of bfloat16, which"):
        described({"x": md.TensorSpec(md.BFloat16Tensor, (2,))})
