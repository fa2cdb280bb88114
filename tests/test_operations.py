"""What holds for every operation there is: devices, deduction, pickles, threads."""

import copy
import multiprocessing
import os
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from support.each import each
from support.samples import SAMPLES, Call, call, sample
from support.shelf import Shelf, shelved

import mdtensor as md
from mdtensor.errors import DeviceError, NoMethodError
from mdtensor.spec.shapes import DYNAMIC
from mdtensor.spec.spec import TensorSpec

OPERATIONS = [f for name, f in md.operations().items() if name.startswith("mdtensor.")]
PLAIN = [leaf.dtype for leaf in md.leaves()[:15]]

each_operation = each("operation", OPERATIONS)


@pytest.fixture(scope="module")
def shelf() -> Iterator[Shelf]:
    with shelved(PLAIN) as place:
        yield place


def tensors(found: Any) -> list[Any]:
    """The tensors in a result, or among arguments."""
    if isinstance(found, md.Tensor):
        return [found]
    if isinstance(found, dict):
        found = tuple(found.values())
    if not isinstance(found, (tuple, list)):
        return []
    return [x for part in found for x in tensors(part)]


def digest(found: Any) -> list[Any]:
    return [(type(x), x.shape, x.buffer.tobytes()) for x in tensors(found)]


def spec(x: Any) -> Any:
    if isinstance(x, md.Tensor):
        return TensorSpec(type(x), x.shape, getattr(x, "qparams", None))
    return x


def moved(given: Call, place: md.Device, chosen: Callable[[int], bool]) -> Call:
    """The call with the tensors on `place` whose number is chosen."""
    count = iter(range(100))

    def move(x: Any) -> Any:
        return (
            md.to(x, place) if isinstance(x, md.Tensor) and chosen(next(count)) else x
        )

    arguments, options = given
    return tuple(map(move, arguments)), {k: move(o) for k, o in options.items()}


def is_plain(given: Call) -> bool:
    return all(x.dtype in PLAIN for x in tensors(given))


def test_no_sample_is_left_over() -> None:
    assert set(SAMPLES) <= set(OPERATIONS)


@each_operation
def test_what_is_deduced_comes_out_where_the_operands_are(operation: Any) -> None:
    arguments, options = sample(operation)
    result = call(operation, arguments, options)
    selected = operation.select(*map(type, arguments))
    deduced = selected.deduce(*map(spec, arguments), **options)
    flat = deduced if isinstance(deduced, tuple) else (deduced,)
    wanted = [one for one in flat if isinstance(one, TensorSpec)]
    for want, got in zip(wanted, tensors(result), strict=True):
        assert want.type is type(got)
        assert got.device is md.cpu
        assert isinstance(got.buffer, np.ndarray)
        assert got.buffer.dtype == got.dtype.storage
        assert len(want.shape) == got.ndim
        assert all(
            n in (DYNAMIC, m) for n, m in zip(want.shape, got.shape, strict=True)
        )


@each_operation
def test_operands_on_two_devices(operation: Any, shelf: Shelf) -> None:
    given = sample(operation)
    count = len(tensors(given))
    for alone in range(count if count > 1 and is_plain(given) else 0):
        for chosen in (alone.__eq__, alone.__ne__):
            apart = moved(sample(operation), shelf, chosen)
            before = digest(apart)
            with pytest.raises(DeviceError) as caught:
                call(operation, *apart)
            assert str(caught.value).startswith(f"{operation.__name__}(")
            assert "operands are on " in str(caught.value)
            assert "Move one with to(device)." in str(caught.value)
            assert digest(apart) == before


@each_operation
def test_operands_on_another_device(operation: Any, shelf: Shelf) -> None:
    given = sample(operation)
    if not is_plain(given):
        return
    there = moved(given, shelf, lambda _: True)
    before = digest(there)
    try:
        result = call(operation, *there)
    except NoMethodError as error:
        assert str(error).startswith(f"{operation.__name__}(Shelf")
        assert str(error).endswith(
            ': no method for shelf yet. Move the operands with to("cpu").'
        )
    else:
        wanted = md.cpu if operation is md.to else shelf
        assert {x.device for x in tensors(result)} == {wanted}
    assert digest(there) == before


@each_operation
def test_pickled_by_name(operation: Any) -> None:
    assert pickle.loads(pickle.dumps(operation)) is operation
    assert copy.deepcopy(operation) is copy.copy(operation) is operation


@each_operation
def test_nothing_but_the_target_is_written(operation: Any) -> None:
    given = sample(operation)
    before = digest(given)
    call(operation, *given)
    changed = [a != b for a, b in zip(digest(given), before, strict=True)]
    assert changed == [operation is md.setitem, *changed[1:]]
    assert not any(changed[1:])


def everything() -> dict[Any, Any]:
    """The results of all samples."""
    found = {}
    for operation in OPERATIONS:
        arguments, options = sample(operation)
        result = call(operation, arguments, options)
        if operation is md.empty_like:
            result[...] = 0  # its elements are undefined
        found[operation] = digest([arguments, result])
    return found


def test_the_same_in_8_threads_from_the_first_call_on() -> None:
    wanted = everything()
    for operation in OPERATIONS:
        operation.operation._forget()
    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(lambda _: everything(), range(8)):
            assert found == wanted


def _send(queue: Any) -> None:
    queue.put(everything())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_the_same_in_a_forked_child() -> None:
    wanted = everything()
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=_send, args=(queue,))
    child.start()
    assert queue.get() == wanted
    child.join(60)
    assert child.exitcode == 0


@pytest.mark.parametrize("dtype", PLAIN, ids=str)
def test_tensors_of_another_device_pickle(dtype: md.DType, shelf: Shelf) -> None:
    there = md.to(md.ones((2,), dtype=dtype), shelf)
    for twin in (pickle.loads(pickle.dumps(there)), copy.deepcopy(there)):
        assert digest(twin) == digest(there)
        assert not np.shares_memory(twin.buffer, there.buffer)
