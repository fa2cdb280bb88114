"""Values as statements of CUDA C++: one variable for each distinct node."""

from __future__ import annotations

from typing import Any

from mdtensor.kernels.loops.ir import Value, locals_of

STORAGE = {"bool": "unsigned char", "float16": "mdt::half", "bfloat16": "mdt::bfloat"}
STORAGE |= {"complex64": "mdt::complex<float>", "complex128": "mdt::complex<double>"}
STORAGE |= {"float32": "float", "float64": "double"}


def value_type(type: str) -> str:
    """Return the C++ type that values of an element type have."""
    return STORAGE.get(type, f"mdt::{type}") if type != "bool" else "bool"


def storage_type(type: str) -> str:
    """Return the C++ type of an element in memory."""
    return STORAGE.get(type, f"mdt::{type}")


class Statements:
    """Statements that compute values, one for each distinct node.

    Args:
        indent: of each line.
        place: where the element of operand `{0}` is.
        letter: the first of the names.
        locals: the local values of the loop.
    """

    def __init__(
        self,
        indent: str,
        place: str,
        letter: str = "v",
        locals: tuple[Value, ...] = (),
    ) -> None:
        self._lines: dict[str, str] = {}
        self._indent, self._place, self._letter = indent, place, letter
        self._locals, self._found = locals, dict[int, str]()
        #: The inputs whose elements are read.
        self.loaded: dict[int, None] = {}

    @property
    def text(self) -> str:
        return "\n".join(f"{self._indent}const {line}" for line in self._lines.values())

    def add(self, value: Value) -> str:
        """Add what computes a value, and return the name of its variable."""
        if value.name == "local":
            return self._local(value)
        if value.name == "folded":
            return f"t{value.detail}"
        expression = self._expression(value)
        key = f"{value.type} {expression}"
        if key not in self._lines:
            head = f"{value_type(value.type)} {self._letter}{len(self._lines)}"
            self._lines[key] = f"{head} = {expression};"
        return self._lines[key].split(" = ")[0].split()[-1]

    def _local(self, value: Value) -> str:
        # In order, so that each finds what it reads: a chain of them is not nested.
        for number in locals_of(value, self._locals):
            if number not in self._found:
                self._found[number] = self.add(self._locals[number])
        return self._found[value.detail]

    def _expression(self, value: Value) -> str:
        names, type = [self.add(x) for x in value.arguments], value_type(value.type)
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
            return _number(value.detail, type)
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
