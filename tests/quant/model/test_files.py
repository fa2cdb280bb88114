"""Model files: what is no model, what lies outside, what must not be damaged."""

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from mdtensor import quant
from mdtensor.errors import ModelError, OptionError
from mdtensor.quant.model.onnx.files import (
    check_writable,
    external_path,
    initializer_array,
    read_model,
    write_file,
)
from mdtensor.quant.model.onnx.read import read_graph

NODE = helper.make_node("Add", ["x", "w"], ["y"], "add")


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"there is no file .*none\.onnx"):
        read_model(tmp_path / "none.onnx")


def test_a_name_that_load_would_refuse_is_not_written(
    make_model: Any, tmp_path: Path
) -> None:
    path = make_model([NODE], {"x": (2, 3)}, {"w": np.ones((2, 3), np.float32)})
    model = quant.load(path)
    with pytest.raises(ModelError, match=r"this is an ONNX file\. Write y\.onnx"):
        model.save(tmp_path / "y.tflite")
    with pytest.raises(OptionError, match=r"the name of a folder\. Add the name"):
        model.save(f"{tmp_path}/new/")
    with pytest.raises(OptionError, match="the name of a folder"):
        quant.load(f"{path}/")
    assert [*tmp_path.iterdir()] == [path]


def test_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be read: Is a directory"):
        read_model(tmp_path)


@pytest.mark.parametrize("content", [b"", b"hello, model", b"\x00" * 64, b"\xff" * 9])
def test_what_is_no_model(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelError) as caught:
        read_graph(path)
    assert "\n" not in str(caught.value)


def test_every_truncation_is_refused(make_model: Any) -> None:
    """Cut anywhere, a file gives one clear error, never a trace or half a graph."""
    path = make_model([NODE], {"x": (2, 3)}, {"w": np.ones((2, 3), np.float32)})
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(ModelError) as caught:
            read_graph(path)
        assert "\n" not in str(caught.value)


def test_damaged_data_is_refused(make_model: Any) -> None:
    path = make_model([NODE], {"x": (2, 3)}, {"w": np.ones((2, 3), np.float32)})
    model = onnx.load(path)
    model.graph.initializer[0].raw_data = b"123"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match="tensor 'w' is damaged"):
        read_graph(path)


def test_without_the_package_of_the_format(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ModelError, match=r"pip install mdtensor\[onnx\]"):
        read_model(tmp_path / "model.onnx")


# --- external data --------------------------------------------------------------------


def external(make_model: Any, location: str, length: int | None = None) -> Path:
    path: Path = make_model([NODE], {"x": (2, 3)}, {"w": np.ones((2, 3), np.float32)})
    model = onnx.load(path)
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in {"location": location, "offset": "4"}.items():
        tensor.external_data.add(key=key, value=value)
    path.write_bytes(model.SerializeToString())
    data = np.arange(7, dtype="<f4").tobytes()[:length]
    (path.parent / "inside.bin").write_bytes(data)
    return path


def test_external_data_beside_the_model(make_model: Any) -> None:
    graph = read_graph(external(make_model, "inside.bin"))
    assert graph.constants["w"].tolist() == [[1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize(
    "location",
    ["/etc/hostname", "../inside.bin", "a/../../b", "C:\\data", "..\\inside.bin", ""],
)
def test_external_data_outside_is_refused(location: str, make_model: Any) -> None:
    path = external(make_model, location)
    with pytest.raises(ModelError, match=r"'w' is at .*, outside the folder"):
        read_graph(path)


def test_external_data_behind_a_link_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(b"secret")
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    with pytest.raises(ModelError, match="outside the folder"):
        external_path("link.bin", folder, "tensor 'w'")


def test_external_data_that_is_missing_or_short(make_model: Any) -> None:
    with pytest.raises(ModelError, match=r"'w' in 'gone\.bin' cannot be read"):
        read_graph(external(make_model, "gone.bin"))
    with pytest.raises(ModelError, match="'w' ends after 16 of 24 bytes"):
        read_graph(external(make_model, "inside.bin", length=20))


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("offset", "one", "'w' is damaged: its size or offset"),
        ("offset", "-4", "'w' is damaged: its size or offset"),
        ("offset", "9" * 30, "cannot be read: its offset is too large"),
        ("location", "QQdata", "cannot be read"),
    ],
)
def test_external_data_with_a_damaged_entry(
    key: str, value: str, text: str, tmp_path: Path
) -> None:
    proto = onnx.TensorProto(name="w", dims=[2, 3], data_type=1, data_location=1)
    (tmp_path / "inside.bin").write_bytes(bytes(24))
    for name, content in {"location": "inside.bin", "offset": "0", key: value}.items():
        proto.external_data.add(key=name, value=content)
    spoiled = proto.SerializeToString().replace(b"QQ", b"\xff\xff")  # no UTF-8
    with pytest.raises(ModelError, match=text):
        initializer_array(onnx.TensorProto.FromString(spoiled), tmp_path)


def test_external_data_of_a_huge_size_takes_no_memory(tmp_path: Path) -> None:
    proto = onnx.TensorProto(name="w", dims=[2**40, 2**20], data_type=1)
    proto.data_location = onnx.TensorProto.EXTERNAL
    (tmp_path / "inside.bin").write_bytes(bytes(24))
    proto.external_data.add(key="location", value="inside.bin")
    with pytest.raises(ModelError, match="'w' ends after 24 of"):
        initializer_array(proto, tmp_path)


def test_external_data_in_an_attribute_is_checked_too(make_model: Any) -> None:
    value = numpy_helper.from_array(np.ones(3, np.float32), "inner")
    value.data_location = onnx.TensorProto.EXTERNAL
    value.external_data.add(key="location", value="/etc/hostname")
    node = helper.make_node("Constant", [], ["y"], value=value)
    with pytest.raises(ModelError, match="outside the folder"):
        read_graph(make_model([node], {}))


# --- writing --------------------------------------------------------------------------


def test_write_replaces_and_keeps_the_mode(tmp_path: Path) -> None:
    path = tmp_path / "out.bin"
    path.write_bytes(b"old")
    path.chmod(0o640)
    write_file(path, b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o640
    assert [f.name for f in tmp_path.iterdir()] == ["out.bin"]


def test_a_new_file_has_the_usual_mode(tmp_path: Path) -> None:
    (tmp_path / "usual").touch()
    write_file(tmp_path / "out", b"1")
    assert (tmp_path / "out").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_what_cannot_be_written(tmp_path: Path) -> None:
    for place in (tmp_path / "none" / "out.onnx", tmp_path):
        with pytest.raises(ModelError, match="cannot be written"):
            write_file(place, b"1")
    assert [f.name for f in tmp_path.iterdir()] == []


def test_a_place_is_checked_without_a_trace(tmp_path: Path) -> None:
    check_writable(tmp_path / "out.bin")
    for place in (tmp_path / "none" / "out.bin", tmp_path):
        with pytest.raises(ModelError, match="cannot be written"):
            check_writable(place)
    assert [f.name for f in tmp_path.iterdir()] == []


def test_a_link_stays_and_what_it_names_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    write_file(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_a_device_is_written_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    check_writable(pipe)
    write_file(pipe, b"data")
    assert os.read(reader, 9) == b"data"
    os.close(reader)
    assert pipe.is_fifo()


def test_a_failing_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out.onnx"
    path.write_bytes(b"old")

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(ModelError, match="No space left on device"):
        write_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert [f.name for f in tmp_path.iterdir()] == ["out.onnx"]


def external_model(location: str) -> Any:
    """A model whose constant is in another file."""
    tensor = numpy_helper.from_array(np.ones(4, np.float32), "w")
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    graph = helper.make_graph(
        [NODE],
        "g",
        [helper.make_tensor_value_info("x", 1, [4])],
        [helper.make_tensor_value_info("y", 1, None)],
        [tensor],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


@pytest.mark.skipif(sys.platform == "win32", reason="pipes and links of POSIX")
@pytest.mark.parametrize(
    ("location", "words"),
    [
        ("pipe", "'pipe' cannot be read: it is not a file"),
        ("folder", "'folder' cannot be read: it is not a file"),
        ("loop", "'loop', which is not a path"),
        ("nul\0", "which is not a path"),
        ("gone", "'gone' cannot be read: No such file"),
        ("x" * 5000, "File name too long"),
    ],
)
def test_data_that_is_not_a_file(location: str, words: str, tmp_path: Path) -> None:
    """Opening a pipe would wait for ever; links to each other have no end."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    path = tmp_path / "model.onnx"
    path.write_bytes(external_model(location).SerializeToString())
    with pytest.raises(ModelError, match=words):
        read_graph(path)


@pytest.mark.parametrize("key", ["mdtensor.notes", "mdtensor.narrow_range"])
@pytest.mark.parametrize(
    "text", ["[" * 100_000, "{", "", "7", '{"a": [1]}', '[{"a": 1}]']
)
def test_metadata_that_is_damaged(key: str, text: str, make_model: Any) -> None:
    path = make_model([NODE], {"x": (3,)}, {"w": np.ones(3, np.float32)})
    model = onnx.load(path)
    model.metadata_props.add(key=key, value=text)
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match=f"the file's {key} is not a"):
        read_graph(path)
