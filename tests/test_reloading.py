"""A module with declarations of ours that runs again, by `importlib.reload`."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import mdtensor as md
from mdtensor import dtypes
from mdtensor.dispatch.method import Method
from mdtensor.dispatch.operation import _OPERATIONS
from mdtensor.errors import RegistrationError
from mdtensor.promotion import lattice

SOURCE = """
import ml_dtypes
import mdtensor as md
from mdtensor.device import Device

narrow = md.DType("narrow", "real floating", {bits}, ml_dtypes.float8_e4m3fn)
md.add_type(narrow, above=[md.bool], below=[md.float16])

class NarrowTensor(md.FloatingTensor, dtype=narrow):
    __slots__ = ()

@md.method(md.relu)
def relu(x: NarrowTensor, /):
    return "mine"

@md.method(md.relu)
def relu(x: bytes, /):
    return "{answer}"

halve = (
    md.register("tensor.halve_narrow")
    .category("arithmetic")
    .describe("x / 2.")
    .argument("x", md.FloatingTensor, "any shape.")
    .deduce(lambda x: x)
)

@md.method(halve)
def halve(x: md.FloatingTensor, /):
    return x * 0.5
"""


@pytest.fixture
def module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registered_as_before: None
) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(tmp_path)
    write(tmp_path / "narrow_package.py")
    before = lattice.DEFAULT.arrows, lattice.DEFAULT._uppers
    try:
        yield importlib.import_module("narrow_package")
    finally:
        del sys.modules["narrow_package"], dtypes._REGISTRY["narrow"]
        lattice.DEFAULT.arrows, lattice.DEFAULT._uppers = before
        for name in [n for n in md.operations() if n.startswith("narrow_package.")]:
            del _OPERATIONS[name]
        for mine in [m for m in md.relu.operation.methods if is_mine(m)]:
            md.relu.operation.remove_method(mine)


def is_mine(method: Method) -> bool:
    return method.location.startswith("narrow_package.py:")


def write(file: Path, bits: int = 8, answer: str = "bytes") -> None:
    file.write_text(SOURCE.format(bits=bits, answer=answer), "utf-8")
    importlib.invalidate_caches()


def reload(module: ModuleType, **changes: object) -> None:
    file = Path(str(module.__file__))
    write(file, **changes)  # type: ignore[arg-type]
    # The time stamp of the compiled file has whole seconds.
    Path(importlib.util.cache_from_source(str(file))).unlink(missing_ok=True)
    importlib.reload(module)


def test_a_module_runs_again(module: ModuleType) -> None:
    x = md.asarray([1.0, 2.0])
    element, kinds = module.narrow, {module.NarrowTensor}
    assert type(md.astype(x, "narrow")) is module.NarrowTensor
    for answer in ("second", "third"):
        reload(module, answer=answer)
        assert module.narrow is element
        assert module.NarrowTensor not in kinds
        kinds.add(module.NarrowTensor)
        y = md.astype(x, "narrow")
        # What was inferred for the class of the first run is forgotten.
        assert type(y) is type(md.div(y, y)) is module.NarrowTensor
        assert type(y + md.asarray(1.0, dtype=md.float16)) is md.Float16Tensor
        assert (md.relu(y), md.relu(b"")) == ("mine", answer)
        assert module.halve(x).tolist() == [0.5, 1.0]


def test_another_definition_is_refused(module: ModuleType) -> None:
    with pytest.raises(RegistrationError, match="named narrow exists already"):
        reload(module, bits=7)


def test_another_module_is_refused(module: ModuleType) -> None:
    with pytest.raises(RegistrationError, match="named narrow exists already"):
        md.DType("narrow", "real floating", 8, module.narrow.storage)
    with pytest.raises(RegistrationError, match="has a tensor type"):

        class NarrowTensor(md.FloatingTensor, dtype=module.narrow):
            __slots__ = ()

    with pytest.raises(RegistrationError, match="Pass override=True"):

        @md.method(md.relu)
        def relu(x: bytes, /) -> object:
            return x

    with pytest.raises(RegistrationError, match="there is an operation halve_narrow"):
        md.register("halve_narrow")
