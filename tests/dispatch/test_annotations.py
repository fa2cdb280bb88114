"""What a method is annotated with is looked at when it is added, and where it is."""

from typing import Any, Union

import pytest

import mdtensor as md
from mdtensor.errors import RegistrationError

pytestmark = pytest.mark.usefixtures("registered_as_before")


def declare() -> Any:
    @md.generic
    def probe(x: Any, /, *, size: int = 1) -> Any:
        """Of one tensor."""

    return probe


def refused(annotation: Any) -> str:
    operation = declare()

    def method(x, /, *, size):  # type: ignore[no-untyped-def]
        """Of the annotated type."""

    if annotation is not None:
        method.__annotations__ = {"x": annotation}
    with pytest.raises(RegistrationError) as caught:
        md.method(operation)(method)
    assert operation.operation.methods == ()
    return str(caught.value)


def test_no_annotation_is_no_catch_all() -> None:
    assert refused(None) == (
        "parameter x of a method of probe has no annotation. Annotate it with a class "
        "of tensors, or with object to take anything."
    )


def test_all_of_a_sequence_are_annotated() -> None:
    @md.generic(sequence=True)
    def several(arrays: Any, /) -> Any:
        """Of many."""

    with pytest.raises(RegistrationError, match="parameter arrays of a method of sev"):

        @md.method(several)
        def several(*arrays): ...  # type: ignore[no-untyped-def]


def test_a_type_of_elements_is_no_class() -> None:
    assert refused(md.float32) == (
        "parameter x of a method of probe is annotated with float32, a type of "
        "elements. Use leaf(float32), the class of its tensors."
    )
    assert md.leaf(md.float32) is md.Float32Tensor


def test_object_takes_anything() -> None:
    operation = declare()

    @md.method(operation)
    def other_name(x: object, /, **options: Any) -> Any:
        return x, options

    assert operation("text", size=3) == ("text", {"size": 3})
    assert operation("text") == ("text", {"size": 1})


def test_a_method_bears_the_name_of_its_operation() -> None:
    operation = declare()

    @md.method(operation)
    def other_name(x: Union[md.BoolTensor, md.Int8Tensor], /, *, size: int) -> Any: ...

    (method,) = operation.operation.methods
    assert str(method) == "probe(BoolTensor | Int8Tensor)"
    assert "test_annotations.py:" in method.location
