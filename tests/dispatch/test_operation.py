"""Declaring, adding methods, selecting and calling."""

import copy
import inspect
import itertools
import pickle
import threading
from collections.abc import Callable, Iterator
from typing import Any, Union

import numpy as np
import plum
import pytest
from support.each import each

import mdtensor as md
from mdtensor import dtypes, tensor
from mdtensor.dispatch import operation as dispatch
from mdtensor.errors import DispatchError, OptionError, RegistrationError

DENSE = [
    leaf
    for leaf in md.leaves()[:15]
    if leaf.dtype not in (md.bfloat16, md.complex64, md.complex128)
]


@pytest.fixture(autouse=True)
def registries() -> Iterator[None]:
    """Every registry as it was before the test; what quant adds is there to stay."""
    assert md.quant
    kept = [dispatch._OPERATIONS, dtypes._REGISTRY, tensor._LEAVES]
    before = [dict(registry) for registry in kept]
    yield
    for registry, old in zip(kept, before, strict=True):
        registry.clear()
        registry.update(old)


def text(error: type[Exception], call: Callable[[], Any]) -> str:
    with pytest.raises(error) as caught:
        call()
    return str(caught.value)


def declare() -> Any:
    @md.generic
    def twice(x: Any, y: Any = None, /, *, times: int = 2, out: Any = None) -> Any:
        """x, twice."""

    return twice


F, I8, NONE = md.Float32Tensor, md.Int8Tensor, type(None)


def test_the_most_specific_method_runs() -> None:
    twice = declare()
    with pytest.raises(DispatchError, match="Nothing is registered yet"):
        twice(1)

    @md.method(twice)
    def twice(x: md.Tensor, y: None, /, *, times: int) -> str:
        return f"tensor {times}"

    @md.method(twice)
    def twice(x: md.IntegerTensor, y: None, /, *, times: int) -> str:
        return f"integer {times}"

    @md.method(twice)
    def twice(x: md.Tensor, y: Union[int, float], /, *, times: int) -> str:
        return f"scalar {times}"

    x, n = md.asarray([1.0]), md.asarray([1])
    assert [twice(x), twice(n), twice(n, 1)] == ["tensor 2", "integer 2", "scalar 2"]
    assert twice(n, None, times=5) == "integer 5"
    assert len(twice.operation.methods) == 3


def test_the_call_takes_the_declared_parameters_only() -> None:
    twice = declare()
    assert str(inspect.signature(twice)).startswith("(x")
    assert (twice.__name__, twice.__doc__) == ("twice", "x, twice.")
    for call in (
        lambda: twice(),
        lambda: twice(1, 2, 3),
        lambda: twice(1, time=3),
        lambda: twice(x=1),
    ):
        with pytest.raises(DispatchError, match=r"twice\((int(, int)*)?\): "):
            call()


def test_a_later_method_is_seen_at_the_next_call() -> None:
    twice = declare()

    @md.method(twice)
    def twice(x: md.Tensor, y: Any, /, *, times: int) -> str:
        return "wide"

    x = md.asarray([1], dtype=md.int8)
    assert twice(x) == "wide"

    @md.method(twice)
    def twice(x: md.Int8Tensor, y: None, /, *, times: int) -> str:
        return "narrow"

    assert twice(x) == "narrow"
    assert twice(x, 1) == "wide"


def test_out_is_for_methods_that_round() -> None:
    twice = declare()

    @md.method(twice)
    def twice(x: md.FloatingTensor, y: None, /, *, times: int) -> str:
        return "exact"

    @md.method(twice)
    def twice(x: md.IntegerTensor, y: None, /, *, times: int, out: Any = None) -> str:
        return f"on {out}"

    assert twice(md.asarray([1]), out="grid") == "on grid"
    assert twice(md.asarray([1])) == "on None"
    assert text(OptionError, lambda: twice(md.asarray([1.0]), out="grid")) == (
        "twice(Float32Tensor[1]): out= and rounding= set the grid of a quantized "
        "result, and this method does not return one. Omit them, quantize the "
        "arguments first, or pass the tensor to write into."
    )
    array = np.zeros(1, np.float32)
    assert text(OptionError, lambda: twice(md.asarray([1.0]), out=array)) == (
        "twice(Float32Tensor[1]): out is a ndarray, not a tensor. "
        "Pass out=asarray(a), which writes into the memory of a."
    )
    md.add(md.asarray([1.0]), 1, out=md.asarray(array))
    assert array.tolist() == [2.0]
    assert not twice.select(F, NONE).method.rounds


def test_select_fills_in_defaults_and_deduces() -> None:
    assert md.conv2d.select(F, F).types == (F, F, NONE)
    spec = md.TensorSpec(F, (1, 2, 5, 5)), md.TensorSpec(F, (4, 2, 3, 3))
    assert md.conv2d.select(F, F).deduce(*spec, padding=1).shape == (1, 4, 5, 5)
    assert md.conv2d.select(F, F).deduce(*spec, None).shape == (1, 4, 3, 3)


def test_a_method_may_deduce_for_itself() -> None:
    @md.generic
    def shape_of(x: Any, /) -> Any:
        """No rule."""

    @md.method(shape_of)
    def shape_of(x: md.FloatingTensor, /) -> Any: ...

    @md.method(shape_of, deduce=lambda x: x.with_shape((x.ndim,)))
    def shape_of(x: md.IntegerTensor, /) -> Any: ...

    spec = md.TensorSpec(I8, (3, 4))
    assert shape_of.select(I8).deduce(spec).shape == (2,)
    assert text(OptionError, lambda: shape_of.select(F).deduce(spec)) == (
        "no shape rule is declared. Pass deduce= to generic."
    )


def test_ambiguity_names_both_methods() -> None:
    @md.generic
    def meet(x: Any, y: Any, /) -> Any:
        """Two sides."""

    @md.method(meet)
    def meet(x: md.IntegerTensor, y: md.Tensor, /) -> Any: ...

    @md.method(meet)
    def meet(x: md.Tensor, y: md.IntegerTensor, /) -> Any: ...

    message = text(DispatchError, lambda: meet.select(I8, I8))
    assert message.startswith(
        "meet(Int8Tensor, Int8Tensor): more than one method fits. Fitting: "
        "meet(IntegerTensor, Tensor) at "
    )
    assert "; meet(Tensor, IntegerTensor) at " in message
    assert meet.select(I8, F) and meet.select(F, I8)


def test_no_method_names_the_argument() -> None:
    message = text(DispatchError, lambda: md.add(md.asarray([1]), "one"))
    assert message.startswith(
        "add(Int64Tensor, str): no method: x2 is str, not NumericTensor | "
        "LogicalTensor | int | float | complex. Nearest: add("
    )


def test_a_method_takes_the_declared_keywords() -> None:
    twice = declare()

    def no_keywords() -> None:
        @md.method(twice)
        def twice_(x: md.Tensor, y: Any, /) -> Any: ...

    message = text(RegistrationError, no_keywords)
    assert message == (
        "method twice(Tensor, Any) has the keywords none, but the declaration of "
        "twice has times, out. Declare the same keywords, or **options; only out may "
        "be omitted."
    )


def test_a_method_takes_the_declared_keywords_only() -> None:
    def too_many_keywords() -> None:
        @md.method(md.max)
        def max_(x: str, /, *, axis: Any, keepdims: bool, out: Any) -> Any: ...

    assert text(RegistrationError, too_many_keywords).startswith(
        "method max(str) has the keywords axis, keepdims, out, but the declaration of "
        "max has axis, keepdims."
    )


def test_a_method_dispatches_on_what_is_declared() -> None:
    twice = declare()

    def too_few_arguments() -> None:
        @md.method(twice)
        def twice_(x: md.Tensor, /, *, times: int) -> Any: ...

    assert text(RegistrationError, too_few_arguments) == (
        "method twice(Tensor) dispatches on 1 arguments, but the declaration of twice "
        "on 2. Annotate x, y, each before the slash."
    )


def test_a_declaration_dispatches_on_something() -> None:
    def nothing_to_dispatch_on() -> None:
        @md.generic
        def alone(*, x: int = 1) -> Any: ...

    assert text(RegistrationError, nothing_to_dispatch_on) == (
        "alone has no positional-only parameter to dispatch on. "
        "Declare it as def alone(x, /)."
    )


def test_redefinition_needs_override() -> None:
    twice = declare()

    def define(answer: str, **options: bool) -> None:
        @md.method(twice, **options)
        def twice_(x: md.Tensor, y: None, /, *, times: int) -> str:
            return answer

    define("first")
    x = md.asarray([1.0])
    assert twice(x) == "first"
    message = text(RegistrationError, lambda: define("second"))
    assert message.endswith("Pass override=True to replace it.")
    assert twice(x) == "first"
    define("second", override=True)
    assert twice(x) == "second"
    assert len(twice.operation.methods) == 1


@each("name", sorted(md.operations()))
def test_no_method_costs_plum_its_cache(name: str) -> None:
    methods = md.operations()[name].operation.methods
    assert methods
    assert all(method.signature.is_faithful for method in methods)


@each("name", sorted(md.operations()))
def test_operations_pickle_and_copy(name: str) -> None:
    operation = md.operations()[name]
    assert pickle.loads(pickle.dumps(operation)) is operation
    assert copy.deepcopy(operation) is operation
    assert operation.__doc__


def test_operations_are_listed_under_their_module() -> None:
    listed = md.operations()
    assert listed["mdtensor.generics.arithmetic.add"] is md.add
    assert all(f.__name__ == name.split(".")[-1] for name, f in listed.items())


def test_the_first_call_from_eight_threads() -> None:
    twice = declare()

    @md.method(twice)
    def twice(x: md.Tensor, y: None, /, *, times: int) -> str:
        return type(x).__name__

    tensors = [leaf(0 if leaf is not md.BoolTensor else False) for leaf in LEAVES]
    start, wrong = threading.Barrier(8), []

    def work() -> None:
        start.wait()
        for _ in range(20):
            wrong.extend(x for x in tensors if twice(x) != type(x).__name__)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


LEAVES = DENSE


def test_a_stranger_brings_a_type() -> None:
    """A dtype, a leaf, a promotion and methods from outside; nothing is patched."""
    fixed = md.DType("q8_8", "fixed point", 16, "int16")

    class Fixed16Tensor(md.RealTensor, dtype=fixed):
        __slots__ = ()

        def tolist(self) -> Any:
            return (self.buffer / 256).tolist()

    operation = md.add.operation
    methods = operation.methods

    @md.method(md.add)
    def add(x1: Fixed16Tensor, x2: Fixed16Tensor, /) -> Any:
        return x1.wrap(x1.buffer + x2.buffer)

    try:
        one = Fixed16Tensor(np.array([256, 128], np.int16))
        assert (one + one).tolist() == [2.0, 1.0]
        assert md.which(md.add, one, one).method.signature.types == (
            Fixed16Tensor,
            Fixed16Tensor,
        )
        assert type(one[0]) is Fixed16Tensor  # a kind's methods come for nothing
        assert md.reshape(one, (2, 1)).tolist() == [[1.0], [0.5]]
        with pytest.raises(md.PromotionError):
            one + md.asarray([1.0])
    finally:
        for mine in [m for m in operation.methods if m not in methods]:
            operation.remove_method(mine)


def test_the_stranger_is_gone() -> None:
    methods = md.add.operation.methods
    assert methods
    assert not any(m.implementation.__module__ == __name__ for m in methods)
    with pytest.raises(OptionError):
        md.dtype("q8_8")


def test_what_is_no_operation_has_no_methods() -> None:
    with pytest.raises(RegistrationError) as raised:
        md.method(len)
    assert str(raised.value) == (
        "len is not an operation. Use @method(operation) with an operation that "
        "@generic declared."
    )


def test_a_selection_shows_itself_in_one_line() -> None:
    found = md.which(md.neg, md.Int8Tensor)
    assert repr(found) == f"<{found.line}>"
    assert repr(found.method).startswith("<method neg(NumericTensor) at mdtensor/ops/")


def test_a_missing_method_tells_what_to_do_with_the_argument() -> None:
    with pytest.raises(DispatchError, match=r"Use asarray\(x\) to make it a tensor"):
        md.relu([0.0, 1.0])
    with pytest.raises(DispatchError, match=r"Use dequantize\(x\)"):
        md.batch_norm(*[md.quant.QInt8Tensor([1], scale=0.5)] * 5)
    with pytest.raises(DispatchError, match="methods are selected by classes"):
        md.add.select(md.asarray(1.0), 2)


def test_a_fast_path_runs_for_just_its_types() -> None:
    @md.generic
    def twice(x1, x2, /):
        """Declared here."""

    def shorter(first: type, second: type) -> Any:
        return (lambda x1, x2: "short") if first is second is F else None

    @md.method(twice, fast_path=shorter)
    def twice(x1: md.NumericTensor, x2: md.NumericTensor, /):
        return "long"

    x, n = md.ones((1,)), md.ones((1,), dtype=md.int8)
    assert [twice(x, x), twice(x, n), twice(n, n)] == ["short", "long", "long"]
    assert twice(x, x) == "short"  # from the table


def test_a_handle_is_what_the_call_runs() -> None:
    """It is no wrapper: a call of it is a call of the method."""
    twice = declare()

    @md.method(twice)
    def twice_(x: md.FloatingTensor, y: None, /, *, times: int) -> str:
        return f"{times} times"

    handle = twice.select(F).function
    assert handle is twice.operation.methods[0].implementation
    assert handle(md.ones(1), None, times=3) == "3 times"
    add = md.add.select(F, F).function
    assert add(md.ones(2), md.ones(2)).tolist() == [2.0, 2.0]
    x = md.ones(3)
    assert add(x, x).tolist() == md.add(x, x).tolist()


def test_a_method_for_just_these_types_is_found_as_plum_finds_it() -> None:
    """The short way and plum agree on every pair of a lattice of classes."""
    top = type("Top", (), {})
    left, right = type("Left", (top,), {}), type("Right", (top,), {})
    both = type("Both", (left, right), {})
    kinds = [top, left, right, both]

    @md.generic
    def meet(x1, x2, /):
        """Declared here."""

    for first, second in [(top, top), (left, left), (right, top), (both, right)]:

        def meet_(x1: first, x2: second, /):  # type: ignore[valid-type]
            return None

        md.method(meet)(meet_)
    operation = meet.operation
    theirs = plum.Dispatcher().abstract(lambda: None)
    for known in operation.methods:
        theirs.register(known.implementation, signature=known.signature)
    for types in itertools.product(kinds, repeat=2):
        try:
            found, _ = theirs.resolve_method(plum.Signature(*types))
        except plum.AmbiguousLookupError:
            assert operation.find(types) is None
        else:
            assert operation.find(types).method.implementation is found


def test_signatures_are_the_same_however_they_are_written() -> None:
    """Classes are told apart at once; unions are compared by what they hold."""
    either, other = Union[md.SignedTensor, None], Union[None, md.SignedTensor]

    @md.generic
    def keep(x, /):
        """Declared here."""

    def define(kind: Any) -> None:
        def keep_(x: kind, /):
            return x

        md.method(keep)(keep_)

    for kind in (either, md.SignedTensor, md.FloatingTensor):
        define(kind)
    for kind in (either, other, md.SignedTensor):
        with pytest.raises(RegistrationError, match="has the same signature as"):
            define(kind)
    assert len(keep.operation.methods) == 3


def test_too_few_types_are_no_call() -> None:
    with pytest.raises(md.NoMethodError, match=r"^where\(Float32Tensor, Float32Tens"):
        md.where.select(md.Float32Tensor, md.Float32Tensor)


@pytest.mark.parametrize("way", ["types", "registry"])
@pytest.mark.parametrize("named", [True, False])
@pytest.mark.usefixtures("registered_as_before")
def test_a_method_of_types_rounds_if_it_names_out(way: str, named: bool) -> None:
    @md.generic
    def halve(x: Any, /, *, out: Any = None) -> Any:
        """Half of `x`, rounded to `out`."""

    def rounding(x: Any, /, out: Any = None) -> Any:
        return out

    def plain(x: Any, /) -> Any:
        return "plain"

    function = rounding if named else plain
    if way == "types":
        md.method(halve, types=(md.Float32Tensor,))(function)
    else:
        md.registry.add(halve, "cpu", function, types=(md.Float32Tensor,))
    x = md.ones((1,))
    assert halve.operation.methods[0].rounds is named
    assert halve(x) == (None if named else "plain")
    if named:
        assert halve(x, out=3) == 3
    else:
        with pytest.raises(OptionError, match="out= and rounding="):
            halve(x, out=3)
