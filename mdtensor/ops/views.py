"""Views: tensors as functions of `for_each` read and write them."""

from functools import cache
from typing import Any

import numpy as np

from mdtensor.dtypes import DType
from mdtensor.errors import (
    BoundsError,
    DispatchError,
    WriteError,
    describe,
    type_and_shape,
)
from mdtensor.kernels.numpy.float16 import is_narrow
from mdtensor.kernels.numpy.layout import FunctionError, Operand, repeats
from mdtensor.kernels.reference import for_each as oracle
from mdtensor.ops.operands import on_host
from mdtensor.tensor import Tensor, announce_write


class View:
    """A view of a tensor for `for_each`, made by `flat_in`, `ranked_out` and so on.

    Outside of `for_each` you can read and write single elements in Python.

    Raises:
        BoundsError: an index is outside; negative ones do not count from the end.
        DispatchError: you make it from something else than these functions do.
    """

    __slots__ = ("_elements", "operand", "tensor")

    def __init__(self, tensor: Tensor, operand: Operand) -> None:
        if not (isinstance(tensor, Tensor) and isinstance(operand, Operand)):
            problem = f"a {type(operand).__name__} is not the layout of a tensor"
            raise DispatchError(problem, "Use flat_in, flat_out or ranked_in", "View")
        self.tensor, self.operand = tensor, operand
        # The oracle's views check indices, as compiled code does.
        self._elements = oracle.View(operand)

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the size of each index."""
        return self._elements.shape

    @property
    def size(self) -> int:
        """Return the number of elements."""
        return self._elements.size

    def __repr__(self) -> str:
        return (
            f"View[{','.join(map(str, self.shape))}] of {type_and_shape(self.tensor)}"
        )

    def __getitem__(self, index: Any) -> Any:
        try:
            return self._elements[index]
        except (IndexError, FunctionError) as error:
            raise self._refusal(index, error) from None

    def __setitem__(self, index: Any, value: object) -> None:
        announce_write(self.tensor.buffer)
        try:
            self._elements[index] = value
        except (IndexError, FunctionError) as error:
            raise self._refusal(index, error) from None

    def _refusal(self, index: object, error: Exception) -> Exception:
        call = f"View[{','.join(map(str, self.shape))}]"
        if isinstance(error, FunctionError):
            return DispatchError(error.reason, "", call)
        return BoundsError(f"index {index} does not exist", "", call)


def flat_in(x: Tensor) -> View:
    """Return a view to read the elements of `x` by one index, for any rank and strides.

    Args:
        x: any shape. Floats of 16 bits or less are read as float32.

    Returns:
        A view: `view[i]` in the order of indices, the last one fastest; `view.size`.

    Raises:
        DispatchError: `x` is not a tensor of numbers or bools.
        DeviceError: `x` is not on the host.

    Example:
        >>> import mdtensor as md
        >>> x = md.asarray([[1, 2, 3], [4, 5, 6]])
        >>> view = md.flat_in(x.T)
        >>> [view[i] for i in range(view.size)]
        [1, 4, 2, 5, 3, 6]

    Source: fVDB, `flat_in`.
    """
    return _view("flat_in", x, writes=False, ranked=False)


def flat_out(x: Tensor) -> View:
    """Return a view as `flat_in` does, to read and write; round each value once.

    Args:
        x: any shape. Integers wrap; you cannot write a float to integers.

    Returns:
        A view: `view[i]`, `view.size`.

    Raises:
        DispatchError, DeviceError: see `flat_in`.
        WriteError: the buffer is read-only, or several indices share an element.

    Example:
        >>> import mdtensor as md
        >>> y = md.zeros((2, 2))
        >>> view = md.flat_out(y.T)
        >>> view[1] = 0.5
        >>> y.tolist()
        [[0.0, 0.0], [0.5, 0.0]]

    Source: fVDB, `flat_out`.
    """
    return _view("flat_out", x, writes=True, ranked=False)


def ranked_in(x: Tensor) -> View:
    """Return a view to read the elements of `x` by one index for each dimension.

    Args:
        x: one dimension or more. Floats of 16 bits or less are read as float32.

    Returns:
        A view: `view[i, j]`, `view.shape`.

    Raises:
        DispatchError: `x` is not a tensor of numbers or bools, or is 0-d.
        DeviceError: `x` is not on the host.

    Example:
        >>> import mdtensor as md
        >>> view = md.ranked_in(md.asarray([[1, 2, 3], [4, 5, 6]]))
        >>> view[1, 0], view.shape
        (4, (2, 3))

    Source: fVDB, `tensor_in`.
    """
    return _view("ranked_in", x, writes=False, ranked=True)


def ranked_out(x: Tensor) -> View:
    """Return a view as `ranked_in` does, to read and write; round each value once.

    Args:
        x: one dimension or more. Integers wrap; you cannot write a float to integers.

    Returns:
        A view: `view[i, j]`, `view.shape`.

    Raises:
        DispatchError, DeviceError, WriteError: see `ranked_in` and `flat_out`.

    Example:
        >>> import mdtensor as md
        >>> y = md.zeros((2, 2), dtype=md.int8)
        >>> md.ranked_out(y)[0, 1] = 130
        >>> y.tolist()
        [[0, -126], [0, 0]]

    Source: fVDB, `tensor_out`.
    """
    return _view("ranked_out", x, writes=True, ranked=True)


def _view(name: str, x: Tensor, *, writes: bool, ranked: bool) -> View:
    found = operand(name, x, writes=writes, ranked=ranked)
    if ranked and not x.shape:
        fix = "Use flat_in(x) or flat_out(x)"
        raise DispatchError(
            "a 0-d tensor does not have an index", fix, describe(name, x)
        )
    return View(x, found)


def operand(
    name: str, x: object, *, writes: bool = False, ranked: bool = False
) -> Operand:
    """Return the buffer of a tensor as an operand of compiled functions.

    Args:
        name: the operation, for errors.
        x: the tensor.
        writes: whether the function writes it.
        ranked: whether it takes an index for each dimension.

    Raises:
        DispatchError, DeviceError, WriteError: see `flat_out`.
    """
    on_host(name, x)
    if not isinstance(x, Tensor) or not _is_known(x.dtype):
        fix = "Use asarray(x), or astype(x, dtype) of a tensor"
        raise DispatchError(
            "expected a tensor of numbers or bools", fix, describe(name, x)
        )
    if writes:
        _require_writable(name, x)
    return Operand(x.buffer, _name(x.buffer.dtype), writes, ranked)


@cache
def _name(dtype: np.dtype[Any]) -> str:
    # NumPy builds the name anew at each access.
    return dtype.name


@cache
def _is_known(dtype: DType) -> bool:
    """Return whether compiled functions support the elements: numbers and bools."""
    is_number = dtype.is_integer or dtype.is_floating or dtype.is_complex
    if not (is_number or dtype.kind == "bool"):
        return False
    return is_narrow(dtype.storage) or dtype.storage.isbuiltin == 1


def _require_writable(name: str, x: Tensor) -> None:
    problem = ""
    if not x.buffer.flags.writeable:
        problem = "the buffer is read-only"
    # The result would depend on the order of writes.
    elif repeats(x.buffer):
        problem = "several indices share one element"
    if problem:
        fix = "Write into asarray(x, copy=True)"
        raise WriteError(problem, fix, describe(name, x))
