"""Bad calls: valid ones, with parts replaced by what does not fit."""

import fractions
import operator
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from support.samples import codes, floats, integers, sample

import mdtensor as md
from mdtensor import quant, registry, tables
from mdtensor.dispatch import catalog
from mdtensor.errors import shown
from mdtensor.quant.tensor import spec_of

#: Sizes that no machine has: more would be an hour of work, not an error.
HUGE = 2**46


class Call(NamedTuple):
    """What is called, with what, and how to write it down."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    options: dict[str, Any]

    def run(self) -> Any:
        return self.function(*self.arguments, **self.options)

    def __str__(self) -> str:
        given = [shown(x) for x in self.arguments]
        given += [f"{name}={shown(x)}" for name, x in self.options.items()]
        return f"{self.name}({', '.join(given)})"


class Stranger:
    """An object of another library; it says so wherever it is asked."""

    def __repr__(self) -> str:
        return "Stranger()"


class Deceiver:
    """Has the attributes of a tensor, and none of its manners."""

    shape = ("a", None)
    dtype = "float32"
    ndim = -1
    buffer = None

    def __repr__(self) -> str:
        return "Deceiver()"


class Hostile:
    """Raises when it is looked at by the protocols of arrays and numbers."""

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("hostile")

    __array__ = __index__ = __float__ = __len__ = __iter__ = _refuse

    def __repr__(self) -> str:
        return "Hostile()"


def nested(depth: int) -> Any:
    values: Any = [1.0]
    for _ in range(depth):
        values = [values]
    return values


def endless() -> Any:
    values: list[Any] = [1]
    values.append(values)
    return values


NUMBERS: list[Any] = [
    *(0, 1, -1, 2, 3, 7, -9, 255, 256, 2**53 + 1, HUGE, -HUGE),
    *(2**63 - 1, 2**63, -(2**63) - 1, 2**64, 10**30, -(10**400), 10**5000),
    *(0.0, -0.0, 0.5, -1.5, 1e308, 5e-324, float("nan"), float("inf"), -float("inf")),
    *(1j, complex("nan"), complex("inf"), True, False),
    *(np.float32(1.5), np.int8(-3), np.uint64(2**64 - 1), np.float64("nan")),
    *(np.bool_(True), np.complex64(1j), np.complex128(1j), fractions.Fraction(1, 3)),
]
OBJECTS: list[Callable[[], Any]] = [
    *(lambda v=v: v for v in ("", "x", "cpu", "float32", "cuda:0", "tpu", b"ab", "é")),
    *(lambda v=v: v for v in (None, ..., NotImplemented, int, float, object, len)),
    *(lambda v=v: v for v in (md.float32, md.int8, md.bool, md.cpu, md.Float32Tensor)),
    *(lambda v=v: v for v in (md.Tensor, md.add, md, np, np.float32, quant.qint8)),
    *(lambda v=v: v for v in (np.dtype("f4"), np.dtype("M8[s]"), np.dtype("i4, f8"))),
    *(lambda v=v: v for v in (slice(None), slice("a"), slice(0, 1, 0), slice(HUGE))),
    *(lambda v=v: v for v in ((), (0,), (-1,), (1, 2, 3), (0, 0), (None,), ("a",))),
    *(lambda v=v: v for v in ((HUGE, HUGE), (2, -3), (1,) * 70, (1.5,), ((1, 2),) * 2)),
    *(lambda v=v: v for v in ((True, False), (..., ...), (10**30,), (0,) * 65)),
    *(lambda v=v: v.copy() for v in ([], [1, 2], [[1], [2, 3]], [None], ["a"], [[]])),
    lambda: {"a": 1},
    lambda: {1, 2},
    lambda: range(3),
    lambda: iter([1, 2]),
    lambda: (n for n in "ab"),
    lambda: bytearray(4),
    lambda: memoryview(b"\2\3"),
    lambda: nested(70),
    lambda: nested(3000),
    endless,
    Stranger,
    Deceiver,
    Hostile,
    lambda: np.ones((2, 3)),
    lambda: np.array(["a"]),
    lambda: np.array([None, 1], object),
    lambda: np.array("2020", "M8[s]"),
    lambda: np.zeros(2, "i4, f8"),
    lambda: np.ma.masked_array([1.0, 2.0], [True, False]),
    lambda: np.ones((2, 2), ">f4"),
    lambda: np.ones(2, np.longdouble),
    lambda: quant.QParams(0.5),
    lambda: quant.QParams(np.ones(3), axis=0),
    lambda: md.TensorSpec(md.Float32Tensor, (2, 3)),
]
SHAPES = [(), (0,), (1,), (2,), (3,), (2, 3), (3, 2), (0, 3), (2, 3, 4), (1, 2, 4, 4)]
SHAPES += [(2, 2), (3, 3), (1, 1, 1, 1, 2), (1,) * 64]
DTYPES = [leaf.dtype for leaf in md.leaves()[:15]]


def tensor(chance: random.Random) -> md.Tensor:
    """Of any type, shape and layout; some with numbers that are none, some locked."""
    shape, dtype = chance.choice(SHAPES), chance.choice(DTYPES)
    values = np.asarray(md.astype(integers(*shape), dtype))
    if chance.random() < 0.2 and (dtype.is_floating or dtype.is_complex):
        values = np.full(
            shape, float(chance.choice(["nan", "inf", "-3"])), values.dtype
        )
    how = chance.randrange(6)
    if how == 0:
        values = np.broadcast_to(values, (2, *shape) if len(shape) < 60 else shape)
    elif how == 1:
        values = values.T[..., ::-1] if values.ndim else values
    elif how == 2:
        values = np.array(values)
        values.flags.writeable = False
    elif how == 3 and len(shape) < 5:
        return codes(*shape)
    return md.from_numpy(values)


def junk(chance: random.Random) -> Any:
    kind = chance.random()
    if kind < 0.35:
        return chance.choice(NUMBERS)
    return tensor(chance) if kind < 0.6 else chance.choice(OBJECTS)()


OPERATIONS = [f for name, f in md.operations().items() if name.startswith("mdtensor.")]


def bad_operation(chance: random.Random) -> Call:
    """A sample with one or two parts replaced, dropped or added."""
    function = chance.choice(OPERATIONS)
    arguments, options = sample(function)
    given, chosen = list(arguments), dict(options)
    known = list(function.operation.options)
    for _ in range(chance.choice([1, 1, 2, 3])):
        what = chance.random()
        if what < 0.5 and given:
            given[chance.randrange(len(given))] = junk(chance)
        elif what < 0.9 and known:
            chosen[chance.choice(known)] = junk(chance)
        elif what < 0.94 and given:
            given.pop()
        elif what < 0.97:
            given.append(junk(chance))
        else:
            chosen["no_such_option"] = 1
    if function.operation.sequence and chance.random() < 0.8:
        given = [given]
    return respelled(Call(function.__name__, function, tuple(given), chosen), chance)


def respelled(call: Call, chance: random.Random) -> Call:
    """Mostly as it is; else asked of specs, or as a method of its first tensor."""
    how, (first, *rest) = chance.random(), call.arguments or (None,)
    if how < 0.2:
        specs = (spec_of(x) if isinstance(x, md.Tensor) else x for x in call.arguments)
        return Call("infer", md.infer, (call.function, *specs), call.options)
    if how < 0.3 and isinstance(first, md.Tensor):
        method = getattr(first, call.name, None)
        if callable(method):
            return Call(f"x.{call.name}", method, tuple(rest), call.options)
    return call


BINARY = [
    *(operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv),
    *(operator.mod, operator.pow, operator.matmul, operator.and_, operator.or_),
    *(operator.xor, operator.lshift, operator.rshift, operator.eq, operator.ne),
    *(operator.lt, operator.le, operator.gt, operator.ge, divmod),
    *(operator.iadd, operator.imul, operator.itruediv, operator.ipow, operator.iand),
    *(operator.imatmul, operator.ilshift, operator.getitem, operator.contains),
    *(np.add, np.matmul, np.arctan2, np.maximum),
]
UNARY = [
    *(operator.neg, operator.pos, operator.abs, operator.invert, operator.not_),
    *(operator.index, float, int, complex, bool, len, list, str, repr, hash, round),
    *(np.asarray, np.sin, np.sum, iter, reversed, md.Tensor.tolist),
]


def bad_operator(chance: random.Random) -> Call:
    if chance.random() < 0.3:
        function: Any = chance.choice(UNARY)
        return Call(function.__name__, function, (tensor(chance),), {})
    if chance.random() < 0.15:
        value = tensor(chance), junk(chance), junk(chance)
        return Call("setitem", operator.setitem, value, {})
    function = chance.choice(BINARY)
    pair = [tensor(chance), junk(chance)]
    chance.shuffle(pair)
    return Call(function.__name__, function, tuple(pair), {})


#: Functions that are no operations, with a valid call of each.
FUNCTIONS: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = [
    (md.asarray, ([1.0],), {"dtype": md.float32, "device": "cpu", "copy": None}),
    (md.from_numpy, (np.ones(2),), {}),
    (md.from_dlpack, (np.ones(2),), {"device": None, "copy": None}),
    (md.zeros, ((2,),), {"dtype": md.int8, "device": None}),
    (md.ones, ((2,),), {"dtype": md.int8, "device": None}),
    (md.empty, ((2,),), {"dtype": md.int8, "device": None}),
    (md.full, ((2,), 1.0), {"dtype": md.float32, "device": None}),
    (md.eye, (2, 3), {"k": 0, "dtype": md.int8, "device": None}),
    (md.arange, (0, 4, 1), {"dtype": md.int8, "device": None}),
    (md.linspace, (0.0, 1.0, 3), {"dtype": None, "endpoint": True, "device": None}),
    (md.meshgrid, (floats(2), floats(3)), {"indexing": "ij"}),
    (md.broadcast_arrays, (floats(2), floats(1)), {}),
    (md.broadcast_shapes, ((2, 1), (3,)), {}),
    (md.result_type, (md.int8, 1), {}),
    (md.promote_types, (md.int8, md.int16), {}),
    (md.can_cast, (md.int8, md.int16), {}),
    (md.finfo, (md.float32,), {}),
    (md.iinfo, (md.int8,), {}),
    (md.isdtype, (md.int8, "integral"), {}),
    (md.dtype, ("int8",), {}),
    (md.device, ("cpu",), {}),
    (md.leaf, (md.int8,), {"device": md.cpu}),
    (md.which, (md.add, 1, floats(2)), {}),
    (md.support, ("add",), {"device": "cpu"}),
    (md.promotion_rules, ("strict",), {}),
    (md.flat_in, (floats(2),), {}),
    (md.flat_out, (floats(2),), {}),
    (md.ranked_in, (floats(2),), {}),
    (md.ranked_out, (floats(2),), {}),
    (catalog.get_op, ("add",), {}),
    (catalog.is_op_registered, ("add",), {}),
    (catalog.ops, ("arithmetic",), {}),
    (catalog.signatures, ("add",), {}),
    (registry.get, ("add", "cpu"), {}),
    (tables.Axis, (tables.Cpu, tables.Cuda), {}),
    (tables.Axis.full, (tables.Contiguity,), {}),
    (tables.Axes, (tables.Axis(tables.Cpu), tables.Axis(tables.Strided)), {}),
    (tables.Tag[tables.Cpu].add, (tables.Strided,), {}),
    (tables.Tag[tables.Cpu].drop, (tables.Strided,), {}),
    (tables.Tag[tables.Cpu].get, (tables.DeviceType,), {}),
    (tables.contiguity, (floats(2), floats(3)), {}),
    (tables.element_type, (floats(2), floats(3)), {}),
    (tables.device_type, (floats(2), floats(3)), {}),
    (tables.placement, (floats(2), floats(2)), {}),
    (md.set_num_threads, (1,), {}),
    (md.Float32Tensor, ([1.0],), {}),
    (md.UInt8Tensor, ([1],), {}),
    (md.BoolTensor, ([True],), {}),
    (quant.QInt8Tensor, ([1],), {"scale": 0.5, "zero_point": 0, "axis": None}),
    (quant.QParams, (0.5, 3), {"dtype": quant.qint8, "axis": None}),
    (quant.grid_of, (floats(2),), {}),
    (md.Tensor.to, (floats(2), "cpu"), {}),
    (md.Tensor.to_device, (floats(2), "cpu"), {"stream": None}),
    (format, (floats(), ".2f"), {}),
    (md.Tensor.__dlpack__, (floats(2),), {"max_version": (1, 0), "dl_device": (1, 0)}),
    (md.Tensor.__dlpack__, (floats(2),), {"copy": None, "stream": None}),
    (md.Tensor.__array__, (floats(2),), {"dtype": None, "copy": None}),
    (md.Tensor.__array_namespace__, (floats(2),), {"api_version": "2024.12"}),
]


def bad_function(chance: random.Random) -> Call:
    function, arguments, options = chance.choice(FUNCTIONS)
    given, chosen = list(arguments), dict(options)
    name = function.__qualname__
    is_method = function is format or name.startswith(("Tensor.", "Interchange."))
    places = [*range(is_method, len(given)), *chosen]
    for place in chance.sample(places, min(len(places), chance.choice([1, 1, 2]))):
        target: Any = chosen if isinstance(place, str) else given
        target[place] = junk(chance)
    return Call(function.__qualname__, function, tuple(given), chosen)


def bad_calls(count: int, seed: int) -> Iterator[Call]:
    """`count` calls, most of which cannot be answered; the same for the same seed."""
    chance = random.Random(seed)
    kinds = [bad_operation] * 7 + [bad_operator] * 2 + [bad_function] * 2
    for _ in range(count):
        yield chance.choice(kinds)(chance)
