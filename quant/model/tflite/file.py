"""TFLite files as Python objects: graphs, operators, tensors, checked numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.errors import ModelError
from mdtensor.extend import file_path
from mdtensor.quant.model.onnx.build import as_model_error
from mdtensor.quant.model.tflite.layout import OPTIONS, check_layout

Array = npt.NDArray[Any]
#: The largest rank that NumPy has.
MOST_AXES = 32
#: Where the vtable of an operator code has the place of its field builtin_code.
BUILTIN_CODE = 10


@dataclass(frozen=True)
class Dimension:
    """One level of a sparse tensor.

    Args:
        size: how many entries each parent has; None if only some are stored.
        segments: where the entries of each parent begin, and the last one ends.
        indices: the index of each entry.
    """

    size: int | None
    segments: Array
    indices: Array


@dataclass(frozen=True)
class Sparsity:
    """How the elements of a sparse tensor are stored, see `sparse.densify`."""

    order: tuple[int, ...]
    blocks: tuple[int, ...]
    levels: tuple[Dimension, ...]


@dataclass(frozen=True)
class FileTensor:
    """A tensor of a file, before it becomes a value of a graph.

    Args:
        name: its name in the file, which need not be unique.
        shape: its sizes.
        signature: its sizes with -1 for each that may change; empty if the file does
            not say so.
        kind: the number of its element type in the format, `tflite.TensorType`.
        data: the bytes of a constant, or None.
        scales, zeros: the grid of its codes; empty if it has none.
        axis: the axis of several scales.
        sparsity: how a sparse constant is stored, or None.
    """

    name: str
    shape: tuple[int, ...]
    signature: tuple[int, ...]
    kind: int
    data: Array | None
    scales: Array
    zeros: Array
    axis: int
    sparsity: Sparsity | None


@dataclass(frozen=True)
class FileOperator:
    """An operator of a file.

    Args:
        kind: its name in the format, or the name of a custom operator.
        number: its position in its graph.
        version: the version of the operator.
        inputs: positions of tensors; -1 where an optional input is omitted.
        outputs: positions of tensors.
        options: by their names in the schema of the format.
        custom: the options of a custom operator, as bytes.
    """

    kind: str
    number: int
    version: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    custom: bytes = b""


@dataclass(frozen=True)
class FileGraph:
    """A graph of a file: tensors, and operators in the order in which they run."""

    name: str
    tensors: tuple[FileTensor, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: tuple[FileOperator, ...]


def schema() -> Any:
    """Return the package tflite, which has the schema of the format.

    Raises:
        ModelError: the package is not installed.
    """
    # Imported here because the package is an extra that only TFLite files need.
    try:
        import tflite
    except ImportError:
        raise ModelError(
            "reading TFLite files needs the package tflite",
            "Install it with `pip install mdtensor[tflite]`",
        ) from None
    return tflite


def read_file(path: Any) -> tuple[FileGraph, ...]:
    """Return the graphs in a TFLite file; the first one is the model.

    Raises:
        ModelError: the file does not exist, is not a TFLite model, or is damaged.
    """
    place = file_path(path, "path")
    try:
        data = place.read_bytes()
    except FileNotFoundError:
        raise ModelError(f"there is no file {place}", "Check the path") from None
    except OSError as error:
        raise ModelError(f"{place} cannot be read: {error.strerror}") from None
    return graphs_in(data, place)


def graphs_in(data: bytes, what: object) -> tuple[FileGraph, ...]:
    """Return the graphs in the bytes of a TFLite file called `what`.

    Raises:
        ModelError: the bytes are not a TFLite model, or are damaged.
    """
    root = schema().Model
    check_layout(data, what)
    try:
        model = root.GetRootAs(data, 0)
        file, count = _File(data, model, what), model.SubgraphsLength()
        graphs = tuple(map(file.graph, range(count)))
    except ModelError:
        raise
    # Options of another operator have fields that are not checked.
    except Exception as error:
        raise as_model_error(str(what), error) from None
    if not graphs:
        raise ModelError(f"{what} does not contain a graph", "Export it again")
    return graphs


class _File:
    """Conversion of the tables of one file, whose layout is checked."""

    def __init__(self, data: bytes, model: Any, what: object) -> None:
        self._data, self._model, self._what = data, model, what
        names = vars(schema().BuiltinOperator)
        self._kinds = {n: name for name, n in names.items() if isinstance(n, int)}
        names = vars(schema().BuiltinOptions)
        self._options = {n: name for name, n in names.items() if isinstance(n, int)}
        codes = range(model.OperatorCodesLength())
        self._codes = [self._code(model.OperatorCodes(at)) for at in codes]

    def graph(self, number: int) -> FileGraph:
        table = self._model.Subgraphs(number)
        count = table.TensorsLength()
        inputs, outputs = _integers(table, "Inputs"), _integers(table, "Outputs")
        self._require_between(f"an input of graph {number}", inputs, 0, count)
        self._require_between(f"an output of graph {number}", outputs, 0, count)
        return FileGraph(
            _text(table.Name()),
            tuple(self._tensor(table.Tensors(at), at) for at in range(count)),
            inputs,
            outputs,
            tuple(
                self._operator(table.Operators(at), at, count)
                for at in range(table.OperatorsLength())
            ),
        )

    def _code(self, table: Any) -> tuple[str, int]:
        """Return the name and the version of an operator."""
        # Old files have only the older field, and those of ai-edge-quantizer only the
        # newer one.
        number = max(_builtin_code(table), table.DeprecatedBuiltinCode())
        kind = self._kinds.get(number, f"number {number}")
        if kind == "CUSTOM":
            kind = _text(table.CustomCode()) or kind
        return kind, table.Version()

    def _operator(self, table: Any, number: int, count: int) -> FileOperator:
        code = table.OpcodeIndex()
        self._require_between(
            f"the kind of node {number}", (code,), 0, len(self._codes)
        )
        kind, version = self._codes[code]
        inputs, outputs = _integers(table, "Inputs"), _integers(table, "Outputs")
        self._require_between(f"an input of node {number}", inputs, -1, count)
        self._require_between(f"an output of node {number}", outputs, 0, count)
        custom = _array(table, "CustomOptions", np.uint8).tobytes()
        options = self._options_of(table)
        return FileOperator(kind, number, version, inputs, outputs, options, custom)

    def _options_of(self, table: Any) -> dict[str, Any]:
        """Return the options of an operator, by their names in the schema."""
        name, union = (
            self._options.get(table.BuiltinOptionsType(), ""),
            table.BuiltinOptions(),
        )
        kind = getattr(schema(), name, None)
        if union is None or kind is None:
            return {}
        made = kind()
        made.Init(union.Bytes, union.Pos)
        found = {}
        for name, method in vars(kind).items():
            if isinstance(method, classmethod):
                continue
            if f"{name}AsNumpy" in vars(kind):
                # Other vectors are not checked, and no reader needs them.
                if table.BuiltinOptionsType() in OPTIONS:
                    found[name] = _integers(made, name)
            elif name[0].isupper() and name != "Init" and not name.endswith(SKIPPED):
                found[name] = getattr(made, name)()
        return found

    def _tensor(self, table: Any, number: int) -> FileTensor:
        shape = _integers(table, "Shape")
        what = f"the shape of tensor {number}"
        self._require_between(what, shape, 0, 2**31)
        if len(shape) > MOST_AXES:
            raise self._damage(f"{what} has {len(shape)} sizes")
        grid = table.Quantization()
        has_grid = grid is not None
        scales = _array(grid, "Scale", np.float32) if has_grid else np.zeros(0)
        zeros = _array(grid, "ZeroPoint", np.int64) if has_grid else np.zeros(0)
        return FileTensor(
            _text(table.Name()),
            shape,
            _integers(table, "ShapeSignature"),
            table.Type(),
            self._buffer(table.Buffer(), number),
            scales,
            zeros,
            grid.QuantizedDimension() if has_grid else 0,
            _sparsity(table.Sparsity()),
        )

    def _buffer(self, index: int, number: int) -> Array | None:
        """Return the bytes of a constant; None for a tensor that is computed."""
        self._require_between(
            f"the buffer of tensor {number}", (index,), 0, self._model.BuffersLength()
        )
        table = self._model.Buffers(index)
        found = _array(table, "Data", np.uint8)
        # Files of more than 2 GB have their buffers behind the tables.
        start, size = table.Offset(), table.Size()
        if start > 1 and size:
            if start + size > len(self._data):
                raise self._damage(f"buffer {index} ends behind the end of the file")
            found = np.frombuffer(self._data, np.uint8, size, start)
        return found if found.size else None

    def _require_between(
        self, what: str, numbers: tuple[int, ...], low: int, end: int
    ) -> None:
        for number in numbers:
            if not low <= number < end:
                problem = f"{what} is {number}, expected one from {low} to {end - 1}"
                raise self._damage(problem)

    def _damage(self, problem: str) -> ModelError:
        return ModelError(f"{self._what} is damaged: {problem}", "Export it again")


#: The ends of methods that are not options.
SKIPPED = ("AsNumpy", "Length", "IsNone")


def _array(table: Any, name: str, dtype: Any) -> Array:
    """Return a vector of a table; empty if the file does not have it."""
    found = getattr(table, f"{name}AsNumpy")()
    return np.zeros(0, dtype) if isinstance(found, int) else np.asarray(found)


def _builtin_code(table: Any) -> int:
    """Return the field builtin_code, 0 if it is absent.

    The method of the package `tflite` returns the older field for numbers below 127.
    """
    place = table._tab.Offset(BUILTIN_CODE)
    if not place:
        return 0
    start = place + table._tab.Pos
    return int.from_bytes(table._tab.Bytes[start : start + 4], "little", signed=True)


def _integers(table: Any, name: str) -> tuple[int, ...]:
    return tuple(_array(table, name, np.int32).tolist())


def _text(given: Any) -> str:
    """Return a text of a file; bytes that are not UTF-8 are replaced."""
    return "" if given is None else bytes(given).decode(errors="replace")


def _sparsity(table: Any) -> Sparsity | None:
    if table is None:
        return None
    order, blocks = _integers(table, "TraversalOrder"), _integers(table, "BlockMap")
    levels = (table.DimMetadata(at) for at in range(table.DimMetadataLength()))
    return Sparsity(order, blocks, tuple(map(_dimension, levels)))


def _dimension(table: Any) -> Dimension:
    """Return one level of a sparse tensor."""
    if table.Format() == schema().DimensionType.DENSE:
        return Dimension(table.DenseSize(), np.zeros(0, int), np.zeros(0, int))
    segments = _numbers(table.ArraySegmentsType(), table.ArraySegments())
    indices = _numbers(table.ArrayIndicesType(), table.ArrayIndices())
    return Dimension(None, segments, indices)


def _numbers(number: int, union: Any) -> Array:
    """Return the vector in a union of vectors of different widths."""
    tflite = schema()
    names = vars(tflite.SparseIndexVector)
    kinds = {n: name for name, n in names.items() if isinstance(n, int) and n}
    if union is None or number not in kinds:
        return np.zeros(0, np.int64)
    made = getattr(tflite, kinds[number])()
    made.Init(union.Bytes, union.Pos)
    return _array(made, "Values", np.int64).astype(np.int64)
