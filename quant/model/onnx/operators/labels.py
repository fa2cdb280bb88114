"""Reader of LabelEncoder: numbers replaced by numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.quant.model.onnx.axes import require_count
from mdtensor.quant.model.onnx.build import Array, Builder, Operator
from mdtensor.quant.model.onnx.operators.table import reads

#: Element types of the lists of a file.
LISTS = {"int64s": np.int64, "floats": np.float32}


@reads("ai.onnx.ml.LabelEncoder")
def label_encoder(g: Builder, op: Operator) -> None:
    """Read LabelEncoder: the value of the key that equals x, or the default.

    NaN is a key like others. -0 equals 0, as in ONNX Runtime; the text of set 2 speaks
    of bits.
    """
    if op.opset < 2 or _is_text(op):
        raise op.error("maps text, which cannot be a tensor", "Encode numbers")
    x, keys, values = str(op.inputs[0]), _list(op, "keys"), _list(op, "values")
    require_count(op, values, keys.size, f"values of {keys.size} keys")
    dtype = g.specs[x].dtype
    if keys.dtype != dtype.storage:
        raise op.error(f"reads {dtype} and has keys of {keys.dtype}", "Add a Cast")
    default = _default(op, values)
    keys, values, at_nan = _sorted(keys, values, default)
    known, table, other = (
        g.new_constant(op, stem, array)
        for stem, array in (("keys", keys), ("values", values), ("default", default))
    )
    place = g.step(op, "place", md.searchsorted, known, x)
    place = g.step(op, "limited", md.clip, place, min=0, max=keys.size - 1)
    options: dict[str, Any] = {"axis": 0}
    near = g.step(op, "near", md.take, known, place, **options)
    is_found = g.step(op, "is_found", md.equal, near, x)
    value = g.step(op, "value", md.take, table, place, **options)
    if at_nan is None:
        g.call(op, md.where, is_found, value, other)
        return
    found = g.step(op, "found", md.where, is_found, value, other)
    is_nan = g.step(op, "is_nan", md.isnan, x)
    g.call(op, md.where, is_nan, g.new_constant(op, "at_nan", at_nan), found)


def _is_text(op: Operator) -> bool:
    tensors = [op.get(f"{side}_tensor") for side in ("keys", "values")]
    return bool(
        op.get("keys_strings")
        or op.get("values_strings")
        or any(t is not None and t.dtype.kind not in "iuf" for t in tensors)
    )


def _list(op: Operator, side: str) -> Array:
    """Return the keys or the values; raise unless there is exactly one list."""
    found = [
        np.asarray(op.get(f"{side}_{end}"), dtype)
        for end, dtype in LISTS.items()
        if op.get(f"{side}_{end}")
    ]
    tensor = op.get(f"{side}_tensor")
    if tensor is not None:
        found.append(tensor.reshape(-1))
    if len(found) != 1 or not found[0].size:
        raise op.error(
            f"has {len(found)} lists of {side}", "Give it one that is filled"
        )
    return found[0]


def _default(op: Operator, values: Array) -> Array:
    """Return the value of an element that is not a key."""
    given = op.get("default_tensor")
    if given is not None:
        require_count(op, given.reshape(-1), 1, "default_tensor")
        whole: Array = given.reshape(()).astype(values.dtype)
        return whole
    name, least = (
        ("default_float", -0.0) if values.dtype.kind == "f" else ("default_int64", -1)
    )
    found: Array = np.asarray(op.get(name, least)).astype(values.dtype)
    return found


def _sorted(keys: Array, values: Array, default: Array) -> tuple[Array, Array, Any]:
    """Return different keys in order with their values, and the value of NaN, or None.

    Of equal keys the last one stays.
    """
    is_nan = np.isnan(keys) if keys.dtype.kind == "f" else np.zeros(keys.shape, bool)
    at_nan = values[is_nan][-1] if is_nan.any() else None
    last = {key: at for at, key in enumerate(keys.tolist()) if not is_nan[at]}
    order = [last[key] for key in sorted(last)]
    if not order:
        # A single key of 0 whose value is the default finds nothing.
        return np.zeros(1, keys.dtype), default.reshape(1), at_nan
    return keys[order], values[order], None if at_nan is None else np.asarray(at_nan)
