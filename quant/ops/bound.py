"""Cache of quantized calls that were validated: an equal call runs without checks.

    key     types, shapes, grids, options, rounding rule, instruction set
    miss    the method checks the call, chooses a kernel, and returns a function
    hit     the cached function runs; it checks that packed weights are unchanged

A method under `@bind_once` does not compute. It returns a function of its tensors: a
`BoundCall` or a `BoundProduct` if a compiled step does the work, or any function. On a
hit the method does not run, so its checks are not repeated. The function outlives the
call, so it must not hold a tensor of the call.
"""

from collections.abc import Callable, Hashable, Sequence
from functools import wraps
from threading import Lock
from types import NoneType
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor import Tensor, leaf
from mdtensor.kernels.cpu.kernel_set import CHOSEN
from mdtensor.kernels.cpu.program.step import Step
from mdtensor.quant.codes import FLIP, OFFSETS, Reader
from mdtensor.quant.ops.kernels import reuse_or_pack
from mdtensor.quant.qparams import QParams
from mdtensor.quant.rules import CURRENT
from mdtensor.quant.tensor import QuantizedTensor, wrap_codes

Run = Callable[..., Any]
#: The largest number of cached calls; a new one replaces the oldest.
MOST = 1024
#: A call on a grid with more scales is bound each time, so that keys stay small.
MOST_SCALES = 4096
#: Types of immutable options, which a key compares by type and value.
_PLAIN = frozenset({int, float, bool, str, NoneType})
_OF_BUFFER = Tensor.shape
_CALLS: dict[Hashable, Run] = {}
_LOCK = Lock()


# What a call has checked stays true for its types, shapes, grids and options, so the
# next such call only runs (decision 0048).
def bind_once(bind: Callable[..., Run]) -> Callable[..., Any]:
    """Return a method that binds each different call once, by `bind`, and runs it.

    Args:
        bind: a function with the parameters of the method. It raises for a wrong call,
            and otherwise returns the function of the tensors that computes the result.
    """

    @wraps(bind)
    def run(*tensors: Any, **options: Any) -> Any:
        key = key_of(bind, tensors, options)
        # No lock is needed to read: one look-up in a dict is atomic.
        call = _CALLS.get(key)
        if call is None:
            call = bind(*tensors, **options)
            _remember(key, call, *tensors, *options.values())
        return call(*tensors)

    return run


# The key does not contain elements: checks that depend on them run at each call
# (decision 0048).
def key_of(bind: Run, tensors: Sequence[Any], options: dict[str, Any]) -> Hashable:
    """Return a key of everything that a call depends on, except the elements.

    Grids are compared by value, since callers make equal grids again and again.

    Returns:
        None if an option can change, such as a list: the call is bound each time.
    """
    key = [bind, CURRENT.get(), CHOSEN.get().name, *options]
    for x in tensors:
        kind = type(x)
        key.append(kind)
        if x is None:
            continue
        # Packed tensors store their shape; for others the buffer has it, read faster.
        key.append(x.buffer.shape if kind.shape is _OF_BUFFER else x.shape)
        if isinstance(x, QuantizedTensor):
            key.append(x.qparams.key)
    for option in options.values():
        kind = type(option)
        if kind is QParams:
            key += option.key, option.rounding
        elif kind in _PLAIN:
            # 1, 1.0 and True are equal, but only 1 is a valid stride.
            key += kind, option
        elif (types := _types_of(option)) is not None:
            key += types, option
        else:
            return None
    return tuple(key)


def _types_of(option: object) -> tuple[Any, ...] | None:
    """Return the types in a tuple of plain entries, or of such tuples, else None."""
    if type(option) is not tuple:
        return None
    if _PLAIN.issuperset(map(type, option)):
        return tuple(map(type, option))
    found = tuple(_types_of(part) for part in option)
    return None if None in found else found


def _remember(key: Hashable, call: Run, *given: object) -> None:
    """Cache a call, unless it does not have a key or its key is large."""
    grids = [x for x in given if isinstance(x, QParams)]
    grids += [x.qparams for x in given if isinstance(x, QuantizedTensor)]
    if key is None or any(grid.scale.size > MOST_SCALES for grid in grids):
        return
    # Two threads could delete the same oldest entry.
    with _LOCK:
        while len(_CALLS) >= MOST:
            del _CALLS[next(iter(_CALLS))]
        _CALLS[key] = call


class BoundCall:
    """A call that runs one compiled step of codes.

    Args:
        readers: functions that return the codes of an operand in the step's layout.
        step: a step that was made for the shapes of the operands.
        result: a function that makes the tensor from the codes of the step.
    """

    __slots__ = ("readers", "result", "step")

    def __init__(
        self, readers: tuple[Reader, ...], step: Run, result: "Result"
    ) -> None:
        self.readers, self.step, self.result = readers, step, result

    def __call__(self, *tensors: QuantizedTensor) -> QuantizedTensor:
        """Return the result for tensors of the bound types, shapes and grids."""
        codes = map(Reader.__call__, self.readers, tensors)
        return self.result(self.step(*codes))


class BoundProduct:
    """A call that runs one compiled step with packed constant weights.

    Args:
        reader: a function that returns the codes of the operand that is not constant.
        pack: a function that makes the step of weights and a bias, or None if no kernel
            can compute it.
        result: a function that makes the tensor from the codes of the step.
        otherwise: a function that computes the result of all operands without a step.
    """

    __slots__ = ("otherwise", "pack", "reader", "result")

    def __init__(
        self,
        reader: Reader,
        pack: Callable[..., Run | None],
        result: "Result",
        otherwise: Run,
    ) -> None:
        self.reader, self.pack = reader, pack
        self.result, self.otherwise = result, otherwise

    def __call__(
        self, x: QuantizedTensor, *weights: QuantizedTensor
    ) -> QuantizedTensor:
        """Return the product with the current elements of the weights."""
        step = reuse_or_pack(self.pack, *weights)
        if step is None:
            found: QuantizedTensor = self.otherwise(x, *weights)
            return found
        return self.result(step(self.reader(x)))


class Result:
    """A function that makes a tensor from the codes that a step returns.

    Args:
        kind: the type of the tensor.
        grid: the grid of the tensor, with the rounding rule of the codes.
        is_image: whether the codes are stored channels last.
        is_signed: whether the step returns codes plus 128, as bytes.
    """

    __slots__ = ("grid", "is_image", "is_signed", "kind", "rule")

    def __init__(
        self,
        kind: type[Tensor],
        grid: QParams,
        is_image: bool,
        is_signed: bool,
    ):
        # `trusted` takes a grid without a rule, and the rule for the tensor.
        self.kind, self.grid, self.rule = kind, grid.rounded(None), grid.rounding
        self.is_image, self.is_signed = is_image, is_signed

    def __call__(self, codes: npt.NDArray[Any]) -> QuantizedTensor:
        """Return the tensor of a new array, which is changed in place."""
        if self.is_signed:
            # The array is fresh, so it can be changed in place.
            codes ^= FLIP
            codes = codes.view(np.int8)
        if self.is_image:
            codes = codes.transpose(0, 3, 1, 2)
        return wrap_codes(self.kind, codes, self.grid, self.rule)


def bind_step(
    step: Step,
    *xs: QuantizedTensor,
    grid: QParams,
    is_image: bool = False,
    shape: tuple[int, ...] | None = None,
) -> BoundCall:
    """Return the bound call of a step of codes.

    Args:
        step: a step that was made for the grids of `xs`, and `grid`.
        xs: tensors of the call; the result does not hold them.
        grid: the grid of the result.
        is_image: whether the step reads and writes channels last.
        shape: the shape to which `xs` are broadcast, if their shapes differ.
    """
    readers = (*(Reader(type(x), is_image, shape) for x in xs),)
    shapes = [as_image(shape or x.shape) if is_image else shape or x.shape for x in xs]
    return BoundCall(readers, step.bound(*shapes), result_on(grid, is_image))


def bind_product(
    prepare: Callable[..., Step | None],
    x: QuantizedTensor,
    grid: QParams,
    otherwise: Run,
    is_image: bool = False,
) -> BoundProduct:
    """Return the bound call of codes with constant weights.

    Args:
        prepare: a function that makes the step of weights and a bias, or None if no
            kernel can compute it.
        x: the tensor that is not constant; the result does not hold it.
        grid: the grid of the result.
        otherwise: a function that computes the result if there is no step.
        is_image: whether the step reads and writes channels last.
    """
    shape = as_image(x.shape) if is_image else x.shape

    def pack(w: QuantizedTensor, b: QuantizedTensor | None = None) -> Run | None:
        step = prepare(w, b)
        return None if step is None else step.bound(shape)

    reader, result = Reader(type(x), is_image), result_on(grid, is_image)
    return BoundProduct(reader, pack, result, otherwise)


def as_image(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return [n, c, h, w] as [n, h, w, c]."""
    n, c, h, w = shape
    return n, h, w, c


def result_on(grid: QParams, is_image: bool = False) -> Result:
    """Return the function that makes tensors on `grid` from codes of a step."""
    return Result(leaf(grid.dtype), grid, is_image, bool(OFFSETS.get(grid.dtype)))
