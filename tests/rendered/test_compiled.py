"""Functions compiled for one device: what they take, and what they refuse."""

from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor import quant
from mdtensor.errors import DeviceError, OptionError
from mdtensor.kernels.emulated import compiler

needs_compiler = pytest.mark.skipif(not compiler.compiler(), reason="needs g++")
X = md.asarray(np.arange(-3, 3, dtype=np.int32).reshape(2, 3))


def scaled(x: Any, by: Any) -> Any:
    return md.maximum(x * by + 1, 0)


@needs_compiler
@pytest.mark.parametrize("dtype", [md.int8, md.int32, md.uint64])
def test_the_device_gives_the_bytes_of_the_host(dtype: Any) -> None:
    x = md.astype(X + 3, dtype)
    compiled = md.compile(scaled, device="emucuda")
    want = scaled(x, x)
    # The first call runs the trace, the second replays it.
    for _ in range(3):
        found = compiled(x.to("emucuda"), x.to("emucuda"))
        assert found.device is md.device("emucuda")
        assert np.asarray(found.to("cpu")).tobytes() == np.asarray(want).tobytes()
    assert len(compiled.traces) == 1


@needs_compiler
def test_codes_have_the_bytes_of_the_host() -> None:
    grid = quant.QParams(0.125)
    codes = quant.quantize(md.astype(X, md.float32), grid)
    compiled = md.compile(lambda q: md.relu(md.add(q, q, out=grid)), device="emucuda")
    want = md.relu(md.add(codes, codes, out=grid)).codes.tolist()
    for _ in range(2):
        assert compiled(codes.to("emucuda")).to("cpu").codes.tolist() == want


@needs_compiler
def test_nothing_is_moved() -> None:
    compiled = md.compile(scaled, device="emucuda")
    x = X.to("emucuda")
    with md.trace_device() as log:
        compiled(x, x)
        compiled(x, x)
    # Numbers such as the 1 travel as arguments of launches.
    assert not log.copies
    assert {launch.device for launch in log.launches} == {"emucuda"}


@pytest.mark.parametrize("other", [X, np.asarray(X), X.to("lazy")])
@pytest.mark.parametrize("place", [lambda x: (x, 2), lambda x: (2, [x])])
def test_a_tensor_on_another_device_raises(other: Any, place: Any) -> None:
    compiled = md.compile(lambda x, y: x, device="emucuda")
    text = r"Int32Tensor\[2,3\] is on cpu, .* for emucuda\. .*to\(\"emucuda\"\)"
    for _ in range(2):
        with pytest.raises(DeviceError, match=text):
            compiled(*place(other))
    assert compiled.traces == ()


def test_a_tensor_of_a_device_is_refused_by_a_function_for_the_host() -> None:
    compiled = md.compile(md.relu, device=md.device("cpu"))
    assert compiled(X).tolist() == [[0, 0, 0], [0, 1, 2]]
    with pytest.raises(DeviceError, match=r"is on emucuda, .* for cpu"):
        compiled(X.to("emucuda"))
    with pytest.raises(DeviceError, match=r"is on emucuda, .* for cpu"):
        compiled.freeze(md.TensorSpec(type(X.to("emucuda")), (2,)))


def test_lazy_host_tensors_count_as_the_host() -> None:
    compiled = md.compile(md.relu, device="cpu")
    assert compiled(X.to("lazy")).tolist() == [[0, 0, 0], [0, 1, 2]]


def test_the_device_is_checked_when_the_function_is_compiled() -> None:
    with pytest.raises(DeviceError, match="no device 'tpu'"):
        md.compile(md.relu, device="tpu")
    with pytest.raises(DeviceError, match="lazy, which computes nothing"):
        md.compile(md.relu, device="lazy")
    with pytest.raises(OptionError, match="loops for the CPU, not for emucuda"):
        md.compile(md.relu, generate=True, device="emucuda")
    compiled = md.compile(md.relu, device="emucuda")
    assert compiled.device is md.device("emucuda")
    assert repr(compiled) == "<compiled relu for emucuda, 0 traces>"
    assert md.compile(md.relu).device is None
