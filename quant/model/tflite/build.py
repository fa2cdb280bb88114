"""State of a graph while a TFLite file is read: layouts, codes and results.

A file stores images as [n, h, w, c]; mdtensor's windows slide over [n, c, h, w]. So a
value of four axes may have two forms: rows, as in the file, and an image. A reader asks
for the form that it needs, and the form is made only then. Results of convolutions are
images, and elementwise operations keep the form of their input, so that a network is
transposed where it begins and where it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import mdtensor as md
from mdtensor.quant.generics import dequantize, quantize, requantize
from mdtensor.quant.model.onnx.build import Builder, Operator
from mdtensor.quant.model.tflite.activations import on_codes, on_numbers
from mdtensor.quant.model.tflite.elements import constant_of, grid_of
from mdtensor.quant.model.tflite.file import FileGraph, FileTensor
from mdtensor.quant.qparams import QParams

#: The order of axes that makes an image of rows, and its inverse.
TO_IMAGE, TO_ROWS = (0, 3, 1, 2), (0, 2, 3, 1)
#: Where an axis of rows is in an image.
IN_IMAGE = (0, 2, 3, 1)


@dataclass(frozen=True)
class Call(Operator):
    """An operator of a TFLite file.

    Args:
        number: its position in the file.
        results: the tensors of its outputs.
        custom: the options of a custom operator, as bytes.
        within: the name of the operator that calls the graph of this one.
    """

    number: int = 0
    results: tuple[FileTensor, ...] = ()
    custom: bytes = b""
    within: str = ""

    def __str__(self) -> str:
        place = f" in a graph of {self.within}" if self.within else ""
        return f"operator {self.kind} of node {self.number}{place}"

    def operand(self, index: int) -> str:
        """Return the name of an input that must not be omitted.

        Raises:
            ModelError: the input is omitted.
        """
        name = self.input(index)
        if name is None:
            raise self.error(f"does not have input {index}", "Export it again")
        return name

    @property
    def operands(self) -> list[str]:
        """Return the names of all inputs, none of which may be omitted.

        Raises:
            ModelError: an input is omitted.
        """
        return [self.operand(index) for index in range(len(self.inputs))]


def _read_nothing(g: Any, op: Call) -> None:
    """Raise for an operator in a graph that nothing reads."""
    raise op.error("is in a graph that is called, which is not supported")


# Forms are made on demand: no rewrite has to remove transposes (decision 0057).
@dataclass
class Reading:
    """The part of a TFLite graph that has been read so far.

    Args:
        builder: the graph so far. Values that are only images are not in it by the name
            that they have in the file.
        tensors: the tensors of the file, by the name of their value.
        handles: the variable that a value stands for, by the name of the value.
        variables: the value of each variable so far.
        states: the input of the model for each variable that is read before it is set.
        graphs: all graphs of the file.
        read: reads one operator; for the graphs that operators call.
        depth: how many operators around the present one call a graph.
        inner_constants: the names of the constants of graphs that operators call, by
            the graph and the place of the tensor.
    """

    builder: Builder
    tensors: dict[str, FileTensor] = field(default_factory=dict)
    handles: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    graphs: Sequence[FileGraph] = ()
    read: Callable[[Any, Call], None] = _read_nothing
    depth: int = 0
    inner_constants: dict[tuple[int, int], str] = field(default_factory=dict)
    _images: dict[str, str] = field(default_factory=dict, init=False)
    _rows: dict[str, str] = field(default_factory=dict, init=False)
    _reals: dict[str, str] = field(default_factory=dict, init=False)

    # The form of values.

    def has_value(self, name: str) -> bool:
        """Return whether a value is an input, or was entered or computed."""
        known = self.builder.specs, self._images, self.handles
        return any(name in names for names in known)

    def enter(self, name: str) -> bool:
        """Add a constant of the file unless it is there; return whether it exists."""
        if self.has_value(name):
            return True
        tensor = self.tensors[name]
        if tensor.data is None and 0 not in tensor.shape:
            return False
        self.builder.constant(name, constant_of(tensor, self.builder.spending))
        return True

    def has_image(self, name: str) -> bool:
        """Return whether a value was computed as an image."""
        return name in self._images and name not in self._rows

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a value as the file has it."""
        if name in self.builder.specs:
            return self.builder.shape(name)
        n, c, h, w = self.builder.shape(self._images[name])
        return n, h, w, c

    def grid(self, name: str) -> QParams | None:
        """Return the grid of a value, or None."""
        at = name if name in self.builder.specs else self._images[name]
        found: QParams | None = self.builder.specs[at].qparams
        return found

    def dtype(self, name: str) -> Any:
        """Return the element type of a value."""
        at = name if name in self.builder.specs else self._images[name]
        return self.builder.specs[at].dtype

    def rows(self, name: str) -> str:
        """Return a value in the order of the file, [n, h, w, c]."""
        if name in self.builder.specs:
            return name
        image = self._images[name]
        op = Operator("layout", f"{name}.rows", (image,), (name,), {}, 0)
        n, c, h, w = self.builder.shape(image)
        if (h, w) == (1, 1):
            return self.builder.call(op, md.reshape, image, shape=(n, 1, 1, c))
        return self.builder.call(op, md.permute_dims, image, axes=TO_ROWS)

    def image(self, name: str) -> str:
        """Return a value of four axes as an image, [n, c, h, w]."""
        if name not in self._images:
            self._rows[name] = name
            made = self.builder.fresh(f"{name}.image")
            op = Operator("layout", made, (name,), (made,), {}, 0)
            self._images[name] = self.builder.call(
                op, md.permute_dims, name, axes=TO_IMAGE
            )
        return self._images[name]

    def form(self, name: str, is_image: bool) -> str:
        """Return a value in one of its two forms."""
        return self.image(name) if is_image else self.rows(name)

    def real(self, value: str) -> str:
        """Return the numbers of a value of the graph: codes are dequantized."""
        if self.builder.specs[value].qparams is None:
            return value
        if value not in self._reals:
            made = self.builder.fresh(f"{value}.real")
            op = Operator("dequantize", made, (value,), (made,), {}, 0)
            self._reals[value] = self.builder.call(op, dequantize, value)
        return self._reals[value]

    # Results. Operators on codes become QDQ, as ONNX's do (decision 0039).

    def write(
        self,
        op: Call,
        operation: Any,
        *inputs: Any,
        is_image: bool = False,
        at: int = 0,
        **options: Any,
    ) -> None:
        """Add the nodes of a result: the operation, its activation, the rounding.

        Args:
            op: the operator.
            operation: the operation on numbers.
            inputs: values of the graph, and other arguments.
            is_image: whether the result is an image.
            at: the number of the result.
            options: options of the operation.
        """
        grid = grid_of(op.results[at])
        chain = [(operation, inputs, options)]
        if grid is None:
            chain += on_numbers(op)
        else:
            chain += [(quantize, (), {"qparams": grid}), *on_codes(op, grid)]
        self._chain(op, at, chain, is_image)

    def move(
        self,
        op: Call,
        operation: Any,
        *inputs: Any,
        is_image: bool = False,
        at: int = 0,
        like: str | None = None,
        **options: Any,
    ) -> None:
        """Add the nodes of a result whose elements are those of the inputs, or fewer.

        Codes stay codes; if the file has another grid for the result, they are
        requantized.

        Args:
            op, operation, inputs, is_image, at, options: as for `write`.
            like: the value whose grid the elements have; by default the first one.
        """
        before = self.builder.specs[like or inputs[0]].qparams
        grid = grid_of(op.results[at])
        chain = [(operation, inputs, options)]
        if before is None and grid is not None:
            chain.append((quantize, (), {"qparams": grid}))
        elif before is not None and grid is not None and grid != before:
            chain.append((requantize, (), {"out": grid}))
        elif before is not None and grid is None:
            chain.append((dequantize, (), {}))
        chain += on_numbers(op) if grid is None else on_codes(op, grid)
        self._chain(op, at, chain, is_image)

    def alias(self, op: Call, name: str) -> None:
        """Give a result the elements of another value, in the form that it has."""
        is_image = self.has_image(name)
        value = self.form(name, is_image)
        self.move(op, md.astype, value, self.dtype(name), is_image=is_image)

    def _chain(self, op: Call, at: int, chain: Sequence[Any], is_image: bool) -> None:
        """Add calls, each on the result of the one before; the last one is named."""
        output = op.outputs[at]
        target = self.builder.fresh(f"{output}.image") if is_image else output
        value, name = "", op.name if at == 0 else f"{op.name}.{at}"
        for number, (operation, inputs, options) in enumerate(chain):
            is_last = number == len(chain) - 1
            stem = f"{output}.{operation.__name__}"
            made = target if is_last else self.builder.fresh(stem)
            given = inputs if number == 0 else (value, *inputs)
            named = name if number == 0 else f"{name}.{operation.__name__}"
            call = replace(op, name=named, outputs=(made,))
            value = self.builder.call(call, operation, *given, **options)
        if is_image:
            self._images[output] = target
