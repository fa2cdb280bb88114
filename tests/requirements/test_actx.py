"""ACTx: devices, waiting, a registry by device; row by row of its table.

Of its devices, Metal (A4) needs a Mac and WebGPU (A5) a driver that is not here: their
rows hold for the interface, on a device that queues as they do.
"""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support.queue_device import QueueDevice
from support.queue_ops import PLAIN, queued
from support.shelf import Shelf, shelved

import mdtensor as md
from mdtensor import registry
from mdtensor.conformance import DeviceConformance

SLOW = 0.05  # seconds of a kernel, as in the row
X = [[1.0, -2.0], [3.0, 4.0]]


@pytest.fixture
def place() -> Iterator[QueueDevice]:
    with queued() as made:
        yield made


def slow_add(a: Any, b: Any, out: Any) -> None:
    time.sleep(SLOW)
    np.add(a, b, out)


# --- A1-A6: devices and waiting -------------------------------------------------------


def test_a1_a_device_is_memory_launches_and_waiting() -> None:
    """A1, 35: few abstract methods, none of them an operation; a name."""
    assert md.Device.__abstractmethods__ == {
        *("alloc", "from_host", "to_host", "launch", "synchronize")
    }
    assert (md.cpu.name, repr(md.cpu)) == ("cpu", "cpu")
    with pytest.raises(TypeError, match="abstract"):
        md.Device()  # type: ignore[abstract]


def test_a1_every_device_passes_the_same_tests(place: QueueDevice) -> None:
    """35: on the host here, on three devices in tests/test_conformance.py."""

    class Suite(DeviceConformance):
        device = place
        add = np.add

    assert len(Suite().run()) >= 18


@pytest.mark.parametrize("is_waited_for", [True, False])
def test_a2_synchronize_is_needed_and_enough(
    place: QueueDevice, is_waited_for: bool
) -> None:
    """A2, 36: a kernel of 50 ms; a raw read is old without the wait, new with it."""
    x = md.to(md.asarray(X), place)
    if not is_waited_for:
        place.streams[0].gate.clear()  # however busy the machine is
    place.launch(slow_add, x.buffer, x.buffer, x.buffer)
    if is_waited_for:
        place.synchronize()
    wanted = [[2.0, -4.0], [6.0, 8.0]] if is_waited_for else X
    assert x.buffer.raw().tolist() == wanted
    assert place.streams[0].waits == is_waited_for
    place.streams[0].gate.set()
    assert x.tolist() == [[2.0, -4.0], [6.0, 8.0]]  # reading always waits


def test_a3_the_host_has_nothing_to_wait_for() -> None:
    """A3: a launch is done when it returns, with or without the wait."""
    x, stream = np.ones(2), md.cpu.stream()
    md.cpu.launch(np.add, x, x, x)
    assert x.tolist() == [2.0, 2.0]
    stream.launch(np.add, x, x, x)
    assert x.tolist() == [4.0, 4.0]
    for wait in (md.cpu.synchronize, stream.synchronize, stream.record().wait):
        wait()
    assert x.tolist() == [4.0, 4.0]


def test_a4_a_stream_can_be_used_again_after_a_wait(place: QueueDevice) -> None:
    """A4: like a command buffer; one wait for many launches, not for each."""
    x = md.to(md.asarray(X), place)
    for number in (1, 2, 3):
        for _ in range(5):
            x = x + x
        place.synchronize()
        assert place.streams[0].waits == number
    assert x.tolist() == (np.asarray(X) * 2**15).tolist()


def test_a5_launching_takes_no_time_and_waiting_takes_the_kernels(
    place: QueueDevice,
) -> None:
    """A5, 37: as with WebGPU, where submitting returns long before the result."""
    x = md.to(md.asarray(X), place)
    place.streams[0].gate.clear()
    place.launch(slow_add, x.buffer, x.buffer, x.buffer)  # or this would not return
    begin = time.perf_counter()
    place.streams[0].gate.set()
    place.synchronize()
    assert time.perf_counter() - begin >= SLOW
    assert x.buffer.raw().tolist() == [[2.0, -4.0], [6.0, 8.0]]


def test_a6_reading_waits_for_its_own_stream_only(place: QueueDevice) -> None:
    """A6, 38: the other stream's gate stays closed for as long as we read."""
    x = md.to(md.asarray(X), place)
    with place.stream() as other:
        other.gate.clear()
        late = x * 2
    with place.stream():
        soon = x * 3
    assert soon.to("cpu").tolist() == [[3.0, -6.0], [9.0, 12.0]]
    assert late.buffer.raw().tolist() != [[2.0, -4.0], [6.0, 8.0]]
    other.gate.set()
    assert late.to("cpu").tolist() == [[2.0, -4.0], [6.0, 8.0]]


# --- A7-A10: a registry instead of virtual methods ------------------------------------


def test_a7_an_operation_needs_no_place_in_the_device(place: QueueDevice) -> None:
    """A7: 34 virtual methods upstream, none here; a new operation touches no class."""
    operations = {f.__name__ for f in md.operations().values()}
    assert not operations & set(vars(md.Device))
    assert not operations & set(vars(QueueDevice))


def test_a8_registered_got_replaced_removed(place: QueueDevice) -> None:
    """A8, 39: by name and device; a look makes no entry, a duplicate is refused."""
    before = registry.entries()
    with pytest.raises(md.DispatchError) as missing:
        registry.get("exp", "queue")
    assert str(missing.value) == "exp: no method on queue. It has methods on cpu."
    assert registry.entries() == before

    (made,) = registry.add("exp", "queue", lambda x: x)[:1]
    assert made in registry.get("exp", "queue")
    with pytest.raises(md.RegistrationError) as twice:
        registry.add("exp", "queue", lambda x: x)
    assert str(twice.value) == (
        f"exp on queue is registered already by {made.location}. "
        "Pass override=True to replace it."
    )
    registry.add("exp", "queue", lambda x: None, override=True)
    assert md.exp(md.to(md.asarray(X), place)) is None
    registry.remove("exp", "queue")
    assert registry.entries() == before


def test_a8_unknown_names_are_told_apart() -> None:
    """A8: upstream says "operation not found" for either."""
    with pytest.raises(md.OptionError, match="there is no operation ad"):
        registry.get("ad", "cpu")
    with pytest.raises(md.DeviceError, match="no device 'gpu'"):
        registry.get("add", "gpu")


def test_a9_devices_for_memory_and_the_registry_for_operations(
    place: QueueDevice,
) -> None:
    """A9: the same call, by the type of its arguments, on either device."""
    here = md.asarray(X)
    there = here.to("queue")
    assert (here @ here).tolist() == (there @ there).tolist()
    found = [md.which(md.matmul, x, x).method for x in (here, there)]
    assert found == [registry.get("matmul", d)[0] for d in ("cpu", "queue")]
    assert found[0] is not found[1]


def test_a10_any_callable() -> None:
    """A10: a lambda, and a method of an object."""

    class Scale:
        def __init__(self, by: float) -> None:
            self.by = by

        def run(self, x: Any) -> Any:
            return x.wrap(x.buffer * np.float32(self.by))

    with shelved([md.float32]) as shelf:
        x = md.to(md.asarray([1.0]), shelf)
        registry.add("neg", shelf, lambda x: x.wrap(-x.buffer))
        registry.add("square", shelf, Scale(3.0).run)
        assert ((-x).tolist(), md.square(x).tolist()) == ([-1.0], [3.0])


# --- A11-A14 --------------------------------------------------------------------------


def test_a11_method_operator_and_function_are_one_path(place: QueueDevice) -> None:
    """A11, 40: the traces are equal, on each device."""
    for x in (md.asarray(X), md.to(md.asarray(X), place)):
        traces = []
        for spelled in (
            lambda a: a.add(a),
            lambda a: a + a,
            lambda a: md.add(a, a),
            lambda a: md.get_op("tensor.add")(a, a),
        ):
            with md.traced() as calls:
                spelled(x)
            traces.append(calls)
        assert traces == [traces[0]] * 4
        (call,) = traces[0]
        assert (call.operation, call.device) == ("add", x.device)


def test_a11_the_second_operand_counts(place: QueueDevice) -> None:
    """A11, 42: upstream takes device and type of the first operand for both."""
    here, there = (
        md.asarray([1, 2], dtype=md.int32),
        md.to(md.asarray([0.5, 1.5]), place),
    )
    for x1, x2, homes in (
        (here, there, "cpu and queue"),
        (there, here, "queue and cpu"),
    ):
        for call in (md.add, md.mul):
            with pytest.raises(md.DeviceError, match=f"operands are on {homes}"):
                call(x1, x2)
    moved = here.to("queue")
    for found in (moved + there, there + moved):
        assert (found.dtype, found.tolist()) == (md.float32, [1.5, 3.5])


@pytest.mark.parametrize("operation", [md.add, md.mul], ids=lambda f: f.__name__)
def test_a11_every_pair_of_types_is_what_it_is_on_the_host(
    place: QueueDevice, operation: Any
) -> None:
    """A11, 42: the second operand's type counts in all 225 pairs, or both refuse."""

    def found(x1: Any, x2: Any) -> Any:
        try:
            result = operation(x1, x2)
        except md.MdtensorError as error:
            return type(error), error.problem
        return result.dtype, result.to("cpu").buffer.tobytes()

    values = [md.asarray([0, 1, 3]).astype(dtype) for dtype in PLAIN]
    for x1 in values:
        for x2 in values:
            there = found(x1.to("queue"), x2.to("queue"))
            assert there == found(x1, x2), (x1, x2)


def test_a12_the_host_is_registered_by_the_import_and_cuda_by_its_leaves() -> None:
    """A12: no init_ops(); what is missing says so when it is asked for memory."""
    assert {"cpu", "cuda:0"} <= {home.name for home in md.devices()}
    assert registry.get("add", "cpu")
    assert md.cuda.missing


def test_a13_a_plugin_brings_a_device_at_run_time() -> None:
    """A13: a device, its tensor types and sin, conv2d there, while we run."""
    with shelved([md.float32]) as shelf:
        for name, function in (("sin", np.sin), ("conv2d", None)):
            with pytest.raises(md.DispatchError):
                registry.get(name, shelf)
            registry.add(name, shelf, function or (lambda *_, **__: "convolved"))
        x = md.to(md.ones((1, 1, 2, 2)), shelf)
        assert md.conv2d(x, x, None) == "convolved"  # type: ignore[comparison-overlap]
        assert md.conv2d(x, x, x) == "convolved"  # type: ignore[comparison-overlap]
    assert "shelf" not in {home.name for home in md.devices()}


def test_a14_what_is_registered_goes_with_its_block() -> None:
    """A14: devices, types, methods and operations, also when the block fails."""
    before = registry.entries(), md.devices(), md.leaves()
    with pytest.raises(ZeroDivisionError), registry.restored():
        registry.remove("add", "cpu", override=True)
        md.register_device(Shelf())
        raise ZeroDivisionError
    assert (registry.entries(), md.devices(), md.leaves()) == before


def test_16_a_move_changes_the_path(place: QueueDevice) -> None:
    """16: the trace shows another method; there and back is the same."""
    x = md.asarray(X)
    traces = []
    for one in (x, x.to("queue")):
        with md.traced() as calls:
            md.relu(one)
        traces.append(calls[0].method)
    assert traces[0] is not traces[1]
    assert x.to("queue").to("cpu").tolist() == X


# --- what upstream gets wrong ---------------------------------------------------------


def test_integers_are_never_read_as_floats(place: QueueDevice) -> None:
    """Upstream adds the bits of integers as if they were floats."""
    x = md.asarray([1, 2**30, -5], dtype=md.int32).to("queue")
    assert (x + x).tolist() == [2, -(2**31), -10]


def test_views_of_the_host_are_operands(place: QueueDevice) -> None:
    """Upstream: "operations are not allowed on views"; matmul and transpose throw."""
    x = md.asarray(X)
    assert (x.T @ x[::-1]).tolist() == (np.asarray(X).T @ np.asarray(X)[::-1]).tolist()
    assert (x.T.to("queue") @ x.to("queue")).tolist() == (x.T @ x).tolist()


def test_an_error_on_the_device_ends_nothing(place: QueueDevice) -> None:
    """Upstream calls exit(1) when Metal fails."""

    def fail(_: Any) -> None:
        raise MemoryError

    x = md.to(md.asarray(X), place)
    y = x + x
    place.launch(fail, y.buffer)
    with pytest.raises(md.DeviceError, match=r"fail\(QueueBuffer\[2,2\]\)"):
        y.tolist()
    assert (x + x).tolist() == [[2.0, -4.0], [6.0, 8.0]]
