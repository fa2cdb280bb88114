"""After `freeze` nothing changes unseen."""

import plum
import pytest

import mdtensor as md
from mdtensor import diagnose
from mdtensor.errors import RegistrationError

pytestmark = pytest.mark.usefixtures("registered_as_before")


@pytest.fixture
def operation():
    @md.generic
    def frozen_here(x, /):
        """For this test."""

    @md.method(frozen_here)
    def frozen_here(x: md.Tensor, /):
        return x

    yield frozen_here
    diagnose.thaw(frozen_here)


def method(function):
    @md.method(function)
    def frozen_here(x: md.RealTensor, /):
        return x


def test_a_frozen_operation_takes_no_method(operation):
    assert diagnose.freeze(operation).functions[0].endswith("frozen_here")
    with pytest.raises(
        RegistrationError,
        match=r"frozen_here is frozen, and .* would change its methods. Register it ",
    ):
        method(operation)
    assert len(operation.operation.methods) == 1
    diagnose.thaw(operation)
    method(operation)
    assert len(operation.operation.methods) == 2


def test_a_frozen_operation_still_runs(operation):
    diagnose.freeze(operation)
    x = md.asarray([1.0])
    assert operation(x) is x


def test_what_is_wrong_is_not_frozen():
    dispatch = plum.Dispatcher()

    @dispatch
    def put(a: bool, b: int): ...

    @dispatch
    def put(a: int, b: bool): ...

    with pytest.raises(RegistrationError, match=r"1 finding, the first is MDT001: "):
        diagnose.freeze(put)
    assert diagnose.late() == ()
    assert len(diagnose.freeze(put, fail_on="never").findings) == 1
    diagnose.thaw(put)


def test_late_methods_of_plum_are_told():
    dispatch = plum.Dispatcher()

    @dispatch
    def put(a: bool): ...

    diagnose.freeze(put)
    try:

        @dispatch
        def put(a: int): ...

        assert [m.signature for m in diagnose.late()] == ["put(a: int)"]
    finally:
        diagnose.thaw(put)
    assert diagnose.late() == ()
