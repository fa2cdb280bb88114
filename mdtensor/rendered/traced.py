"""Kernels of arrays that users write, as rendered loops: called once, with elements.

    extend.compute(operation, lambda a, b: np.exp(a - b), x, y)

An `Element` stands for the arrays of one element each. It records the ufuncs of NumPy
that the kernel applies, with the types that NumPy gives them, so the loop computes what
the kernel computes on the host. What a loop cannot express is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from mdtensor import dtypes
from mdtensor.device import Device
from mdtensor.errors import NoMethodError, RegistrationError, describe, shown
from mdtensor.infer import infer
from mdtensor.kernels.loops import ir
from mdtensor.kernels.loops.ir import Value, apply, cast, select
from mdtensor.promotion import result_type
from mdtensor.rendered.launches import Operands, compute as computed, device_of
from mdtensor.tensor import Tensor

Build = Callable[..., Value]
#: Functions whose name in the IR is not that of NumPy's ufunc.
_NAMES = {"subtract": "sub", "multiply": "mul", "true_divide": "div", "divide": "div"}
_NAMES |= {"negative": "neg", "absolute": "abs", "fabs": "abs", "power": "pow"}
_NAMES |= {"float_power": "pow", "bitwise_and": "bit_and", "bitwise_or": "bit_or"}
_NAMES |= {"bitwise_xor": "bit_xor", "invert": "bit_not", "bitwise_not": "bit_not"}
_NAMES |= {"logical_and": "bit_and", "logical_or": "bit_or", "logical_xor": "bit_xor"}
_NAMES |= {"logical_not": "bit_not", "greater": "less", "greater_equal": "less_equal"}
_NAMES |= {f"arc{name}": f"a{name}" for name in ("sin", "cos", "tan", "tan2")}
_NAMES |= {f"arc{name}h": f"a{name}h" for name in ("sin", "cos", "tan")}
#: Ufuncs that are made of others.
_MADE: dict[str, Build] = {
    "positive": lambda x: x,
    "square": lambda x: apply("mul", x, x),
    "reciprocal": lambda x: apply("div", cast(ir.number(1, "float32"), x.type), x),
}
_COMPARISONS = frozenset(("equal", "not_equal", "less", "less_equal"))
_BITS = frozenset(("bit_and", "bit_or", "bit_xor", "bit_not"))
#: What NumPy decides for integers in ways of its own: divisors of 0, negative powers.
_OF_FLOATS = frozenset(("floor_divide", "remainder", "pow", "reciprocal"))


class _RefusedError(Exception):
    """What a kernel does that a loop cannot express; the message says what."""


class Element(NDArrayOperatorsMixin):
    """The array of one operand, or of what a kernel made of several.

    Args:
        operands: of the loop, which get the numbers that the kernel uses.
        value: of each element.
        shape: of the array.
    """

    def __init__(
        self, operands: Operands, value: Value, shape: tuple[int, ...]
    ) -> None:
        self._operands, self._value, self.shape = operands, value, shape

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return dtypes.dtype(self._value.type).storage

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *given: Any, **options: Any
    ) -> Element:
        if method != "__call__" or ufunc.nout > 1:
            raise _RefusedError(f"{ufunc.__name__}.{method}")
        if options:
            words = ", ".join(f"{name}=" for name in options)
            raise _RefusedError(f"{ufunc.__name__} with {words}")
        types = ufunc.resolve_dtypes((*map(_kind, given), None))
        values = [self._of(x, type) for x, type in zip(given, types[:-1], strict=True)]
        value = _applied(ufunc.__name__, values, types[-1].name)
        return self._made(value, given)

    def __array_function__(
        self, function: Any, types: Any, given: Any, options: Any
    ) -> Element:
        if function is not np.where or len(given) != 3 or options:
            raise _RefusedError(f"np.{function.__name__}")
        condition, *parts = given
        kinds = tuple(map(_kind, parts))
        # As the sum of both, which has the same promotion of numbers.
        (type, *_) = np.add.resolve_dtypes((*kinds, None))
        truth = self._of(condition, np.dtype(bool))
        yes, no = (self._of(x, type) for x in parts)
        return self._made(select(truth, yes, no), given)

    def _of(self, x: Any, type: np.dtype[Any]) -> Value:
        """Return an argument of a function, converted as NumPy does."""
        if isinstance(x, Element):
            return cast(x._value, type.name)
        return self._operands.array(np.array(x, type))

    def _made(self, value: Value, given: tuple[Any, ...]) -> Element:
        shapes = [x.shape for x in given if isinstance(x, Element)]
        return Element(self._operands, value, np.broadcast_shapes(*shapes))

    def __bool__(self) -> NoReturn:
        raise _RefusedError("a condition on elements, for which np.where is there")

    def __getitem__(self, key: Any) -> NoReturn:
        raise _RefusedError("an index")

    def __iter__(self) -> NoReturn:
        raise _RefusedError("a loop over elements")

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise _RefusedError("the elements as an array")

    def __float__(self) -> NoReturn:
        raise _RefusedError("the elements as Python numbers")

    __int__ = __index__ = __complex__ = __len__ = __float__

    def __getattr__(self, name: str) -> NoReturn:
        # NumPy asks for its own protocols.
        if name.startswith("__"):
            raise AttributeError(name)
        raise _RefusedError(f"array.{name}")


def _kind(x: Any) -> Any:
    """Return the type that NumPy promotes: of a Python number, its class."""
    if isinstance(x, Element):
        return x.dtype
    if isinstance(x, int | float) and type(x) in (int, float):
        return type(x)
    if np.ndim(x) or not isinstance(x, bool | np.generic | np.ndarray):
        raise _RefusedError(f"{shown(x)}, which is no number")
    return np.asarray(x).dtype


def _applied(ufunc: str, values: list[Value], type: str) -> Value:
    """Return a ufunc of values of the types that it takes.

    Args:
        type: of its result on the host.
    """
    name = _NAMES.get(ufunc, ufunc)
    known = name in ir.UNARY or name in ir.BINARY or name in _MADE
    kinds = {x.type for x in values}
    is_logic = ufunc.startswith("logical") and kinds != {"bool"}
    is_odd = "bool" in kinds and name not in _BITS | _COMPARISONS
    is_whole = name in _OF_FLOATS and not kinds <= {*ir.FLOATS}
    if not known or is_logic or is_odd or is_whole or kinds & {*ir.COMPLEX}:
        raise _RefusedError(f"np.{ufunc} of {' and '.join(sorted(kinds))}")
    if ufunc.startswith("greater"):
        values = values[::-1]
    if name in _COMPARISONS:
        return ir.compare(name, *values)
    if name == "div":
        # NumPy divides integers as floats.
        values = [cast(x, type) for x in values]
    return _MADE[name](*values) if name in _MADE else apply(name, *values)


# Called, not parsed: NumPy's own rules give the types (decision 0126).
def compute(
    operation: Any,
    kernel: Callable[..., Any],
    operands: tuple[Any, ...],
    options: dict[str, Any],
) -> Any:
    """Return what a kernel of arrays computes, by one launch.

    Raises:
        NoMethodError: the kernel does what a loop, or the device, cannot.
        RegistrationError: its result does not have the inferred shape.
    """
    spec = infer(operation, *operands, **options)
    name, joint = operation.__name__, result_type(*operands)
    made = Operands(name, operands)
    arrays = []
    for x in operands:
        shape = x.shape if isinstance(x, Tensor) else ()
        arrays.append(Element(made, ir.widen(made.value(x, joint)), shape))
    call = describe(name, *operands)
    try:
        found = kernel(*arrays, **options)
        if not isinstance(found, Element):
            raise _RefusedError(f"{shown(found)} as a result, which is no array")
    except _RefusedError as error:
        raise _no_loop(device_of(*operands), str(error), call) from None
    if found.shape != spec.shape:
        problem = f"the kernel returned shape {found.shape}, but the shape rule gives "
        fix = "Change the kernel, or the shape rule"
        raise RegistrationError(problem + str(spec.shape), fix, call)
    return computed(spec, made, found._value)


def _no_loop(device: Device, what: str, call: str) -> NoMethodError:
    problem = f"no method for {device}: the kernel uses {what}"
    return NoMethodError(problem, 'Move the operands with to("cpu")', call)
