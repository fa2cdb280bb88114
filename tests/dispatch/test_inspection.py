"""What the namespace says about itself, and which names are public."""

import builtins
import inspect
import types
from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor.errors import DeviceError, OptionError

INFO = md.__array_namespace_info__()
INTEGRAL = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
REAL, COMPLEX = ["float32", "float64"], ["complex64", "complex128"]


def test_version() -> None:
    assert md.__array_api_version__ == "2024.12"


def test_capabilities() -> None:
    found = INFO.capabilities()
    assert found["boolean indexing"] and found["data-dependent shapes"]
    most = found["max dimensions"]
    assert md.zeros((1,) * most).ndim == most
    with pytest.raises(ValueError):
        np.zeros((1,) * (most + 1))


def test_devices() -> None:
    assert INFO.default_device() is md.cpu
    assert INFO.devices() == [known for known in md.devices() if not known.missing]
    assert md.cpu in INFO.devices()


def test_default_types_are_those_of_python_numbers() -> None:
    found = INFO.default_dtypes(device="cpu")
    assert found == INFO.default_dtypes()
    for value, kind in ((1.5, "real floating"), (1j, "complex floating")):
        assert md.asarray(value).dtype is found[kind]
    assert md.asarray(1).dtype is found["integral"]
    assert md.argmax(md.asarray([1])).dtype is found["indexing"]


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (None, ["bool", *INTEGRAL, *REAL, *COMPLEX]),
        ("bool", ["bool"]),
        ("signed integer", INTEGRAL[:4]),
        ("unsigned integer", INTEGRAL[4:]),
        ("integral", INTEGRAL),
        ("real floating", REAL),
        ("complex floating", COMPLEX),
        ("numeric", [*INTEGRAL, *REAL, *COMPLEX]),
        (("bool", "complex floating"), ["bool", *COMPLEX]),
        ((), []),
    ],
    ids=str,
)
def test_types_of_a_kind(kind: Any, names: list[str]) -> None:
    found = INFO.dtypes(kind=kind, device=md.cpu)
    assert list(found) == names
    assert all(found[name] is getattr(md, name) for name in names)


def test_no_such_device_or_kind() -> None:
    with pytest.raises(DeviceError):
        INFO.dtypes(device="moon")
    with pytest.raises(DeviceError):
        INFO.default_dtypes(device="moon")
    with pytest.raises(OptionError):
        INFO.dtypes(kind="float")


LATER = {"conformance", "diagnose", "graph", "quant", "safetensors", "tables", "wide"}
#: Names that are imported when they are first used.
GRAPH = {"Trace", "compile", "lazy", "realize", "trace"}
PUBLIC = [name for name in dir(md) if not name.startswith("_")]


def test_public_names_are_there_and_documented() -> None:
    assert {"Tensor", "add", "dtypes", "max", "quant"} <= set(PUBLIC)
    values = {name: getattr(md, name) for name in PUBLIC}
    modules = {n for n, value in values.items() if isinstance(value, types.ModuleType)}
    assert modules == {"dtypes", "extend", "fft", "linalg", "registry"} | LATER
    told = (type, types.FunctionType, types.ModuleType)
    silent = [
        n
        for n, value in values.items()
        if isinstance(value, told) and not inspect.getdoc(value)
    ]
    assert silent == []


def test_every_function_of_the_core_is_public() -> None:
    modules = [md, *(getattr(md, name) for name in ("linalg", "fft") if name in PUBLIC)]
    public = {
        value
        for module in modules
        for value in vars(module).values()
        if hasattr(value, "operation")
    }
    declared = {
        f for name, f in md.operations().items() if name.startswith("mdtensor.generics")
    }
    assert declared <= public


def test_star_leaves_the_builtins_alone() -> None:
    taken: dict[str, Any] = {}
    exec("from mdtensor import *", taken)
    del taken["__builtins__"]
    assert not set(taken) & set(vars(builtins))
    hidden = {name for name in PUBLIC if hasattr(builtins, name)}
    assert set(taken) == set(PUBLIC) - hidden - LATER - GRAPH
    own = {"abs", "all", "any", "bool", "max", "min", "pow", "round", "sum"}
    assert hidden - GRAPH == own
