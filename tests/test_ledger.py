"""The ledger of a device: complete, with lines and reasons; and blocks that forbid."""

import gc
import sys
import threading
from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor import quant
from mdtensor.errors import CastError, DeviceError
from mdtensor.kernels.emulated import compiler

emucuda: Any = md.device("emucuda")
pytestmark = pytest.mark.skipif(not compiler.compiler(), reason="needs g++")
X = md.asarray(np.arange(6, dtype=np.float32).reshape(2, 3))


def everything() -> Any:
    """Calls of every family that launches, copies or waits."""
    x = X.to(emucuda)
    y = md.softmax(x * 2 - 1, axis=1)
    y[0] = 3.0
    y[1] = x[0]
    md.concat([y, md.flip(x)], axis=0)
    md.pad(md.matmul(x, x.T), [(1, 0), (0, 1)])
    md.conv2d(md.reshape(x, (1, 1, 2, 3)), md.reshape(x, (1, 1, 2, 3)), padding=1)
    q = quant.quantize(y, quant.QParams(0.05))
    md.add(q, q, out=quant.QParams(0.1))
    stream = emucuda.stream()
    stream.wait(emucuda._main.record())
    with stream:
        z = x + x
    stream.record().wait()
    stream.synchronize()
    md.astype(x, md.int8)
    return z.tolist(), md.sum(x).item(), repr(z), q.to("cpu")


def test_it_has_all_that_the_device_did() -> None:
    everything()
    emucuda.synchronize()
    before = dict(emucuda.counts)
    with md.trace_device() as log:
        everything()
        emucuda.synchronize()
    did = {name: emucuda.counts[name] - before[name] for name in before}
    assert did["launches"] == len(log.launches) > 15
    assert did["to device"] == log.size("to device") == 24
    assert did["to host"] == log.size("to host") > 0
    assert len(log.copies) == 1 + len([w for w in log.waits if w.reason not in SYNCS])
    assert [w.reason for w in log.waits if w.reason in SYNCS] == [*SYNCS]
    assert len(log.entries) == sum(map(len, (log.launches, log.copies, log.waits)))


SYNCS = ("event", "stream", "synchronize")


def line() -> int:
    return sys._getframe(1).f_lineno


def test_entries_name_kernel_reason_and_line() -> None:
    with md.trace_device() as log:
        x, at = X.to(emucuda), line()
        y = x * 2
        with pytest.raises(CastError):
            md.astype(y + 0.5, md.int8, casting="exact")
        y.tolist()
    text = [str(one) for one in log.entries]
    assert text[0] == f"emucuda  copy to device  24 bytes  test_ledger.py:{at}"
    assert text[1] == f"emucuda  launch  mul_f32  test_ledger.py:{at + 1}"
    assert log.waits[0].reason == "astype counts elements that it refuses"
    assert log.waits[0].place == f"test_ledger.py:{at + 3}"
    assert text[-2] == f"emucuda  wait  read  test_ledger.py:{at + 4}"
    assert text[-1] == f"emucuda  copy to host  24 bytes  test_ledger.py:{at + 4}"
    assert str(log).splitlines() == text


def test_only_what_happens_inside_of_the_block() -> None:
    x = X.to(emucuda)
    with md.trace_device() as outer:
        x + x
        with md.trace_device() as inner:
            x * x
        other = threading.Thread(target=lambda: x - x)
        other.start()
        other.join()
    x / 2
    names = [[launch.kernel for launch in log.launches] for log in (outer, inner)]
    assert names == [["add_f32", "mul_f32"], ["mul_f32"]]
    with md.trace_device() as log:
        md.softmax(X, axis=0).tolist()
    assert not log.entries


def test_no_sync_raises_at_the_first_wait() -> None:
    x = X.to(emucuda)
    with md.no_sync():
        y = md.softmax(md.exp(x), axis=0) + md.sum(x)
        md.astype(y, md.int8, casting="saturate")
    before = dict(emucuda.counts)
    stream = emucuda.stream()
    calls = [
        (y.tolist, "read"),
        (lambda: md.astype(y, md.int8), "astype counts elements that it refuses"),
        (lambda: quant.quantize(y, quant.QParams(1.0)), "quantize counts elements"),
        (emucuda.synchronize, "synchronize"),
        (stream.synchronize, "stream"),
        (stream.record().wait, "event"),
    ]
    for call, reason in calls:
        with pytest.raises(DeviceError) as caught, md.no_sync():
            call()
        assert f"emucuda: waits ({reason}" in str(caught.value)
        assert "test_ledger.py:" in str(caught.value)
        assert "Move it out of the no_sync block." in str(caught.value)
    assert emucuda.counts == before
    assert len(y.tolist()) == 2


def test_no_transfer_raises_at_the_first_copy() -> None:
    x = X.to(emucuda)
    q = quant.quantize(x, quant.QParams(0.125))
    grid = quant.QParams(0.0625)
    md.mul(q, q, out=grid)
    before = dict(emucuda.counts)
    with md.no_transfer():
        md.mul(q, q, out=grid)
        y = x + 1
    emucuda.synchronize()
    assert {**emucuda.counts, "launches": 0} == {**before, "launches": 0}
    for call, words in ((lambda: X.to(emucuda), "to device"), (y.tolist, "to host")):
        with (
            pytest.raises(
                DeviceError, match=f"24 bytes are copied {words} at"
            ) as error,
            md.no_transfer(),
        ):
            call()
        assert "Move it out of the no_transfer block" in str(error.value)


def test_memory_is_counted() -> None:
    gc.collect()
    emucuda.synchronize()
    start = md.memory_stats("emucuda")
    x = md.zeros(1000, device=emucuda)
    held = md.memory_stats(emucuda)
    assert held.used == start.used + 4000 and held.peak >= held.used
    view = x[1:]
    del x
    assert md.memory_stats(emucuda).used == held.used
    del view
    emucuda.synchronize()
    freed = md.memory_stats(emucuda)
    assert freed.used == start.used and freed.pooled >= 4000
    y = md.empty(1000, device=emucuda)
    assert md.memory_stats(emucuda).pooled == freed.pooled - 4000
    assert np.isnan(y.buffer.raw()).all()
    with pytest.raises(DeviceError, match="cpu does not count its memory"):
        md.memory_stats("cpu")
