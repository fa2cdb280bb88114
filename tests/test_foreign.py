"""Arrays of other libraries: what NumPy would drop from them, as operands and masks.

The classes here have the attributes of the libraries' classes, so that nothing has to
be installed; tests/interop has the libraries themselves.
"""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor import quant

X = md.asarray([1.0, 2.0, 3.0], dtype=md.float64)


class Quantity(np.ndarray):
    """An array with a unit, as astropy's: NumPy's functions are its own."""

    unit: Any = None

    @property
    def value(self) -> Any:
        return self.view(np.ndarray)

    def __array_finalize__(self, obj: Any) -> None:
        self.unit = getattr(obj, "unit", "m")

    def __array_ufunc__(
        self, ufunc: Any, how: str, *inputs: Any, **options: Any
    ) -> Any:
        plain = [x.value if isinstance(x, Quantity) else x for x in inputs]
        return super().__array_ufunc__(ufunc, how, *plain, **options)


class Wrapped:
    """An object with a unit around an array, as pint's."""

    units = "m"

    def __init__(self, numbers: Any) -> None:
        self.numbers = numbers

    @property
    def magnitude(self) -> Any:
        return self.numbers

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self.numbers, dtype)


class Column(np.ndarray):
    """An array whose unit may be missing, as a column of a table."""

    unit = None


class Labelled(np.ndarray):
    """An array with arithmetic of its own, and without a unit."""

    def __array_ufunc__(
        self, ufunc: Any, how: str, *inputs: Any, **options: Any
    ) -> Any:
        plain = [np.asarray(x) if isinstance(x, Labelled) else x for x in inputs]
        return super().__array_ufunc__(ufunc, how, *plain, **options)


class Lazy:
    """An array without arithmetic that NumPy can read, as zarr's."""

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values)
        self.shape, self.dtype = self.values.shape, self.values.dtype

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self.values, dtype)


VALUES = np.array([1.0, 2.0, 3.0])
QUANTITY = VALUES.view(Quantity)
MASKED: Any = np.ma.array(VALUES, mask=[False, True, False])  # type: ignore[no-untyped-call]
ARITHMETIC = [
    *(operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv),
    *(operator.mod, operator.pow, operator.matmul, divmod),
]
COMPARISONS = [operator.lt, operator.le, operator.gt, operator.ge]
EQUALITY = [operator.eq, operator.ne]
IN_PLACE = [operator.iadd, operator.isub, operator.imul, operator.itruediv]


@pytest.mark.parametrize("symbol", [*ARITHMETIC, *COMPARISONS, *EQUALITY, *IN_PLACE])
def test_no_operator_drops_a_unit(symbol: Callable[..., Any]) -> None:
    x = md.asarray(X, copy=True)
    for a, b in ((x, QUANTITY), (QUANTITY.copy(), x), (x, QUANTITY[:1].reshape(()))):
        with pytest.raises(md.CastError, match="Quantity has a unit, which a tensor"):
            symbol(a, b)
    assert x.tolist() == X.tolist()


@pytest.mark.parametrize("symbol", [*ARITHMETIC, *COMPARISONS, *EQUALITY, *IN_PLACE])
def test_no_operator_drops_a_mask(symbol: Callable[..., Any]) -> None:
    x = md.asarray(X, copy=True)
    with pytest.raises(md.CastError, match="1 of 3 elements are masked"):
        symbol(x, MASKED)
    # A masked array on the left computes, with its own class and mask.
    try:
        found = symbol(MASKED.copy(), X)
    except md.CastError as error:
        assert "1 of 3 elements are masked" in str(error)
    else:
        for part in found if isinstance(found, tuple) else (found,):
            assert np.ma.getmaskarray(part).tolist() == [False, True, False]


@pytest.mark.parametrize("array", [QUANTITY, Wrapped(VALUES), Wrapped(3.0), MASKED])
@pytest.mark.parametrize(
    "convert",
    [
        md.asarray,
        md.from_numpy,
        md.Float64Tensor,
        lambda a: md.asarray([a, a]),
        lambda a: md.full((2,), a),
        lambda a: md.asarray(a, dtype=md.float32, copy=True),
    ],
)
def test_no_conversion_drops_a_mask_or_a_unit(array: Any, convert: Any) -> None:
    with pytest.raises(md.CastError, match=r"has a unit|are masked"):
        convert(array)


def test_no_function_drops_a_unit() -> None:
    for call in (
        lambda: md.add(X, QUANTITY),
        lambda: md.sin(QUANTITY),
        lambda: md.concat([X, QUANTITY]),
        lambda: md.where(X > 1, X, QUANTITY),
        lambda: np.add(X, QUANTITY),
        lambda: np.fmod(X, QUANTITY),
        lambda: np.add(X, X, out=QUANTITY.copy()),
        lambda: X.__setitem__(slice(None), QUANTITY),
        lambda: md.from_dlpack(QUANTITY),
        lambda: quant.quantize(QUANTITY, quant.QParams(0.5)),
    ):
        with pytest.raises(md.CastError, match=r"a Quantity has .* a.value"):
            call()


def test_advice_names_the_attribute_with_the_numbers() -> None:
    with pytest.raises(md.CastError, match=r"Use the numbers alone, a.magnitude."):
        md.asarray(Wrapped(VALUES))
    with pytest.raises(md.NoMethodError, match=r"Use asarray\(x2.magnitude\)"):
        md.add(X, Wrapped(VALUES))


def test_a_column_without_a_unit_is_an_array() -> None:
    column = VALUES.view(Column)
    assert (X + column).tolist() == (column + X).tolist() == [2.0, 4.0, 6.0]
    column.unit = "kg"
    with pytest.raises(md.CastError, match="Column has a unit"):
        X + column


def test_an_array_with_its_own_arithmetic_is_no_operand() -> None:
    labelled = VALUES.view(Labelled)
    for call in (lambda: X + labelled, lambda: labelled + X, lambda: md.sin(labelled)):
        with pytest.raises(md.DispatchError, match="has arithmetic of its own"):
            call()
    assert md.asarray(labelled).tolist() == VALUES.tolist()


def test_products_of_matrices_are_no_products_of_elements() -> None:
    """`numpy.matrix * x` is a product of matrices, and `**` a power of one."""
    matrix = np.ones((3, 3)).view(np.matrix)
    for symbol in (operator.mul, operator.matmul, operator.add):
        with pytest.raises(md.DispatchError, match="matrix has arithmetic of its own"):
            symbol(X, matrix)
        with pytest.raises(md.DispatchError, match="matrix has arithmetic of its own"):
            symbol(matrix, X)
    assert md.asarray(matrix).shape == (3, 3)


def test_a_masked_element_of_a_list() -> None:
    for convert in (md.from_numpy, md.asarray, md.Float64Tensor):
        with pytest.raises(md.CastError, match="are masked"):
            convert([1.0, MASKED[1], 3.0])
    assert md.from_numpy([1.0, 2.5]).tolist() == [1.0, 2.5]


@pytest.mark.parametrize("mask", [[True, False, True], [2, 0], [[0, 1], [1, 2]]])
def test_arrays_of_others_are_masks_and_indices(mask: Any) -> None:
    lazy, x = Lazy(mask), md.asarray(X, copy=True)
    assert x[lazy].tolist() == VALUES[np.asarray(mask)].tolist()
    assert x[None][:, lazy].tolist() == VALUES[None][:, np.asarray(mask)].tolist()
    x[lazy] = 0
    assert np.count_nonzero(np.asarray(x)) < 3


def test_other_arrays_are_no_indices() -> None:
    for index in (Lazy([1.0]), Lazy(["a"]), Lazy([None, True])):
        with pytest.raises(md.BoundsError, match="cannot index with Lazy"):
            X[index]
    hidden = np.ma.array([True, False, True], mask=[0, 1, 0])  # type: ignore[no-untyped-call]
    with pytest.raises(md.CastError, match="1 of 3 elements are masked"):
        X[hidden]


def test_equality_with_an_array_is_never_one_bool() -> None:
    lazy = Lazy(VALUES)
    for symbol in EQUALITY:
        for a, b in ((lazy, X), (X, lazy)):
            with pytest.raises(md.NoMethodError, match=r"Use asarray\(x2\) to make it"):
                symbol(a, b)
    assert (X == None) is False  # noqa: E711


def test_an_array_that_cannot_be_read_is_named() -> None:
    class Broken:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            raise TypeError("a table has no array")

    with pytest.raises(md.CastError, match="NumPy cannot read a Broken: 'a table has"):
        md.asarray(Broken())


class Iterable(Wrapped):
    """A single quantity that claims to be iterable, as pint's does."""

    def __iter__(self) -> Any:
        return iter(self.numbers)


#: Numbers that an option must not take: their mask or unit would be lost.
LOST: dict[str, Any] = {
    "masked": np.ma.masked,
    "array with a unit": np.array(2).view(Quantity),
    "quantity": Iterable(2),
}
OPTIONS: dict[str, Callable[[Any], Any]] = {
    "a slope": lambda v: md.leaky_relu(X, negative_slope=v),
    "a correction": lambda v: md.std(X, correction=v),
    "an order": lambda v: md.linalg.vector_norm(X, ord=v),
    "a shape": md.ones,
    "a size": lambda v: md.zeros((2, v)),
    "an axis": lambda v: md.sum(X, axis=v),
    "axes": lambda v: md.tensordot(X, X, axes=v),
    "a count": lambda v: md.topk(X, v),
    "groups": lambda v: md.group_norm(md.ones((1, 2)), num_groups=v),
    "a bound": md.arange,
    "an end": lambda v: md.linspace(0, v, 3),
    "a stride": lambda v: md.conv2d(
        md.ones((1, 1, 3, 3)), md.ones((1, 1, 1, 1)), stride=v
    ),
}


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("kind", LOST)
def test_options_keep_masks_and_units(name: str, kind: str) -> None:
    with pytest.raises((md.OptionError, md.CastError)):
        OPTIONS[name](LOST[kind])


def test_masked_elements_in_lists_of_ufuncs() -> None:
    for values in (
        [1.0, np.ma.masked, 2.0],
        [np.ma.array([1.0, 2, 3], mask=[0, 1, 0])],
    ):
        with pytest.raises(md.CastError, match="masked"):
            np.logaddexp2(X, values)


def test_masked_fields_are_counted_by_element() -> None:
    fields = [("a", "i4"), ("b", [("c", "f4"), ("d", "f4")])]
    records = np.ma.zeros(3, dtype=fields)
    records[1] = np.ma.masked
    with pytest.raises(md.CastError, match="1 of 3 elements are masked"):
        md.add(X, records)


@pytest.mark.parametrize("k", [np.zeros(0), [], [1, 2], (1,), None, 1.0, "1"], ids=str)
def test_the_count_of_topk_is_one_integer(k: Any) -> None:
    with pytest.raises(md.OptionError, match="k is"):
        md.topk(X, k)


def test_a_class_is_not_a_mask() -> None:
    q = md.ones((2, 2))
    with pytest.raises(md.OptionError, match="attn_mask is of Float32Tensor"):
        md.scaled_dot_product_attention(q, q, q, attn_mask=md.Float32Tensor)


@pytest.mark.parametrize("number", [65504, 65519, 65520, 100000, -(2**62)])
def test_integers_that_a_narrow_float_cannot_hold(number: int) -> None:
    """Reductions with dtype= and assignments convert as `astype` does."""
    fits = abs(number) < 65520
    x, given = md.asarray([0.5], dtype=md.float16), md.asarray([number])

    def assign(value: Any) -> Any:
        x[0] = value
        return x

    calls: list[Callable[[], Any]] = [
        lambda: md.sum(given, dtype=md.float16),
        lambda: md.prod(given, dtype=md.float16),
        lambda: md.cumulative_sum(given, dtype=md.float16),
        lambda: assign(given[0]),
        lambda: assign(np.int64(number)),
    ]
    for call in calls:
        if fits:
            assert float(np.asarray(call()).reshape(())) == 65504
            continue
        with pytest.raises(md.CastError, match="float16 represents"):
            call()


class Container:
    """An array of another library around one, as xarray's; `data` is the inner one."""

    def __init__(self, data: Any) -> None:
        self._data = data

    @property
    def data(self) -> Any:
        return self._data

    @property
    def dtype(self) -> Any:
        return np.dtype(np.float64)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self._data, dtype)


class Delayed(Container):
    """An array that is not computed yet, as dask's, with a sample of its type."""

    @property
    def _meta(self) -> Any:
        return self._data[:0]


@pytest.mark.parametrize("kind", [Container, Delayed])
@pytest.mark.parametrize(
    "inner",
    [
        np.ma.array([1.0, 2.0], mask=[False, True]),
        np.ones(2).view(Quantity),
    ],
    ids=["masked", "unit"],
)
def test_masks_and_units_in_containers(kind: Any, inner: Any) -> None:
    given = kind(inner)
    for read in (md.asarray, md.Float64Tensor, lambda x: md.asarray([x, x])):
        with pytest.raises(md.CastError, match=r"mask|unit"):
            read(given)
    plain = kind(np.ones(2))
    assert md.asarray(plain).tolist() == [1.0, 1.0]


def test_long_integers_beside_floats_round_once() -> None:
    """Above a tie of float32 by less than float64 resolves, and of bfloat16."""
    for dtype, number in (
        ("float32", 2**60 + 2**36 + 1),
        ("bfloat16", 2**60 + 2**52 + 1),
    ):
        alone = md.asarray([number], dtype=dtype).tolist()[0]
        assert md.asarray([number, 0.5], dtype=dtype).tolist()[0] == alone
        assert md.asarray([[0.5, 1], [number, 2]], dtype=dtype).tolist()[1][0] == alone
    number = 2**60 + 2**36 + 1
    alone = md.asarray([number], dtype=md.float32).tolist()[0]
    assert md.asarray([number, 0.5]).tolist()[0] == alone
    assert md.asarray([number, 0.5j]).tolist()[0] == alone


def test_a_number_that_fills_is_converted_as_pythons() -> None:
    integers, floats = md.asarray([1]), md.asarray([1.0])
    for bad in (1.5, np.float64(1.5), np.float32(1.5), np.array(1.5), md.asarray(1.5)):
        with pytest.raises(md.CastError, match=r"1\.5"):
            md.full_like(integers, bad)
        with pytest.raises(md.CastError, match=r"1\.5"):
            md.full((2,), bad, dtype=md.int8)
        assert md.full_like(floats, bad).tolist() == [1.5]
    with md.lazy():
        assert md.full_like(floats, np.int64(3)).tolist() == [3.0]
    assert md.full((1,), np.float16(1.5)).dtype is md.float16
