"""Stored plans give the bytes of their models."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from support import libraries, stored_plans, tiny_network

import mdtensor as md
from bench import mobilenet
from mdtensor.errors import CastError, DataError, ModelError, OptionError
from mdtensor.graph import Graph, Node
from mdtensor.kernels.cpu import isa, kernel_set
from mdtensor.quant import (
    QInt8Tensor,
    QParams,
    QUInt8Tensor,
    load_plan,
    quantize,
    runway,
)
from mdtensor.quant.model.model import Model
from mdtensor_run import PlanError, run
from mdtensor_run.packing import PACKINGS

OWN = kernel_set.HOST.name
needs_library = pytest.mark.skipif(
    bool(libraries.missing()), reason=f"{libraries.missing()}: run make native"
)


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    return stored_plans.small_network(tmp_path_factory.mktemp("network"))


@pytest.fixture
def stored(network, tmp_path):
    model, x = network
    path = tmp_path / "net.mdt"
    model.compile(path, x.shape)
    return path


def test_same_bytes(network, stored):
    model, x = network
    found = load_plan(stored)
    assert found.isa == OWN
    assert [*found.inputs] == ["x"] and found.inputs["x"].shape == x.shape
    for seed in range(3):
        x = tiny_network.images(1, seed)
        want, got = model(x), found(x)
        assert type(got) is type(want) and np.array_equal(got, want)
        assert np.array_equal(found(x=md.asarray(x)), want)


def test_a_float_network(tmp_path):
    net = mobilenet.Network()
    x = net.block(net.conv("x", (3, 16), 3, stride=2), 16, 16, 2, 1)
    x = net.append("Flatten", [net.append("GlobalAveragePool", [x])])
    x = net.append("Softmax", [x])
    model, image = tiny_network.network(net, x, tmp_path), tiny_network.images(2, 1)
    model.compile(tmp_path / "net.mdt", image.shape)
    found = load_plan(tmp_path / "net.mdt")(image)
    assert np.array_equal(np.asarray(found), np.asarray(model(image)))


@pytest.mark.parametrize("kind", [QInt8Tensor, QUInt8Tensor])
def test_codes_come_in_and_out(network, tmp_path, kind):
    """Codes of images: channels first outside and last inside."""
    model, x = network
    graph = model.graph
    pool = next(node for node in graph.nodes if node.operation is md.max_pool2d)
    inner = replace(graph, outputs=(pool.output,)).pruned()
    (first,) = [n for n in inner.nodes if n.values == ("x",)]
    grid = graph.specs()[first.output].qparams
    if kind is QInt8Tensor:
        grid = grid.replace(zero_point=grid.zero_point - 128, dtype=kind.dtype)
    nodes = tuple(node for node in inner.nodes if node is not first)
    given = {first.output: kind.spec((1, *tiny_network.SIZES), grid)}
    small = Model(replace(inner, inputs=given, nodes=nodes))
    codes = quantize(md.asarray(x), grid)
    small.compile(tmp_path / "net.mdt")
    found, want = load_plan(tmp_path / "net.mdt")(codes), small(codes)
    assert type(found) is type(want) and found.qparams == want.qparams
    assert np.array_equal(found.code_array, want.code_array)
    with pytest.raises(DataError, match="must be"):
        load_plan(tmp_path / "net.mdt")(x)


NUMBERS = [
    md.BoolTensor,
    md.UInt8Tensor,
    md.Int8Tensor,
    md.UInt16Tensor,
    md.Int16Tensor,
]


def of_numbers(kind, path):
    """The stored plan of a network of images that are not floats, and the images."""
    nodes = (
        Node("float", md.astype, ("x", md.float32), "f"),
        Node("half", md.mul, ("f", 0.5), "y"),
        Node("turned", md.permute_dims, ("x",), "t", {"axes": (0, 2, 3, 1)}),
    )
    x = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
    # The ends of the type are among them.
    x = (x * 257 * 7 % 65536).astype(kind.dtype.storage)
    model = Model(Graph({"x": kind.spec(x.shape)}, nodes, {}, ("y", "t")))
    model.compile(path)
    return model, x


@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_that_are_not_floats_come_in_and_out(kind, tmp_path):
    """An image of bytes: its cast is part of the plan."""
    model, x = of_numbers(kind, tmp_path / "net.mdt")
    assert np.array_equal(np.asarray(model(x)[0]), x.astype(np.float32) / 2)
    for found, want in zip(load_plan(tmp_path / "net.mdt")(x), model(x), strict=True):
        assert type(found) is type(want)
        assert np.array_equal(found.buffer, want.buffer)
    with pytest.raises(DataError, match="must be"):
        load_plan(tmp_path / "net.mdt")(x.astype(np.float32))


@pytest.mark.parametrize(
    ("key", "value"), [("is_number", False), ("is_signed", True), ("type", "float32")]
)
@pytest.mark.parametrize("kind", [md.Int8Tensor, md.Int16Tensor])
def test_a_plan_with_other_numbers_is_refused(kind, key, value, tmp_path):
    path = tmp_path / "net.mdt"
    of_numbers(kind, path)
    content = path.read_bytes()
    header, _ = stored_plans.header_of(content)
    (slot,) = header["plans"][0]["parts"][0]["inputs"]
    slot[key] = value
    path.write_bytes(stored_plans.with_header(content, header))
    with pytest.raises(ModelError):
        load_plan(path)


@needs_library
@pytest.mark.compiled
@pytest.mark.parametrize("isas", [("generic",), ("avx2", "generic")])
def test_other_isas(network, tmp_path, isas):
    built = libraries.built()
    if not {*isas, "generic"} <= set(isa.here()) & set(built):
        pytest.skip(f"this CPU does not run {isas}, or there is no library: {built}")
    model, x = network
    model.compile(tmp_path / "net.mdt", x.shape, isas=isas)
    found = run(tmp_path / "net.mdt")
    assert found.isa == isas[0]
    assert np.array_equal(found(x), np.asarray(model(x)))
    with runway("generic"):
        generic = Model(model.graph)
    generic.compile(tmp_path / "own.mdt", x.shape)
    assert run(tmp_path / "own.mdt").isa == "generic"


OTHERS = [name for name in PACKINGS if name not in (OWN, "generic", "avx2")]


def test_a_file_for_every_isa(network, tmp_path):
    """Plans for other CPUs are made here, and each CPU takes its own."""
    model, x = network
    isas = [*OTHERS, OWN, "generic"]
    model.compile(tmp_path / "net.mdt", x.shape, isas=isas)
    header, _ = stored_plans.header_of((tmp_path / "net.mdt").read_bytes())
    assert [plan["isa"] for plan in header["plans"]] == [*dict.fromkeys(isas)]
    found = load_plan(tmp_path / "net.mdt")
    assert found.isa == OWN
    assert np.array_equal(np.asarray(found(x)), np.asarray(model(x)))


def test_a_file_for_other_cpus_is_refused(network, tmp_path):
    model, x = network
    model.compile(tmp_path / "net.mdt", x.shape, isas=OTHERS)
    listed = ", ".join(OTHERS)
    with pytest.raises(ModelError, match=f"has plans for {listed}, and this machine "):
        load_plan(tmp_path / "net.mdt")


EMULATED = """
import sys
import numpy as np
from mdtensor.quant import load_plan
found = load_plan(sys.argv[1])
print(found.isa, np.asarray(found(np.load(sys.argv[2]))).tobytes().hex())
"""


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.parametrize("name", isa.DOT_ISAS)
def test_other_cpus_emulated(network, tmp_path, name):
    """A file that was written here, in a process with the instructions of each CPU."""
    model, x = network
    model.compile(tmp_path / "net.mdt", x.shape, isas=[name])
    np.save(tmp_path / "x.npy", x)
    variables = {"MDTENSOR_ISA": name + isa.EMULATED * (name != OWN)}
    command = "-c", EMULATED, tmp_path / "net.mdt", tmp_path / "x.npy"
    found = libraries.output(*command, **variables)
    assert found == f"{name} {np.asarray(model(x)).tobytes().hex()}"


@needs_library
@pytest.mark.compiled
def test_the_runner(network, stored, tmp_path):
    model, x = network
    found = run(stored)
    assert np.array_equal(found(x), np.asarray(model(x)))
    many = tiny_network.images(5, 2)
    want = np.asarray(model(many))
    for threads in (1, 3):
        assert np.array_equal(found(many, threads=threads), want)
    for wrong in (x.astype(np.float64), x[:, :2], x[0], x[:0]):
        with pytest.raises(PlanError, match=r"input 'x' is .*, not float32"):
            found(wrong)
    with pytest.raises(PlanError, match="2 inputs, not 1"):
        found(x, x)
    with pytest.raises(PlanError, match="NaN"):
        found(np.full_like(x, np.nan))


@needs_library
@pytest.mark.compiled
def test_the_command(network, stored, tmp_path):
    model, x = network
    np.save(tmp_path / "x.npy", x)
    command = "-m", "mdtensor_run", stored
    libraries.output(*command, tmp_path / "x.npy", "-o", tmp_path / "y.npy")
    assert np.array_equal(np.load(tmp_path / "y.npy"), np.asarray(model(x)))
    libraries.output(*command, tmp_path / "x.npy", "--out", tmp_path / "y.npz")
    assert list(np.load(tmp_path / "y.npz")) == list(model.outputs)
    done = libraries.run(*command, tmp_path / "x.npy", "--output", tmp_path / "y.txt")
    assert done.returncode == 1 and "y.txt is neither an .npz nor" in done.stderr
    assert libraries.output(*command, tmp_path / "x.npy").startswith("flatten")
    assert libraries.output(*command).startswith("Runner(x: float32")
    done = libraries.run("-m", "mdtensor_run", tmp_path / "x.npy", tmp_path / "x.npy")
    assert done.returncode == 1
    assert "x.npy is not a stored plan. Pass a file that" in done.stderr
    assert "Traceback" not in done.stderr


IMPORTS = """
import sys
from mdtensor_run import run
run(sys.argv[1])
print([n for n in sys.modules if n.split(".")[0] in ("mdtensor", "plum", "numba")])
"""


@needs_library
@pytest.mark.compiled
def test_the_runner_imports_nothing_of_mdtensor(stored):
    assert libraries.output("-c", IMPORTS, stored) == "[]"


def test_arguments(network, stored):
    found = load_plan(stored)
    _, x = network
    for call in (
        lambda: found(),
        lambda: found(x, x),
        lambda: found(y=x),
        lambda: found(x, x=x),
        lambda: found(x[:, :2]),
        lambda: found(x.astype(np.float64)),
    ):
        with pytest.raises(DataError):
            call()
    with pytest.raises(CastError, match="NaN"):
        found(np.full_like(x, np.nan))
    assert repr(found).startswith("StoredNetwork(x: Float32Tensor")


def test_what_cannot_be_stored(network, tmp_path):
    model, x = network
    path = tmp_path / "net.mdt"
    path.write_bytes(b"before")
    with pytest.raises(DataError, match="dynamic"):
        model.compile(path)
    with pytest.raises(OptionError, match="plans for sparc cannot be stored"):
        model.compile(path, x.shape, isas=["sparc"])
    assert path.read_bytes() == b"before"
    net = mobilenet.Network()
    y = net.append("Erf", [net.conv("x", (3, 4))])
    other = tiny_network.network(net, net.append("Tan", [y]), tmp_path)
    with pytest.raises(ModelError, match="not compiled steps: 'tan"):
        other.compile(path, x.shape)
    assert path.read_bytes() == b"before"
    with pytest.raises(ModelError, match="cannot be written"):
        model.compile(tmp_path / "none" / "net.mdt", x.shape)


KILLED = """
import os, sys
from contextlib import contextmanager
from mdtensor.quant import load
from mdtensor.quant.plans import write
model = load(sys.argv[1], (1, 3, 17, 20))
replacing = write.replacing
@contextmanager
def dying(path):
    with replacing(path) as file:
        file.write(b"half of it")
        file.flush()
        os.kill(os.getpid(), 9)
        yield file
write.replacing = dying
model.compile(sys.argv[2])
"""


def test_a_killed_process_leaves_the_old_plan(network, stored, tmp_path):
    model, _ = network
    model.save(tmp_path / "net.onnx")
    before = stored.read_bytes()
    command = [sys.executable, "-c", KILLED, tmp_path / "net.onnx", stored]
    assert subprocess.run(list(map(str, command))).returncode == -9
    assert stored.read_bytes() == before


@pytest.mark.parametrize(
    ("key", "value"),
    [("name", 3), ("at", 1 << 40), ("refuses_nan", False), ("type", "uint8")],
)
def test_computed_floats_that_become_codes(tmp_path, key, value):
    nodes = (
        Node("root", md.sqrt, ("x",), "root"),
        Node("half", md.mul, ("root", 0.5), "half"),
        Node("round", quantize, ("half",), "y", {"qparams": QParams(0.25, 3)}),
    )
    spec = md.TensorSpec(md.Float32Tensor, (2, 3))
    model, path = Model(Graph({"x": spec}, nodes, {}, ("y",))), tmp_path / "net.mdt"
    model.compile(path)
    found, x = load_plan(path), np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.array_equal(found(x).codes, model(x).codes)
    x[1, 1] = -1
    with pytest.raises(CastError, match="'half' has NaN"):
        found(x)
    content = path.read_bytes()
    header, _ = stored_plans.header_of(content)
    (one,) = header["plans"][0]["parts"][0]["checked"]
    one[key] = value
    path.write_bytes(stored_plans.with_header(content, header))
    with pytest.raises(ModelError):
        load_plan(path)
