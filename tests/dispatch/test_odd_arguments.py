"""Odd arguments to what registers, looks up or infers: errors of ours only."""

from collections.abc import Callable, Iterator
from typing import Any, Union

import numpy as np
import pytest
from support.each import each

import mdtensor as md
from mdtensor import dtypes, registry, tables
from mdtensor.dispatch import builder
from mdtensor.errors import MdtensorError
from mdtensor.tables import (
    Axes,
    Axis,
    BlockSize,
    Coordinate,
    Cpu,
    Cuda,
    DeviceType,
    Tag,
)

F32 = md.Float32Tensor
SPEC = md.TensorSpec(F32, (md.Dim("M"), 4))
SPACE = Axes(Axis(Cpu, Cuda))


class Broken:
    def __repr__(self) -> str:
        raise ZeroDivisionError


def odd() -> list[Any]:
    """New ones each time: what is used up must not be used twice."""
    texts = ["", "x", "add", "M", "a.b.c", "tensor.", "class", "int", b"x"]
    numbers = [3, -1, 2**70, 2.5, float("nan"), True, 1j, np.int64(2), md.Dim("M")]
    several = [(), [], {}, {1}, (1, 2), [None], ((), ()), ([1],), range(3), iter([1])]
    classes = [object, int, type, F32, md.FloatingTensor, np.float32, Exception]
    hints = [Union[int, str], Tag, Tag[Cpu], Cpu]
    callables = [lambda: 0, lambda x: x, print, len, md.add]
    rest = [None, object(), md.float32, np.arange(3), md.ones((2,)), SPEC, md.cpu]
    rest += [Broken(), slice(1), Ellipsis, NotImplemented, Exception("x")]
    return [*texts, *numbers, *several, *classes, *hints, *callables, *rest]


def begun() -> Any:
    return md.register("odd")


def nearly() -> Any:
    return begun().category("c").describe("d").argument("x", F32, "d")


def placed() -> Any:
    @md.generic
    def placed(tag: Any, x: Any, /) -> Any: ...

    @md.method(placed)
    def placed(tag: Tag[Cpu], x: md.Tensor, /) -> Any: ...

    return placed


def kind(base: Any, **options: Any) -> Any:
    return type(Cpu)("Odd", (base,), {}, **options)


def leaf(**options: Any) -> Any:
    return type("W", (md.FloatingTensor,), {}, **options)


def same(x: Any) -> Any:
    return x


CALLS: dict[str, Callable[[Any], Any]] = {
    "register": lambda a: md.register(a),
    "category": lambda a: begun().category(a),
    "describe": lambda a: begun().describe(a),
    "argument": lambda a: begun().argument(a),
    "argument type": lambda a: begun().argument("x", a),
    "argument doc": lambda a: begun().argument("x", F32, a),
    "attribute": lambda a: begun().attribute(a, int),
    "attribute type": lambda a: begun().attribute("k", a, 3),
    "attribute default": lambda a: begun().attribute("k", int, a),
    "attribute doc": lambda a: begun().attribute("k", int, 1, a),
    "deduce": lambda a: nearly().deduce(a).function,
    "chain method": lambda a: nearly().deduce(same).method(a),
    "method": lambda a: md.method(a),
    "method function": lambda a: md.method(md.erf)(a),
    "method types": lambda a: md.method(md.erf, types=a)(same),
    "method type": lambda a: md.method(md.erf, types=(a,))(same),
    "method deduce": lambda a: md.method(md.erf, types=(Broken,), deduce=a)(same),
    "generic": lambda a: md.generic(a),
    "generic deduce": lambda a: md.generic(deduce=a)(lambda x, /: 0),
    "generic category": lambda a: md.generic(category=a)(same),
    "spec type": lambda a: md.TensorSpec(a, (2,)),
    "spec shape": lambda a: md.TensorSpec(F32, a),
    "spec size": lambda a: md.TensorSpec(F32, (a,)),
    "spec grid": lambda a: md.TensorSpec(F32, (2,), a),
    "tile shape": lambda a: md.TileSpec(F32, a),
    "tile rank": lambda a: md.TileSpec(F32, (2,), None, a),
    "with_shape": lambda a: SPEC.with_shape(a),
    "with_dtype": lambda a: SPEC.with_dtype(a),
    "Dim": lambda a: md.Dim(a),
    "Dim of": lambda a: md.Dim("M") * a,
    "of Dim": lambda a: a - md.Dim("M"),
    "bind_dims specs": lambda a: md.bind_dims(a, [md.ones((2, 4))]),
    "bind_dims spec": lambda a: md.bind_dims([a], [md.ones((2, 4))]),
    "bind_dims tensors": lambda a: md.bind_dims([SPEC], a),
    "bind_dims tensor": lambda a: md.bind_dims([SPEC], [a]),
    "DType name": lambda a: md.DType(a, "posit", 8, "int8"),
    "DType kind": lambda a: md.DType("odd", a, 8, "int8"),
    "DType bits": lambda a: md.DType("odd", "posit", a, "int8"),
    "DType storage": lambda a: md.DType("odd", "posit", 8, a),
    "add_type": lambda a: md.add_type(a, above=[], below=[]),
    "add_type above": lambda a: md.add_type(md.int8, above=a, below=[]),
    "add_type below": lambda a: md.add_type(md.int8, above=[], below=[a]),
    "get": lambda a: registry.get(a, "cpu"),
    "get device": lambda a: registry.get("add", a),
    "add": lambda a: registry.add(a, "cpu", same, override=True),
    "add device": lambda a: registry.add("erf", a, same),
    "add function": lambda a: registry.add("erf", "cpu", a, override=True),
    "add types": lambda a: registry.add("erf", "cpu", same, types=a, override=True),
    "remove": lambda a: registry.remove(a, "cpu"),
    "remove device": lambda a: registry.remove("add", a),
    "is_op_registered": lambda a: md.is_op_registered(a),
    "get_op": lambda a: md.get_op(a),
    "ops": lambda a: md.ops(a),
    "signatures": lambda a: md.signatures(a),
    "infer": lambda a: md.infer(a, SPEC),
    "infer number": lambda a: md.infer("add", SPEC, a),
    "infer shape": lambda a: md.infer("reshape", SPEC, a),
    "infer wanted": lambda a: md.infer("broadcast_to", SPEC, a),
    "infer axis": lambda a: md.infer("sum", SPEC, axis=a),
    "infer list": lambda a: md.infer("concat", a),
    "infer key": lambda a: md.infer("getitem", SPEC, a),
    "Tag": lambda a: Tag[a],
    "Tag.add": lambda a: Tag[Cpu].add(a),
    "Tag.drop": lambda a: Tag[Cpu].drop(a),
    "Tag.get": lambda a: Tag[Cpu].get(a),
    "Tag.has": lambda a: Tag[Cpu].has(a),
    "Axis": lambda a: Axis(a),
    "Axis.full": lambda a: Axis.full(a),
    "Axes": lambda a: Axes(a),
    "point": lambda a: SPACE.point(a),
    "table space": lambda a: tables.DispatchTable(a, Tag[Cpu], placed()),
    "table coverage": lambda a: tables.DispatchTable(SPACE, a, placed()),
    "table part": lambda a: tables.DispatchTable(SPACE, [a], placed()),
    "table op": lambda a: tables.DispatchTable(SPACE, Tag[Cpu], a),
    "table types": lambda a: tables.DispatchTable(
        SPACE, Tag[Cpu], placed(), arguments=a
    ),
    "select": lambda a: tables.DispatchTable(SPACE, Tag[Cpu], placed()).select(a),
    "coordinate": lambda a: BlockSize[a],
    "kind values": lambda a: kind(Coordinate, values=a),
    "kind of": lambda a: kind(Coordinate, of=a),
    "kind value": lambda a: kind(DeviceType, value=a),
    "leaf dtype": lambda a: leaf(dtype=a),
    "leaf device": lambda a: leaf(dtype=md.float32, device=a),
}


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    """Nothing that is taken after all stays."""
    places: list[dict[Any, Any]] = [
        builder._PENDING,
        dtypes._REGISTRY,
        DeviceType.members,
    ]
    before = [dict(place) for place in places]
    declared = list(DeviceType.declared)
    with registry.restored():
        yield
    for place, known in zip(places, before, strict=True):
        place.clear()
        place.update(known)
    DeviceType.declared[:] = declared


@each("name", CALLS)
def test_odd_arguments_get_errors_of_ours(name: str) -> None:
    refused = 0
    for argument in odd():
        try:
            CALLS[name](argument)
        except MdtensorError as error:
            refused += 1
            assert 8 < len(str(error)) < 900
        builder._PENDING.clear()
    assert refused > 2 or name == "is_op_registered"


@pytest.mark.parametrize("array", [np.array([7.5, 8.5]), md.asarray([7.5, 8.5])])
def test_no_message_holds_elements(array: Any) -> None:
    for call in (
        lambda: md.audit(array),
        lambda: md.for_each(2, lambda i: None, grain=array),
        lambda: md.parallel_for(0, 2, array, print),
        lambda: md.parallel_for(array, 2, 1, print),
        lambda: md.parallel_for(0, 2, 1, array),
    ):
        with pytest.raises(MdtensorError) as raised:
            call()
        assert "7.5" not in str(raised.value)
