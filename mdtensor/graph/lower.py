"""Lowering of nodes to compiled steps; neighbouring nodes become one call.

A node becomes a step if the method that dispatch selected for it can `prepare` one.
Every other node runs as an ordinary call between the compiled parts, and its plan says
why. If a product of floats has constant codes, the codes are packed once. Inside a
compiled part, images are stored channels last, see `layouts.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mdtensor.dispatch.settings import settings
from mdtensor.errors import MdtensorError, OptionError
from mdtensor.graph.bound import (
    Called,
    Compiled,
    Direct,
    FloatLayer,
    Part,
    Viewed,
    too_large,
)
from mdtensor.graph.graph import Graph, Node
from mdtensor.graph.layouts import (
    COMMUTATIVE,
    ELEMENTWISE,
    RESHAPES,
    ROW_OPERATIONS,
    VIEWS,
    flat_shape,
    flattened,
    has_two_orders,
    is_codes,
    is_elementwise,
    is_float,
    is_free,
    is_orderless,
    is_plain,
    is_spread,
    moved,
    row_values,
    slot_shape,
    spread,
    storage,
    to_images,
    to_rows,
)
from mdtensor.kernels.cpu.program.program import Program, Slot
from mdtensor.kernels.cpu.program.step import Step
from mdtensor.kernels.cpu.program.steps import Concat, Quantize
from mdtensor.spec.spec import TensorSpec

#: A check of the step of a node; see `lower`.
Accept = Callable[[Node, Sequence[TensorSpec], Any], None]


# A node without a step stays an ordinary call, so that a plan runs exactly the methods
# that dispatch selects (decision 0004). Models and traces are lowered alike
# (decision 0055).
def lower(
    graph: Graph,
    reasons: Mapping[Any, str] | None = None,
    accept: Accept | None = None,
) -> tuple[Part, ...]:
    """Return the parts of `graph` in the order in which they run; shapes are known.

    The parts keep the present settings.

    Args:
        graph: its shapes are known.
        reasons: why operations without a step stay calls, if there is more to say.
        accept: raises an MdtensorError for a step that must not be used, given the
            node, the specs of its inputs that are not constants and of its result, and
            the step; the node stays a call then.
    """
    return _Lowering(graph, reasons or {}, accept).parts()


# Floats and codes are steps of one call (decision 0053).
class _Lowering:
    """A walk over a graph; `_slots` are the values of the part that is being built.

    A slot is found by the name of its value and whether its elements are in rows.
    """

    def __init__(
        self,
        graph: Graph,
        reasons: Mapping[Any, str],
        accept: Accept | None,
    ) -> None:
        self._graph, self._reasons, self._accept = graph, reasons, accept
        self._specs = graph.specs()
        self._rows = row_values(graph, self._specs)
        self._done: list[Part] = []
        self._begin()

    def _begin(self) -> None:
        self._program, self._placed = Program(), 0
        self._slots: dict[tuple[str, bool], Slot] = {}
        self._nodes: list[Node] = []
        self._steps: list[Any] = []
        self._places: list[range] = []
        self._macs: list[int] = []
        self._reads: dict[str, TensorSpec] = {}
        self._in_rows: set[str] = set()

    def parts(self) -> tuple[Part, ...]:
        for index, node in enumerate(self._graph.nodes):
            try:
                self._compile(node)
            except MdtensorError as error:
                self._flush(index)
                self._done.append(self._called(node, error.problem))
            except MemoryError:
                raise too_large((node,)) from None
        self._flush(len(self._graph.nodes))
        return tuple(self._done)

    def _called(self, node: Node, reason: str) -> Called:
        selection = node.select(*node.arguments(self._specs))
        options = selection.operation.fill(dict(node.options))
        reason = self._graph.notes.get(node.name, reason)
        given = (node, selection, options, reason, settings())
        after, is_open = self._specs[node.output], self._is_open(node)
        if node.operation in RESHAPES and is_plain(after) and not is_open:
            return Viewed(*given, after)
        act = None if is_open else self._direct(node, selection, options)
        return Called(*given) if act is None else Direct(*given, after, act)

    def _is_open(self, node: Node) -> bool:
        """Return whether the elements decide about a size of a value of the node."""
        shapes = (self._specs[name].shape for name in (*node.values, node.output))
        return any(min(shape, default=0) < 0 for shape in shapes)

    def _direct(self, node: Node, selection: Any, options: Any) -> Any:
        """Return the function of buffers of a method; None if there is none."""
        specs = [self._specs[name] for name in (*node.values, node.output)]
        if selection.method.direct is None or not all(map(is_plain, specs)):
            return None
        arguments = [self._argument(x) for x in node.inputs]
        return selection.method.direct(specs[-1], *arguments, **options)

    def _compile(self, node: Node) -> None:
        if self._is_open(node):
            # A compiled part has places of known sizes for its values.
            raise OptionError("a size depends on the elements of the inputs")
        arguments = [self._argument(x) for x in node.inputs]
        if node.operation in RESHAPES and self._reshape(node, arguments[0]):
            return
        if node.operation in COMMUTATIVE and _smaller(*arguments):
            node = replace(node, inputs=node.inputs[::-1])
            arguments.reverse()
        selection = node.select(*node.arguments(self._specs))
        prepare = self._accepting(node, selection.method.prepare)
        if prepare is None:
            problem = f"{selection.method} does not have a compiled step"
            is_float = self._specs[node.output].qparams is None
            known = self._reasons if is_float else {}
            raise OptionError(known.get(node.operation, problem))
        declared = selection.operation
        options = declared.fill(dict(node.options))
        parameters = declared.signature.parameters
        omitted = declared.dispatched[len(arguments) :]
        arguments += [parameters[name].default for name in omitted]
        if self._compile_spread(node, prepare, options):
            return
        if self._compile_flat(node, prepare, arguments, options):
            return
        step = prepare(*arguments, **options)
        if not isinstance(step, Step):
            self._flush(self._graph.nodes.index(node))
            self._done.append(FloatLayer(node, selection, step))
            return
        self._append(node, step)

    def _accepting(self, node: Node, prepare: Any) -> Any:
        """Return `prepare`, followed by the check of its step if there is one."""
        accept = self._accept
        if prepare is None or accept is None:
            return prepare
        specs = [self._specs[name] for name in (*self._moving(node), node.output)]

        def prepare_accepted(*arguments: Any, **options: Any) -> Any:
            step = prepare(*arguments, **options)
            accept(node, specs, step)
            return step

        return prepare_accepted

    def _compile_flat(
        self, node: Node, prepare: Any, arguments: list[Any], options: Any
    ) -> bool:
        """Append an elementwise step on values in one order; return whether it is one.

        Images of codes take steps as they are, unless floats are rounded to them.
        """
        values = self._moving(node)
        in_rows = self._is_flat(node, values)
        # Other steps round floats in rows, such as the inputs of a call, to images.
        is_image = self._decodes(node) or (
            self._encodes(node) and (node.values[0], False) in self._slots
        )
        if not (in_rows or is_image):
            return False
        if node.operation in (*ROW_OPERATIONS, *VIEWS):
            return False
        if not is_elementwise(node, self._specs):
            return False
        step = prepare(*map(flattened, arguments), **options)
        if not isinstance(step, ELEMENTWISE) or len(step.input_types) != len(values):
            return False
        slots = [self._slot(x, in_rows) for x in values]
        flat = [self._program.reshape(x, flat_shape(x.shape, x.dtype)) for x in slots]
        result = self._program.append(step, *flat)
        shape = slot_shape(self._specs[node.output], in_rows)
        self._add(node, step, self._program.reshape(result, shape), flat, in_rows)
        return True

    def _is_flat(self, node: Node, values: list[str]) -> bool:
        """Return whether a node reads and writes its values of four axes in rows.

        A result of more axes is in rows, and so is an image that is broadcast to it.
        """
        is_wider = self._specs[node.output].ndim > 4
        has_images = any(has_two_orders(self._specs[name]) for name in values)
        names = (*values, node.output)
        return not self._rows.isdisjoint(names) or (is_wider and has_images)

    def _compile_spread(self, node: Node, prepare: Any, options: Any) -> bool:
        """Append a step on codes that are broadcast first; return whether it is one.

        A constant is an input of the part.
        """
        if not is_spread(node, self._graph, self._specs):
            return False
        after = self._specs[node.output]
        specs = [self._specs[name] for name in node.values]
        step = prepare(*(spec.with_shape(after.shape) for spec in specs), **options)
        names = (*node.values, node.output)
        in_rows = after.ndim != 4 or not self._rows.isdisjoint(names)
        slots = [self._spread(name, after, in_rows) for name in node.values]
        self._add(node, step, self._program.append(step, *slots), slots, in_rows)
        return True

    def _spread(self, name: str, after: TensorSpec, in_rows: bool) -> Slot:
        """Return the slot of a value that is broadcast to the shape of `after`."""
        slot, shape = self._slot(name, in_rows), slot_shape(after, in_rows)
        if slot.shape == shape:
            return slot
        step = spread(shape, not in_rows)
        try:
            found: Slot = self._program.append(step, slot)
        except ValueError as error:
            raise OptionError(str(error).rstrip(".")) from None
        return found

    def _append(self, node: Node, step: Any) -> None:
        """Append a step, with its operands and its result in the order that it takes.

        Raises:
            OptionError: the step reads constant codes.
        """
        values = self._moving(node)
        if not _takes(step, len(values)):
            raise OptionError("a compiled step does not take constant codes here")
        into_rows = node.operation in ROW_OPERATIONS
        from_rows = into_rows or self._encodes(node)
        if node.operation in VIEWS and node.operation not in RESHAPES:
            from_rows, into_rows = self._order(values[0]), node.output in self._rows
            step = moved(step, from_rows, into_rows)
        slots = [self._slot(name, from_rows) for name in values]
        if is_free(step, slots[0].shape):
            shape = slot_shape(self._specs[node.output], into_rows)
            result = self._program.reshape(slots[0], shape)
            self._add(node, None, result, [], into_rows)
            return
        self._add(node, step, self._joined(step, *slots), slots, into_rows)

    def _encodes(self, node: Node) -> bool:
        """Return whether a node rounds one value of floats to codes."""
        given = [self._specs[name] for name in node.values]
        return [*map(is_float, given)] == [True] and is_codes(self._specs[node.output])

    def _decodes(self, node: Node) -> bool:
        """Return whether a node converts one value of codes to floats."""
        given = [self._specs[name] for name in node.values]
        return [*map(is_codes, given)] == [True] and is_float(self._specs[node.output])

    def _moving(self, node: Node) -> list[str]:
        """Return the values of a node that are not constants."""
        return [x for x in node.values if x not in self._graph.constants]

    def _joined(self, step: Any, first: Slot, *rest: Slot) -> Slot:
        """Add `step` on these values, for Concat two at a time; return the result."""
        result: Slot = first
        if not isinstance(step, Concat):
            result = self._program.append(step, first, *rest)
            return result
        if not rest:
            result = self._program.append(step, first)
        for slot in rest:
            result = self._program.append(step, result, slot)
        return result

    def _argument(self, given: Any) -> Any:
        """Return the tensor of a constant, the spec of a value, or `given` itself."""
        if not isinstance(given, str):
            return given
        return self._graph.constants.get(given, self._specs[given])

    def _reshape(self, node: Node, before: Any) -> bool:
        """Append a node that keeps the bytes of a row-major tensor, such as `reshape`.

        The step is a view, or a copy from or to an image, which has channels last.

        Returns:
            Whether the node was appended.
        """
        name, after = node.inputs[0], self._specs[node.output]
        into_rows = node.output in self._rows
        is_held = is_codes(before) or is_float(before)
        if not is_held or name in self._graph.constants:
            return False
        from_rows = self._order(name)
        is_free = from_rows or is_orderless(before)
        in_order = into_rows or after.ndim != 4
        becomes_image = not (in_order or (is_free and is_orderless(after)))
        if becomes_image and not is_float(before):
            return False
        slot = self._slot(name, from_rows)
        if becomes_image:
            self._into_image(node, slot, is_free)
            return True
        if is_free:
            shape = slot_shape(after, into_rows)
            self._add(node, None, self._program.reshape(slot, shape), [], into_rows)
            return True
        step = to_rows(storage(after).dtype)
        result = self._program.reshape(self._program.append(step, slot), after.shape)
        self._add(node, step, result, [slot], into_rows)
        return True

    # Codes have a step for a reshape, which moves them once.
    def _into_image(self, node: Node, slot: Slot, is_free: bool) -> None:
        """Append a reshape of floats whose result is an image."""
        after = self._specs[node.output]
        if not is_free:
            slot = self._program.append(to_rows(slot.dtype), slot)
        slot, step = self._program.reshape(slot, after.shape), to_images(slot.dtype)
        self._add(node, step, self._program.append(step, slot), [slot], False)

    def _order(self, name: str) -> bool:
        """Return whether a value is in rows, or will be once a step reads it."""
        is_known = any((name, order) in self._slots for order in (True, False))
        return (name, True) in self._slots if is_known else name in self._rows

    def _slot(self, name: str, in_rows: bool) -> Slot:
        """Return the slot of a value; a value from outside becomes an input."""
        spec = self._specs[name]
        in_rows = in_rows and has_two_orders(spec)
        if not any((name, order) in self._slots for order in (True, False)):
            self._input(name)
        if (name, in_rows) not in self._slots:
            dtype = storage(spec).dtype
            step = to_rows(dtype) if in_rows else to_images(dtype)
            other = self._slots[name, not in_rows]
            self._slots[name, in_rows] = self._program.append(step, other)
        return self._slots[name, in_rows]

    def _input(self, name: str) -> None:
        """Add an input of the part, in the order of its value."""
        spec = self._specs[name]
        # Callers pass floats in rows.
        in_rows = has_two_orders(spec) and (
            not storage(spec).has_images or name in self._rows
        )
        shape = slot_shape(spec, in_rows)
        self._reads[name] = spec
        self._slots[name, in_rows] = self._program.input(shape, storage(spec).dtype)
        if in_rows:
            self._in_rows.add(name)

    def _add(
        self, node: Node, step: Any, slot: Slot, given: list[Slot], in_rows: bool
    ) -> None:
        self._nodes.append(node)
        self._steps.append(step)
        self._places.append(range(self._placed, len(self._program.steps)))
        self._placed = len(self._program.steps)
        shapes = [one.shape for one in given]
        self._macs.append(0 if step is None else int(step.macs(*shapes)))
        spec = self._specs[node.output]
        in_rows = in_rows and has_two_orders(spec)
        self._slots[node.output, in_rows] = slot
        if in_rows:
            self._in_rows.add(node.output)

    def _flush(self, upto: int) -> None:
        """Close the part being built; later nodes read its results by name."""
        if self._nodes:
            written = [node.output for node in self._nodes]
            later = {v for node in self._graph.nodes[upto:] for v in node.values}
            kept = [n for n in written if n in later or n in self._graph.outputs]
            slots = [self._written(name) for name in kept]
            rounded = self._rounded()
            self._done.append(
                Compiled(
                    tuple(self._nodes),
                    tuple(self._steps),
                    tuple(self._places),
                    tuple(self._macs),
                    self._program.build(slots, [slot for _, slot in rounded]),
                    self._reads,
                    {name: self._specs[name] for name in kept},
                    frozenset(self._in_rows),
                    tuple(node for node, _ in rounded),
                )
            )
        self._begin()

    def _written(self, name: str) -> Slot:
        """Return the slot of a value that the part returns; floats are in rows."""
        has_images = storage(self._specs[name]).has_images
        in_rows = name in self._in_rows or not has_images
        return self._slot(name, in_rows)

    def _rounded(self) -> list[tuple[Node, Slot]]:
        """Return the values of the part that become codes, with the first such node."""
        found: dict[str, tuple[Node, Slot]] = {}
        for node, step in zip(self._nodes, self._steps, strict=True):
            name = node.values[0] if node.values else ""
            if isinstance(step, Quantize) and name not in found:
                # The order of an input comes first: it is checked before all steps.
                orders = [(name, order) for order in (True, False)]
                known = [self._slots[key] for key in orders if key in self._slots]
                known.sort(key=lambda slot: slot.storage)
                found[name] = node, known[0]
        return [*found.values()]


def _takes(step: Any, count: int) -> bool:
    """Return whether a step takes `count` values that are not constants."""
    return len(step.input_types) == count or (isinstance(step, Concat) and count > 1)


def _smaller(x1: Any, x2: Any) -> bool:
    return _size(x1) < _size(x2)


def _size(x: Any) -> int:
    return math.prod(getattr(x, "shape", ()))  # of a Python number: 1
