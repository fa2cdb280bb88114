"""Plans that `load` keeps: the same bytes and errors, and a file that is not read."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support import stored_plans, tiny_network

import mdtensor as md
from bench import mobilenet
from mdtensor.errors import CastError, DataError, MdtensorError, ModelError, OptionError
from mdtensor.kernels.cpu import kernel_set
from mdtensor.kernels.numpy.threads import THREADS
from mdtensor.quant import load, runway
from mdtensor.quant.model.kept import KeptModel
from mdtensor.quant.plans import cache

OWN = kernel_set.HOST.name


@pytest.fixture
def plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of plans."""
    found = tmp_path / "plans"
    monkeypatch.setenv(cache.VARIABLE, str(found))
    return found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A quantized network for any number of images."""
    model, _ = stored_plans.small_network(tmp_path)
    path = tmp_path / "net.onnx"
    model.save(path)
    return path


def is_read(model: KeptModel) -> bool:
    return model._graph is not None


def begin(path: Path, x: Any, **options: Any) -> tuple[KeptModel, Any]:
    """What a process does: load, and call once."""
    model = load(path, **options)
    assert isinstance(model, KeptModel)
    return model, model(x)


def test_a_second_start_has_the_bytes_and_reads_nothing(plans, file):
    x = tiny_network.images(1, 3)
    first, want = begin(file, x)
    assert is_read(first) and len(list(plans.iterdir())) == 1
    second, got = begin(file, x)
    assert not is_read(second)
    assert type(got) is type(want) and np.array_equal(got, want)
    assert second.inputs == first.inputs and second.outputs == first.outputs
    for seed in range(3):
        x = tiny_network.images(1, seed)
        assert np.array_equal(second(md.asarray(x)), first(x))
        assert np.array_equal(second(x=x[..., ::-1]), first(x[..., ::-1]))
    assert not is_read(second)


def test_a_plan_of_an_older_format_is_made_anew(plans, file):
    x = tiny_network.images(1, 3)
    _, want = begin(file, x)
    (kept,) = plans.iterdir()
    new = kept.read_bytes()
    kept.write_bytes(new[:8] + b"\x01" + new[9:])
    model, got = begin(file, x)
    assert is_read(model) and np.array_equal(got, want)
    assert kept.read_bytes() == new


def test_a_float_network(plans, tmp_path):
    net = mobilenet.Network()
    x = net.block(net.conv("x", (3, 16), 3, stride=2), 16, 16, 2, 1)
    x = net.append("Flatten", [net.append("GlobalAveragePool", [x])])
    want, image = tiny_network.network(net, x, tmp_path), tiny_network.images(2, 1)
    path, shapes = tmp_path / "tiny.onnx", (-1, *tiny_network.SIZES)
    want = want(image)
    model, got = begin(path, image, input_shapes=shapes)
    assert not is_read(model) and np.array_equal(got, want)


@pytest.mark.parametrize(
    "more",
    [
        lambda model, x: model(np.concatenate([x, x])),
        lambda model, x: model.plan(x.shape).nodes,
        lambda model, x: model.quantize_weights if model.graph else None,
        repr,
    ],
    ids=["other shape", "plan", "graph", "repr"],
)
def test_what_the_plan_cannot_tell_comes_from_the_file(plans, file, more):
    x = tiny_network.images(1, 3)
    _, want = begin(file, x)
    model, _ = begin(file, x)
    more(*((model,) if more is repr else (model, x)))
    assert is_read(model) and np.array_equal(model(x), want)


def test_threads_read_the_file(plans, file):
    x = tiny_network.images(1, 3)
    _, want = begin(file, x)
    model, _ = begin(file, x)
    token = THREADS.set(2)
    try:
        got = model(x)
    finally:
        THREADS.reset(token)
    assert is_read(model) and np.array_equal(got, want)


def error(act: Callable[[], Any]) -> tuple[type, str]:
    with pytest.raises(MdtensorError) as found:
        act()
    return type(found.value), str(found.value)


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        (CastError, lambda x: x * np.float32(np.nan)),
        (DataError, lambda x: x.astype(np.float64)),
        (DataError, lambda x: x[0]),
        (DataError, lambda x: {"y": x}),
    ],
)
def test_errors_are_those_of_the_model(plans, file, kind, change):
    x = tiny_network.images(1, 3)
    first, _ = begin(file, x)
    second, _ = begin(file, x)
    wrong = change(x)
    found = error(lambda: second(wrong))
    assert found == error(lambda: first(wrong)) and found[0] is kind


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b"", lambda b: b[::-1]])
def test_damage_is_planned_again(plans, file, damage):
    x = tiny_network.images(1, 3)
    _, want = begin(file, x)
    (path,) = plans.iterdir()
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    model, got = begin(file, x)
    assert is_read(model) and np.array_equal(got, want)
    assert path.read_bytes() == whole


@pytest.mark.parametrize("seed", range(20))
def test_a_foreign_header_or_row_is_planned_again(plans, file, seed):
    x = tiny_network.images(1, 3)
    _, want = begin(file, x)
    (path,) = plans.iterdir()
    content, rng = path.read_bytes(), np.random.default_rng(seed)
    header, _ = stored_plans.header_of(content)
    changed = stored_plans.changed_header(header, rng)
    path.write_bytes(stored_plans.with_header(content, changed))
    # Whatever it says of the inputs, no kernel writes elsewhere.
    try:
        _, got = begin(file, x)
    except DataError:
        return
    assert np.asarray(got).dtype == np.asarray(want).dtype


def test_other_content_and_options_have_plans_of_their_own(plans, file):
    x = tiny_network.images(1, 3)
    begin(file, x)
    begin(file, x, input_shapes=x.shape)
    file.write_bytes(file.read_bytes() + b"\x72\x00")  # an empty metadata entry
    assert cache.find(cache.place_of(file, (None, None), OWN)) is None
    assert len(list(plans.iterdir())) == 2


def test_a_plan_is_for_one_isa(plans, file):
    x = tiny_network.images(1, 3)
    begin(file, x)
    with runway("generic"):
        first, want = begin(file, x)
        second, got = begin(file, x)
    assert is_read(first) and first.plan(x.shape).nodes[0].isa == "generic"
    assert not is_read(second) and np.array_equal(got, want)


def test_a_file_that_changed_is_refused_when_it_is_read(plans, file):
    x = tiny_network.images(1, 3)
    begin(file, x)
    model, want = begin(file, x)
    file.unlink()
    assert np.array_equal(model(x), want)
    with pytest.raises(ModelError, match="changed after it was loaded"):
        model.graph  # noqa: B018


def test_off_and_wrong_folders(file, tmp_path, monkeypatch):
    monkeypatch.setenv(cache.VARIABLE, "off")
    assert not isinstance(load(file), KeptModel)
    monkeypatch.setenv(cache.VARIABLE, "plans")
    with pytest.raises(OptionError, match="absolute"):
        load(file)


def test_a_folder_where_nobody_may_write_is_no_error(file, tmp_path, monkeypatch):
    (tmp_path / "no").write_bytes(b"")
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "no" / "plans"))
    _, want = begin(file, tiny_network.images(1, 3))
    model, got = begin(file, tiny_network.images(1, 3))
    assert is_read(model) and np.array_equal(got, want)


def test_the_plans_used_longest_ago_go(tmp_path):
    for age, name in enumerate("abcd"):
        path = tmp_path / f"{name}.mdt"
        path.write_bytes(bytes(100))
        os.utime(path, (1000 - age, 1000 - age))
    cache.drop(tmp_path, 250)
    assert sorted(path.stem for path in tmp_path.iterdir()) == ["a", "b"]


def test_methods_of_others_keep_no_plan_and_use_none(plans, file):
    x = tiny_network.images(1, 3)
    begin(file, x)
    (kept,) = plans.iterdir()
    with md.registry.restored():
        md.registry.add(md.glu, "cpu", lambda x, *, axis: x, override=True)
        model = load(file)
        assert not isinstance(model, KeptModel)
    model = load(file)
    with md.registry.restored():
        # Added between `load` and the first call.
        md.registry.add(md.glu, "cpu", lambda x, *, axis: x, override=True)
        model(x)
        assert is_read(model)
    assert [*plans.iterdir()] == [kept]
    again, _ = begin(file, x)
    assert not is_read(again)


def test_models_with_weights_in_another_file_keep_no_plan(plans, tmp_path):
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        "sum",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [256])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [256])],
        [numpy_helper.from_array(np.ones(256, np.float32), "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    path = tmp_path / "outside.onnx"
    onnx.save(
        model, path, save_as_external_data=True, location="w.bin", size_threshold=0
    )
    # Such files change without a change of the model: nothing is kept for them.
    assert cache.place_of(path, (None, None), OWN) is None
    assert not isinstance(load(path), KeptModel)
    onnx.save(onnx.load(path), path)
    assert isinstance(load(path), KeptModel)


WRITER = """
import sys
from pathlib import Path
from mdtensor.quant import load
from mdtensor.quant.plans import cache
from support import tiny_network
place, keep = Path(sys.argv[2]), cache.keep
model = load(sys.argv[1])
given = []
cache.keep = lambda *rest: given.append(rest)
model(tiny_network.images(1, 3))
print("ready", flush=True)
while True:
    keep(*given[0])
"""


@pytest.mark.slow
def test_a_killed_writer_leaves_a_whole_plan_or_none(plans, file):
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(stored_plans.__file__).parents[1]),
    }
    seen = set()
    for turn in range(12):
        if turn % 3 == 0:
            shutil.rmtree(plans, ignore_errors=True)
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(file), str(plans)],
            stdout=subprocess.PIPE,
            env=environment,
        )
        assert writer.stdout is not None and writer.stdout.readline() == b"ready\n"
        time.sleep(0.0004 * 3 ** (turn % 6))
        writer.kill()
        writer.communicate()
        files = [*plans.iterdir()] if plans.exists() else []
        whole = [path for path in files if path.suffix == ".mdt"]
        assert all(cache.find(path) is not None for path in whole)
        seen.add(len(whole))
    assert 1 in seen
    _, want = begin(file, tiny_network.images(1, 3))
    # The next writer removes what the killed ones left.
    cache.drop(plans, 0)
    model, got = begin(file, tiny_network.images(1, 3))
    assert is_read(model) and np.array_equal(got, want)
    assert [path.suffix for path in plans.iterdir()] == [".mdt"]
