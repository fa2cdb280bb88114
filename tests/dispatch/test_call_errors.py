"""Errors of calls that no method fits, or several: short, and about types only."""

import contextlib
import gc
import pickle
import re
import weakref
from collections.abc import Callable
from typing import Any, Union

import plum
import pytest
from support.samples import call, sample
from support.shelf import FEW, on_few, shelved

import mdtensor as md
from mdtensor.dispatch.operation import _OPERATIONS
from mdtensor.errors import AmbiguousDispatchError, DispatchError, NoMethodError
from mdtensor.tensor import leaves

pytestmark = pytest.mark.usefixtures("registered_as_before")


@md.generic
def meet(x: Any, y: Any, /, *, mode: str = "") -> Any:
    """Two sides."""


@md.method(meet)
def meet(x: md.IntegerTensor, y: md.Tensor, /, *, mode: str) -> Any: ...


@md.method(meet)
def meet(x: md.Tensor, y: md.IntegerTensor, /, *, mode: str) -> Any: ...


del _OPERATIONS[f"{__name__}.meet"]  # other tests look at all operations there are


def caught(call: Callable[[], Any]) -> Any:
    with pytest.raises(DispatchError) as error:
        call()
    return error.value


ONES = md.asarray([1, 2, 3])
CALLS: dict[str, Callable[[], Any]] = {
    "ambiguous": lambda: meet(ONES, ONES),
    "no method": lambda: md.sin(ONES),
    "foreign": lambda: md.add(ONES, "text"),
    "sequence": lambda: md.concat([ONES, "text"] * 500),
    "long names": lambda: md.add(ONES, type("N" * 5000, (), {})()),
    "many": lambda: md.concat([type("N" * 500 + "\n", (), {})() for _ in range(99)]),
}


@pytest.mark.parametrize("name", CALLS)
def test_it_is_ours_and_plums_and_short(name: str) -> None:
    error = caught(CALLS[name])
    wanted = AmbiguousDispatchError if name == "ambiguous" else NoMethodError
    theirs = {AmbiguousDispatchError: plum.AmbiguousLookupError}
    assert type(error) is wanted
    assert isinstance(error, theirs.get(wanted, plum.NotFoundLookupError))
    assert isinstance(error, TypeError)
    assert all(isinstance(t, type) for t in error.types)
    text = str(error)
    assert len(text) <= 2000 and len(text.splitlines()) == 1
    assert not re.search(r"0x[0-9a-f]{4}|\[1, 2, 3\]", text)
    assert repr(error).startswith(f"{wanted.__name__}('")
    assert error.__rich__() == text
    assert error._repr_mimebundle_() == {"text/plain": repr(error)}


@pytest.mark.parametrize("name", CALLS)
def test_it_travels_between_processes(name: str) -> None:
    error = caught(CALLS[name])
    found = pickle.loads(pickle.dumps(error))
    assert type(found) is type(error) and str(found) == str(error)
    assert found.methods == error.methods
    is_local = name in ("long names", "many")
    assert found.types == ((object,) * len(error.types) if is_local else error.types)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: md.sin(x),
        lambda x: meet(x, x),
        lambda x: md.add(x, "text"),
        lambda x: md.concat([x, "text"]),
    ],
)
def test_it_keeps_no_argument_alive(call: Callable[[Any], Any]) -> None:
    arguments = [md.asarray([1, 2, 3])]
    watched = weakref.ref(arguments[0].buffer)
    error = caught(lambda: call(*arguments)).with_traceback(None)
    arguments.clear()
    gc.collect()
    assert error.__context__ is None
    assert watched() is None


def test_the_nearest_method_is_that_for_the_class_of_the_caller() -> None:
    class Interval:
        pass

    @md.generic(deduce=lambda a, b: a)
    def hull(a: object, b: object, /) -> Any: ...

    @md.method(hull)
    def hull(a: md.NumericTensor, b: Union[md.NumericTensor, int], /): ...

    @md.method(hull)
    def hull(a: Interval, b: Interval, /): ...

    error = caught(lambda: hull(Interval(), 1))
    assert error.argument == "b"
    assert ": no method: b is int, not Interval. Nearest: hull" in str(error)


def test_an_ambiguous_call_names_the_method_that_decides() -> None:
    error = caught(CALLS["ambiguous"])
    header = "def meet(x: IntegerTensor, y: IntegerTensor, /, *, mode): ..."
    assert error.header == header
    assert str(error).endswith(f". Write @method(meet) above {header}.")
    assert [place.partition(" at ")[0] for place in error.methods] == [
        "meet(IntegerTensor, Tensor)",
        "meet(Tensor, IntegerTensor)",
    ]

    @md.generic
    def decided(x: Any, y: Any, /) -> Any:
        """Two sides, and the method of the header."""

    whole, any_type = md.IntegerTensor, md.Tensor
    for types in [(whole, any_type), (any_type, whole), (whole, whole)]:
        md.method(decided, types=types)(lambda x, y: x)
    assert decided.select(md.Int8Tensor, md.Int64Tensor).method.accepts((whole, whole))


CASTS = {
    (md.sin, md.BoolTensor): (
        "astype(x, float32)",
        "astype(x, float64)",
        "astype(x, complex64)",
        "astype(x, complex128)",
    ),
    (md.sin, md.Int32Tensor): (
        "astype(x, float64)",
        "astype(x, complex128)",
        "astype(x, float32), lossy beyond 2**24",
        "astype(x, complex64), lossy beyond 2**24",
    ),
    (md.imag, md.Float64Tensor): (
        "astype(x, complex128)",
        "astype(x, complex64), lossy",
    ),
    (md.matmul, md.BoolTensor, md.Complex64Tensor): (
        "astype(x1, complex64)",
        "astype(x1, float32)",
        "astype(x1, int64)",
        "astype(x1, float64)",
        "astype(x1, complex128)",
    ),
    # int64 and uint64 have no common type.
    (md.bitwise_or, md.Float32Tensor, md.UInt64Tensor): ("astype(x1, uint64), lossy",),
    # The values of x stay what they are.
    (md.take, md.Float32Tensor, md.Float32Tensor): ("astype(indices, int64), lossy",),
    # Complex numbers become no real ones.
    (md.floor_divide, md.Int8Tensor, md.Complex64Tensor): (),
    (md.add, md.Int8Tensor, str): (),
}


@pytest.mark.parametrize("call", CASTS, ids=lambda call: call[0].__name__)
def test_casts_are_exact_first_and_say_what_they_lose(call: tuple[Any, ...]) -> None:
    operation, *types = call
    assert caught(lambda: operation.select(*types)).casts == CASTS[call]


PLAIN = [t for t in leaves() if t.device is md.cpu and t.dtype.kind != "quantized"]


@pytest.mark.parametrize("kind", PLAIN, ids=lambda kind: str(kind.dtype))
def test_casts_work_and_exact_ones_lose_nothing(kind: Any) -> None:
    """Of the extremes and of ones, through every operation that names a cast."""
    edges = [kind.dtype.minimum, kind.dtype.maximum, 1]
    x = md.asarray(
        [*map(bool, edges)] if kind is md.BoolTensor else edges, dtype=kind.dtype
    )
    for function in (md.sin, md.imag, md.logical_not, md.bitwise_invert):
        for cast in casts_of(function, x):
            to = re.findall(r", (\w+)\)", cast)[0]
            is_lossy = "lossy" in cast
            y = md.astype(x, to, casting="saturate" if is_lossy else "exact")
            assert is_lossy or md.astype(y, kind.dtype).tolist() == x.tolist()
            assert accepts(function, y)


def casts_of(function: Any, x: Any) -> tuple[str, ...]:
    return () if accepts(function, x) else caught(lambda: function(x)).casts


def accepts(function: Any, x: Any) -> bool:
    try:
        function(x)
    except NoMethodError:
        return False
    return True


#: The operations with one method for every device.
SERVE_ALL = {"empty_like", "full_like", "ones_like", "to", "zeros_like"}


@pytest.mark.parametrize("dtypes", FEW, ids=lambda few: "+".join(map(str, few)))
def test_a_device_with_few_types_has_no_method_and_no_other_error(dtypes: Any) -> None:
    """For every operation: the advice in an error must not fail for want of a type."""
    ran = []
    with shelved(dtypes) as place:
        for name, operation in sorted(md.operations().items()):
            if not name.startswith("mdtensor.") or ".quant." in name:
                continue
            arguments, options = sample(operation)
            arguments = on_few(arguments, place, dtypes[0])
            options = {k: on_few(v, place, dtypes[0]) for k, v in options.items()}
            with contextlib.suppress(md.NoMethodError, md.DeviceError):
                call(operation, arguments, options)
                ran.append(operation.__name__)
    # These make a tensor of the same type, or move one.
    assert {"to", "zeros_like"} <= set(ran) <= SERVE_ALL


@pytest.mark.parametrize(
    "call",
    [
        lambda: md.asarray([1]).to(3),
        lambda: md.astype(md.asarray([1]), 3),
        lambda: md.linalg.matrix_power(md.ones((2, 2)), 0.5),
    ],
)
def test_a_tensor_is_no_advice_where_none_is_wanted(call: Any) -> None:
    with pytest.raises(NoMethodError) as raised:
        call()
    assert "asarray" not in str(raised.value)
    with pytest.raises(NoMethodError, match=r"Use asarray\(x2\) to make it a tensor"):
        md.matmul(md.ones(2), 2)
