"""What the cases draw: arrays, axes, and whole argument lists."""

from collections.abc import Callable
from typing import Any

import array_api_strict as strict
import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.array_api import make_strategies_namespace

import mdtensor as md

xps = make_strategies_namespace(md, api_version="2025.12")

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGER = SIGNED + UNSIGNED
FLOATING = ("float32", "float64")
COMPLEX = ("complex64", "complex128")
REAL = INTEGER + FLOATING
INEXACT = FLOATING + COMPLEX
NUMERIC = REAL + COMPLEX
BOOL = ("bool",)
ANY = BOOL + NUMERIC

Kinds = tuple[str, ...]
Limits = dict[str, Any]
Draw = Callable[[st.SearchStrategy[Any]], Any]
Arguments = tuple[tuple[Any, ...], dict[str, Any]]
Case = Callable[[Draw], Arguments]
SHAPES = st.lists(st.integers(0, 3), max_size=3).map(tuple)
FILLED = st.lists(st.integers(1, 3), min_size=1, max_size=3).map(tuple)


def array(draw: Draw, kinds: Kinds, shape: Any = SHAPES, **limits: Any) -> Any:
    """A tensor of one of the element types `kinds`, of a shape that `shape` gives."""
    dtype = draw(st.sampled_from(kinds))
    size = draw(shape) if isinstance(shape, st.SearchStrategy) else shape
    return draw(xps.arrays(getattr(md, dtype), size, elements=fitted(dtype, limits)))


def fitted(dtype: str, limits: Limits) -> Limits | None:
    """`limits` as far as they mean something for elements of `dtype`."""
    finite = {"allow_nan": False, "allow_infinity": False}
    if not limits or dtype == "bool":
        return None
    if "complex" in dtype:
        return finite
    bounds = {name: limits[name] for name in limits if name.endswith("value")}
    if "float" in dtype:
        return finite | bounds if "allow_nan" in limits else bounds
    least = 0 if dtype.startswith("u") else -128
    return {name: max(bound, least) for name, bound in bounds.items()}


def unary(kinds: Kinds, **limits: Any) -> Case:
    return lambda draw: ((array(draw, kinds, **limits),), {})


def binary(
    kinds: Kinds, *, first: Limits | None = None, second: Limits | None = None
) -> Case:
    """Two arrays that broadcast, or an array and a Python number of its kind."""

    def case(draw: Draw) -> Arguments:
        fitting = [pair for pair in PAIRS if {*pair} <= {*kinds}]
        a, b = draw(st.sampled_from(fitting))
        shapes = draw(xps.mutually_broadcastable_shapes(2, max_dims=3, max_side=3))
        left, right = shapes.input_shapes
        x1 = array(draw, (a,), left, **(first or {}))
        x2 = array(draw, (b,), right, **(second or {}))
        return (x1, x2), {}

    return case


def shared(a: str, b: str) -> bool:
    """Whether the standard defines what the two types become together."""
    try:
        strict.result_type(getattr(strict, a), getattr(strict, b))
    except TypeError:
        return False
    return True


PAIRS = [(a, b) for a in NUMERIC for b in NUMERIC if shared(a, b)]
PAIRS += [("bool", "bool")]


def axes(draw: Draw, ndim: int) -> Any:
    """None, one axis or several."""
    if not ndim or draw(st.booleans()):
        return None
    one = st.integers(-ndim, ndim - 1)
    if draw(st.booleans()):
        return draw(one)
    chosen = draw(st.lists(one, unique_by=lambda axis: axis % ndim, max_size=ndim))
    return tuple(chosen)


def reduction(kinds: Kinds, shape: Any = SHAPES, **limits: Any) -> Case:
    def case(draw: Draw) -> Arguments:
        x = array(draw, kinds, shape, **limits)
        return (x,), {"axis": axes(draw, x.ndim), "keepdims": draw(st.booleans())}

    return case


def along(kinds: Kinds, limits: Limits | None = None, **rest: Any) -> Case:
    """One axis and other options, each a strategy."""

    def case(draw: Draw) -> Arguments:
        x = array(draw, kinds, FILLED, **(limits or {}))
        options = {name: draw(strategy) for name, strategy in rest.items()}
        return (x,), {"axis": draw(st.integers(-x.ndim, x.ndim - 1)), **options}

    return case


def drawn(*arguments: Any, **options: Any) -> Case:
    """Arguments that are strategies, or functions of what was drawn before them."""

    def case(draw: Draw) -> Arguments:
        given: list[Any] = []
        for argument in arguments:
            is_strategy = isinstance(argument, st.SearchStrategy)
            given.append(draw(argument) if is_strategy else argument(draw, *given))
        return tuple(given), {name: draw(found) for name, found in options.items()}

    return case


def tensor(kinds: Kinds, shape: Any = SHAPES, **limits: Any) -> Any:
    return lambda draw, *_: array(draw, kinds, shape, **limits)


def matrix(draw: Draw, *_: Any) -> Any:
    n = draw(st.integers(1, 3))
    return array(draw, FLOATING, (n, n), min_value=-4, max_value=4)


def symmetric(draw: Draw, *_: Any) -> Any:
    """Well conditioned and positive definite."""
    x = np.asarray(matrix(draw))
    return md.asarray(x @ x.T + 8 * np.eye(len(x), dtype=x.dtype))


TAME = {"min_value": -4, "max_value": 4}
TAME_FLOATS = {**TAME, "allow_nan": False}
SMALL = {"min_value": 0, "max_value": 3}
NONZERO = {"min_value": 1}
LENGTH = st.none() | st.integers(1, 5)
NORM = st.sampled_from(("backward", "ortho", "forward"))
TYPES = st.sampled_from([getattr(md, name) for name in ANY])
