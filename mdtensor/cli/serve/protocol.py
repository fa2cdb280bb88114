"""Requests and answers of the Open Inference Protocol as arrays.

A body is JSON. With the extension for binary tensors, the header
Inference-Header-Content-Length gives the length of the JSON, and the bytes of tensors
follow it, little-endian and in the order of the JSON.

Source: kserve/open-inference-protocol, specification/protocol/inference_rest.md;
Triton's binary_tensor_data extension.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from mdtensor.errors import DataError, ModelError, shown
from mdtensor.spec.spec import TensorSpec

#: Names of element types in the protocol. BYTES, for strings, is not here.
TYPES = {
    "BOOL": np.dtype(np.bool_),
    **{f"UINT{8 << i}": np.dtype(f"<u{1 << i}") for i in range(4)},
    **{f"INT{8 << i}": np.dtype(f"<i{1 << i}") for i in range(4)},
    **{f"FP{8 << i}": np.dtype(f"<f{1 << i}") for i in range(1, 4)},
}
NAMES = {dtype: name for name, dtype in TYPES.items()}
JSON = "application/json"
BINARY = "application/octet-stream"


@dataclass(frozen=True)
class Request:
    """A request for an inference.

    Args:
        feeds: an array for each input, by name.
        outputs: the names of the wanted results; empty for all.
        binary: the names of the results that are wanted as bytes.
        id: what the client calls the request; None if it does not say.
    """

    feeds: Mapping[str, Any]
    outputs: tuple[str, ...]
    binary: frozenset[str]
    id: str | None


def read_request(
    body: bytes, json_bytes: int | None, known: tuple[str, ...]
) -> Request:
    """Read the body of a request.

    Args:
        body: JSON, and bytes of tensors behind it.
        json_bytes: the length of the JSON; None for all.
        known: the results of the model, by name.

    Raises:
        DataError: the body is not a request as the protocol says.
    """
    length = len(body) if json_bytes is None else json_bytes
    if not 0 <= length <= len(body):
        problem = f"the JSON should have {length} bytes, but the body has {len(body)}"
        raise DataError(problem, "Correct Inference-Header-Content-Length")
    found = _parsed(body[:length])
    rest = memoryview(body)[length:]
    feeds: dict[str, Any] = {}
    for one in _list(found, "inputs"):
        name = _text(one, "name")
        if name in feeds:
            raise DataError(f"input {shown(name)} is given twice", "Give it once")
        feeds[name], rest = _array(one, name, rest)
    if len(rest):
        problem = f"{len(rest)} bytes are left behind the last tensor"
        raise DataError(problem, "Correct binary_data_size of an input")
    return Request(feeds, *_wanted(found, known), _id(found))


def _parsed(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    # A deep nest of lists ends in the second one.
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise DataError("the body is not a JSON object", "Send one with inputs")
    return found


def _list(found: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    value = found.get(name, [])
    if not isinstance(value, list) or not all(isinstance(x, dict) for x in value):
        raise DataError(f"{name} is not a list of objects", f"Give a list of {name}")
    return value


def _text(found: Mapping[str, Any], name: str) -> str:
    value = found.get(name)
    if not isinstance(value, str):
        raise DataError(f"{name} is {shown(value)}", f"Give a text as {name}")
    return value


def _id(found: Mapping[str, Any]) -> str | None:
    return _text(found, "id") if "id" in found else None


def _flags(found: Mapping[str, Any]) -> dict[str, Any]:
    value = found.get("parameters", {})
    if not isinstance(value, dict):
        raise DataError("parameters is not an object", "Give an object, or omit it")
    return value


def _wanted(
    found: Mapping[str, Any], known: tuple[str, ...]
) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return the names of the wanted results, and which of them as bytes."""
    always = _flags(found).get("binary_data_output") is True
    listed = _list(found, "outputs")
    names = tuple(_text(one, "name") for one in listed)
    for name in names:
        if name not in known:
            problem = f"the model does not have an output {shown(name)}"
            raise DataError(problem, f"Outputs are {', '.join(map(repr, known))}")
    binary = {
        name
        for name, one in zip(names, listed, strict=True)
        if _flags(one).get("binary_data", always) is True
    }
    return names, frozenset(binary if names else known if always else ())


def _array(
    one: Mapping[str, Any], name: str, rest: memoryview
) -> tuple[Any, memoryview]:
    """Return the array of an input, and the bytes behind it."""
    shape, dtype = _shape(one, name), _dtype(one, name)
    size = _flags(one).get("binary_data_size")
    if size is None:
        return _from_json(one, name, shape, dtype), rest
    wanted = prod(shape) * dtype.itemsize
    if size != wanted or wanted > len(rest):
        raise DataError(
            f"input {name!r}: {shape} of {NAMES[dtype]} has {wanted} bytes, but "
            f"binary_data_size is {shown(size)} and {len(rest)} bytes are left",
            "Send all bytes of the tensor behind the JSON",
        )
    return np.frombuffer(rest[:wanted], dtype).reshape(shape), rest[wanted:]


def _shape(one: Mapping[str, Any], name: str) -> tuple[int, ...]:
    shape = one.get("shape")
    if not isinstance(shape, list) or not all(
        type(size) is int and size >= 0 for size in shape
    ):
        problem = f"input {name!r}: shape is {shown(shape)}"
        raise DataError(problem, "Give a list of sizes, such as [1, 3, 8, 8]")
    return tuple(shape)


def _dtype(one: Mapping[str, Any], name: str) -> np.dtype[Any]:
    given = one.get("datatype")
    if not isinstance(given, str) or given not in TYPES:
        problem = f"input {name!r}: datatype is {shown(given)}"
        raise DataError(problem, f"Give one of {', '.join(TYPES)}")
    return TYPES[given]


def _from_json(
    one: Mapping[str, Any], name: str, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Any:
    try:
        plain = np.asarray(one.get("data"))
        # NumPy would cut 1.5 to 1, and take True for 1.
        if plain.size and plain.dtype.kind not in _KINDS[dtype.kind]:
            raise TypeError
        array = np.asarray(one.get("data"), dtype)
    except (ValueError, TypeError, OverflowError, RecursionError):
        problem = f"input {name!r}: data does not hold numbers of {NAMES[dtype]}"
        raise DataError(problem, "Give a list of them, flat or nested") from None
    if array.size != prod(shape):
        problem = f"input {name!r}: data has {array.size} numbers"
        raise DataError(problem, f"Give {prod(shape)}, as the shape {shape} says")
    return array.reshape(shape)


#: Kinds of JSON numbers that an array of each kind takes without a loss.
_KINDS = {"b": "b", "u": "iu", "i": "iu", "f": "iuf"}


def write_answer(
    head: Mapping[str, Any], results: Mapping[str, Any], binary: frozenset[str]
) -> tuple[bytes, dict[str, str]]:
    """Return the body and the headers of an answer.

    Args:
        head: what stands before the outputs.
        results: the arrays, by name.
        binary: the names of those that become bytes behind the JSON.

    Raises:
        DataError: a result in JSON holds a NaN or an infinity.
    """
    outputs, tails = [], []
    for name, array in results.items():
        dtype = array.dtype.newbyteorder("<")
        one: dict[str, Any] = {
            "name": name,
            "datatype": NAMES[dtype],
            "shape": list(array.shape),
        }
        if name in binary:
            tails.append(np.ascontiguousarray(array, dtype).tobytes())
            one["parameters"] = {"binary_data_size": len(tails[-1])}
        else:
            one["data"] = _plain(name, array)
        outputs.append(one)
    text = json.dumps({**head, "outputs": outputs}, allow_nan=False).encode()
    if not binary:
        return text, {"content-type": JSON}
    headers = {
        "content-type": BINARY,
        "inference-header-content-length": str(len(text)),
    }
    return b"".join([text, *tails]), headers


def _plain(name: str, array: Any) -> list[Any]:
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        problem = f"output {name!r} holds a NaN or an infinity, which JSON cannot hold"
        raise DataError(problem, "Ask for it with binary_data")
    found: list[Any] = array.reshape(-1).tolist()
    return found


def described(specs: Mapping[str, TensorSpec]) -> list[dict[str, Any]]:
    """Return the metadata of tensors; -1 is any size.

    Raises:
        ModelError: the protocol does not have an element type.
    """
    return [
        {
            "name": name,
            "datatype": _type_of(name, spec),
            "shape": [int(size) for size in spec.shape],
        }
        for name, spec in specs.items()
    ]


def _type_of(name: str, spec: TensorSpec) -> str:
    # Codes are answered as the numbers that they stand for.
    dtype = np.dtype(np.float32 if spec.qparams else spec.dtype.storage)
    if dtype not in NAMES:
        problem = f"{name!r} has elements of {spec.dtype}, which the protocol lacks"
        raise ModelError(problem, "Cast them in the model")
    return NAMES[dtype]
