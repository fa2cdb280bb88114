"""Arguments of a model call, validated against the inputs of its graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import index
from typing import Any

import numpy as np

from mdtensor.errors import DataError, MdtensorError, shown, type_and_shape, written
from mdtensor.graph.calls import Output
from mdtensor.ops.conversion import asarray
from mdtensor.spec.shapes import DYNAMIC
from mdtensor.spec.spec import TensorSpec
from mdtensor.tensor import Tensor


def each(samples: Any, inputs: Mapping[str, TensorSpec]) -> Iterator[Any]:
    """Yield one sample after the other.

    Args:
        samples: an iterable of samples; or all samples in one array for the only input,
            or in a dict of arrays by name, which are split along their first axis.
        inputs: type and shape of each input.

    Raises:
        DataError: the samples are not iterable; one array is given for several inputs,
            or for an input with a single axis; or a dict has other names, or different
            numbers of samples.
    """
    if isinstance(samples, (Tensor, np.ndarray)):
        if len(inputs) != 1:
            raise DataError(
                f"the samples are one {type_and_shape(samples)}, and the model has "
                f"{len(inputs)} inputs",
                f"Give a dict of arrays for {_listed(inputs)}",
            )
        (spec,) = inputs.values()
        # With a single axis, its elements would pass for samples.
        if spec.shape == (DYNAMIC,) and samples.ndim == 1:
            raise DataError(
                f"the samples are one {type_and_shape(samples)}, which may be one "
                "sample or many",
                "Give [x] for one sample, or a list of arrays",
            )
        return _steps(samples, spec)
    if isinstance(samples, Mapping):
        return split_together(samples, inputs)
    try:
        return iter(samples)
    except TypeError:
        problem = f"the samples are {shown(samples)}"
        raise DataError(
            problem, "Give an array, or a list of arrays or dicts"
        ) from None


def split_together(
    arrays: Mapping[str, Any], inputs: Mapping[str, TensorSpec]
) -> Iterator[dict[str, Any]]:
    """Yield samples from one array for each input, all split along their first axis.

    Raises:
        DataError: the names are not those of the inputs, or the arrays have different
            numbers of samples.
    """
    if set(arrays) != set(inputs):
        raise DataError(
            f"the model has the inputs {_listed(inputs)}, but got {_listed(arrays)}",
            "Give an array of samples for each",
        )
    parts = {name: list(_steps(arrays[name], inputs[name])) for name in inputs}
    if len({len(found) for found in parts.values()}) > 1:
        listed = ", ".join(f"{len(found)} for {n!r}" for n, found in parts.items())
        raise DataError(
            f"different numbers of samples: {listed}",
            "Pass the same number of samples for each input",
        )
    for found in zip(*parts.values(), strict=True):
        yield dict(zip(parts, found, strict=True))


def split_samples(array: Any, inputs: Mapping[str, TensorSpec]) -> Iterator[Any]:
    """Yield the samples of the only input from one array, see `each`."""
    (spec,) = inputs.values()
    return _steps(array, spec)


def _steps(array: Any, spec: TensorSpec) -> Iterator[Any]:
    """Yield the samples along the first axis of an array, or the array as a sample."""
    wanted, shape = spec.shape, np.shape(array)
    # A first size of 1 or unknown is a batch axis, so the array may hold many samples.
    if wanted and wanted[0] in (1, DYNAMIC) and len(shape) == len(wanted):
        return (array[i : i + 1] for i in range(shape[0]))
    if len(shape) == len(wanted) + 1 and _fits(shape[1:], wanted):
        return (array[i] for i in range(shape[0]))
    return iter([array])


def fed(inputs: Mapping[str, TensorSpec], given: Any) -> dict[str, Any]:
    """Return a tensor for each input; `given` is for the only input, or by name.

    Raises:
        DataError: an input is missing, unknown, or of another type or shape.
    """
    if not isinstance(given, Mapping):
        if len(inputs) != 1:
            raise DataError(
                f"got one array, but the model has {len(inputs)} inputs",
                f"Give an array for each by name: {', '.join(inputs) or 'none'}",
            )
        given = dict.fromkeys(inputs, given)
    return checked_feeds(inputs, given)


def by_name(
    specs: Mapping[str, TensorSpec], inputs: tuple[Any, ...], named: dict[str, Any]
) -> dict[str, Any]:
    """Return the arguments of a call by the names of the inputs.

    Raises:
        DataError: there are too many, or one is given twice, or dicts in the wrong way.
    """
    if len(inputs) == 1 and isinstance(inputs[0], Mapping):
        # Input names in files often are not Python identifiers (`input.1`), so a
        # dict must work as well as keywords.
        named = {**inputs[0], **named}
        inputs = ()
    if len(inputs) > len(specs):
        raise DataError(
            f"{len(inputs)} inputs given, but the model has {len(specs)}",
            f"It has {', '.join(map(repr, specs)) or 'none'}",
        )
    if any(isinstance(one, Mapping) for one in inputs):
        raise DataError("inputs are given as a dict", "Use model(**inputs)")
    placed = dict(zip(specs, inputs, strict=False))
    for name in placed.keys() & named.keys():
        raise DataError(f"input {name!r} is given twice", "Give it once")
    return {**placed, **named}


def checked_feeds(
    inputs: Mapping[str, TensorSpec], feeds: Mapping[str, Any], records: bool = False
) -> dict[str, Any]:
    """Convert `feeds` to a tensor for each input, by name.

    Args: records: whether lazy tensors may be inputs, because calls record them.

    Raises:
        DataError: an input is missing, unknown, or of another type or shape.
    """
    if set(feeds) != set(inputs):
        if len(inputs) == 1:
            problem = f"the model takes 1 input, {_listed(inputs)}, and got "
            fix = f"Pass one array for {_listed(inputs)}"
            raise DataError(f"{problem}{_listed(feeds)}", fix)
        raise DataError(
            f"the model has the inputs {_listed(inputs)}, but got {_listed(feeds)}",
            "Give each of them once, in this order",
        )
    return {
        name: _checked(name, spec, feeds[name], records)
        for name, spec in inputs.items()
    }


def is_lazy(x: Any) -> bool:
    """Return whether x, or an array in a dict of arrays, is a lazy tensor."""
    if isinstance(x, dict):
        return any(map(is_lazy, x.values()))
    return isinstance(x, Tensor) and isinstance(x.buffer, Output)


def is_unchanged(given: Any, tensor: Any) -> bool:
    """Return whether `tensor` is `given`, or has `given` as its buffer."""
    return tensor is given or tensor.buffer is given


def _checked(name: str, spec: TensorSpec, value: Any, records: bool) -> Any:
    try:
        tensor = asarray(value)
    except (MdtensorError, TypeError, ValueError):
        raise DataError(
            f"input {name!r} must be {spec}, but is {type_and_shape(value)}",
            f"Give an array of {spec.dtype}",
        ) from None
    found = tensor.buffer.spec.type if records and is_lazy(tensor) else type(tensor)
    if found is not spec.type or not _fits(tensor.shape, spec.shape):
        raise DataError(
            f"input {name!r} must be {spec}, but is {type_and_shape(tensor)}",
            _remedy(tensor, spec),
        )
    return tensor


def _remedy(tensor: Any, spec: TensorSpec) -> str:
    if type(tensor) is not spec.type:
        return f"Give an array of {spec.dtype}"
    if DYNAMIC in spec.shape:
        return "Give an array of that shape; -1 is any size"
    if spec.ndim and tensor.shape[1:] == spec.shape[1:]:
        return (
            f"Give {spec.shape[0]} at a time, or leave the first size open, in "
            f"the file and in {written('input_shapes')}"
        )
    return "Give an array of that shape"


def _fits(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    if len(shape) != len(wanted):
        return False
    pairs = zip(shape, wanted, strict=True)
    return all(want in (size, DYNAMIC) for size, want in pairs)


def _listed(names: Mapping[str, Any]) -> str:
    return ", ".join(map(repr, names)) or "none"


# The shapes that a caller chooses for the inputs of a model, checked against them.

Shape = tuple[int, ...]
Shapes = Mapping[str, Sequence[int]] | Sequence[int]


def chosen(inputs: Mapping[str, TensorSpec], given: Shapes | None) -> dict[str, Shape]:
    """Return a shape for each input: its own, with the sizes chosen by the caller.

    Args:
        inputs: type and shape of each; -1 is any size.
        given: a shape for each input by name, or for the only input. Sizes of -1,
            and inputs that you do not name, stay as they are.

    Raises:
        DataError: an input does not exist; one shape is given for several inputs; a
            shape is not valid or has another number of sizes; or a fixed size would
            change.
    """
    wanted = _by_name(inputs, given)
    return {
        name: _joined(name, spec, wanted[name]) if name in wanted else spec.shape
        for name, spec in inputs.items()
    }


#: Sizes in examples of shapes: one sample, and a size that most networks accept.
_BATCH, _SIZE = 1, 64


def shapes_example(inputs: Mapping[str, TensorSpec]) -> str:
    """Return the argument that fixes all dynamic sizes, as a caller may write it.

    Example:
        >>> import mdtensor as md
        >>> shapes_example({"x": md.TensorSpec(md.Float32Tensor, (-1, 3, 8, 8))})
        "input_shapes={'x': (1, 3, 8, 8)}"
    """
    found = {}
    for name, spec in inputs.items():
        likely = [_BATCH if axis == 0 else _SIZE for axis in range(spec.ndim)]
        pairs = zip(map(int, spec.shape), likely, strict=True)
        shape = tuple(guess if size == DYNAMIC else size for size, guess in pairs)
        if DYNAMIC in map(int, spec.shape):
            found[name] = shape
    return written("input_shapes", found) if found else written("input_shapes")


def require_inputs(
    inputs: Mapping[str, TensorSpec], given: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return `given` if each of its names is an input.

    Raises:
        DataError: a name is not.
    """
    for name in given:
        if name not in inputs:
            problem = f"the model does not have an input {shown(name)}"
            raise DataError(problem, f"Inputs are {_listed(inputs)}")
    return given


def _by_name(inputs: Mapping[str, TensorSpec], given: Any) -> Mapping[str, Any]:
    listed = ", ".join(map(repr, inputs)) or "none"
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return require_inputs(inputs, given)
    if len(inputs) != 1:
        raise DataError(
            f"got one shape, but the inputs are {listed}",
            "Give a shape for each, by name",
        )
    return dict.fromkeys(inputs, given)


def _joined(name: str, spec: TensorSpec, wanted: Any) -> Shape:
    """Replace the dynamic sizes of an input by the sizes wanted; return the shape."""
    start = f"input {name!r} has shape {spec.shape}, you chose"
    try:
        sizes = tuple(map(_size, _not_array(wanted)))
    except TypeError:
        problem = f"{start} {shown(wanted)}"
        raise DataError(problem, _shape_remedy(spec, wanted)) from None
    problem = f"{start} {sizes}"
    if len(sizes) != spec.ndim:
        raise DataError(problem, f"Give {spec.ndim} sizes, not {len(sizes)}")
    if not all(map(_shape_fits, sizes, spec.shape)):
        raise DataError(problem, "Only sizes of -1 can be chosen")
    return tuple(map(max, sizes, spec.shape))


def _shape_remedy(spec: TensorSpec, wanted: Any) -> str:
    shape = getattr(wanted, "shape", None)
    # A sample in place of its shape is the usual mistake; its own shape may not fit.
    if not isinstance(shape, tuple) or len(shape) != spec.ndim:
        kind = "integers" if shape is None else "integers in a tuple, not an array"
        return f"Give {spec.ndim} {kind}"
    if not all(map(_shape_fits, shape, spec.shape)):
        return f"Give {spec.ndim} integers, the sizes, not an array"
    return f"Give the shape of the array, {shape}"


def _not_array(wanted: Any) -> Any:
    # A row of integers may be a sample of tokens as well as sizes.
    if getattr(wanted, "ndim", 0) > 0:
        raise TypeError
    return wanted


def _size(value: Any) -> int:
    # True for a size is a mistake, though Python counts it as 1.
    if isinstance(value, bool):
        raise TypeError
    return index(value)


def _shape_fits(wanted: int, size: int) -> bool:
    return wanted in (size, DYNAMIC) or (size == DYNAMIC and wanted >= 0)


# Inputs that the caller fixes when a model is loaded.


def constant_inputs(
    inputs: Mapping[str, TensorSpec], given: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return an array for each input that the caller fixes, in the input's type.

    Args:
        inputs: type and shape of each; -1 is any size.
        given: an array or a number by name. A number stands for an array whose sizes
            all are 1.

    Raises:
        DataError: an input does not exist, or the value does not have its type or
            shape.
    """
    if not isinstance(given, Mapping | None):
        problem = f"{written('constants')} is {shown(given)}"
        raise DataError(problem, "Give a dict of numbers or arrays by name")
    known = require_inputs(inputs, given or {})
    return {name: _constant(name, inputs[name], x) for name, x in known.items()}


def _constant(name: str, spec: TensorSpec, value: Any) -> Any:
    """Return a value as an array of an input's type and shape."""
    start = f"{written('constants')} gives {shown(value)} for the input {name!r}"
    try:
        array = np.asarray(value)
        typed = array.astype(spec.dtype.storage)
    except (TypeError, ValueError, OverflowError):
        raise DataError(start, f"Give numbers of {spec.dtype}") from None
    # The largest integers are compared as floats otherwise.
    if not np.array_equal(typed.astype(object), array.astype(object)):
        problem = f"{start}, which {spec.dtype} does not represent"
        raise DataError(problem, f"Give numbers of {spec.dtype}")
    sizes = set(map(int, spec.shape))
    if not typed.ndim and sizes <= {1, DYNAMIC}:
        typed = typed.reshape((1,) * spec.ndim)
    if not _fits(typed.shape, spec.shape):
        problem = f"{start}, of shape {typed.shape}; the input has shape {spec.shape}"
        raise DataError(problem, "Give an array of that shape; -1 is any size")
    return typed
