"""Where tensors live: the host, and devices that a stranger registers."""

import copy
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.shelf import Shelf, shelved

import mdtensor as md
from mdtensor.device import _REGISTRY
from mdtensor.errors import (
    DeviceError,
    ExchangeError,
    NoMethodError,
    RegistrationError,
)


@pytest.fixture
def shelf() -> Iterator[Shelf]:
    """A registered device with one leaf, both gone afterwards."""
    with shelved([md.float32]) as place:
        yield place


def text(error: type[Exception], call: Callable[[], Any]) -> str:
    with pytest.raises(error) as caught:
        call()
    return str(caught.value)


def test_host_shares_memory() -> None:
    array = np.arange(3)
    assert md.cpu.from_host(array) is array
    assert md.cpu.to_host(array) is array
    assert md.cpu.alloc((2, 3), np.dtype("int8")).shape == (2, 3)
    done: list[int] = []
    md.cpu.launch(done.append, 1)
    md.cpu.synchronize()
    assert done == [1]


def test_found_by_name() -> None:
    assert md.device("cpu") is md.device(md.cpu) is md.cpu
    assert pickle.loads(pickle.dumps(md.cpu)) is md.cpu
    assert copy.deepcopy(md.cpu) is md.cpu
    assert repr(md.cpu) == "cpu"
    assert text(DeviceError, lambda: md.device("moon")).startswith(
        "no device 'moon'. Registered devices: cpu"
    )
    nameless: Any = ["cpu"]
    assert text(DeviceError, lambda: md.device(nameless)).startswith(
        "no device ['cpu']. Registered devices: cpu"
    )


def test_a_name_is_taken_once(shelf: Shelf) -> None:
    assert text(RegistrationError, lambda: md.register_device(Shelf())) == (
        "a device named shelf exists already. Use it, or choose another name."
    )


PLUGIN = """
import numpy as np
import mdtensor as md

class Attic(md.Device):
    name = "attic"
    def alloc(self, shape, storage): return np.empty(shape, storage)
    def from_host(self, array): return np.array(array)
    def to_host(self, buffer): return np.array(buffer)
    def launch(self, kernel, *arguments): kernel(*arguments)
    def synchronize(self): pass

class AtticFloat32Tensor(md.FloatingTensor, dtype=md.float32, device=Attic()):
    __slots__ = ()

md.register_device(AtticFloat32Tensor.device)
"""


def install(folder: Path, module: str, text: str, monkeypatch: Any) -> None:
    """A package that says which module registers the device `module`."""
    info = folder / f"{module}-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {module}\nVersion: 1\n"
    )
    (info / "entry_points.txt").write_text(f"[mdtensor.devices]\n{module} = {module}\n")
    (folder / f"{module}.py").write_text(text)
    monkeypatch.syspath_prepend(folder)


def test_found_among_the_installed_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "attic", PLUGIN, monkeypatch)
    with md.registry.restored():
        assert "attic" not in _REGISTRY
        x = md.to(md.asarray([1.0]), "attic")
        assert (x.device.name, type(x).__name__) == ("attic", "AtticFloat32Tensor")
        assert md.device("attic") is x.device
    sys.modules.pop("attic")


def test_a_package_that_does_not_load_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "cellar", "raise OSError('no driver')", monkeypatch)
    with pytest.raises(DeviceError) as caught:
        md.device("cellar:0")
    assert str(caught.value) == "cellar, which registers cellar:0, fails to load."
    assert isinstance(caught.value.__cause__, OSError)


def test_a_package_that_registers_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "loft", "", monkeypatch)
    assert text(DeviceError, lambda: md.device("loft")).startswith("no device 'loft'.")
    sys.modules.pop("loft")


def test_there_and_back(shelf: Shelf) -> None:
    x = md.asarray([1.0, 2.0])
    there = md.to(x, shelf)
    assert (type(there).__name__, there.device) == ("ShelfFloat32Tensor", shelf)
    assert not np.shares_memory(there.buffer, x.buffer)
    back = there.to("cpu")
    assert type(back) is md.Float32Tensor
    assert back.tolist() == there.tolist() == [1.0, 2.0]
    assert md.to(there, "shelf") is there


def test_deduced_without_moving(shelf: Shelf) -> None:
    selected = md.to.select(md.Float32Tensor, Shelf)
    found = selected.deduce(md.TensorSpec(md.Float32Tensor, (2, -1)), shelf)
    assert (found.type, found.shape) == (md.leaf(md.float32, shelf), (2, -1))


def test_host_methods_refuse_it(shelf: Shelf) -> None:
    here, there = md.asarray([1.0]), md.to(md.asarray([1.0]), shelf)
    assert text(DeviceError, lambda: here + there) == (
        "add(Float32Tensor[1], ShelfFloat32Tensor[1]): operands are on cpu and shelf. "
        "Move one with to(device)."
    )
    calls = [
        lambda: there + there,
        lambda: there == there,
        lambda: md.relu(there),
        lambda: md.softmax(there),
        lambda: md.sum(there),
        lambda: there[0],
        lambda: md.reshape(there, (1, 1)),
        lambda: md.concat([there, there]),
        lambda: md.astype(there, md.int8),
        lambda: md.matmul(there, there),
        lambda: there * 2,
    ]
    for call in calls:
        assert 'no method for shelf yet. Move the operands with to("cpu").' in text(
            NoMethodError, call
        )
    assert text(DeviceError, lambda: md.concat([here, there])).startswith(
        "concat(Float32Tensor[1], ShelfFloat32Tensor[1]): operands are on cpu and"
    )


def test_reading_waits_for_the_device(shelf: Shelf) -> None:
    there = md.to(md.asarray([7.0]), shelf)
    reads: list[Callable[[Any], Any]] = [
        float,
        int,
        bool,
        lambda x: x.tolist(),
    ]
    for read in reads:
        shelf.log.clear()
        read(there)
        assert shelf.log == ["to_host"]


def test_numpy_does_not_read_it_silently(shelf: Shelf) -> None:
    there = md.to(md.asarray([7.0]), shelf)
    assert text(DeviceError, lambda: np.asarray(there)) == (
        "__array__(ShelfFloat32Tensor[1]): NumPy reads host memory only, but the "
        "elements are on shelf. Move them with to(cpu)."
    )


def test_dlpack_copies_to_the_host_if_asked_to(shelf: Shelf) -> None:
    there = md.to(md.asarray([7.0]), shelf)
    assert there.__dlpack_device__() == (12, 0)
    assert text(ExchangeError, lambda: there.__dlpack__()) == (
        "__dlpack__(ShelfFloat32Tensor[1]): the elements are on shelf, not on the "
        "host. Move them with to(cpu), or pass dl_device=(1, 0)."
    )
    with pytest.raises(ExchangeError):
        there.__dlpack__(dl_device=(1, 0), copy=False)
    shelf.log.clear()
    there.__dlpack__(dl_device=(1, 0))
    assert shelf.log == ["to_host"]


def test_copies_stay_there(shelf: Shelf) -> None:
    there = md.to(md.asarray([7.0, 8.0]), shelf)
    for twin in (copy.copy(there), copy.deepcopy(there)):
        assert type(twin) is type(there)
        assert twin.tolist() == [7.0, 8.0]
        assert not np.shares_memory(twin.buffer, there.buffer)


def test_a_cast_moves_its_result(shelf: Shelf) -> None:
    there = md.astype(md.asarray([1.5]), md.float32, device=shelf)
    assert (type(there).__name__, there.tolist()) == ("ShelfFloat32Tensor", [1.5])
    wide = md.asarray([1.5], dtype=md.float64)
    assert md.astype(wide, md.float32, device="shelf").device is shelf
    assert text(DeviceError, lambda: md.astype(wide, md.float32, device="moon"))


def test_made_on_the_device(shelf: Shelf) -> None:
    there = md.to(md.asarray([7.0]), shelf)
    made = [
        md.zeros(1, device=shelf),
        md.ones((1,), device="shelf"),
        md.full(1, 2.0, device=shelf),
        md.empty(1, device=shelf),
        md.eye(1, device=shelf),
        md.arange(1.0, device=shelf),
        md.linspace(0, 1, 2, device=shelf),
        md.asarray([1.0], device=shelf),
        md.from_dlpack(np.ones(1, np.float32), device=shelf),
        *(like(there) for like in (md.zeros_like, md.ones_like, md.empty_like)),
        md.full_like(there, 3),
    ]
    assert {x.device for x in made} == {shelf}
    assert made[-1].tolist() == [3.0]
    assert md.zeros_like(there, device="cpu").device is md.cpu
    assert md.asarray(there) is there
    with pytest.raises(NoMethodError, match="full"):
        md.full(1, md.asarray(2.0).to(shelf))


def test_indices_come_from_the_same_device(shelf: Shelf) -> None:
    here, there = md.asarray([1.0]), md.to(md.asarray([1.0]), shelf)
    with pytest.raises(DeviceError, match=r"^setitem\(Float32Tensor\[1\], Shelf"):
        here[0] = there


def test_no_leaf_no_move(shelf: Shelf) -> None:
    assert text(DeviceError, lambda: md.to(md.asarray([1]), shelf)) == (
        "to(Int64Tensor[1], Shelf): int64 has no tensor type on shelf. "
        "Use the device cpu."
    )
    assert text(DeviceError, lambda: md.asarray([1], device="shelf")).endswith(
        "int64 has no tensor type on shelf. Use the device cpu."
    )
    with pytest.raises(DeviceError, match=r"float64 .* Use float32 or the device cpu"):
        md.zeros((2,), dtype=md.float64, device=shelf)


@pytest.mark.skipif(not md.cuda.missing, reason="there is a GPU")
def test_cuda_says_what_is_missing() -> None:
    x: Any = md.asarray([1.0])
    sentence = f"cuda:0 cannot be used: {md.cuda.missing}."
    assert text(DeviceError, lambda: md.to(x, "cuda")) == (
        f"to(Float32Tensor[1], str): {sentence} Use cpu."
    )
    assert text(DeviceError, lambda: md.CudaFloat32Tensor([1.0])) == (
        f"{sentence} Use cpu."
    )
    for call in (
        lambda: md.cuda.alloc((1,), np.dtype("int8")),
        lambda: md.cuda.launch(print),
        md.cuda.stream,
    ):
        assert text(DeviceError, call) == f"{sentence} Use cpu."
    assert md.cuda not in md.__array_namespace_info__().devices()
    # Programs that wait for every device, or list memory, go on.
    md.cuda.synchronize()
    assert md.memory_stats("cuda") == md.ledger.MemoryStats(0, 0, 0)


def test_every_element_type_has_a_leaf_there_of_the_same_kind() -> None:
    for host in md.leaves()[:15]:
        there = host.with_device(md.cuda)
        assert there.__name__ == f"Cuda{host.__name__}"
        assert there.__bases__ == host.__bases__
        assert getattr(md, there.__name__) is there


def test_a_stranger_leaves_nothing_behind() -> None:
    assert "shelf" not in _REGISTRY
