"""Calls that are not as declared are answered by us, and say what is."""

import inspect
from collections.abc import Callable
from typing import Any, Union

import pytest
from support.each import each

import mdtensor as md
from mdtensor.dispatch import Operation
from mdtensor.dispatch.call_errors import refuse
from mdtensor.dispatch.suggestions import OPTIONS
from mdtensor.errors import DispatchError

X: Any = md.ones((2, 3))
T = "Float32Tensor[2,3]"
#: Those of other tests may be there, too.
OURS = sorted(name for name in md.operations() if name.startswith("mdtensor."))
SUM = (
    "Attributes: axis: int | tuple[int, ...] | list[int] | None = None, "
    "dtype: DType | str | type | dtype[Any] | None = None, keepdims: bool = False, "
    "out: object = None, rounding: str | None = None."
)
NORM = (
    "Attributes: normalized_shape: int | Collection[int], eps: float = 1e-05, "
    "out: object = None, rounding: str | None = None."
)
BY_NAME = "came by position, but must be given by name"
FEW = "expects 2 arguments, got"
#: What is called by name in the text of an error, and the error.
CALLS: dict[str, tuple[Callable[[], Any], str]] = {
    "dim": (lambda: X.sum(dim=0), f"sum({T}): takes axis=, not dim=. {SUM}"),
    "keepdim": (
        lambda: md.sum(X, keepdim=True),
        f"sum({T}): takes keepdims=, not keepdim=. {SUM}",
    ),
    "unknown": (lambda: md.sum(X, q=1), f"sum({T}): q is not an attribute. {SUM}"),
    "by name": (
        lambda: md.sum(X, 0),
        f"sum({T}): axis {BY_NAME}. Write sum(x, axis=0).",
    ),
    "with out": (
        lambda: md.softmax(X, dim=0),
        (
            f"softmax({T}): takes axis=, not dim=. Attributes: axis: int = -1, "
            "out: object = None, rounding: str | None = None."
        ),
    ),
    "by position": (
        lambda: md.softmax(x=X),
        "softmax(): x came by name, but must be given by position. Write softmax(x).",
    ),
    "too few": (lambda: md.matmul(X), f"matmul({T}): {FEW} 1. They are x1, x2."),
    "none": (lambda: md.matmul(), f"matmul(): {FEW} 0. They are x1, x2."),
    "none of one": (lambda: md.sin(), "sin(): expects 1 argument, got 0. They are x."),
    "too many": (
        lambda: md.equal(X, X, X),
        f"equal({T}, {T}): {FEW} 3. They are x1, x2.",
    ),
    "out": (lambda: md.add(X, X, X), f"add({T}, {T}): {FEW} 3. They are x1, x2."),
    "out and more": (
        lambda: md.add(X, X, X, X, X),
        f"add({T}, {T}): {FEW} 5. They are x1, x2.",
    ),
    "default": (
        lambda: md.linear(X),
        f"linear({T}): expects 2 to 3 arguments, got 1. They are x, w, b.",
    ),
    "missing option": (
        lambda: md.layer_norm(X),
        f"layer_norm({T}): normalized_shape is missing. {NORM}",
    ),
    "sizes": (
        lambda: md.reshape(X, 3, 2),
        (
            f"reshape({T}): expects 2 arguments, got 3. They are x, shape; shape is a "
            "tuple; by name copy=."
        ),
    ),
    "sequence": (
        lambda: md.concat(X, X),
        f"concat({T}): expects 1 argument, got 2. Give a list: concat([x1, x2]).",
    ),
    "empty sequence": (
        lambda: md.concat(),
        "concat(): expects 1 argument, got 0. Give a list: concat([x1, x2]).",
    ),
    "of a sequence": (
        lambda: md.concat([X, X], dim=1),
        (
            "concat(list): takes axis=, not dim=. Attributes: axis: int | None = 0, "
            "out: object = None, rounding: str | None = None."
        ),
    ),
    "two sizes": (
        lambda: md.zeros(2, 3),
        (
            "zeros: expects 1 argument, got 2; shape is a tuple. Write zeros(shape, *, "
            "dtype=None, device=None)."
        ),
    ),
    "no size": (
        lambda: md.full(fill_value=1),
        (
            "full: shape is missing. Write full(shape, fill_value, *, dtype=None, "
            "device=None)."
        ),
    ),
    "two missing": (
        lambda: md.linspace(0),
        (
            "linspace: stop, num are missing. Write linspace(start, stop, /, num, *, "
            "dtype=None, device=None, endpoint=True)."
        ),
    ),
    "four sizes": (
        lambda: md.eye(1, 2, 3, 4),
        (
            "eye: expects 1 to 2 arguments, got 4. Write eye(n_rows, n_cols=None, /, "
            "*, k=0, dtype=None, device=None)."
        ),
    ),
    "misspelled": (
        lambda: md.asarray(1, dtyp="int8"),
        (
            "asarray: takes dtype=, not dtyp=. Write asarray(obj, /, *, dtype=None, "
            "device=None, copy=None)."
        ),
    ),
    "strange": (
        lambda: md.arange(3, requires_grad=True),
        (
            "arange: requires_grad is not an argument. Write arange(start, /, "
            "stop=None, "
            "step=1, *, dtype=None, device=None)."
        ),
    ),
    "twice": (
        lambda: md.ones(3, shape=3),
        (
            "ones: multiple values for argument 'shape'. Write ones(shape, *, "
            "dtype=None, device=None)."
        ),
    ),
    "infer": (
        lambda: md.infer("sum", X, dim=0),
        f"sum({T}): takes axis=, not dim=. {SUM}",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_is_wrong_and_what_would_work(name: str) -> None:
    call, text = CALLS[name]
    with pytest.raises(DispatchError) as caught:
        call()
    assert str(caught.value) == text
    assert isinstance(caught.value, md.MdtensorError)
    assert isinstance(caught.value, TypeError)
    assert caught.value.__suppress_context__


@each("name", OURS)
def test_no_operation_is_called_without_arguments(name: str) -> None:
    call: Any = md.operations()[name]
    operation: Operation = call.operation
    with pytest.raises(DispatchError, match=r"expects .* arguments?, got 0\. "):
        call()
    first = f"{operation.name}("
    places = [
        p
        for p in operation.signature.parameters.values()
        if p.kind is not p.KEYWORD_ONLY
    ]
    with pytest.raises(DispatchError, match=f", got {len(places) + 4}") as caught:
        call(*[X] * (len(places) + 4))
    assert str(caught.value).startswith(first)


@each("name", OURS)
def test_no_operation_with_options_takes_others(name: str) -> None:
    call: Any = md.operations()[name]
    operation: Operation = call.operation
    if set(operation.options) <= {"out", "rounding"} or operation.name in (
        "getitem",
        "setitem",
    ):
        with pytest.raises(TypeError, match="unexpected keyword argument 'strange'"):
            call(*[X] * len(operation.dispatched), strange=1)
        return
    with pytest.raises(
        DispatchError, match=r": strange is not an attribute\. Attributes"
    ):
        call(*[X] * len(operation.dispatched), strange=1)
    assert inspect.signature(call) == operation.signature


def test_a_type_error_inside_of_a_function_stays() -> None:
    with pytest.raises(md.MdtensorError) as caught:
        md.asarray(object())
    assert "Write asarray" not in str(caught.value)
    assert inspect.signature(md.zeros).parameters.keys() == {"shape", "dtype", "device"}


@pytest.mark.parametrize("values", [md.Dim("M"), [1, md.Dim("M")], [[md.Dim("M")]]])
def test_a_size_with_a_name_is_no_element(values: Any) -> None:
    text = "a Dim is not a number before the operation runs"
    for dtype in (None, md.int8):
        with pytest.raises(md.CastError, match=text):
            md.asarray(values, dtype=dtype)
    with pytest.raises(md.CastError, match=text):
        md.full(2, md.Dim("M"))


@pytest.mark.parametrize("annotation", [list[int], int | str, Union[int, str]])
def test_an_annotation_is_no_argument(annotation: Any) -> None:
    for call in (
        lambda: md.add(X, annotation),
        lambda: X + annotation,
        lambda: annotation * X,
        lambda: md.infer("add", X, annotation),
    ):
        with pytest.raises(DispatchError):
            call()
    with pytest.raises(DispatchError, match="an argument is a generic alias"):
        md.add(X, list[int])


def test_a_declaration_without_a_module_is_refused() -> None:
    def nowhere(x: Any, /) -> Any: ...

    nowhere.__module__ = None  # type: ignore[assignment]
    with pytest.raises(md.RegistrationError, match="nowhere does not have a module"):
        md.generic(nowhere)


def test_a_refusal_without_a_reason_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="this is a bug in mdtensor"):
        refuse(md.sin.operation, (X,), {})


@pytest.mark.parametrize("theirs", OPTIONS)
def test_every_renamed_option_is_one_of_ours(theirs: str) -> None:
    calls: list[Any] = list(md.operations().values())
    known = {option for call in calls for option in call.operation.options}
    assert set(OPTIONS[theirs]) <= known
