"""Model files on the disk: opened with suspicion, replaced in one step."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from math import prod
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.errors import ModelError, OptionError
from mdtensor.files import replacing
from mdtensor.quant.model.onnx.build import element_type
from mdtensor.quant.model.onnx.elements import ELEMENTS
from mdtensor.quant.rules import EXACT, check_rule
from mdtensor.spec.options import place

Array = npt.NDArray[Any]


def onnx_package() -> Any:
    """The package that knows the file format; only models need it.

    Raises:
        ModelError: it is not installed.
    """
    try:
        import onnx
    except ImportError:
        raise ModelError(
            "reading and writing ONNX files needs the package onnx",
            "Install it with `pip install mdtensor[onnx]`",
        ) from None
    return onnx


def read_model(path: str | os.PathLike[str]) -> Any:
    """The ModelProto in a file.

    Raises:
        ModelError: there is no such file, or it does not hold a model.
    """
    onnx = onnx_package()
    data = _read_file(place(path, "path"))
    try:
        model = onnx.load_model_from_string(data)
    except Exception:  # the parser's own type belongs to a package of its own
        raise ModelError(
            f"{path} is no ONNX model, or is cut short: {len(data)} bytes",
            "Export or copy it again",
        ) from None
    check_model(model, path)
    return model


def check_model(model: Any, what: object) -> None:
    """Refuse a ModelProto without a graph.

    Raises:
        ModelError: it has none.
    """
    if not model.graph.output or not model.opset_import:
        raise ModelError(f"{what} holds no ONNX graph", "Export it again")


def _read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ModelError(f"there is no file {path}", "Check the path") from None
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from None


def initializer_array(proto: Any, folder: Path) -> Array:
    """The elements of a TensorProto, from the model or from the file beside it.

    Raises:
        ModelError: an element type that is not supported, damaged data, or external
            data outside `folder`.
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
    entries = {str(entry.key): str(entry.value) for entry in proto.external_data}
    place = external_path(entries.get("location", ""), folder, what)
    shape, offset = tuple(proto.dims), entries.get("offset", "0")
    size = -(-prod(shape) * _bits(proto, what) // 8)
    if min(shape, default=0) < 0 or not offset.isdecimal():
        raise ModelError(f"{what} is damaged: its size or offset", "Export it again")
    try:
        data = _read_bytes(place, int(offset), size)
    except (OSError, OverflowError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "its offset is too large"
        raise ModelError(
            f"the data of {what} in {place.name!r} cannot be read: {reason}",
            "Copy it together with the model",
        ) from None
    if len(data) < size:
        raise ModelError(
            f"the data of {what} ends after {len(data)} of {size} bytes",
            "Copy the data file again",
        )
    if proto.data_type in ELEMENTS:  # several in a byte
        whole = type(proto)(data_type=proto.data_type, dims=shape, raw_data=data)
        return np.array(onnx_package().numpy_helper.to_array(whole))
    dtype = element_type(proto.data_type, what).storage
    little = np.frombuffer(data, dtype.newbyteorder("<"))
    return little.astype(dtype).reshape(shape)


def _bits(proto: Any, what: str) -> int:
    """Of each element in a file."""
    if proto.data_type in ELEMENTS:
        return ELEMENTS[proto.data_type].bits
    return 8 * element_type(proto.data_type, what).storage.itemsize


def _read_bytes(place: Path, offset: int, size: int) -> bytes:
    """Bytes of a file; fewer if it ends before, and then no more memory than that."""
    with place.open("rb") as file:
        file.seek(offset)
        return file.read(min(size, place.stat().st_size))


def external_path(location: str, folder: Path, what: str) -> Path:
    """Where external data lies, which must be inside the folder of its model.

    Raises:
        ModelError: an absolute path, one with `..`, or a link that leaves the folder.
    """
    views = (PurePosixPath(location), PureWindowsPath(location))
    leaves = any(v.is_absolute() or v.drive or ".." in v.parts for v in views)
    place = (folder / location).resolve()
    if not location or leaves or not place.is_relative_to(folder.resolve()):
        raise ModelError(
            f"the data of {what} is at {location!r}, outside the folder of the model",
            "Put it beside the model",
        )
    return place


def write_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Write `data` beside `path`, then rename it: an existing file is never damaged.

    Raises:
        ModelError: the place cannot be written.
    """
    target = place(path, "path")
    try:
        with replacing(target) as file:
            file.write(data)
    except OSError as error:
        raise _write_error(target, error) from None


def check_writable(path: str | os.PathLike[str]) -> None:
    """Refuse a place that `write_file` could not write, before any work is done.

    Raises:
        ModelError: the place cannot be written.
    """
    target = place(path, "path")
    try:
        if target.is_dir():
            raise IsADirectoryError(0, "it is a folder")
        if not target.exists() or target.is_file():
            handle, name = tempfile.mkstemp(dir=target.resolve().parent)
            os.close(handle)
            Path(name).unlink()
    except OSError as error:
        raise _write_error(target, error) from None


def _write_error(target: Path, error: OSError) -> ModelError:
    return ModelError(
        f"{target} cannot be written: {error.strerror or error}",
        "Choose a folder that exists and is writable",
    )


# What a file says that ONNX has no place for, in its metadata.
#
# mdtensor.rounding       the rule that results are rounded by
# mdtensor.narrow_range   names of codes that leave out the smallest, as JSON
# mdtensor.notes          why nodes stayed float, by their names, as JSON

ROUNDING, NARROW_RANGE = "mdtensor.rounding", "mdtensor.narrow_range"
NOTES = "mdtensor.notes"


def properties(
    rounding: str, narrow: Iterable[str], notes: Mapping[str, str]
) -> dict[str, str]:
    """What is to be written; nothing of what is as everywhere."""
    found = {} if rounding == EXACT else {ROUNDING: rounding}
    if names := sorted(narrow):
        found[NARROW_RANGE] = json.dumps(names)
    if notes:
        found[NOTES] = json.dumps(dict(notes))
    return found


def rule_in(model: Any) -> str:
    """The rule that the metadata of a file names; `exact` if it names none.

    Raises:
        ModelError: it names one that is not known here.
    """
    try:
        return check_rule(_metadata(model).get(ROUNDING, EXACT))
    except OptionError as error:
        raise ModelError(f"the file's {error.problem}", error.fix) from None


def narrow_in(model: Any) -> frozenset[str]:
    """The names of codes that leave out the smallest.

    Raises:
        ModelError: what the file has there is no list of names.
    """
    text = _metadata(model).get(NARROW_RANGE, "[]")
    try:
        names = json.loads(text)
    except ValueError:
        names = None
    if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
        raise ModelError(
            f"the file's {NARROW_RANGE} is no list of names", "Save the model again"
        )
    return frozenset(names)


def notes_in(model: Any) -> dict[str, str]:
    """Why nodes stayed float; only for reports, so what is no such note is left out."""
    try:
        notes = json.loads(_metadata(model).get(NOTES, "{}"))
    except ValueError:
        return {}
    pairs = notes.items() if isinstance(notes, dict) else ()
    return {name: why for name, why in pairs if isinstance(why, str)}


def _metadata(model: Any) -> dict[str, str]:
    return {entry.key: entry.value for entry in model.metadata_props}
