"""`device="auto"`: the fastest device with the types, methods and memory."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from support import rendered_device

import mdtensor as md
from mdtensor.device import cpu
from mdtensor.errors import AllocationError, DeviceError, OptionError
from mdtensor.graph import automatic, placement
from mdtensor.graph.placement import Speed, Work, choices, fastest

emucuda: Any = md.device("emucuda")
needs_compiler = pytest.mark.skipif(
    bool(rendered_device.missing(emucuda)), reason=rendered_device.missing(emucuda)
)
MB, GB = 10**6, 10**9
HOST = Speed(bandwidth=20 * GB, macs=50 * GB, call=1e-6, link=np.inf)
GPU = Speed(bandwidth=1000 * GB, macs=20_000 * GB, call=10e-6, link=10 * GB)


class Stated(md.Device):
    """A device that only says what it has."""

    def __init__(self, name: str, free: int | None, missing: str = "") -> None:
        self.name, self._free, self._missing = name, free, missing

    @property
    def free_bytes(self) -> int | None:
        return self._free

    @property
    def missing(self) -> str:
        return self._missing

    alloc = from_host = to_host = launch = synchronize = None  # type: ignore[assignment]


HERE, FAST = Stated("here", 16 * GB), Stated("fast", 2 * GB)
SPEEDS: Any = {HERE: HOST, FAST: GPU}
SMALL = Work([(0, 1000)] * 10, 2000, 2000)
PRODUCTS = Work([(GB, 12 * MB)] * 10, 40 * MB, 8 * MB)
COPY = Work([(0, 300 * MB)], 300 * MB, 300 * MB)
LONG = Work([(0, 300 * MB)] * 20, 600 * MB, 300 * MB)
LARGE = Work([(GB, 3 * GB)] * 10, 3 * GB, 8 * MB)

#: What was decided for each kind of work, and the most milliseconds that it may take.
TABLE: list[tuple[str, Work, list[Any], str, float]] = [
    ("calls of few elements stay on the host", SMALL, [HERE, FAST], "here", 0.02),
    ("products pay for their copies", PRODUCTS, [HERE, FAST], "fast", 1.7),
    ("one sum does not pay for its copies", COPY, [HERE, FAST], "here", 15.1),
    ("twenty of them do", LONG, [HERE, FAST], "fast", 37),
    ("without the memory it is the next one", LARGE, [HERE, FAST], "here", 1501),
    ("the only device is chosen", PRODUCTS, [FAST], "fast", 1.7),
    ("of equal devices the first", SMALL, [HERE, HERE], "here", 0.02),
]


def nothing(place: Any) -> str:
    return ""


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row[0])
def test_the_table_of_decisions(row: Any) -> None:
    _, work, devices, wanted, limit = row
    found = choices(work, devices, nothing, SPEEDS)
    assert fastest(work, found, "f").name == wanted
    assert 1e3 * found[0].seconds <= limit


def test_no_device_has_the_memory() -> None:
    work = LARGE._replace(memory=20 * GB)
    with pytest.raises(AllocationError) as caught:
        fastest(work, choices(work, [HERE, FAST], nothing, SPEEDS), "f")
    assert caught.value.problem == (
        "no device can run it: here: 20,000,000,000 bytes are needed, 16,000,000,000 "
        "are free; fast: 20,000,000,000 bytes are needed, 2,000,000,000 are free"
    )


def test_devices_that_are_never_chosen() -> None:
    silent, absent = Stated("silent", None), Stated("absent", None, "no driver")
    found = choices(PRODUCTS, [silent, absent, HERE], nothing, {**SPEEDS, silent: GPU})
    assert [str(x) for x in found[1:]] == [
        "silent: its memory is not known",
        "absent: no driver",
    ]
    assert fastest(PRODUCTS, found, "f") is HERE
    lacking = choices(PRODUCTS, [HERE], lambda place: "it lacks float64", SPEEDS)
    with pytest.raises(DeviceError, match="here: it lacks float64"):
        fastest(PRODUCTS, lacking, "f")


def test_speeds_are_measured_once_and_positive() -> None:
    found = placement.speed_of(cpu)
    assert found is placement.speed_of(cpu)
    assert found.bandwidth > 1e8 and found.macs > 1e7 and 0 < found.call < 0.01
    assert found.link == np.inf
    assert cpu.free_bytes is not None and cpu.free_bytes > 0


def network(x: Any, w: Any) -> Any:
    return md.relu(x @ w.mT + 1)


def test_what_a_trace_asks() -> None:
    spec = (
        md.TensorSpec(md.Float32Tensor, (8, 4)),
        md.TensorSpec(md.Float32Tensor, (6, 4)),
    )
    work = automatic.work_of(md.trace(network, *spec))
    inputs, weights, result = 8 * 4 * 4, 6 * 4 * 4, 8 * 6 * 4
    assert [macs for macs, _ in work.steps] == [0, 8 * 6 * 4, 0, 0]
    assert work.steps[1] == (192, inputs + weights + result)
    assert work.moved == inputs + weights + result
    assert work.memory == inputs + weights + 2 * result
    image = md.TensorSpec(md.Float32Tensor, (1, 3, 8, 8))
    filters = md.TensorSpec(md.Float32Tensor, (5, 3, 3, 3))
    conv = automatic.work_of(md.trace(md.conv2d, image, filters))
    assert conv.steps[0][0] == 5 * 6 * 6 * 27


@pytest.fixture
def is_fast(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The emulated device passes for a fast one."""
    speeds = {cpu: HOST, emucuda: Speed(1e15, 1e15, 1e-12, 1e15)}
    monkeypatch.setattr(placement, "speed_of", speeds.__getitem__)
    devices = lambda: (cpu, emucuda)  # noqa: E731
    monkeypatch.setattr(automatic, "devices", devices)
    yield


def automatic_of(function: Callable[..., Any]) -> Any:
    return md.compile(function, device="auto")


@needs_compiler
def test_arguments_move_there_and_results_back(is_fast: None) -> None:
    x = md.asarray(np.arange(-6, 6, dtype=np.float32).reshape(3, 4))
    w = md.asarray(np.arange(8, dtype=np.float32).reshape(2, 4))
    compiled = automatic_of(lambda x: network(x, w) * 2)
    assert repr(compiled) == "<compiled <lambda> for auto, 0 traces>"
    for _ in range(3):
        with md.trace_device() as log:
            found = compiled(x)
        wanted = network(x, w) * 2
        assert type(found) is md.Float32Tensor
        assert found.tolist() == wanted.tolist()
        assert {launch.device for launch in log.launches} == {"emucuda"}
    # The weights moved once, with the trace.
    assert [copy.size for copy in log.copies] == [x.nbytes, found.nbytes]
    (placed,) = compiled.placements
    assert placed.device is emucuda
    assert placed.explain().startswith("emucuda: ")
    w[0, 0] = 100.0
    assert compiled(x).tolist() == (network(x, w) * 2).tolist()


@needs_compiler
def test_a_device_without_a_type_is_not_chosen(
    is_fast: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without(trace: Any, place: Any) -> Any:
        raise DeviceError(f"{place} has no float32")

    monkeypatch.setattr(automatic, "moved", without)
    x = md.asarray([1.0, 2.0])
    compiled = automatic_of(lambda x: x * 2)
    assert compiled(x).tolist() == [2.0, 4.0]
    (placed,) = compiled.placements
    assert placed.device is cpu
    assert [str(x) for x in placed.choices][1:] == ["emucuda: emucuda has no float32"]


def test_too_large_calls_raise_before_they_run(
    is_fast: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in (type(cpu), type(emucuda)):
        monkeypatch.setattr(kind, "free_bytes", 100)
    compiled = automatic_of(lambda x: x * 2)
    with pytest.raises(
        AllocationError, match="cpu: 160 bytes are needed, 100 are free"
    ):
        compiled(md.zeros((20,)))
    assert compiled(md.zeros((2,))).tolist() == [0.0, 0.0]


def test_what_does_not_go_with_auto() -> None:
    with pytest.raises(OptionError, match="loops for the CPU, not for auto"):
        md.compile(network, device="auto", generate=True)
    with pytest.raises(OptionError, match="is not frozen"):
        automatic_of(md.relu).freeze(md.TensorSpec(md.Float32Tensor, (2,)))
    with pytest.raises(DeviceError, match="no device 'auto'"):
        md.asarray([1.0]).to("auto")
