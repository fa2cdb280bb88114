"""Loops as immutable data: a value for each element, and optionally a fold over axes.

A value is a tree of named functions over loads, numbers and casts, and each node has a
type. Narrow floats are storage: `apply` computes them in float32 and rounds once.

    x, y = load(0, "float16"), load(1, "float16")
    Loop(inputs(x, y), apply("add", x, y))            # out[i] = x[i] + y[i]
    Loop((Input("int8"),), load(0, "int8"), "add")    # the sum over the folded axes

Types, not shapes, decide the text of a kernel: it is compiled once and runs for every
shape and stride. Values are trees, and renderers name each distinct node once. A value
that several others read is a local one, so that trees stay small:

    Loop(inputs(x), apply("mul", local(0, "float32"), local(0, "float32")),
         locals=(apply("exp", x),))                   # out[i] = exp(x[i])²
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
NARROW = ("float16", "bfloat16")
FLOATS = (*NARROW, "float32", "float64")
COMPLEX = ("complex64", "complex128")
TYPES = ("bool", *INTEGERS, *FLOATS, *COMPLEX)

#: Functions of one and of two values of one type, defined in `scalar.cuh`.
_UNARY = """
neg abs sign bit_not conj real imag floor ceil trunc rint sqrt exp expm1 log log1p log2
log10 sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc isnan
isinf isfinite signbit"""
_BINARY = """
add sub mul div floor_divide remainder maximum minimum pow atan2 hypot copysign
logaddexp bit_and bit_or bit_xor shift_left shift_right equal not_equal less
less_equal mul_odd"""
UNARY, BINARY = frozenset(_UNARY.split()), frozenset(_BINARY.split())
#: Functions of three float64 values, for codes: the exact quotients (a · b) / c and
#: (a + b) / c, rounded to a whole number once, half to even.
TERNARY = frozenset(("rescale", "rescale_sum"))
#: Functions that give bools, and those that give a part of a complex number.
_TESTS = "isnan isinf isfinite signbit equal not_equal less less_equal"
TESTS = frozenset(_TESTS.split())
PARTS = frozenset(("real", "imag"))
#: Folds, each with an order of its operands that no thread changes. The value of `dot`
#: is a product, and a float product is added with one rounding.
FOLDS = ("add", "mul", "maximum", "minimum", "bit_and", "bit_or", "argmax", "argmin",
         "dot")  # fmt: skip
#: Rules of casts from numbers to a type: `wrap` is modulo the number of values of an
#: integer type (NaN and infinities become 0), `saturate` takes the nearest bound.
#: `outside` and `inexact` are bools: the value does not fit, or is not held exactly.
CASTS = ("wrap", "saturate", "outside", "inexact")


class UnsupportedLoopError(ValueError):
    """A loop that the language of a device cannot express; the message says what."""


@dataclass(frozen=True, slots=True)
class Value:
    """A node of a tree: a function of other nodes, with the type of its result.

    Args:
        name: a function, `load`, `gather`, `scalar`, `number`, `cast`, `select`,
            `position`, `total`, `count`, `local`, `folded` or `weight`.
        type: of the result.
        arguments: the nodes that it reads.
        detail: number of the input, of the local value or of the fold before; the
            number itself; rule and type of the cast; or the weights (`weights.py`).
    """

    name: str
    type: str
    arguments: tuple[Value, ...] = ()
    detail: Any = None


@dataclass(frozen=True, slots=True)
class Input:
    """An operand of a kernel: an array, a number by value, a table, or a counter.

    A table is an array with one axis, of which elements are chosen by `gather`. A
    counter is one uint64 to which a loop adds how many elements it refuses.
    """

    type: str
    is_number: bool = False
    is_table: bool = False
    is_counter: bool = False

    @property
    def has_places(self) -> bool:
        """Return whether an element of it belongs to each element of a result."""
        return not (self.is_number or self.is_table or self.is_counter)


@dataclass(frozen=True, slots=True)
class Fold:
    """A fold that a loop computes before its value, see `Loop.before`.

    Args:
        value: computed for each element.
        fold: how the values along the folded axes are combined.
        finish: as of a loop.
    """

    value: Value
    fold: str
    finish: Value | None = None

    @property
    def folded(self) -> str:
        """Return the type of what the fold gives."""
        return self.value.type

    @property
    def type(self) -> str:
        """Return the type of the finished fold."""
        return self.folded if self.finish is None else self.finish.type


@dataclass(frozen=True, slots=True)
class Loop:
    """A kernel without shapes: out = finish(fold of value over axes), or out = value.

    Args:
        inputs: the operands, by number.
        value: computed for each element.
        fold: how the values along the folded axes are combined; None has no such axes.
        finish: a value of `total()`, `count()` and elements that all folded ones share,
            computed after the fold.
        is_serial: one thread combines the elements of a result, in ascending order;
            otherwise the threads of a block do.
        start: of a serial fold; by default the neutral element.
        is_scan: the result has each sum on the way, along one folded axis.
        name: what the loop computes, for the name of its kernel.
        locals: values that others read by `local`; each reads earlier ones only.
        before: folds by the threads of a block, over the same axes, that the value
            reads by `folded`, and later ones of them too. Then `fold` is None.
        tile: rows and columns of the tiles by which a serial fold of products of codes
            goes, 16, 64 or 128; 1 has many rows of one column; 4 has four rows of one
            column of quantized weights, see `weights.py`; 0 without. Rows are the
            axes that the second factor repeats, columns those that the first one
            repeats.
        piece: elements of a line that a block folds, if several blocks fold a line;
            0 folds whole lines. The result has one more axis, the last one, with
            the fold of each piece.
        is_among: the fold is of the elements at one place of each piece; the last
            input is the table of these int64 places.
        is_row: with folds before, the result has one element for each row; otherwise
            it has the folded axes.
        refused: of an elementwise loop, a bool: elements for which it is true are
            counted in the last input, a counter.
    """

    inputs: tuple[Input, ...]
    value: Value
    fold: str | None = None
    finish: Value | None = None
    is_serial: bool = False
    start: Value | None = None
    is_scan: bool = False
    name: str = ""
    locals: tuple[Value, ...] = ()
    before: tuple[Fold, ...] = ()
    is_row: bool = False
    tile: int = 0
    piece: int = 0
    is_among: bool = False
    refused: Value | None = None

    @property
    def title(self) -> str:
        """Return what the loop computes and its types: `add_f32`, `sum_s8s64`."""
        types = dict.fromkeys(
            (*(x.type for x in self.inputs if not x.is_counter), self.type)
        )
        return f"{self.word}_{''.join(map(_short, types))}"

    @property
    def word(self) -> str:
        """Return the name of the loop, or of its last function that is not a cast."""
        if self.name:
            return self.name
        value = self.value
        while self.fold is None and value.name == "cast" and value.arguments:
            value = value.arguments[0]
        word = {"load": "copy", "scalar": "fill", "number": "fill"}.get(value.name)
        return self.fold or word or value.name

    @property
    def type(self) -> str:
        """Return the element type of the result."""
        return self.folded if self.finish is None else self.finish.type

    @property
    def folded(self) -> str:
        """Return the type of what the fold gives."""
        is_place = self.fold in ("argmax", "argmin")
        return "int64" if is_place else self.value.type


def load(number: int, type: str) -> Value:
    """Return the element of an input that belongs to the element of the result."""
    return Value("load", _known(type), (), number)


def gather(number: int, type: str, index: Value) -> Value:
    """Return the element of a table at an index, which must be inside of it."""
    return Value("gather", _known(type), (index,), number)


def scalar(number: int, type: str) -> Value:
    """Return an input that is one number, passed by value."""
    return Value("scalar", _known(type), (), number)


def number(value: float, type: str) -> Value:
    """Return a constant that is part of the text; `type` must hold it exactly."""
    return Value("number", _known(type), (), value)


def position() -> Value:
    """Return the int64 place of the element in the result, of an elementwise loop."""
    return Value("position", "int64")


def total(type: str) -> Value:
    """Return the result of the fold, for `finish`."""
    return Value("total", _known(type))


def count() -> Value:
    """Return the int64 number of elements that each fold combines, for `finish`."""
    return Value("count", "int64")


def local(number: int, type: str) -> Value:
    """Return one of the local values of a loop."""
    return Value("local", _known(type), (), number)


def folded(number: int, type: str) -> Value:
    """Return the finished result of one of the folds before."""
    return Value("folded", _known(type), (), number)


def locals_of(value: Value, known: tuple[Value, ...]) -> list[int]:
    """Return the numbers of the local values that a value needs, in their order.

    Args: known: the local values of the loop.
    """
    found: set[int] = set()
    waiting = [value]
    while waiting:
        one = waiting.pop()
        waiting += one.arguments
        if one.name == "local" and one.detail not in found:
            found.add(one.detail)
            waiting.append(known[one.detail])
    return sorted(found)


def cast(value: Value, type: str, rule: str = "wrap") -> Value:
    """Convert a value by a rule of `CASTS`; the value itself if nothing changes."""
    if rule not in CASTS:
        raise ValueError(f"no cast {rule!r}. Use one of {', '.join(CASTS)}.")
    if rule in ("outside", "inexact"):
        return Value("cast", "bool", (value,), (rule, _known(type)))
    if value.type == type:
        return value
    return Value("cast", _known(type), (value,), (rule, type))


def widen(value: Value) -> Value:
    """Return a narrow float as float32, other values as they are."""
    return cast(value, "float32") if value.type in NARROW else value


def apply(name: str, *arguments: Value) -> Value:
    """Apply a function; narrow floats are computed in float32 and rounded once."""
    arities = ((UNARY, 1), (BINARY, 2), (TERNARY, 3))
    arity = next((n for names, n in arities if name in names), None)
    types = {x.type for x in arguments}
    if len(arguments) != arity or len(types) != 1:
        shown = ", ".join(x.type for x in arguments)
        raise ValueError(f"{name} takes {arity} values of one type, got {shown}.")
    (type,) = types
    wide = tuple(map(widen, arguments))
    if name in TESTS:
        return Value(name, "bool", wide)
    if name in PARTS:
        return Value(name, f"float{int(type.removeprefix('complex')) // 2}", wide)
    return cast(Value(name, wide[0].type, wide), type)


def select(condition: Value, yes: Value, no: Value) -> Value:
    """Return `yes` where the condition is true, else `no`; both have one type."""
    if condition.type != "bool" or yes.type != no.type:
        shown = ", ".join(x.type for x in (condition, yes, no))
        raise ValueError(f"select takes bool and two values of one type, got {shown}.")
    return Value("select", yes.type, (condition, yes, no))


def compare(name: str, x: Value, y: Value) -> Value:
    """Compare numbers of any two types exactly: equal, not_equal, less, less_equal.

    A pair that one type holds is compared in it; 64-bit integers are compared with
    other numbers by their exact order.
    """
    if x.type == y.type:
        return apply(name, x, y)
    return Value(f"exact_{name}", "bool", (x, y))


def _short(type: str) -> str:
    """Return the type as names of kernels have it: `s8` for int8, `bf16`, `b1`."""
    if type == "bool":
        return "b1"
    for word, letter in (("uint", "u"), ("int", "s"), ("bfloat", "bf"), ("float", "f")):
        if type.startswith(word):
            return type.replace(word, letter)
    return type.replace("complex", "c")


def _known(type: str) -> str:
    if type not in TYPES:
        raise ValueError(f"no element type {type!r}. Use one of {', '.join(TYPES)}.")
    return type
