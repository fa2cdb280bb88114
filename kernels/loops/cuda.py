"""The renderer of loops to CUDA C++.

An elementwise kernel has one thread for each element, and each thread steps over the
grid. A fold has one block for each element of the result: a thread combines every 64th
element, and the block combines its 64 partial results as a tree in shared memory. So
the order of sums depends on the count only, and on no launch.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

from mdtensor.kernels.loops.ir import Loop, Value
from mdtensor.kernels.loops.kernel import FOLDING, Kernel

#: The functions that texts call; a compiler reads them before the text.
SCALARS = Path(__file__).with_name("scalar.cuh").read_text()
STORAGE = {"bool": "unsigned char", "float16": "mdt::half", "bfloat16": "mdt::bfloat"}
STORAGE |= {"complex64": "mdt::complex<float>", "complex128": "mdt::complex<double>"}
STORAGE |= {"float32": "float", "float64": "double"}

ELEMENTWISE = """\
extern "C" __global__ void {name}({parameters}, mdt::walk<{count}> w) {{
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < w.count;
       i += (long long)gridDim.x * blockDim.x) {{
{body}
    out[w.at({last}, i)] = {result};
  }}
}}
"""
FOLD = """\
extern "C" __global__ void {name}({parameters}, mdt::walk<{count}> w,
                                  mdt::walk<{last}> f) {{
  __shared__ {type} partial[{threads}];
  for (long long r = blockIdx.x; r < w.count; r += gridDim.x) {{
    {type} sum = {start};
    for (long long i = threadIdx.x; i < f.count; i += {threads}) {{
{body}
      sum = mdt::{fold}(sum, {element});
    }}
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (unsigned n = {threads} / 2; n > 0; n /= 2) {{
      if (threadIdx.x < n)
        partial[threadIdx.x] =
            mdt::{fold}(partial[threadIdx.x], partial[threadIdx.x + n]);
      __syncthreads();
    }}
    if (threadIdx.x == 0) {{
      const {folded} total = {total};
{finish}
      out[w.at({last}, r)] = {result};
    }}
    __syncthreads();
  }}
}}
"""


def value_type(type: str) -> str:
    """Return the C++ type that values of an element type have."""
    return STORAGE.get(type, f"mdt::{type}") if type != "bool" else "bool"


def storage_type(type: str) -> str:
    """Return the C++ type of an element in memory."""
    return STORAGE.get(type, f"mdt::{type}")


# Shapes are arguments, so a text is compiled once for its types (decision 0063).
@cache
def render(loop: Loop) -> Kernel:
    """Return the kernel of a loop; its name ends with a hash of its text."""
    last = len(loop.inputs)
    fields = {"parameters": _parameters(loop), "count": last + 1, "last": last}
    if loop.fold is None:
        lines = _Lines("    ", "w.at({0}, i)")
        result = lines.add(loop.value)
        text = ELEMENTWISE.format(
            name="{name}", body=lines.text, result=result, **fields
        )
    else:
        text = FOLD.format(name="{name}", **fields, **_fold(loop))
    # One symbol for each text, since many texts can be in one library.
    name = f"{loop.title}_{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    text = text.replace("{name}", name)
    return Kernel(name, text, loop.inputs, loop.type, loop.fold, loop.title)


def _parameters(loop: Loop) -> str:
    shown = [
        f"{storage_type(x.type)} x{i}"
        if x.is_number
        else f"const {storage_type(x.type)}* x{i}"
        for i, x in enumerate(loop.inputs)
    ]
    return ", ".join([*shown, f"{storage_type(loop.type)}* out"])


def _fold(loop: Loop) -> dict[str, object]:
    """Return the fields of `FOLD`."""
    type, folded = value_type(loop.value.type), value_type(loop.folded)
    body, finish = _Lines("      ", "w.at({0}, r) + f.at({0}, i)"), _Lines("      ", "")
    element, start = body.add(loop.value), f"mdt::start_{loop.fold}<{type}>()"
    is_place = loop.fold in ("argmax", "argmin")
    total = "partial[0].at" if is_place else "partial[0]"
    if is_place:
        element, start = f"mdt::place<{type}>{{{element}, i}}", "{0, -1}"
    elif loop.fold == "add" and "complex" not in type:
        # The sum of nothing is 0; the fold starts from -0.
        total = f"f.count ? {total} : ({type})0"
    result = "total" if loop.finish is None else finish.add(loop.finish)
    return {
        "type": f"mdt::place<{type}>" if is_place else type,
        "folded": folded,
        "threads": FOLDING,
        "start": start,
        "fold": loop.fold if is_place else f"{loop.fold}<{type}>",
        "body": body.text,
        "element": element,
        "total": total,
        "finish": finish.text,
        "result": result,
    }


class _Lines:
    """Statements that compute values, one for each distinct node."""

    def __init__(self, indent: str, place: str) -> None:
        self._lines: dict[str, str] = {}
        self._indent, self._place = indent, place

    @property
    def text(self) -> str:
        return "\n".join(f"{self._indent}const {line}" for line in self._lines.values())

    def add(self, value: Value) -> str:
        """Add what computes a value, and return the name of its variable."""
        expression = self._expression(value)
        key = f"{value.type} {expression}"
        if key not in self._lines:
            head = f"{value_type(value.type)} v{len(self._lines)}"
            self._lines[key] = f"{head} = {expression};"
        return self._lines[key].split(" = ")[0].split()[-1]

    def _expression(self, value: Value) -> str:
        names, type = [self.add(x) for x in value.arguments], value_type(value.type)
        if value.name == "load":
            truth = " != 0" if value.type == "bool" else ""
            place = self._place.format(value.detail)
            return f"x{value.detail}[{place}]{truth}"
        if value.name == "scalar":
            return f"x{value.detail}" + (" != 0" if value.type == "bool" else "")
        if value.name == "number":
            return _number(value.detail, type)
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
