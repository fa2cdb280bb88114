"""Values as statements of CUDA C++."""

from __future__ import annotations

from typing import Any

from mdtensor.kernels.loops.ir import Value
from mdtensor.kernels.loops.statements import Statements

STORAGE = {"bool": "unsigned char", "float16": "mdt::half", "bfloat16": "mdt::bfloat"}
STORAGE |= {"complex64": "mdt::complex<float>", "complex128": "mdt::complex<double>"}
STORAGE |= {"float32": "float", "float64": "double"}


def value_type(type: str) -> str:
    """Return the C++ type that values of an element type have."""
    return STORAGE.get(type, f"mdt::{type}") if type != "bool" else "bool"


def storage_type(type: str) -> str:
    """Return the C++ type of an element in memory."""
    return STORAGE.get(type, f"mdt::{type}")


class CudaStatements(Statements):
    """Statements in CUDA C++; it takes the same arguments as `Statements`."""

    def _statement(self, type: str, name: str, code: str) -> str:
        return f"const {value_type(type)} {name} = {code};"

    def _expression(self, value: Value, names: list[str]) -> str:
        if value.name == "load":
            truth = " != 0" if value.type == "bool" else ""
            self.loaded[value.detail] = None
            place = self._place.format(value.detail)
            return f"x{value.detail}[{place}]{truth}"
        if value.name == "gather":
            # Of a table the place is 0; of an array it leaves out the picked axis.
            place = self._place.format(value.detail)
            self.loaded[value.detail] = None
            return f"x{value.detail}[{place} + {names[0]}]"
        if value.name == "scalar":
            return f"x{value.detail}" + (" != 0" if value.type == "bool" else "")
        if value.name == "number":
            return _number(value.detail, value_type(value.type))
        if value.name == "position":
            return "i"
        if value.name in ("total", "count"):
            return "total" if value.name == "total" else "f.count"
        if value.name == "select":
            return "{} ? {} : {}".format(*names)
        if value.name == "cast":
            return _cast(value, names[0])
        takes = value_type(value.arguments[0].type)
        is_plain = value.name.startswith("exact_") or "complex" in takes
        return (
            f"mdt::{value.name}{'' if is_plain else f'<{takes}>'}({', '.join(names)})"
        )


def _number(number: Any, type: str) -> str:
    value = float(number) if type in ("float", "double") else int(number)
    if value != value or value in (float("inf"), float("-inf")):
        shown = "0.0 / 0.0" if value != value else f"{'-' * (value < 0)}1.0 / 0.0"
        return f"({type})({shown})"
    return f"({type}){value.hex() if isinstance(value, float) else value}"


def _cast(value: Value, name: str) -> str:
    rule, target = value.detail
    is_parts = target.startswith("complex")
    if is_parts:
        part = "float" if target == "complex64" else "double"
        return f"mdt::{rule}_parts<{part}>({name})"
    if value.arguments[0].type.startswith("complex") and target == "bool":
        return f"mdt::is_true({name})"
    return f"mdt::{rule}<{value_type(target)}>({name})"
