"""Model files on disk: reading with checks, and replacement in one step."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from math import prod
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.errors import ModelError, OptionError, shown
from mdtensor.extend import (
    file_path,
    replacing,
    require_writable,
    write_problem,
)
from mdtensor.quant.model.onnx.build import element_type
from mdtensor.quant.model.onnx.elements import ELEMENTS
from mdtensor.quant.model.tflite.identifier import is_tflite_name
from mdtensor.quant.rules import EXACT, check_rule

Array = npt.NDArray[Any]


def onnx_package() -> Any:
    """Return the package onnx, which reads and writes the file format.

    Raises:
        ModelError: the package is not installed.
    """
    # Imported here because the package is an extra that only models need.
    try:
        import onnx
    except ImportError:
        raise ModelError(
            "reading and writing ONNX files needs the package onnx",
            "Install it with `pip install mdtensor[onnx]`",
        ) from None
    return onnx


def read_model(path: str | os.PathLike[str]) -> Any:
    """Return the ModelProto in a file.

    Raises:
        ModelError: the file does not exist, or does not contain a model.
    """
    onnx = onnx_package()
    data = _read_file(file_path(path, "path"))
    try:
        model = onnx.load_model_from_string(data)
    # The parser raises DecodeError of protobuf, which is not a dependency of ours.
    except Exception:
        raise ModelError(
            f"{path} is not an ONNX model, or is truncated: {len(data)} bytes",
            "Export or copy it again",
        ) from None
    check_model(model, path)
    return model


def check_model(model: Any, what: object) -> None:
    """Raise if a ModelProto does not have a graph, or if a name in it is not text.

    Raises:
        ModelError: the model does not have a graph, or a name is not UTF-8.
    """
    if not model.graph.output or not model.opset_import:
        raise ModelError(f"{what} does not contain an ONNX graph", "Export it again")
    _check_texts(model)


def _check_texts(model: Any) -> None:
    """Raise for a name in a model that is not UTF-8: protobuf returns bytes."""
    _require_text("an operator set", *(entry.domain for entry in model.opset_import))
    for entry in model.metadata_props:
        _require_text("the metadata", entry.key, entry.value)
    _check_graph_texts(model.graph)
    for function in model.functions:
        _check_node_texts(function.node)


def _check_graph_texts(graph: Any) -> None:
    """Raise for a name in a graph, or in the graphs inside of its nodes."""
    values = [*graph.input, *graph.output, *graph.initializer]
    _require_text("a value", *(value.name for value in values))
    _check_node_texts(graph.node)


def _check_node_texts(nodes: Any) -> None:
    for number, node in enumerate(nodes):
        kind, texts = node.op_type, [node.name, node.domain, *node.input, *node.output]
        for attribute in node.attribute:
            texts += (attribute.name, attribute.ref_attr_name)
            if attribute.type == attribute.GRAPH:
                _check_graph_texts(attribute.g)
        _require_text(f"node number {number}", kind, *texts)


def _require_text(where: str, *texts: str | bytes) -> None:
    """Raise for a name that is bytes."""
    for text in texts:
        if isinstance(text, bytes):
            problem = f"a name in {where} of the file is not UTF-8: {text[:40]!r}"
            raise ModelError(problem, "Export it again")


def _read_file(path: Path) -> bytes:
    """Return the bytes of a file."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ModelError(f"there is no file {path}", "Check the path") from None
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from None


def initializer_array(proto: Any, folder: Path) -> Array:
    """Return the elements of a TensorProto, from the model or its external file.

    Raises:
        ModelError: the element type is not supported, the data is damaged, or external
            data is outside `folder`.
    """
    what = f"tensor {proto.name!r}" if proto.name else "a tensor"
    if proto.data_type not in ELEMENTS:
        element_type(proto.data_type, what)
    if proto.data_location == proto.EXTERNAL:
        return _external_array(proto, folder, what)
    try:
        return np.array(onnx_package().numpy_helper.to_array(proto))
    except Exception as error:
        raise ModelError(f"{what} is damaged: {error}", "Export it again") from None


def _external_array(proto: Any, folder: Path, what: str) -> Array:
    """Return the elements of a TensorProto whose data is in another file."""
    entries = {str(entry.key): str(entry.value) for entry in proto.external_data}
    place = external_path(entries.get("location", ""), folder, what)
    shape, offset = tuple(proto.dims), entries.get("offset", "0")
    size = -(-prod(shape) * _bits(proto, what) // 8)
    # The file may come from a stranger: check numbers before they become addresses.
    if min(shape, default=0) < 0 or not offset.isdecimal():
        raise ModelError(f"{what} is damaged: its size or offset", "Export it again")
    try:
        data = _read_bytes(place, int(offset), size)
    except (OSError, OverflowError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "its offset is too large"
        raise ModelError(
            f"the data of {what} in {shown(place.name)} cannot be read: {reason}",
            "Copy it together with the model",
        ) from None
    if len(data) < size:
        raise ModelError(
            f"the data of {what} ends after {len(data)} of {size} bytes",
            "Copy the data file again",
        )
    # A byte may contain several elements, so the package unpacks them.
    if proto.data_type in ELEMENTS:
        whole = type(proto)(data_type=proto.data_type, dims=shape, raw_data=data)
        return np.array(onnx_package().numpy_helper.to_array(whole))
    # Files are little-endian on every machine.
    dtype = element_type(proto.data_type, what).storage
    little = np.frombuffer(data, dtype.newbyteorder("<"))
    return little.astype(dtype).reshape(shape)


def _bits(proto: Any, what: str) -> int:
    """Return the bits of one element in a file."""
    if proto.data_type in ELEMENTS:
        return ELEMENTS[proto.data_type].bits
    return 8 * element_type(proto.data_type, what).storage.itemsize


def _read_bytes(place: Path, offset: int, size: int) -> bytes:
    """Return at most `size` bytes of a file from `offset` on, fewer at its end."""
    # Opening a pipe would wait for a writer, maybe for ever.
    if place.exists() and not place.is_file():
        raise OSError(0, "it is not a file")
    # `read` allocates its argument, so limit a damaged size by the size of the file.
    with place.open("rb") as file:
        file.seek(offset)
        return file.read(min(size, place.stat().st_size))


def external_path(location: str, folder: Path, what: str) -> Path:
    """Return the path of external data, which must be in the folder of its model.

    Raises:
        ModelError: the path is absolute, contains `..`, or is a link that leaves the
            folder.
    """
    # Check as a POSIX and as a Windows path: files move between systems.
    views = (PurePosixPath(location), PureWindowsPath(location))
    leaves = any(v.is_absolute() or v.drive or ".." in v.parts for v in views)
    try:
        place = (folder / location).resolve()
    # NUL is not allowed in paths; links may lead to each other.
    except (ValueError, OSError, RuntimeError) as error:
        problem = f"the data of {what} is at {location!r}, which is not a path: {error}"
        raise ModelError(problem, "Put it next to the model") from None
    if not location or leaves or not place.is_relative_to(folder.resolve()):
        raise ModelError(
            f"the data of {what} is at {location!r}, outside the folder of the model",
            "Put it next to the model",
        )
    return place


def write_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Write `data` to a new file that replaces `path` in one step.

    Raises:
        ModelError: the path cannot be written.
    """
    target = file_path(path, "path")
    try:
        with replacing(target) as file:
            file.write(data)
    except OSError as error:
        raise ModelError(*write_problem(target, error)) from None


def require_onnx_name(path: str | os.PathLike[str]) -> None:
    """Raise for a name under which `load` would not read an ONNX file.

    Raises:
        ModelError: the name ends in .tflite.
        OptionError: the path is not one.
    """
    place = file_path(path, "path")
    if is_tflite_name(place):
        problem = f"{place} has the name of a TFLite file, and this is an ONNX file"
        raise ModelError(problem, f"Write {place.with_suffix('.onnx').name}")


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise for a path that `write_file` could not write, before any work starts.

    Raises:
        ModelError: the path cannot be written.
    """
    target = file_path(path, "path")
    try:
        require_writable(target)
    except OSError as error:
        raise ModelError(*write_problem(target, error)) from None


# Metadata of a file, for facts that ONNX does not have a field for:
#
# mdtensor.rounding       the rounding rule of the results
# mdtensor.narrow_range   names of codes whose range excludes the smallest, as JSON
# mdtensor.notes          why nodes stayed float, by their names, as JSON

ROUNDING, NARROW_RANGE = "mdtensor.rounding", "mdtensor.narrow_range"
NOTES = "mdtensor.notes"


def properties(
    rounding: str, narrow: Iterable[str], notes: Mapping[str, str]
) -> dict[str, str]:
    """Return the metadata to write; values that are the default are omitted."""
    found = {} if rounding == EXACT else {ROUNDING: rounding}
    if names := sorted(narrow):
        found[NARROW_RANGE] = json.dumps(names)
    if notes:
        found[NOTES] = json.dumps(dict(notes))
    return found


def rule_in(model: Any) -> str:
    """Return the rounding rule in the metadata of a file, by default `exact`.

    Raises:
        ModelError: the file names an unknown rule.
    """
    try:
        return check_rule(_metadata(model).get(ROUNDING, EXACT))
    except OptionError as error:
        raise ModelError(f"the file's {error.problem}", error.fix) from None


def narrow_in(model: Any) -> frozenset[str]:
    """Return the names of values with narrow-range codes, without the smallest code.

    Raises:
        ModelError: the entry in the file is not a list of names.
    """
    text = _metadata(model).get(NARROW_RANGE, "[]")
    try:
        names = json.loads(text)
    # Deeply nested lists exceed the limit of recursion.
    except (ValueError, RecursionError):
        names = None
    if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
        raise ModelError(
            f"the file's {NARROW_RANGE} is not a list of names", "Save the model again"
        )
    return frozenset(names)


def notes_in(model: Any) -> dict[str, str]:
    """Return why nodes stayed float.

    Raises:
        ModelError: the entry in the file is not an object of texts.
    """
    try:
        notes = json.loads(_metadata(model).get(NOTES, "{}"))
    except (ValueError, RecursionError):
        notes = None
    if not isinstance(notes, dict) or not all(
        isinstance(t, str) for t in notes.values()
    ):
        raise ModelError(
            f"the file's {NOTES} is not an object of texts", "Save the model again"
        )
    return dict(notes)


def _metadata(model: Any) -> dict[str, str]:
    """Return the metadata of a model."""
    return {entry.key: entry.value for entry in model.metadata_props}
