"""PyPTO: operators are registered with a shape rule, and typed before they run.

Each test names the row of the feature table that it shows (P1 to P14, and 43 to 52 of
the proposed checks). Shapes, types and texts are the original's; where
ours read otherwise the test says both.
"""

import inspect
import pickle
import re
from collections.abc import Iterator
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mdtensor as md
from mdtensor import DYNAMIC, Dim, TensorSpec, TileSpec, dtypes
from mdtensor.dispatch import builder, operation as dispatch
from mdtensor.errors import (
    DispatchError,
    OptionError,
    PromotionError,
    RegistrationError,
    ShapeError,
)

F16, F32, I32 = md.Float16Tensor, md.Float32Tensor, md.Int32Tensor
ARITHMETIC = ("add", "sub", "mul", "div")
PAIRS = [
    ((4, 8), (4, 8)),
    ((4, 8), (8,)),
    ((4, 1), (8,)),
    ((1, 8), (4, 8)),
]


@pytest.fixture(autouse=True)
def registries() -> Iterator[None]:
    """Operations are ours alone, and what a test registers is gone after it."""
    kept = [dispatch._OPERATIONS, builder._PENDING, dtypes._REGISTRY]
    before = [dict(registry) for registry in kept]
    for name in [*md.operations()]:
        if not name.startswith(("mdtensor.generics.", "mdtensor.quant.")):
            del dispatch._OPERATIONS[name]
    yield
    for registry, old in zip(kept, before, strict=True):
        registry.clear()
        registry.update(old)


def refused(error: type[Exception], call: Any, *arguments: Any, **options: Any) -> str:
    with pytest.raises(error) as caught:
        call(*arguments, **options)
    return str(caught.value)


def product_rule(lhs: TensorSpec, rhs: TensorSpec, *, b_trans: bool) -> TensorSpec:
    """Type and shape of lhs · rhs."""
    return md.infer(
        md.matmul, lhs, md.infer(md.matrix_transpose, rhs) if b_trans else rhs
    )


def chain(name: str = "tensor.matmul_t") -> Any:
    """A registration with all its steps."""
    return (
        md.register(name)
        .category("matmul")
        .describe("lhs · rhs, or lhs · rhsᵀ.")
        .argument("lhs", md.NumericTensor, "[..., m, k].")
        .argument("rhs", md.NumericTensor, "[..., k, n], or [..., n, k] transposed.")
        .attribute("b_trans", bool, False, "whether rhs is transposed.")
        .deduce(product_rule)
    )


def decorated() -> Any:
    """The same operation by the decorator."""

    @md.generic(deduce=product_rule, category="matmul", checked=True)
    def matmul_t(
        lhs: md.NumericTensor, rhs: md.NumericTensor, /, *, b_trans: bool = False
    ):
        """lhs · rhs, or lhs · rhsᵀ.

        Args:
            lhs: [..., m, k].
            rhs: [..., k, n], or [..., n, k] transposed.
            b_trans: whether rhs is transposed.
        """

    return matmul_t


# --- P1: categories; tensors of any rank, tiles of at most two ------------------------


def test_p1_every_operation_has_a_category() -> None:
    """P1: a family, by default the module's name; tiles share the operations."""
    assert md.add.operation.category == "arithmetic"
    assert set(ARITHMETIC) <= set(md.ops("arithmetic"))
    assert md.get_op("tensor.add") is md.get_op("tile.add") is md.add
    known = refused(OptionError, md.ops, "TensorOp")
    assert known.startswith("category is 'TensorOp'. Use one of activation, arithmetic")


# --- P2: fluent registration ----------------------------------------------------------


def test_p2_chain_and_decorator_give_the_same_operation() -> None:
    """P2, 43: signature, docstring, category, arguments, attributes, calls, errors."""
    found = []
    for operation in (decorated(), chain("matmul_t_too").function):
        method = md.method(operation)

        def matmul_t(x: md.NumericTensor, y: md.NumericTensor, /, *, b_trans: bool):
            return x @ (y.mT if b_trans else y)

        declared = method(matmul_t).operation
        x, y = md.ones((2, 3)), md.ones((4, 3))
        found.append(
            [
                declared.signature,
                inspect.getdoc(operation),
                declared.category,
                declared.description,
                declared.arguments,
                declared.attributes,
                declared.rule,
                str(declared.methods[0]).replace("_too", ""),
                operation(x, y, b_trans=True).tolist(),
                refused(OptionError, operation, x, y, b_trans="no").split(":", 1)[1],
                refused(DispatchError, operation, x, "y").split("(", 1)[1],
            ]
        )
    assert found[0] == found[1]
    assert found[0][-3:] == [
        [[3.0] * 4] * 2,
        " b_trans is str, not bool. Attributes: b_trans: bool = False.",
        "Float32Tensor, str): rhs is str, not NumericTensor.",
    ]


def test_p2_a_step_is_taken_once() -> None:
    """P2: a second description or category is an error, as is a parameter twice."""
    started = chain()
    for step, text in (
        (lambda: started.category("b"), "a category is given already. Give it once."),
        (
            lambda: started.describe("b"),
            "a description is given already. Give it once.",
        ),
        (lambda: started.deduce(len), "a shape rule is given already. Give it "),
        (lambda: started.argument("rhs"), "rhs is a parameter already. Give it once."),
        (lambda: started.attribute("lhs", int), "lhs is a parameter already."),
        (lambda: started.argument("r h s"), "'r h s' is not a parameter name."),
        (lambda: started.attribute("n", int, 0.5), "the default of n is 0.5, not int."),
    ):
        assert f"register(matmul_t): {text}" in refused(RegistrationError, step)
    assert started.function is md.get_op("matmul_t")
    late = refused(RegistrationError, started.argument, "late")
    assert late == (
        "register(matmul_t): the declaration is complete and cannot change any more. "
        "Declare everything before you add the first method."
    )


def test_p2_a_name_is_one_operation() -> None:
    """P2: names are unique, whatever the prefix, finished or not."""
    taken = "there is an operation add: mdtensor.generics.arithmetic.add. Add a method"
    for name in ("add", "tensor.add", "tile.add"):
        assert taken in refused(RegistrationError, md.register, name)
    md.register("tensor.begun")
    assert "begun: " in refused(RegistrationError, md.register, "tile.begun")
    odd = refused(RegistrationError, md.register, "tensor.a b")
    assert "is not an operation name" in odd
    again = md.register("tensor.begun", override=True)
    assert repr(again).endswith("category, describe, argument, deduce missing>")


def test_p2_what_a_chain_gives_is_an_operation() -> None:
    """P2: it is called, selected, extended, pickled and found like any other."""
    global matmul_t
    matmul_t = chain().method(lambda_method())
    assert matmul_t is md.get_op("tensor.matmul_t")
    assert pickle.loads(pickle.dumps(matmul_t)) is matmul_t
    assert md.signatures("matmul_t") == ("matmul_t(NumericTensor, NumericTensor)",)
    assert str(md.which(matmul_t, F32, F32)).startswith("matmul_t(Float32Tensor, Fl")


def lambda_method() -> Any:
    def matmul_t(x: md.NumericTensor, y: md.NumericTensor, /, *, b_trans: bool):
        return x @ (y.mT if b_trans else y)

    return matmul_t


def test_p2_attributes_have_a_schema() -> None:
    """P2 and since: unknown attributes and wrong types are refused with the schema."""
    found = chain().function
    schema = "Attributes: b_trans: bool = False."
    specs = TensorSpec(F32, (4, 8)), TensorSpec(F32, (8, 2))
    call = "matmul_t(Float32Tensor[4,8], Float32Tensor[8,2])"
    assert refused(DispatchError, md.infer, found, *specs, a_trans=True) == (
        f"{call}: a_trans is not an attribute. {schema}"
    )
    assert refused(OptionError, md.infer, found, *specs, b_trans=1) == (
        f"matmul_t: b_trans is int, not bool. {schema}"
    )
    (attribute,) = found.operation.attributes
    assert (attribute.name, attribute.type, attribute.default) == (
        "b_trans",
        bool,
        False,
    )
    assert attribute.doc == "whether rhs is transposed."


# --- P3, P4: incomplete entries; registration at import -------------------------------


def test_p3_incomplete_entries_are_refused_on_use() -> None:
    """P3, 43: what is missing is listed, all of it."""
    begun = md.register("tensor.begun").describe("x, some day.")
    missing = "category, argument, deduce missing."
    for use in (
        lambda: begun(md.ones((2,))),
        lambda: begun.select(F32),
        lambda: md.method(begun),
        lambda: md.get_op("tensor.begun"),
        lambda: md.infer("begun", TensorSpec(F32, ())),
    ):
        assert missing in refused(RegistrationError, use)
    assert not md.is_op_registered("tensor.begun")
    assert "begun" not in md.ops()


def test_p3_all_offenders_are_listed_at_once() -> None:
    """P3, 43: `validate` names every incomplete declaration with what it lacks."""
    md.validate()

    @md.generic
    def undocumented(x: Any, y: Any = None, /, *, n: int = 1) -> Any:
        """Says nothing about its parameters."""

    md.register("tensor.begun").category("matmul")
    assert refused(RegistrationError, md.validate) == (
        f"2 declarations are not complete: {__name__}.undocumented (deduce, doc of x, "
        f"doc of y, doc of n); {__name__}.begun (describe, argument, deduce). "
        "Add these to the declaration, or as steps to the chain."
    )
    with pytest.raises(RegistrationError, match=r"the declaration lacks deduce\."):
        md.get_op("undocumented")


def test_p3_what_an_import_checks() -> None:
    """P3: descriptions and rules of deduction of ours, at each import."""
    from mdtensor.dispatch.catalog import check_declarations

    check_declarations(md.operations())

    @md.generic
    def undeduced(x: Any, /) -> Any:
        """Has no rule."""

    @md.generic(deduce=lambda x: x)
    def undescribed(x: Any, /) -> Any: ...

    assert refused(RegistrationError, check_declarations, md.operations()) == (
        "declarations without description or shape rule: "
        f"{__name__}.undeduced, {__name__}.undescribed. Add these to the declaration, "
        "or as steps to the chain."
    )


def test_p4_no_call_is_needed_to_register() -> None:
    """P4: the operations are there when mdtensor is imported."""
    assert len(md.ops()) > 190
    assert all(md.is_op_registered(f"tensor.{name}") for name in ARITHMETIC)


# --- P5: types before execution -------------------------------------------------------


@pytest.mark.parametrize("kind", [TensorSpec, TileSpec])
@pytest.mark.parametrize("name", ARITHMETIC)
def test_p5_the_type_is_known_before_execution(kind: Any, name: str) -> None:
    """P5, P12, 44: full sizes, of tensors and of tiles."""
    prefix = "tile" if kind is TileSpec else "tensor"
    found = md.infer(f"{prefix}.{name}", kind(F32, (4, 8)), kind(F32, (8,)))
    assert found == kind(F32, (4, 8))
    assert type(found) is kind


def test_p5_an_explicit_type_is_kept() -> None:
    """P5: what is asked for is what is deduced, in one line as in three."""
    x = TensorSpec(F32, (4, 8))
    assert md.infer("astype", x, md.float16) == TensorSpec(F16, (4, 8))
    assert md.infer("sum", x, axis=0, dtype="float64").type is md.Float64Tensor


def test_p5_deduction_without_methods() -> None:
    """P5: an operation is typed as soon as it is declared, before anything runs it."""
    found = chain().function
    assert md.infer(found, TensorSpec(F32, (4, 8)), TensorSpec(I32, (8, 2))) == (
        TensorSpec(F32, (4, 2))
    )
    wrong = refused(DispatchError, md.infer, found, TensorSpec(F32, (4, 8)), 2)
    assert wrong == (
        "matmul_t(Float32Tensor, int): rhs is int, not NumericTensor. "
        "Use asarray(rhs) to make it a tensor."
    )


# --- P6: tiles ------------------------------------------------------------------------


def test_p6_a_tile_has_at_most_two_dimensions() -> None:
    """P6, 50: "TileType can have at most 2 dimensions, got 3", here of TileSpec."""
    assert TileSpec(F16, (16,)).ndim == 1
    assert TileSpec(F16, (16, 16)).shape == (16, 16)
    assert refused(ShapeError, TileSpec, F16, (1, 2, 3)).startswith(
        "TileSpec can have at most 2 dimensions, got 3."
    )
    grown = refused(ShapeError, md.infer, "stack", [TileSpec(F16, (2, 2))] * 2)
    assert grown.startswith(
        "stack(Float16Tensor[2,2], Float16Tensor[2,2]): TileSpec can have at most 2"
    )


def test_p6_tiles_of_more_dimensions_behind_an_option() -> None:
    """P6 and since: the limit is an option, which the result takes over."""
    x = TileSpec(F16, (2, 3, 4), max_rank=3)
    found = md.infer("tile.add", x, TileSpec(F16, (4,)))
    assert (found.shape, found.max_rank) == ((2, 3, 4), 3)


def test_p6_tiles_and_tensors_do_not_mix() -> None:
    """P6, 50: "cannot mix Tensor and Tile arguments"; numbers go with both."""
    tile, tensor = TileSpec(F32, (4, 8)), TensorSpec(F32, (4, 8))
    call = "add(Float32Tensor[4,8], Float32Tensor[4,8]):"
    for pair in ((tile, tensor), (tensor, tile)):
        assert refused(DispatchError, md.infer, "add", *pair) == (
            f"{call} tiles and tensors do not mix. Give TileSpec or TensorSpec for all."
        )
    assert refused(DispatchError, md.infer, "tile.add", tensor, tensor) == (
        f"{call} tile.add takes TileSpec, got TensorSpec."
    )
    assert refused(DispatchError, md.infer, "tensor.add", tile, tile) == (
        f"{call} tensor.add takes TensorSpec, got TileSpec."
    )
    assert md.infer("tile.mul", tile, 2.0) == tile
    assert md.infer("tile.exp", tile) == tile


# --- P7: broadcasting -----------------------------------------------------------------


@pytest.mark.parametrize(("a", "b"), PAIRS)
@pytest.mark.parametrize("name", ARITHMETIC)
def test_p7_shapes_broadcast_from_the_right(name: str, a: Any, b: Any) -> None:
    """P7, 46: the original's four cases that fit."""
    found = md.infer(f"tensor.{name}", TensorSpec(F32, a), TensorSpec(F32, b))
    assert found.shape == np.broadcast_shapes(a, b) == (4, 8)


@pytest.mark.parametrize("b", [(5,), (3, 5)])
def test_p7_shapes_that_do_not_broadcast(b: tuple[int, ...]) -> None:
    """P7, 46: the original's two cases that do not; our text has both shapes."""
    specs = TensorSpec(F32, (4, 8)), TensorSpec(F32, b)
    shown = ",".join(map(str, b))
    assert refused(ShapeError, md.infer, "tensor.add", *specs) == (
        f"add(Float32Tensor[4,8], Float32Tensor[{shown}]): shapes (4, 8) and {b} do "
        "not broadcast. Make the sizes equal."
    )
    with pytest.raises(ValueError):
        np.broadcast_shapes((4, 8), b)


def test_p7_broadcasting_is_that_of_numpy() -> None:
    """P7, 46: on all 14,641 pairs of shapes of up to 4 sizes among 0, 1 and 3."""
    shapes = [s for rank in range(5) for s in product((0, 1, 3), repeat=rank)]
    assert len(shapes) ** 2 == 14_641
    for pair in product(shapes, repeat=2):
        try:
            wanted = np.broadcast_shapes(*pair)
        except ValueError:
            with pytest.raises(ShapeError):
                md.broadcast_shapes(*pair)
        else:
            assert md.broadcast_shapes(*pair) == wanted


# --- P8: dynamic dimensions -----------------------------------------------------------

M, N = Dim("M"), Dim("N")


def test_p8_a_size_may_be_unknown() -> None:
    """P8, 51: the constant is -1, and tiles take it."""
    assert DYNAMIC == md.DYNAMIC == -1
    assert TileSpec(F32, (DYNAMIC, 16)).shape == (-1, 16)


@pytest.mark.parametrize(
    ("a", "b", "wanted"),
    [
        ((-1, 8), (4, 8), (4, 8)),  # the original refuses it
        ((-1, 8), (-1, 8), (-1, 8)),
        ((-1, 8), (8,), (-1, 8)),
        ((-1, 8), (1, 8), (-1, 8)),
        ((M, 8), (M, 8), (M, 8)),
        ((M, 8), (1, 8), (M, 8)),
        ((M, 8), (8,), (M, 8)),
        ((M, 8), (4, 8), (4, 8)),
        ((M, 8), (-1, 8), (-1, 8)),
        ((M, 8), (N, 8), (-1, 8)),
    ],
)
def test_p8_unknown_sizes_broadcast(a: Any, b: Any, wanted: Any) -> None:
    """P8, 51: what is certain is kept, and nothing else; in both orders."""
    for pair in ((a, b), (b, a)):
        found = md.infer("add", *(TensorSpec(F32, shape) for shape in pair)).shape
        assert list(map(repr, found)) == list(map(repr, wanted))


def test_p8_names_go_through_operations() -> None:
    """P8, 51: through products, reductions, movement; the known of equal sizes wins."""
    x, w = TensorSpec(F32, (M, 8)), TensorSpec(F32, (8, N))
    assert str(md.infer("matmul", x, w)) == "Float32Tensor[M,N]"
    assert str(md.infer("matmul", TensorSpec(F32, (M, N)), w)) == "Float32Tensor[M,N]"
    assert str(md.infer("permute_dims", x, (1, 0))) == "Float32Tensor[8,M]"
    assert str(md.infer("sum", x, axis=1, keepdims=True)) == "Float32Tensor[M,1]"
    assert str(md.infer("concat", [x, TensorSpec(F32, (3, 8))])) == (
        "Float32Tensor[-1,8]"
    )
    parts = [TensorSpec(F32, (2, size)) for size in (-1, M, N)]
    assert str(md.infer("concat", parts)) == "Float32Tensor[6,M]"
    assert str(md.infer("concat", [*parts, TensorSpec(F32, (1, 4))])) == (
        "Float32Tensor[7,4]"
    )


def test_p8_unknown_sizes_that_differ_at_run_time() -> None:
    """P8, 51: accepted before, refused by the run; the original lets them pass."""
    spec = TensorSpec(F32, (-1, 8))
    for operation in (md.add, md.mul, md.maximum):
        assert md.infer(operation, spec, spec).shape == (-1, 8)
        text = refused(ShapeError, operation, md.ones((2, 8)), md.ones((3, 8)))
        assert "(2, 8) and (3, 8) do not broadcast" in text
    assert md.infer("matmul", TensorSpec(F32, (2, -1)), spec).shape == (2, 8)
    text = refused(ShapeError, md.matmul, md.ones((2, 3)), md.ones((4, 8)))
    assert "inner sizes differ, 3 and 4" in text


def test_p8_a_name_is_one_size_at_run_time() -> None:
    """P8, 51: `bind_dims` checks what came against what was declared."""
    specs = [TensorSpec(F32, (M, 8)), TensorSpec(F32, (8, N)), TensorSpec(F32, (M, -1))]
    came = [md.ones((4, 8)), md.ones((8, 2)), md.ones((4, 7))]
    assert md.bind_dims(specs, came) == {"M": 4, "N": 2}
    came[2] = md.ones((5, 7))
    assert refused(ShapeError, md.bind_dims, specs, came) == (
        "M is 4 and 5. Use a name for one size only."
    )
    for other in ((4, 9), (4,)):
        text = refused(ShapeError, md.bind_dims, specs[:1], [md.ones(other)])
        assert text == f"shape {other} is not of the form (M, 8)."


def test_p8_a_name_is_an_unknown_size_with_a_name() -> None:
    """P8: equal to -1 and to its own, in sets and pickles too."""
    assert M == Dim("M") == DYNAMIC == M
    assert M != N and DYNAMIC in (M,) and {M: 1}[-1] == 1
    assert repr(pickle.loads(pickle.dumps(M))) == str(M) == "M"
    for name in ("", 3, None):
        assert "the name of a dimension" in refused(OptionError, Dim, name)


# --- P9: queries ----------------------------------------------------------------------


def test_p9_queries() -> None:
    """P9: `is_op_registered`, `get_op`, and lists of names and methods."""
    assert md.is_op_registered("tensor.add") and md.is_op_registered("tile.mul")
    assert not md.is_op_registered("tensor.nonexistent")
    assert md.get_op("tensor.add").operation.name == "add"
    names = ("add", "arithmetic.add", "mdtensor.generics.arithmetic.add")
    assert {md.get_op(name) for name in names} == {md.add}
    assert refused(ValueError, md.get_op, "tensor.odd") == (
        "get_op(tensor.odd): there is no operation odd."
    )
    assert refused(OptionError, md.get_op, "tensor.concatenate") == (
        "get_op(tensor.concatenate): there is no operation concatenate. "
        "Use mdtensor.concat."
    )
    assert md.ops() == tuple(sorted(md.ops()))
    found = md.signatures()["mdtensor.generics.activation.glu"]
    assert found == ("glu(FloatingTensor)",)


def test_p9_two_operations_of_one_name() -> None:
    """P9: a name that says too little is refused with those that would do."""

    @md.generic(deduce=lambda x: x, category="units")
    def add(x: Any, /) -> Any:
        """x.

        Args:
            x: any.
        """

    assert md.get_op("add") is md.add  # ours keeps its name, whatever comes beside it
    assert md.get_op("units.add") is add
    assert md.get_op("arithmetic.add") is md.add


def test_p9_two_operations_of_one_new_name() -> None:
    """P9: of two names that are not ours, a name that says too little is refused."""
    for category in ("units", "money"):

        @md.generic(deduce=lambda x: x, category=category)
        def converted(x: Any, /) -> Any:
            """x.

            Args:
                x: any.
            """

        dispatch._OPERATIONS[f"{category}.converted"] = converted
    dispatch._OPERATIONS.pop(f"{__name__}.converted")
    text = refused(OptionError, md.get_op, "converted")
    assert text == (
        "get_op(converted): converted is the name of 2 operations. "
        "Use one of units.converted, money.converted."
    )


def test_p9_arguments_of_every_operation_have_types_and_docs() -> None:
    """P9: read from annotations and docstrings, or from what methods take."""
    one, two = md.add.operation.arguments
    assert str(one) == (
        "x1: NumericTensor | LogicalTensor | int | float | complex"
    ) or str(one).startswith("x1: NumericTensor | LogicalTensor | int")
    assert (one.doc, two.doc) == ("any shape.", "broadcasts against `x1`.")
    for name in md.ops():
        for argument in md.get_op(name).operation.arguments:
            assert argument.doc and argument.type is not inspect.Parameter.empty


# --- P10: errors ----------------------------------------------------------------------


def test_p10_wrong_argument_count() -> None:
    """P10, 52: "Operator 'tensor.add' expects 2 arguments, got 1".

    Ours has the call in front.
    """
    spec = TensorSpec(F32, (4, 8))
    assert refused(TypeError, md.infer, "tensor.add", spec) == (
        "add(Float32Tensor[4,8]): expects 2 arguments, got 1. They are x1, x2."
    )
    assert refused(TypeError, md.infer, "tensor.add", spec, spec, spec).endswith(
        "expects 2 arguments, got 3. They are x1, x2."
    )
    assert "expects 2 to 3 arguments, got 1." in refused(
        TypeError, md.infer, "linear", spec
    )
    assert refused(TypeError, md.add, md.ones((2,))) == (
        "add(Float32Tensor[2]): expects 2 arguments, got 1. They are x1, x2."
    )


def test_p10_wrong_argument_type() -> None:
    """P10, 52: "TensorAdd: first argument must be a TensorType, got ScalarType".

    Ours names the parameter, the type it has and the types that there are methods for.
    """
    spec = TensorSpec(F32, (4, 8))
    text = refused(TypeError, md.infer, "tensor.matmul", 2.0, spec)
    pattern = r"matmul\(float, Float32Tensor\): no method: x1 is float, not \w+.*"
    assert re.fullmatch(pattern, text)
    assert refused(TypeError, md.matmul, 2.0, md.ones((4, 8))) == text


def test_p10_arguments_of_infer_itself() -> None:
    """P10: what is not an operation, no type of elements, no shape."""
    spec = TensorSpec(F32, (4, 8))
    assert refused(OptionError, md.infer, len, spec) == (
        "<built-in function len> is not an operation. See md.ops()."
    )
    assert refused(DispatchError, TensorSpec, md.RealTensor, (2,)) == (
        "the type of a TensorSpec must be a tensor class, but is RealTensor. Use a "
        "class such as Float32Tensor."
    )
    assert refused(ShapeError, TensorSpec, F32, (4, -2)) == (
        "the shape of a spec is (4, -2). Use sizes of 0 or more, -1 or Dim."
    )
    assert refused(DispatchError, md.infer, "reshape", spec, (32,), shape=(8, 4)) == (
        "reshape(Float32Tensor[4,8]): shape is given twice. "
        "Attributes: shape: int | Collection[int], copy: bool | None = None."
    )
    assert "shape is missing." in refused(DispatchError, md.infer, "reshape", spec)
    there = TensorSpec(md.CudaFloat32Tensor, (4, 8))
    assert refused(md.DeviceError, md.infer, "add", spec, there) == (
        "add(Float32Tensor[4,8], CudaFloat32Tensor[4,8]): operands are on cpu and "
        "cuda:0. Move one with to(device)."
    )


# --- P11: promotion -------------------------------------------------------------------

BITS = {
    "bool": 1,
    "index": 64,
    "fp4": 4,
    "hf4": 4,
    "fp16": 16,
    "bf16": 16,
    "fp32": 32,
    **{f"{sign}int{bits}": bits for sign in ("", "u") for bits in (4, 8, 16, 32, 64)},
    **dict.fromkeys(["fp8e4m3fn", "fp8e5m2", "fp8e8m0", "hf8"], 8),
}
OURS = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32"}


def transcribed(a: str, b: str) -> str:
    """The original's rule over its names, from the prose of its documentation."""
    signed, floating = ("int", "index"), ["f" in name for name in (a, b)]
    if a == b or floating[0] != floating[1]:
        return a if a == b or floating[0] else b
    if BITS[a] != BITS[b]:
        return max(a, b, key=BITS.__getitem__)
    return b if b.startswith(signed) and not a.startswith(signed) else a


def element_type(name: str) -> md.DType:
    """Ours, or one like the original's for as long as the test runs."""
    ours = OURS.get(name, name)
    if ours in dtypes._REGISTRY:
        return dtypes._REGISTRY[ours]
    if "f" in name:
        storage = {4: ml_dtypes.float4_e2m1fn, 8: ml_dtypes.float8_e5m2}[BITS[name]]
        return md.DType(name, "real floating", BITS[name], storage)
    kind = "unsigned integer" if name.startswith("u") else "signed integer"
    sign, bits = name[: name.startswith("u")], max(8, BITS[name])
    return md.DType(name, kind, BITS[name], f"{sign}int{bits}")


def test_p11_all_441_cells() -> None:
    """P11, 47: 21 types, ours and others, in both orders; 9 pairs do not commute."""
    types = {name: element_type(name) for name in BITS}
    assert len(types) == 21
    found = {}
    with md.promotion_rules("pypto"):
        for a, b in product(types, repeat=2):
            found[a, b] = md.promote_types(types[a], types[b])
            assert found[a, b] is types[transcribed(a, b)], (a, b)
    assert len(found) == 441
    ordered = [p for p in found if p < p[::-1] and found[p] is not found[p[::-1]]]
    assert len(ordered) == 9


def test_p11_the_examples_of_the_seed() -> None:
    """P11, 47: four examples, the last of which is never tested there."""
    with md.promotion_rules("pypto"):
        for a, b, wanted in (
            ("int32", "int32", "int32"),
            ("int32", "float32", "float32"),
            ("int32", "int64", "int64"),
            ("uint32", "int32", "int32"),
            ("int32", "uint32", "int32"),
        ):
            assert md.promote_types(a, b) is md.dtype(wanted)
            specs = (TensorSpec(md.leaf(md.dtype(t)), (4, 8)) for t in (a, b))
            assert md.infer("tensor.add", *specs).dtype is md.dtype(wanted)
    with pytest.raises(PromotionError):
        md.promote_types("uint64", "int64")  # the default loses no integer


def test_p11_the_type_deduced_is_the_type_of_the_result() -> None:
    """P11: the original types `tensor.add` as promoted, and adds without a cast."""
    leaves = [leaf for leaf in md.leaves()[:13] if leaf is not md.BoolTensor]
    with md.promotion_rules("pypto"):
        for a, b in product(leaves, repeat=2):
            result = md.ones((2,), dtype=a.dtype) + md.ones((2,), dtype=b.dtype)
            found = md.infer("tensor.add", TensorSpec(a, (2,)), TensorSpec(b, (2,)))
            assert found.type is type(result)
            assert result.tolist() == [2, 2]


# --- P13, P14: a new operation in one chain; what the original's language has ---------


def test_p13_a_new_operation_in_one_chain() -> None:
    """P13, 43: declared, typed, given a method and run."""
    found = chain("tensor.matmul_new").method(lambda_method())
    x, y = md.ones((2, 3)), md.ones((4, 3))
    spec = md.infer(
        found, TensorSpec(F32, (2, 3)), TensorSpec(F32, (4, 3)), b_trans=True
    )
    assert spec == TensorSpec(F32, (2, 4))
    result = found(x, y, b_trans=True)
    assert (type(result), result.shape) == (spec.type, spec.shape)
    assert "matmul_new" in md.ops("matmul")


def test_p14_optional_and_casts() -> None:
    """P14: C++ there is Python here: None for optional, isinstance for casts."""
    assert md.linear.operation.signature.parameters["b"].default is None
    assert isinstance(TileSpec(F32, (2,)), TensorSpec)
