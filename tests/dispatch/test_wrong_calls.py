"""What registration, the registry and the tables refuse, each in one sentence."""

from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal, TypeVar, Union

import ml_dtypes
import numpy as np
import pytest

import mdtensor as md
from mdtensor import registry, tables
from mdtensor.dispatch import builder
from mdtensor.errors import (
    DeviceError,
    DispatchError,
    MdtensorError,
    OptionError,
    PromotionError,
    RegistrationError,
)
from mdtensor.tables import Cpu, Cuda, ElementType, Tag

F32 = md.Float32Tensor
INTEGERS = "signed integer or unsigned integer"


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    before = dict(builder._PENDING)
    with registry.restored():
        yield
    builder._PENDING.clear()
    builder._PENDING.update(before)


def text(kind: type[MdtensorError], call: Callable[[], Any]) -> str:
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind
    return str(caught.value)


def refused(call: Callable[[], Any]) -> str:
    return text(RegistrationError, call)


# --- a chain --------------------------------------------------------------------------


@pytest.mark.parametrize("name", [3, None, "", "x y", "class", "tensor."])
def test_names_that_register_refuses(name: Any) -> None:
    assert refused(lambda: md.register(name)) == (
        f"{name!r} is not an operation name. "
        "Use an identifier; the prefixes tensor. and tile. are allowed."
    )


@pytest.mark.parametrize(
    ("step", "given", "problem"),
    [
        ("category", (3,), "the category is 3. Use a str"),
        ("category", ("",), "the category is ''. Use a str"),
        ("describe", (None,), "the description is None. Use a str"),
        (
            "deduce",
            (3,),
            "the shape rule is 3. Give a function from specs to a spec",
        ),
        ("argument", (3,), "3 is not a parameter name. Use an identifier"),
        ("argument", ("if",), "'if' is not a parameter name. Use an identifier"),
        (
            "argument",
            ("x", "Nope"),
            "the type of x is 'Nope'. Use a class, a union of classes, or Any",
        ),
        ("argument", ("x", F32, 3), "the documentation of x is 3. Use a str"),
        (
            "attribute",
            ("n", 3),
            "the type of n is 3. Use a class, a union of classes, or Any",
        ),
        (
            "attribute",
            ("n", int, "a"),
            "the default of n is 'a', not int. Give a default of this type",
        ),
    ],
)
def test_steps_of_a_chain(step: str, given: tuple[Any, ...], problem: str) -> None:
    chain = md.register("odd")
    assert refused(lambda: getattr(chain, step)(*given)) == f"register(odd): {problem}."


def test_a_rule_that_does_not_fit_a_chain_is_listed() -> None:
    chain = (
        md.register("tensor.odd")
        .category("c")
        .describe("x · k.")
        .argument("x", F32, "any.")
        .attribute("k", float, 1.0, "any.")
        .deduce(lambda x, y: x)
    )
    problem = "the shape rule does not take k and wants y."
    assert refused(lambda: chain(md.ones((2,)))) == (
        f"odd: {problem[:-1]}. Write def rule(x, /, *, k)."
    )
    assert refused(lambda: md.get_op("odd")).startswith("get_op(odd): the shape rule")
    assert "odd (the shape rule does not take k, the shape rule wants y" in (
        refused(md.validate)
    )
    assert md.get_op("add") is md.add  # others go on


# --- a declaration --------------------------------------------------------------------


def declared(**options: Any) -> Callable[[], Any]:
    def odd(x: Any, y: Any = None, /, *, k: int = 1, n: int = 2) -> Any:
        """x."""

    return lambda: md.generic(odd, **options)


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        (3, "the shape rule is 3. Give a function"),
        (lambda x, y=None: x, "the shape rule does not take k, n"),
        (lambda x, y, **_: x, "the shape rule wants y"),
        (lambda x, **_: x, "the shape rule takes 1 of 2 arguments"),
        (
            lambda *, k, m: k,
            ("the shape rule takes 0 of 2 arguments and does not take n and wants m"),
        ),
    ],
)
def test_rules_that_do_not_take_the_parameters(rule: Any, problem: str) -> None:
    fix = "" if rule == 3 else ". Write def rule(x, y, /, *, k, n)"
    assert refused(declared(deduce=rule)) == f"odd: {problem}{fix}."


def test_rules_that_take_the_parameters() -> None:
    for rule in (
        lambda x, y=None, **_: x,
        lambda *specs, k, n: specs[0],
        lambda x, y=None, k=0, n=0, more=None: x,
    ):
        declared(deduce=rule)()


def test_a_rule_of_a_method_is_looked_at_as_well() -> None:
    function = declared(deduce=lambda x, y=None, **_: x)()
    with pytest.raises(RegistrationError) as caught:

        @md.method(function, deduce=lambda x: x)
        def odd(x: F32, y: F32, /, *, k: int, n: int) -> Any: ...

    assert str(caught.value) == (
        "odd: the shape rule takes 1 of 2 arguments and does not take k, n. "
        "Write def rule(x, y, /, *, k, n)."
    )


def test_a_rule_of_a_sequence_takes_any_number() -> None:
    def odd(arrays: Any, /, *, axis: int = 0) -> Any: ...

    assert refused(
        lambda: md.generic(odd, deduce=lambda x, axis: x, sequence=True)
    ) == (
        "odd: the shape rule takes 2 arguments, not any number. "
        "Write def rule(*arrays, axis)."
    )


def test_what_is_no_declaration() -> None:
    fix = "Decorate a function: def name(x, /)."
    assert refused(lambda: md.generic(3)) == f"3 is not a function with a name. {fix}"  # type: ignore[arg-type]
    assert refused(lambda: md.generic(int)) == (
        f"<class 'int'> is not a function with a name. {fix}"
    )
    assert f"is not a function with a name. {fix}" in refused(
        lambda: md.generic(lambda x, /: x)
    )
    assert refused(declared(category=3)) == "the category of odd is 3. Use a str."

    def many(x: Any, /, *args: Any) -> Any: ...

    def two(x: Any, y: Any, /) -> Any: ...

    assert refused(lambda: md.generic(many)) == (
        "many declares *args: Any. "
        "Name each; sequence=True takes any number of tensors."
    )
    assert refused(lambda: md.generic(two, sequence=True)) == (
        "two has 2 positional-only parameters, not one sequence, to dispatch on. "
        "Declare it as def two(x, /)."
    )


def test_attributes_are_checked_as_those_of_a_chain() -> None:
    @md.generic(deduce=lambda x, **_: x)
    def scaled(x: Any, /, *, factor: float = 1.0, other: Any = None) -> Any:
        """x · factor."""

    @md.method(scaled)
    def scaled(x: F32, /, *, factor: float, other: Any) -> Any:
        return factor

    x = md.ones((2,))
    assert [scaled(x, factor=f) for f in (2, 0.5, np.float32(1))] == [2, 0.5, 1]
    assert scaled(x, other="anything") == 1.0
    for _ in range(2):
        assert text(OptionError, lambda: scaled(x, factor="no")) == (
            "scaled: factor is str, not float. "
            "Attributes: factor: float = 1.0, other: Any = None."
        )

    def wrong(x: Any, /, *, factor: float = "no") -> Any: ...  # type: ignore[assignment]

    assert refused(lambda: md.generic(wrong)) == (
        "wrong: the default of factor is 'no', not float. Give a default of this type."
    )
    assert md.generic(wrong, checked=False)


# --- annotations ----------------------------------------------------------------------

T = TypeVar("T")


def method_for(hint: Any) -> Callable[[], Any]:
    def erf(x: Any, /) -> Any: ...

    erf.__annotations__ = {"x": hint}
    return lambda: md.method(md.erf)(erf)


@pytest.mark.parametrize(
    ("hint", "shown"),
    [
        (3, "3"),
        ([int], "[<class 'int'>]"),
        (list[int], "list[int]"),
        (type[int], "type[int]"),
        (Literal[3], "Literal[3]"),
        (T, "~T"),
        (Annotated[int, 3], "Annotated[int, 3]"),
        (Union[int, Literal[3]], "Literal[3]"),
        (np.array([1]), "ndarray[1]"),
    ],
)
def test_annotations_that_are_no_class(hint: Any, shown: str) -> None:
    assert refused(method_for(hint)) == (
        f"parameter x of a method of erf is annotated with {shown}, not with a class. "
        "Use a class, or a union of classes."
    )


@pytest.mark.parametrize("hint", ["Nope", Union[int, "Nope"]])  # noqa: F821
def test_annotations_that_name_nothing(hint: Any) -> None:
    assert refused(method_for(hint)) == (
        "an annotation of a method of erf cannot be resolved: name 'Nope' is not "
        "defined. "
        "Use classes that the module defines or imports."
    )


@pytest.mark.parametrize("hint", [int | str, Union[int, str], None, object, "str"])
def test_annotations_that_are_classes(hint: Any) -> None:
    method_for(hint)()


def test_what_is_no_method() -> None:
    assert refused(lambda: md.method(md.erf)(3)) == (  # type: ignore[arg-type]
        "3 cannot be called. Give a function for erf."
    )
    assert refused(lambda: md.method(md.erf)(print)) == (
        "<built-in function print> has no annotations. "
        "Pass its types: method(operation, types=(...))."
    )
    for types in (3, (), "ab"):
        assert refused(lambda t=types: md.method(md.erf, types=t)(print)) == (  # type: ignore[misc]
            f"types of a method of erf are {types!r}. "
            "Give a tuple with one for each argument."
        )


# --- the registry ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "function", "problem"),
    [
        ("add", lambda: 3, "takes 0 of 2 arguments. Write def add(x1, x2, /)"),
        ("add", lambda x, y, z: 3, "wants z. Write def add(x1, x2, /)"),
        (
            "sum",
            lambda x, *, axis: x,
            (
                "does not take dtype, keepdims. "
                "Write def sum(x, /, *, axis, dtype, keepdims)"
            ),
        ),
        (
            "concat",
            lambda x, axis: x,
            "takes 2 arguments, not any number. Write def concat(*arrays, axis)",
        ),
    ],
)
def test_functions_that_do_not_take_the_arguments(
    operation: str, function: Any, problem: str
) -> None:
    wanted = f"{operation}: the function {problem}."
    before = registry.get(operation, "cpu")
    assert wanted == refused(
        lambda: registry.add(operation, "cpu", function, override=True)
    )
    assert wanted == refused(
        lambda: registry.add(operation, "cpu", function, types=(F32,), override=True)
    )
    assert registry.get(operation, "cpu") == before


def test_methods_of_mdtensor_stay() -> None:
    assert refused(lambda: registry.remove("glu", "cpu")).startswith(
        "glu on cpu is mdtensor's own: mdtensor/ops/activation.py:"
    )
    assert refused(lambda: registry.remove("glu", "cpu")).endswith(
        ". Pass override=True to remove it, or to add() to replace it."
    )

    class Mine(md.Tensor): ...

    @md.method(md.glu)
    def glu(x: Mine, /, *, axis: int) -> Any: ...

    registry.remove("glu", "cpu")  # that of somebody else goes, ours stays
    assert md.signatures("glu") == ("glu(FloatingTensor)",)
    registry.remove("glu", "cpu", override=True)
    assert text(DispatchError, lambda: registry.get("glu", "cpu")) == (
        "glu: no method on cpu. It has no methods."
    )


def test_an_operation_is_found_by_itself() -> None:
    assert md.is_op_registered(md.add) and md.get_op(md.add) is md.add
    assert not md.is_op_registered(3)  # type: ignore[arg-type]

    @md.generic
    def bare(x: Any, /) -> Any:
        """x."""

    assert md.is_op_registered(bare) and not md.is_op_registered("bare")
    for name in (3, None, "", "tensor."):
        assert text(OptionError, lambda n=name: md.get_op(n)) == (  # type: ignore[misc]
            f"{name!r} is not an operation name. See md.ops()."
        )


@pytest.mark.parametrize(
    ("name", "short", "near"),
    [
        ("tensor.ad", "ad", "add"),
        ("Add", "Add", "add"),
        ("torch.add", "torch.add", "add"),
        ("np.concatenate", "np.concatenate", "concat"),
        ("sofmax", "sofmax", "softmax"),
    ],
)
def test_the_nearest_name_is_suggested(name: str, short: str, near: str) -> None:
    assert text(OptionError, lambda: md.get_op(name)) == (
        f"get_op({name}): there is no operation {short}. Use mdtensor.{near}."
    )


def test_a_wrapper_without_a_rule() -> None:
    class Tagged(md.Operators):
        shape, dtype = (), None

    @md.method(md.add)
    def add(x1: Tagged, x2: Tagged, /) -> Any:
        return x1

    assert md.add(Tagged(), Tagged())
    assert text(DispatchError, lambda: md.infer(md.add, Tagged(), Tagged())) == (
        "add(Tagged[], Tagged[]): the declared shape rule does not take Tagged. "
        "Pass deduce= to method, for add(Tagged, Tagged)."
    )


# --- types ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ((3, "posit", 8, "int8"), "3 is not an element type name. Use an identifier"),
        (
            ("", "posit", 8, "int8"),
            "'' is not an element type name. Use an identifier",
        ),
        (
            ("odd", "complex floatin", 8, "int8"),
            "the kind of odd is 'complex floatin'. Use complex floating",
        ),
        (
            ("odd", 3, 8, "int8"),
            (
                "the kind of odd is 3. Use one of bool, signed integer, "
                "unsigned integer, real floating, complex floating, or your own"
            ),
        ),
        (
            ("odd", "real floating", 8, "int8"),
            (
                "the storage of a real floating is int8. "
                "Use a NumPy dtype that holds a real floating"
            ),
        ),
        (
            ("odd", "posit", 8, "nope"),
            "the storage is 'nope'. Use a numeric NumPy dtype",
        ),
        (
            ("odd", "posit", 8, object),
            "the storage is <class 'object'>. Use a numeric NumPy dtype",
        ),
        (
            ("odd", "posit", 16, "int8"),
            "the number of bits is 16. Use an integer from 1 to 8 for int8",
        ),
        (
            ("odd", "posit", "8", "int8"),
            "the number of bits is '8'. Use an integer from 1 to 8 for int8",
        ),
        (
            ("odd", "real floating", 8, "float16"),
            "the number of bits is 8. Use 16 for float16",
        ),
        (
            ("odd", "complex floating", 32, "complex64"),
            "the number of bits is 32. Use 64 for complex64",
        ),
        (
            ("odd", "real floating", 8, ml_dtypes.float4_e2m1fn),
            "the number of bits is 8. Use 4 for float4_e2m1fn",
        ),
        (
            ("odd", "signed integer", 4, ml_dtypes.int4),
            ("the storage int4 has fewer bits than the byte that holds it. Use int8"),
        ),
        (
            ("odd", "real floating", 64, None),
            "the storage is None. Use a numeric NumPy dtype",
        ),
        (
            ("odd", "flaoting", 16, "float16"),
            "the kind of odd is 'flaoting'. Use real floating or complex floating",
        ),
        (
            ("odd", "float", 16, "float16"),
            "the kind of odd is 'float'. Use real floating or complex floating",
        ),
        (
            ("odd", "unsigned", 8, "uint8"),
            "the kind of odd is 'unsigned'. Use unsigned integer",
        ),
    ],
)
def test_element_types(given: Any, problem: str) -> None:
    assert refused(lambda: md.DType(*given)) == f"{problem}."
    with pytest.raises(OptionError, match="no element type odd"):
        md.dtypes.dtype("odd")


@pytest.mark.parametrize(
    ("above", "dtype", "kind", "wanted"),
    [
        (
            md.IntegerTensor,
            "minute",
            "real floating",
            "signed integer or unsigned integer",
        ),
        (md.UnsignedTensor, "int8", "signed integer", "unsigned integer"),
        (md.FloatingTensor, "int8", "signed integer", "real floating"),
        (md.LogicalTensor, "uint8", "unsigned integer", "bool"),
        (md.ComplexTensor, "float32", "real floating", "complex floating"),
    ],
)
def test_leaves_hold_elements_of_their_kind(
    dtypes: None, above: type, dtype: str, kind: str, wanted: str
) -> None:
    md.DType("minute", "real floating", 16, "float16")
    found = md.dtype(dtype)
    assert refused(lambda: type(F32)("W", (above,), {}, dtype=found)) == (
        f"the dtype of W is {dtype}, of kind {kind}. "
        f"Give one of kind {wanted}, or derive from another class."
    )


def test_an_element_type_without_tensors(dtypes: None) -> None:
    found = md.DType("minute", "real floating", 16, "float16")
    assert text(PromotionError, lambda: md.zeros((2,), dtype=found)).endswith(
        "minute has no tensor type on cpu. "
        "Declare class Mine(FloatingTensor, dtype=minute), or of another kind."
    )


@pytest.fixture
def dtypes() -> Iterator[None]:
    """Element types of a test are gone after it."""
    before = dict(md.dtypes._REGISTRY)
    yield
    md.dtypes._REGISTRY.clear()
    md.dtypes._REGISTRY.update(before)


def test_places_in_the_lattice() -> None:
    add: Any = md.add_type
    assert refused(lambda: add(3, above=[], below=[])) == (
        "add_type: 3 is not an element type. Make one: DType(...)."
    )
    assert refused(lambda: add(md.int8, above=3, below=[])) == (
        "add_type: above is 3. Give a list of element types."
    )
    assert refused(lambda: add(md.int8, above=[], below="int8")) == (
        "add_type: below is 'int8'. Give a list of element types."
    )
    assert refused(lambda: add(md.int8, above=[], below=["nope"])).startswith(
        "add_type: no element type nope. Known are bool,"
    )


def test_devices_of_types() -> None:
    def leaf(**options: Any) -> Callable[[], Any]:
        return lambda: type(F32)("W", (md.FloatingTensor,), {}, **options)

    float32 = md.float32
    # A test that ran before may have imported more devices.
    assert text(DeviceError, leaf(dtype=float32, device="worker")).startswith(
        "no device 'worker'. Registered devices: cpu, cuda:0"
    )
    assert text(DeviceError, leaf(dtype=float32, device=3)).startswith(
        "no device 3. Registered devices: cpu, cuda:0"
    )
    assert refused(leaf(dtype=float32, device="cuda")) == (
        "float32 on cuda:0 already has a tensor type."
    )
    assert refused(leaf(device="cpu")) == (
        "W has a device and no dtype. Pass dtype= as well, or omit device= for a kind."
    )
    assert refused(leaf(dtype=float32, place=3)) == (
        "W is given place. A tensor type takes dtype= and device=."
    )


# --- tables ---------------------------------------------------------------------------


def test_the_root_of_tags_has_no_instance() -> None:
    assert (
        refused(Tag)
        == "Tag() has no coordinates. Use a tag with coordinates, such as Tag[Cpu]()."
    )
    assert Tag[Cpu].add(Cuda) is Tag[Cuda]  # one of a kind takes the place of another


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"place": 3}, "is given place. The keywords are value=, values= and of="),
        (
            {"of": 3},
            "has of=3, which is not a kind. Give a kind, such as of=ElementType",
        ),
        (
            {"of": tables.Float32},
            "has of=Float32, which is not a kind. Give a kind, such as of=ElementType",
        ),
        ({"values": 3}, "has the values 3. Give a tuple"),
    ],
)
def test_kinds_of_coordinates(options: Any, problem: str) -> None:
    make: Any = type(ElementType)
    assert refused(lambda: make("Odd", (tables.Coordinate,), {}, **options)) == (
        f"Odd {problem}."
    )
    assert refused(lambda: make("Odd", (ElementType,), {}, value=[])) == (
        "the value of Odd is a list. Use a hashable value."
    )


def test_tables_of_odd_things() -> None:
    space = tables.Axes(tables.Axis(Cpu, Cuda))
    table: Any = tables.DispatchTable

    @md.generic
    def placed(tag: Any, x: Any, /) -> Any: ...

    @md.method(placed)
    def placed(tag: Tag[Cpu], x: md.Tensor, /) -> str:
        return "here"

    assert refused(lambda: table(space, "cpu", placed)) == (
        "cpu is not in the space. The space is Axes(Axis(Cpu, Cuda))."
    )
    assert refused(lambda: table(space, Tag[Cpu], lambda: 3)) == (
        "<lambda> does not take a tag. Declare it as the first parameter."
    )
    assert refused(lambda: table(space, Tag[Cpu], placed, arguments=3)) == (
        "placed: arguments are 3. Give a type for each of x."
    )


def test_a_block_that_gets_arguments_shows_how_it_is_written():
    with pytest.raises(md.DispatchError) as caught:
        md.lazy(md.ones(2))
    text = "lazy: expects 0 arguments, got 1. Write with lazy():."
    assert str(caught.value) == text
