"""Operations as methods of tensors."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from support.each import each
from support.samples import sample

import mdtensor as md
from mdtensor import quant
from mdtensor.operators import is_operation

X: Any = md.asarray([[1.0, -2.0], [3.0, 4.0]])
NAMED = {
    name: value
    for name, value in vars(md).items()
    if is_operation(value) and not value.operation.sequence
}
METHODS = {name: f for name, f in NAMED.items() if name not in ("real", "imag")}


def result(x: Any) -> Any:
    if isinstance(x, md.Tensor):
        return type(x), x.shape, x.buffer.tobytes()
    return [result(part) for part in x] if isinstance(x, (tuple, list)) else x


@each("name", METHODS)
def test_every_operation_is_a_method_of_its_first_tensor(name: str) -> None:
    if name == "empty_like":
        return  # its elements are undefined
    (first, *rest), options = sample(METHODS[name])
    (first2, *rest2), options2 = sample(METHODS[name])
    found = getattr(first, name)(*rest, **options)
    wanted = METHODS[name](first2, *rest2, **options2)
    assert result(found) == result(wanted)


def test_properties_are_what_they_were() -> None:
    assert (X.shape, X.dtype, X.size, X.ndim) == ((2, 2), md.float32, 4, 2)
    assert X.T.tolist() == [[1.0, 3.0], [-2.0, 4.0]]
    assert X.astype(md.int8).sum(axis=0).tolist() == [4, 2]


def test_listed_and_looked_for() -> None:
    assert set(METHODS) <= set(dir(X))
    assert {"shape", "T", "tolist"} <= set(dir(X))
    for absent in ("real", "imag", "concat", "stack", "asarray", "float32", "nn"):
        assert absent not in dir(X)
        assert not hasattr(X, absent)
    assert not any(hasattr(X, name) for name in ("__cuda_array_interface__", "__jax__"))


def test_a_method_has_the_documentation_of_its_operation() -> None:
    assert X.add.__doc__ == md.add.__doc__
    assert X.sum.__doc__ == md.sum.__doc__
    assert (X.add.__name__, X.sum.__name__) == ("add", "sum")


def test_copies_and_pickles_are_unharmed() -> None:
    for twin in (copy.copy(X), copy.deepcopy(X), pickle.loads(pickle.dumps(X))):
        assert result(twin) == result(X)
    assert pickle.loads(pickle.dumps(X.add))(X).tolist() == (X + X).tolist()


def test_quantized_tensors_have_them() -> None:
    q = quant.quantize(X, qparams=quant.QParams(0.25, 3, dtype=quant.qint8))
    assert result(q.relu()) == result(md.relu(q))
    assert not hasattr(q, "dequantize")


def test_an_operation_of_a_stranger_is_a_function_only() -> None:
    with md.registry.restored():

        @md.generic
        def brighten(x: Any, /) -> Any:
            """Something."""

        assert not hasattr(X, "brighten")


def test_numpys_reductions_give_tensors() -> None:
    """NumPy asks for the method first, and says out=None to it."""
    for function in (np.sum, np.prod, np.max, np.min, np.any, np.all, np.mean):
        ours = getattr(
            md, {"amax": "max", "amin": "min"}.get(name(function), name(function))
        )
        for axis in (None, 0, (0, 1)):
            assert result(function(X, axis=axis)) == result(ours(X, axis=axis))
    assert result(np.sum(X, axis=0, keepdims=True)) == result(
        md.sum(X, axis=0, keepdims=True)
    )
    for ddof in (0, 1):
        assert result(np.std(X, ddof=ddof)) == result(md.std(X, correction=ddof))
        assert result(np.var(X, 0, ddof=ddof)) == result(
            md.var(X, axis=0, correction=ddof)
        )
    with pytest.raises(md.OptionError, match="out is a ndarray, not a tensor"):
        np.sum(X, out=np.ones(()))


def name(function: Any) -> str:
    return str(function.__name__)


@pytest.mark.parametrize(
    "name", ["all", "any", "argmax", "argmin", "argsort", "mean", "prod", "std", "sum"]
)
def test_the_axis_may_come_by_position(name: str) -> None:
    method = getattr(X, name)
    assert method(1).tolist() == method(axis=1).tolist()


@pytest.mark.parametrize("name", ["max", "min"])
def test_where_libraries_differ_the_axis_has_its_name(name: str) -> None:
    with pytest.raises(md.DispatchError, match=rf"Use x\.{name}\(axis=0\) for values"):
        getattr(X, name)(0)


def test_sizes_and_axes_one_by_one() -> None:
    x = md.asarray([[1, 2, 3], [4, 5, 6]])
    assert x.reshape(3, 2).tolist() == x.reshape((3, 2)).tolist()
    assert x.reshape(-1).shape == x.reshape([6]).shape == (6,)
    assert x.transpose(1, 0).tolist() == x.T.tolist() == x.transpose((1, 0)).tolist()
    assert x.transpose().tolist() == np.transpose(x).tolist() == x.T.tolist()
    assert x.reshape(1, 2, 1, 3).squeeze().shape == (2, 3)
    assert x.reshape(1, 2, 3).squeeze(0).shape == (2, 3)
    with pytest.raises(md.ShapeError, match="2 axes do not order 3 dimensions"):
        x.reshape(1, 2, 3).transpose(0, 1)


def test_an_axis_of_none_squeezes_as_in_numpy() -> None:
    x = md.zeros((1, 2, 1, 3))
    assert x.squeeze(None).shape == x.squeeze(axis=None).shape == (2, 3)
    assert x.squeeze(axis=0).shape == (2, 1, 3)
    with pytest.raises(md.OptionError, match="axis is ndarray"):
        x.squeeze(np.array([0, 2]))


@pytest.mark.parametrize(
    "call",
    [
        lambda: X.reshape(3, 2, shape=(3, 2)),
        lambda: X.squeeze(0, axis=0),
        lambda: X.sum(0, axis=0),
    ],
)
def test_an_option_comes_once(call: Any) -> None:
    with pytest.raises(md.DispatchError):
        call()


@pytest.mark.parametrize("name", ["std", "var"])
def test_two_names_of_one_option(name: str) -> None:
    with pytest.raises(md.OptionError, match="ddof and correction"):
        getattr(X, name)(ddof=1, correction=2)


UNORDERED = [{2, 1}, frozenset({2, 1}), {2: 0, 1: 0}, {2: 0, 1: 0}.keys()]


@pytest.mark.parametrize("given", UNORDERED, ids=lambda given: type(given).__name__)
@pytest.mark.parametrize("call", [md.zeros, md.ones((2,)).reshape, X.tile])
def test_a_set_is_not_a_sequence(call: Any, given: Any) -> None:
    with pytest.raises(md.OptionError):
        call(given)


def test_iterators_that_are_read_twice() -> None:
    """A rule and a method read their options; an iterator is empty the second time."""
    with pytest.raises(md.OptionError, match="repetitions is <generator"):
        X.tile(n for n in (2, 1))
    with pytest.raises(md.OptionError, match="source is <"):
        md.moveaxis(X, iter((0,)), iter((1,)))
    assert md.zeros(n for n in (2, 1)).shape == (2, 1)
