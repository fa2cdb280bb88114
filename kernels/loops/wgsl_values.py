"""Values as statements of WGSL."""

from __future__ import annotations

import numpy as np

from mdtensor.kernels.loops.ir import UnsupportedLoopError, Value
from mdtensor.kernels.loops.statements import Statements
from mdtensor.kernels.loops.wgsl_scalars import (
    PAIRS,
    function,
    literal,
    word,
    wrapped,
)


class WgslStatements(Statements):
    """Statements in WGSL; it takes the same arguments as `Statements`."""

    def _statement(self, type: str, name: str, code: str) -> str:
        return f"let {name} = {code};"

    def _expression(self, value: Value, names: list[str]) -> str:
        at = value.detail
        if value.name in ("load", "gather"):
            self.loaded[at] = None
            more = f" + {_index(value.arguments[0], names[0])}" if names else ""
            return f"load{at}({self._place.format(at)}{more})"
        if value.name == "scalar":
            return _by_value(value)
        if value.name == "number":
            return literal(value.detail, value.type)
        if value.name == "position":
            return "i64_i32(r)"
        if value.name in ("total", "count"):
            return "total" if value.name == "total" else "i64_i32(fcount)"
        if value.name == "select":
            return "select({2}, {1}, {0})".format(*names)
        if value.name == "cast":
            return _cast(value, names[0])
        if value.name.startswith("exact_"):
            return _compared(value, *names)
        code = function(value.name, value.arguments[0].type)
        return wrapped(value.type, f"{code}({', '.join(names)})")


def _index(value: Value, name: str) -> str:
    """Return an index, of which buffers need 32 bits."""
    return f"bitcast<i32>({name}{'.x' if word(value.type) in PAIRS else ''})"


def _by_value(value: Value) -> str:
    first, kind = f"p[{2 + 2 * value.detail}]", word(value.type)
    if kind == "bool":
        return f"{first} != 0"
    if kind in PAIRS:
        second = f"p[{3 + 2 * value.detail}]"
        return f"Pair(bitcast<u32>({first}), bitcast<u32>({second}))"
    return f"bitcast<{kind}>({first})"


def _converted(name: str, source: str, target: str) -> str:
    """Return a number of a type as `i64`, `f64` or `f32`."""
    kind = word(source).replace("u64", "i64")
    return name if kind == target else f"{target}_{kind}({name})"


def _bounds(type: str) -> tuple[str, str]:
    info = np.iinfo(type)
    if info.bits == 64:
        raise UnsupportedLoopError(f"WGSL kernels do not saturate to {type}")
    return literal(info.min, "int64"), literal(info.max, "int64")


def _cast(value: Value, name: str) -> str:
    rule, target = value.detail
    source, kind = value.arguments[0].type, word(target)
    if word(source) == "u64" and (rule != "wrap" or kind in ("f32", "f64")):
        raise UnsupportedLoopError(f"WGSL kernels do not cast uint64 to {target}")
    if kind == "bool" and rule in ("wrap", "saturate"):
        zero = literal(0, source)
        return f"{function('not_equal', source)}({name}, {zero})"
    if target == "float16":
        return _cast_to_half(rule, source, name)
    if kind in ("f32", "f64", "bool"):
        return _cast_to_float(rule, source, target, name)
    if rule == "wrap":
        return _wrap(source, target, name)
    low, high = _bounds(target)
    is_float = word(source) in ("f32", "f64")
    near = f"nearest_{word(source)}({name})" if is_float else ""
    near = near or _converted(name, source, "i64")
    if rule == "saturate":
        return _low(f"clamp_i64({near}, {low}, {high})", target)
    beyond = f"less_i64({near}, {low}) || less_i64({high}, {near})"
    if not is_float:
        return beyond
    beyond = f"isnan_{word(source)}({name}) || {beyond}"
    back = _converted(near, "int64", word(source))
    is_whole = f"{function('equal', source)}({name}, {back})"
    return beyond if rule == "outside" else f"{beyond} || !{is_whole}"


def _low(pair: str, type: str) -> str:
    """Return the low word of a pair as an integer of 32 bits or fewer."""
    low = f"{pair}.x"
    return wrapped(type, low if word(type) == "u32" else f"bitcast<i32>({low})")


def _wrap(source: str, target: str, name: str) -> str:
    """Return an integer type's number modulo its number of values."""
    if word(target) in PAIRS:
        return _converted(name, source, "i64")
    if word(source) in ("i32", "u32"):
        return wrapped(target, f"bitcast<{word(target)}>({name})")
    return _low(_converted(name, source, "i64"), target)


def _cast_to_float(rule: str, source: str, target: str, name: str) -> str:
    kind, given = word(target), word(source)
    if rule not in ("wrap", "saturate"):
        # Only integers can be inexact here; no number is outside of a wider type.
        if rule == "outside" and (given != "f64" or kind == "f64"):
            return "false"
        if kind != "f32" or given not in ("i32", "u32"):
            raise UnsupportedLoopError(
                f"WGSL kernels do not test {source} for {target}"
            )
        whole = _converted(name, source, "i64")
        return f"!equal_i64({whole}, nearest_f32({kind}_{given}({name})))"
    if given == kind:
        return name
    if kind == "f32" and given in ("i32", "u32") and np.dtype(source).itemsize < 4:
        return f"f32({name})"
    return _converted(name, source, kind)


def _cast_to_half(rule: str, source: str, name: str) -> str:
    """Return a float16; a 64-bit float would round twice, other numbers do not."""
    if word(source) == "f64":
        raise UnsupportedLoopError(f"WGSL kernels do not cast {source} to float16")
    # An integer that float32 rounds is beyond the largest float16.
    wide = _cast_to_float("wrap", source, "float32", name)
    functions = {"wrap": "round_half", "saturate": "saturate_half"}
    functions |= {"outside": "is_beyond_half", "inexact": "is_not_half"}
    return f"{functions[rule]}({wide})"


def _compared(value: Value, a: str, b: str) -> str:
    """Return an exact comparison of numbers of any two types."""
    types = [x.type for x in value.arguments]
    kinds = ["f64" if word(t) in ("f32", "f64") else "i64" for t in types]
    if "uint64" in types:
        raise UnsupportedLoopError("WGSL kernels do not compare with uint64")
    x, y = (_converted(n, t, k) for n, t, k in zip((a, b), types, kinds, strict=True))
    order = f"order_{kinds[0]}_{kinds[1]}({x}, {y})"
    tests = {"equal": "{} == 0", "not_equal": "{} != 0", "less": "{} == -1"}
    tests["less_equal"] = "{} < 1"
    return tests[value.name.removeprefix("exact_")].format(order)
