"""Writes the plan of a model into one file, see `mdtensor_run.layout`."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import mdtensor as md
from mdtensor import (
    Float32Tensor,
    Float64Tensor,
    Int32Tensor,
    Int64Tensor,
    TensorSpec,
)
from mdtensor.errors import ModelError, OptionError, shown
from mdtensor.extend import file_path, replacing, write_problem
from mdtensor.graph.bound import Called, Compiled, FloatLayer
from mdtensor.graph.graph import Graph
from mdtensor.graph.layouts import storage
from mdtensor.graph.plan import Plan
from mdtensor.graph.stepped import Stepped
from mdtensor.graph.storage import AS_FLOATS
from mdtensor.kernels.cpu import kernel_set
from mdtensor.kernels.cpu.elsewhere import kernels_elsewhere
from mdtensor.kernels.cpu.threads.split import job
from mdtensor.quant.dtypes import qint8, quint8
from mdtensor.quant.plans.batches import has_batch
from mdtensor.quant.plans.machine import KINDS, Process
from mdtensor.quant.qparams import QParams
from mdtensor_run.check import check_apart, check_rows
from mdtensor_run.layout import pack
from mdtensor_run.packing import PACKINGS
from mdtensor_run.row import Refused, Row

Array = npt.NDArray[Any]
#: Names of the header that hold the place of a section.
PLACES = {"at", "rows_at", "constants_at", "pieces_at", "first_at"}
#: Types of codes that a file can hold, and their NumPy types.
CODES = {qint8: "int8", quint8: "uint8"}
#: The types of values without a grid, and the names that NumPy has for them.
PLAIN = {
    kind: kind.dtype.storage.name
    for kind in (Float32Tensor, *AS_FLOATS, Int32Tensor, Int64Tensor, Float64Tensor)
}


# A plan for each ISA, because weights are packed for one (decision 0064).
def write_plan(
    path: str | os.PathLike[str],
    plans: Mapping[str, Plan],
    model: Mapping[str, Any] | None = None,
) -> None:
    """Write the plans of one graph, by ISA, into a file.

    Args:
        path: of the file.
        plans: of one graph.
        model: facts about the model, which a runner does not read.

    Raises:
        ModelError: a node has no steps, a value has a type that a file cannot hold,
            or the path is not writable; an existing file is unchanged then.
        OptionError: the path is not one.
    """
    path = file_path(path, "path")
    file = _File(plans)
    file.add(model or {})
    content = pack(file.header, file.sections)
    try:
        with replacing(path) as opened:
            opened.write(content)
    except OSError as error:
        raise ModelError(*write_problem(path, error)) from None


def chosen_isas(isas: Any, own: str) -> tuple[str, ...]:
    """Return the ISAs of a file: by default `own`.

    Raises:
        OptionError: `isas` is not a list of names.
    """
    is_list = isinstance(isas, Collection) and not isinstance(isas, (str, bytes))
    if not is_list or not all(isinstance(name, str) for name in isas):
        problem = f"isas is {shown(isas)}"
        raise OptionError(problem, "Give a list of names, such as ['avx2', 'generic']")
    return tuple(isas) or (own,)


# Other CPUs have other packed weights, which this one can pack (decision 0095).
def plan_for(plan: Plan, isa: str, reasons: Mapping[Any, str]) -> Plan:
    """Return a plan of the same graph for an ISA, which this CPU need not have.

    Args: reasons: as for `Plan`.

    Raises:
        OptionError: there is no such ISA.
    """
    if isa not in PACKINGS:
        fix = f"Use isas= with {', '.join(PACKINGS)}"
        raise OptionError(f"plans for {isa} cannot be stored", fix)
    if {contents_of(one).isa for one in _compiled(plan)} == {isa}:
        return plan
    made: Plan = kernel_set.make_on(_kernels_of(isa), Plan, plan.graph, reasons)
    return made


def _kernels_of(isa: str) -> Any:
    """Return the kernels of an ISA, and how it packs."""
    is_here = isa in Process().isas()
    return kernel_set.kernels(isa) if is_here else kernels_elsewhere(isa)


def _compiled(plan: Plan) -> list[Compiled]:
    return [part for part in plan.parts if isinstance(part, Compiled)]


def _steps_of(plan: Plan, isa: str) -> list[Compiled | Stepped]:
    """Return the parts of a plan for an ISA, with calls as steps.

    Raises:
        ModelError: with the name of each node that is not a compiled step.
    """
    parts = kernel_set.make_on(_kernels_of(isa), plan.stepped)
    others = [part for part in parts if not isinstance(part, (Compiled, Stepped))]
    if not others:
        return list(parts)
    listed = "; ".join(f"{part.node.name!r}, {_reason(part)}" for part in others[:3])
    more = f" and {len(others) - 3} more" if len(others) > 3 else ""
    raise ModelError(
        f"{len(others)} nodes are not compiled steps: {listed}{more}",
        "Run the model itself, or cut them off: load takes outputs=",
    )


def _reason(part: Called | FloatLayer) -> str:
    return part.reason if isinstance(part, Called) else "its activations are floats"


class _File:
    """Sections of a file, and the header that describes them.

    Args: plans: of one graph, by ISA.
    """

    def __init__(self, plans: Mapping[str, Plan]) -> None:
        self.sections: list[bytes] = []
        self._isas, each = tuple(plans), tuple(plans.values())
        graph, specs = each[0].graph, each[0].specs
        self._head: dict[str, Any] = {
            "mdtensor": md.__version__,
            "stamp": Process().stamp,
            "has_batch": has_batch(graph, specs),
        }
        self._inputs = [describe(name, specs[name]) for name in graph.inputs]
        self._outputs = [describe(name, specs[name]) for name in graph.outputs]
        parts = [_steps_of(plan, isa) for isa, plan in plans.items()]
        self._constants = self._add_constants(graph, specs, parts)
        self._plans = [[self._add(part) for part in own] for own in parts]

    def add(self, model: Mapping[str, Any]) -> None:
        """Add facts about the model to the header."""
        self._head["model"] = dict(model)

    def _place(self, content: Array) -> int:
        """Add a section; return its number."""
        self.sections.append(content.tobytes())
        return len(self.sections) - 1

    def _add_constants(
        self, graph: Graph, specs: Mapping[str, TensorSpec], plans: Sequence[Any]
    ) -> list[dict[str, Any]]:
        """Add the constants that parts read as inputs, or that are results."""
        found = dict.fromkeys(graph.outputs)
        for parts in plans:
            found |= dict.fromkeys(name for part in parts for name in part.reads)
        names = [name for name in found if name in graph.constants]
        return [
            describe(name, specs[name])
            | {"at": self._place(_elements(graph.constants[name]))}
            for name in names
        ]

    def _add(self, part: Compiled | Stepped) -> dict[str, Any]:
        """Add the sections of a part; return its description."""
        contents = contents_of(part)
        rows, kernels = _named(contents.rows)
        _require_rules(rows, kernels, contents)
        found = {
            "job": self._add_job(contents),
            "arena": int(contents.arena),
            "rows": len(rows),
            "rows_at": self._place(rows),
            "kernels": kernels,
            "constants": int(contents.constants.size),
            "constants_at": self._place(contents.constants),
        }
        if isinstance(part, Compiled):
            return found | _slots(part, contents)
        return found | _plain_slots(part, contents)

    # Cut here, since the runner knows no kernel: a piece is a row (decision 0095).
    def _add_job(self, contents: Any) -> dict[str, int] | None:
        """Add the rows of a part, cut for several threads; None if it is not cut."""

        def is_allowed(pieces: Sequence[Any]) -> bool:
            rows, kernels = _named(np.array(pieces, contents.rows.dtype))
            numbers = [(i, i + 1) for i in range(len(rows))]
            try:
                checked = _checked_rows(rows, kernels, contents, are_pieces=True)
                check_apart(checked, numbers)
            except Refused:
                return False
            return True

        own = _kernels_of(contents.isa)
        found = kernel_set.make_on(own, job, contents.rows, is_allowed)
        if found is None:
            return None
        return {
            "rows": len(found.rows),
            "rows_at": self._place(_named(found.rows)[0]),
            "pieces": len(found.pieces),
            "pieces_at": self._place(found.pieces.astype(np.int64)),
            "groups": len(found.first) - 1,
            "first_at": self._place(found.first.astype(np.int64)),
        }

    def header(self, places: list[int]) -> dict[str, Any]:
        """Return the header for sections at these places."""

        def moved(one: Mapping[str, Any]) -> dict[str, Any]:
            names = one.keys() & PLACES
            return {**one, **{name: places[one[name]] for name in names}}

        def moved_part(one: Mapping[str, Any]) -> dict[str, Any]:
            return moved(one) | {"job": one["job"] and moved(one["job"])}

        plans = [
            {"isa": isa, "parts": [moved_part(part) for part in parts]}
            for isa, parts in zip(self._isas, self._plans, strict=True)
        ]
        values = {"inputs": self._inputs, "outputs": self._outputs, "plans": plans}
        return self._head | values | {"constants": [*map(moved, self._constants)]}


def contents_of(part: Compiled | Stepped) -> Any:
    """Return the `Contents` of the program of a part."""
    return part.executable.contents


def _named(rows: Array) -> tuple[Array, list[str]]:
    """Return rows whose kinds count the names that are returned with them."""
    used, places = np.unique(rows["kind"], return_inverse=True)
    rows = rows.copy()
    rows["kind"] = places
    return rows, [KINDS[kind] for kind in used]


def _require_rules(rows: Array, kernels: list[str], contents: Any) -> None:
    """Raise ModelError for a plan that a runner would refuse."""
    try:
        _checked_rows(rows, kernels, contents)
    except Refused as problem:
        fix = "Run the model itself; a runner would refuse the file"
        raise ModelError(f"the plan cannot be stored: {problem}", fix) from None


def _checked_rows(
    rows: Array, kernels: list[str], contents: Any, are_pieces: bool = False
) -> list[Row]:
    """Return rows after the checks of the runner.

    Raises:
        Refused: a kernel could read or write other bytes than its own.
    """
    arena, constants = int(contents.arena), contents.constants.copy()
    given = rows, kernels, arena, constants, PACKINGS[contents.isa]
    return check_rows(*given, are_pieces)


def describe(name: str, spec: TensorSpec) -> dict[str, Any]:
    """Return the description of a value.

    Raises:
        ModelError: it is neither a float, a bool, an integer nor 8-bit codes.
    """
    shape, grid = [int(size) for size in spec.shape], spec.qparams
    if spec.type in PLAIN:
        return {"name": name, "type": PLAIN[spec.type], "shape": shape, "grid": None}
    if isinstance(grid, QParams) and grid.dtype in CODES:
        found = _describe_grid(grid)
        return {"name": name, "type": CODES[grid.dtype], "shape": shape, "grid": found}
    raise ModelError(
        f"{name!r} is {spec}",
        f"Stored plans hold {', '.join(PLAIN.values())}, and codes of 8 bits",
    )


def _describe_grid(grid: QParams) -> dict[str, Any]:
    """Return a grid as JSON, whose numbers are read as they were."""
    return {
        "dtype": grid.dtype.name,
        "scale": grid.scale.tolist(),
        "zero_point": grid.zero_point.tolist(),
        "axis": grid.axis,
        "block_size": grid.block_size,
        "narrow_range": grid.narrow_range,
        "rounding": grid.rounding,
    }


def _elements(tensor: Any) -> Array:
    """Return the elements of a constant, in rows."""
    found = getattr(tensor, "code_array", None)
    return np.ascontiguousarray(tensor.buffer if found is None else found)


def _checked(name: str, shape: Sequence[int], place: int) -> dict[str, Any]:
    """Return the description of floats inside a part that become codes."""
    found = {"name": name, "type": "float32", "shape": [int(n) for n in shape]}
    flags = {"is_image": False, "is_signed": False, "is_number": False}
    flags |= {"refuses_nan": True, "is_plain": False}
    return {**found, "at": place, **flags}


def _slots(part: Compiled, contents: Any) -> dict[str, Any]:
    """Return the descriptions of the values of a compiled part."""
    reads = zip(part.reads.items(), contents.inputs, contents.refuses_nan, strict=True)
    writes = zip(part.writes.items(), contents.outputs, strict=True)
    return {
        "inputs": [_slot(part, *item, at, flag) for item, (at, _), flag in reads],
        "outputs": [_slot(part, *item, at, False) for item, (at, _) in writes],
        "checked": [
            _checked(part.rounded[number].values[0], slot.shape, at)
            for number, slot, at in contents.checked
        ],
        "outside": [],
    }


def _plain_slots(part: Stepped, contents: Any) -> dict[str, Any]:
    """Return the descriptions of the values of calls as steps."""
    found = []
    for specs, places in (
        (part.reads, contents.inputs),
        (part.writes, contents.outputs),
    ):
        each = zip(specs.items(), places, strict=False)
        found.append([_plain(describe(*item), at) for item, (at, _) in each])
    flag = {"name": "outside", "type": "bool", "shape": [1]}
    is_watched = part.outside is not None
    return {
        "inputs": found[0],
        "outputs": found[1],
        "checked": [],
        "outside": [_plain(flag, part.outside)] if is_watched else [],
    }


def _plain(described: Mapping[str, Any], at: Any) -> dict[str, Any]:
    """Return the description of a value in rows and in its own type."""
    flags = dict.fromkeys(("is_image", "is_signed", "is_number", "refuses_nan"), False)
    found = {key: described[key] for key in ("name", "type", "shape")}
    return found | flags | {"at": at, "is_plain": True}


def _slot(
    part: Compiled, name: str, spec: TensorSpec, place: int, refuses_nan: bool
) -> dict[str, Any]:
    """Return the description of a value that enters or leaves a part."""
    found = describe(name, spec)
    has_rows = name in part.in_rows or not storage(spec).has_images
    del found["grid"]
    return found | {
        "at": place,
        "is_image": spec.ndim == 4 and not has_rows,
        "is_signed": found["type"] == "int8" and spec.qparams is not None,
        "is_number": spec.type in AS_FLOATS,
        "refuses_nan": bool(refuses_nan),
        "is_plain": False,
    }
