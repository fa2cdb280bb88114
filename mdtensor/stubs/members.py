"""Functions that make tensors from values: what they give is asked by calling them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import mdtensor as md

Made = tuple[dict[str, str], str]
_NUMBERS = {"bool": True, "int": 1, "float": 1.0, "complex": 1j}
_SHAPE = {"shape": "Shape"}
#: For each function: its parameters' types and sample values, a line a call.
_SAMPLES: dict[str, list[tuple[dict[str, str], dict[str, Any]]]] = {
    "empty": [(_SHAPE, {"shape": 1})],
    "zeros": [(_SHAPE, {"shape": 1})],
    "ones": [(_SHAPE, {"shape": 1})],
    "eye": [({}, {"n_rows": 1})],
    "full": [
        ({**_SHAPE, "fill_value": hint}, {"shape": 1, "fill_value": value})
        for hint, value in _NUMBERS.items()
    ],
    "arange": [
        (dict.fromkeys(("start", "stop", "step"), hint), {"start": value})
        for hint, value in (("int", 1), ("float", 1.0))
    ],
    "linspace": [
        (dict.fromkeys(("start", "stop"), hint), {"start": v, "stop": v, "num": 1})
        for hint, v in (("float", 1.0), ("complex", 1j))
    ],
    "asarray": [
        *(({"obj": f"Nested[{hint}]"}, {"obj": v}) for hint, v in _NUMBERS.items()),
    ],
    "fftfreq": [({}, {"n": 2})],
    "rfftfreq": [({}, {"n": 2})],
}
NAMES = frozenset(_SAMPLES)
#: NumPy's element types, each with the name that its own stubs give it.
_ARRAYS = ("bool", *(f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64)))
_ARRAYS += ("float16", "float32", "float64", "complex64", "complex128")


def overloads(name: str, function: Callable[..., Any]) -> Iterator[str]:
    """The signatures of one function, with `dtype=` and without."""
    parameters = inspect.signature(function).parameters
    samples = _SAMPLES[name]
    if name == "asarray":
        yield from _arrays(parameters)
    for hints, values in samples:
        yield _signature(
            parameters, {**hints, "dtype": "None"}, _called(function, values)
        )
    wide = {**samples[0][0], **dict.fromkeys(set(samples[-1][0]) - {"shape"}, "Any")}
    for dtype, result in (("DType[_T]", "_T"), ("DTypeName", "Any")):
        yield _signature(parameters, {**wide, "dtype": dtype}, result)
    if name == "asarray":
        yield _signature(parameters, {"dtype": "None"}, "Any")


def _arrays(parameters: Any) -> Iterator[str]:
    yield _signature(parameters, {"obj": "_T", "dtype": "None"}, "_T")
    for name in _ARRAYS:
        result = type(md.asarray(np.zeros(1, name))).__name__
        yield _signature(parameters, {"obj": _array(name), "dtype": "None"}, result)


def _array(name: str) -> str:
    return f"_{name.title().replace('Ui', 'UI')}ArrayT"


def variables() -> Iterator[str]:
    """A variable for each type of array; mypy would push the type itself into calls.

    `asarray(numpy.ones((2, 3), dtype))` asked for an array of bool would find one.
    """
    for name in _ARRAYS:
        bound = f"NDArray[np.{name.replace('bool', 'bool_')}]"
        yield f'{_array(name)} = TypeVar("{_array(name)}", bound={bound})'


def _called(function: Callable[..., Any], values: dict[str, Any]) -> str:
    given = dict(values)
    first = [
        given.pop(p.name)
        for p in inspect.signature(function).parameters.values()
        if p.kind is not p.KEYWORD_ONLY and p.name in given
    ]
    return type(function(*first, **given)).__name__


def _signature(parameters: Any, hints: dict[str, str], result: str) -> str:
    words, last = [], None
    for p in parameters.values():
        if last is p.POSITIONAL_ONLY and p.kind is not last:
            words.append("/")
        if p.kind is p.KEYWORD_ONLY and last is not p.KEYWORD_ONLY:
            words.append("*")
        last = p.kind
        words.append(_parameter(p, hints.get(p.name)))
    return f"({', '.join(words)}) -> {result}"


def _parameter(p: inspect.Parameter, hint: str | None) -> str:
    written = p.annotation
    annotation = hint or (written if isinstance(written, str) else _text(written))
    if p.default is p.empty or (p.name == "dtype" and hint != "None"):
        return f"{p.name}: {annotation}"
    optional = (
        " | None" if p.default is None and annotation not in ("Any", "None") else ""
    )
    return f"{p.name}: {annotation}{optional} = {p.default!r}"


def _text(annotation: Any) -> str:
    return inspect.formatannotation(annotation).replace("typing.", "")
