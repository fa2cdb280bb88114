"""Quantized calls are bound once: a call that was checked before only runs.

    key     types, shapes, grids, options, rule of rounding, instruction set
    miss    the method checks the call, chooses a kernel, and returns what runs
    hit     that runs, after a comparison of constant weights with the packed ones

A method under `@bound` computes nothing. It returns a function of its tensors: a
`BoundCall` or a `BoundProduct`, where a compiled step does the work, or any other.
What it has checked is not checked again. Nothing that it returns may hold a tensor of
the call, because it outlives them.
"""

from collections.abc import Callable, Hashable
from functools import wraps
from threading import Lock
from types import NoneType
from typing import Any

import numpy as np

from mdtensor import Tensor, leaf
from mdtensor.kernels.cpu.kernel_set import CHOSEN
from mdtensor.quant.codes import FLIP, OFFSETS, Reader
from mdtensor.quant.ops.kernels import packed
from mdtensor.quant.qparams import QParams
from mdtensor.quant.rules import CURRENT
from mdtensor.quant.tensor import QuantizedTensor, wrap_codes

Run = Callable[..., Any]
#: Calls that are remembered; for a new one the oldest goes.
MOST = 1024
#: A call on grids with more scales is bound each time, so that no key is large.
MOST_SCALES = 4096
#: Types of options that never change and are told apart by type and value.
_PLAIN = frozenset({int, float, bool, str, NoneType})
_OF_BUFFER = Tensor.shape
_CALLS: dict[Hashable, Run] = {}
_LOCK = Lock()


# What a call has checked stays true for its types, shapes, grids and options, so the
# next such call only runs (decision 0048).
def bound(bind: Callable[..., Run]) -> Callable[..., Any]:
    """Return the method that binds a call by `bind`, once, and runs it.

    Args:
        bind: has the parameters of the method; raises for a wrong call, and returns
            the function of the tensors that computes the result.
    """

    @wraps(bind)
    def run(*tensors: Any, **options: Any) -> Any:
        key = key_of(bind, tensors, options)
        # Without a lock: a dict answers one question of many threads at a time.
        call = _CALLS.get(key)
        if call is None:
            call = bind(*tensors, **options)
            _remember(key, call, *tensors, *options.values())
        return call(*tensors)

    return run


# Elements are no part of the key: what depends on them runs at each call
# (decision 0048).
def key_of(bind: Run, tensors: Any, options: dict[str, Any]) -> Hashable:
    """Return all that a call depends on but the elements; None if it is not bound.

    Grids are told apart by value, since equal ones are made again and again.
    """
    key = [bind, CURRENT.get(), CHOSEN.get().name, *options]
    for x in tensors:
        kind = type(x)
        key.append(kind)
        if x is None:
            continue
        # Packed codes have a shape of their own; of other tensors it is the buffer's.
        key.append(x.buffer.shape if kind.shape is _OF_BUFFER else x.shape)
        if isinstance(x, QuantizedTensor):
            key.append(x.qparams.key)
    for option in options.values():
        kind = type(option)
        if kind is QParams:
            key += option.key, option.rounding
        elif kind in _PLAIN:
            # 1, 1.0 and True are equal, and not the same stride.
            key += kind, option
        elif kind is tuple and _PLAIN.issuperset(map(type, option)):
            key += (*map(type, option), option)
        else:
            return None
    return tuple(key)


def _remember(key: Hashable, call: Run, *given: Any) -> None:
    """Enter a call, unless it cannot have a key or has a large one."""
    grids = [x for x in given if isinstance(x, QParams)]
    grids += [x.qparams for x in given if isinstance(x, QuantizedTensor)]
    if key is None or any(grid.scale.size > MOST_SCALES for grid in grids):
        return
    with _LOCK:
        while len(_CALLS) >= MOST:
            del _CALLS[next(iter(_CALLS))]
        _CALLS[key] = call


class BoundCall:
    """A call whose work is one compiled step of codes.

    Args:
        readers: give the codes of each operand as the step takes them.
        step: made for the shapes of the operands.
        result: makes the tensor of what the step returns.
    """

    __slots__ = ("readers", "result", "step")

    def __init__(
        self, readers: tuple[Reader, ...], step: Run, result: "Result"
    ) -> None:
        self.readers, self.step, self.result = readers, step, result

    def __call__(self, *tensors: Any) -> Any:
        """Return the result for tensors of the types, shapes and grids bound."""
        codes = map(Reader.__call__, self.readers, tensors)
        return self.result(self.step(*codes))


class BoundProduct:
    """A call whose work is one compiled step that constant weights are packed in.

    Args:
        reader: gives the codes of the operand that is not constant.
        pack: makes the step of weights and a bias; None if no kernel holds them.
        result: makes the tensor of what the step returns.
        otherwise: computes the result of all operands where there is no step.
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

    def __call__(self, x: Any, *weights: Any) -> Any:
        """Return the product with the weights as they are now."""
        step = packed(self.pack, *weights)
        if step is None:
            return self.otherwise(x, *weights)
        return self.result(step(self.reader(x)))


class Result:
    """How a tensor is made of the codes that a step returns.

    Args:
        kind: the type of the tensor.
        grid: carries the rule by which the codes are rounded.
        is_image: codes lie channels last.
        is_signed: the step gives codes plus 128, as bytes.
    """

    __slots__ = ("grid", "is_image", "is_signed", "kind", "rule")

    def __init__(self, kind: Any, grid: QParams, is_image: bool, is_signed: bool):
        self.kind, self.grid, self.rule = kind, grid.rounded(None), grid.rounding
        self.is_image, self.is_signed = is_image, is_signed

    def __call__(self, codes: Any) -> Any:
        """Return the tensor of a fresh array."""
        if self.is_signed:
            codes ^= FLIP
            codes = codes.view(np.int8)
        if self.is_image:
            codes = codes.transpose(0, 3, 1, 2)
        return wrap_codes(self.kind, codes, self.grid, self.rule)


def bound_step(
    step: Any, *xs: Any, grid: QParams, is_image: bool = False, shape: Any = None
) -> BoundCall:
    """Return the bound call of a step of codes.

    Args:
        step: made for the grids of `xs`, and `grid`.
        xs: tensors of the call; none is held.
        grid: of the result.
        is_image: the step takes and gives channels last.
        shape: to which `xs` are broadcast, if their shapes differ.
    """
    readers = (*(Reader(type(x), is_image, shape) for x in xs),)
    shapes = [as_image(shape or x.shape) if is_image else shape or x.shape for x in xs]
    return BoundCall(readers, step.bound(*shapes), result_on(grid, is_image))


def bound_product(
    prepare: Callable[..., Any],
    x: Any,
    grid: QParams,
    otherwise: Run,
    is_image: bool = False,
) -> BoundProduct:
    """Return the bound call of codes with constant weights.

    Args:
        prepare: makes the step of weights and a bias; None if no kernel holds it.
        x: the tensor that is not constant; not held.
        grid: of the result.
        otherwise: computes the result where there is no step.
        is_image: the step takes and gives channels last.
    """
    shape = as_image(x.shape) if is_image else x.shape

    def pack(w: Any, b: Any = None) -> Run | None:
        step = prepare(w, b)
        return None if step is None else step.bound(shape)

    reader, result = Reader(type(x), is_image), result_on(grid, is_image)
    return BoundProduct(reader, pack, result, otherwise)


def as_image(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return [n, c, h, w] as [n, h, w, c]."""
    n, c, h, w = shape
    return n, h, w, c


def result_on(grid: QParams, is_image: bool = False) -> Result:
    """Return how the step of a call makes tensors on `grid`."""
    return Result(leaf(grid.dtype), grid, is_image, bool(OFFSETS.get(grid.dtype)))
