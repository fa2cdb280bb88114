"""Arrays of other libraries, and the parts of them that a tensor cannot hold.

NumPy reads the memory behind a mask, and the numbers before a unit, without a word.
Every conversion of a foreign array passes one of the checks here, so that a mask or a
unit is never lost. The checks know attributes, not libraries: nothing is imported.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mdtensor.errors import CastError, DispatchError, shown

#: Names of the attribute that holds a unit: astropy and pandas; pint and unyt.
_UNITS = ("unit", "units")
#: Names of the attribute that holds the dimensions of a unit: unyt; pint; astropy.
_DIMENSIONS = ("dimensions", "dimensionality", "physical_type")
#: Names of the attribute that holds the numbers without their unit.
_NUMBERS = ("value", "magnitude")


def require_plain(array: object) -> None:
    """Check that NumPy drops no mask and no unit when it reads `array`.

    Raises:
        CastError: elements are masked, or the numbers have a unit.
    """
    # Almost every array takes this way out.
    if type(array) is np.ndarray or isinstance(array, np.generic):
        return
    _refuse_mask(array)
    _refuse_unit(array)
    if is_array_like(array) and not isinstance(array, np.ndarray):
        _refuse_inside(array)


def _refuse_mask(array: object) -> None:
    # Also astropy's masked arrays, which are another class. The second test imports
    # `numpy.ma`, which few programs use.
    if isinstance(array, np.ndarray) and np.ma.getmask(array) is not np.ma.nomask:
        # A structured array has a mask for each of its fields.
        mask = np.asarray(np.ma.getmaskarray(array))
        fields = mask.reshape(array.size, 1).view(np.bool_)
        if count := np.count_nonzero(fields.any(axis=1)):
            problem = f"{count} of {array.size} elements are masked and have no value"
            raise CastError(problem, "Use a.filled(number)")


def _refuse_unit(array: object) -> None:
    if _has_unit(array):
        kind = type(array)
        raise CastError(
            f"a {kind.__name__} has a unit, which a tensor does not keep",
            f"Use the numbers alone, {_numbers_alone(array)}",
        )


def _numbers_alone(array: Any) -> str:
    """Return the code for the numbers of an array with a unit."""
    # An index of dates in pandas has a unit, and no attribute with the counts of it.
    if getattr(getattr(array, "dtype", None), "kind", "") in ("M", "m"):
        return "a.astype('int64')"
    return f"a.{number_attribute(type(array)) or 'value'}"


def _refuse_inside(container: object) -> None:
    """Check the array that xarray has as `data`, and dask's sample `_meta`."""
    kind = type(container)
    # The class is asked, because our tensors make hints for missing attributes.
    held, sample = (
        getattr(container, name, None) if hasattr(kind, name) else None
        for name in ("data", "_meta")
    )
    for array in (held, sample):
        _refuse_mask(array)
        _refuse_unit(array)
    # An array without elements: which ones are masked is known once they are computed.
    if isinstance(sample, np.ndarray) and isinstance(sample, np.ma.MaskedArray):
        problem = f"a {kind.__name__} may hold masked elements, which have no value"
        raise CastError(problem, "Fill them with a number first")


def is_unit(value: object) -> bool:
    """Return whether `value` is a unit, without numbers, of astropy, unyt or pint."""
    return not isinstance(value, type) and any(
        hasattr(value, name) for name in _DIMENSIONS
    )


def is_plain(value: object) -> bool:
    """Return whether `value` passes `require_plain`."""
    try:
        require_plain(value)
    except CastError:
        return False
    return True


def require_operand(array: object) -> None:
    """Check as `require_plain` does, and that `array` does not define arithmetic.

    Raises:
        CastError: elements are masked, or the numbers have a unit.
        DispatchError: the class of the array defines what NumPy's functions do.
    """
    require_plain(array)
    if not isinstance(array, np.ndarray):
        return
    kind = type(array)
    # A class that computes by itself has more in its arrays than their elements; and
    # `*` of `numpy.matrix` is not the product of elements.
    computes = kind.__array_ufunc__ is not np.ndarray.__array_ufunc__
    if computes or not _multiplies_elements(kind):
        name = kind.__name__
        problem = f"{name} has arithmetic of its own, which a tensor would bypass"
        raise DispatchError(problem, "Use asarray(a) to pass only its elements")


def _multiplies_elements(kind: type[np.ndarray[Any, Any]]) -> bool:
    """Return whether `*` of a class is that of arrays, masked ones included."""
    # numpy.ma takes a fifth of the time of our import, and most arrays do not need it.
    own = kind.__mul__
    return own is np.ndarray.__mul__ or own is np.ma.MaskedArray.__mul__


def number_attribute(kind: type) -> str:
    """Return the attribute with the numbers of a class with units; empty for others."""
    if not any(hasattr(kind, name) for name in _UNITS):
        return ""
    return next((name for name in _NUMBERS if hasattr(kind, name)), "")


def is_array_like(value: object) -> bool:
    """Return whether NumPy makes an array of `value`, which is not a sequence.

    Example:
        >>> is_array_like(memoryview(b"ab")), is_array_like([1, 2]), is_array_like(1)
        (False, False, False)
    """
    # A class has the attributes of its instances, but is not an array.
    return not isinstance(value, type) and hasattr(type(value), "__array__")


def read_array(value: object) -> np.ndarray:
    """Return the elements of an array of another library as a NumPy array.

    Raises:
        CastError: elements are masked, have a unit, or NumPy cannot read them.
    """
    require_plain(value)
    try:
        # First with the subclass of the array, which has the mask.
        found = np.asanyarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        problem = f"NumPy cannot read a {type(value).__name__}: {shown(str(error))}"
        raise CastError(problem, "Give an array of numbers") from error
    require_plain(found)
    return np.asarray(found)


def _has_unit(array: object) -> bool:
    """Return whether the class of `array` has units, and this array one of them."""
    for name in _UNITS:
        # A table has attributes for its columns, so its class counts. An array does
        # not, and may keep its unit outside of the class.
        is_known = isinstance(array, np.ndarray) or hasattr(type(array), name)
        if is_known and _has_value(array, name):
            return True
    return False


def _has_value(array: object, name: str) -> bool:
    """Return whether an attribute of `array` exists and is not None."""
    try:
        return getattr(array, name, None) is not None
    except Exception:  # a property may raise anything
        return False
