"""Initial values of the variables of a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mdtensor.errors import ModelError
from mdtensor.quant.generics import dequantize
from mdtensor.quant.model.budget import Spending
from mdtensor.quant.model.tflite.elements import constant_of
from mdtensor.quant.model.tflite.file import FileGraph, FileOperator
from mdtensor.quant.tensor import QuantizedTensor


def initial_values(
    graphs: Sequence[FileGraph], spending: Spending
) -> Mapping[str, Any]:
    """Return the numbers that the graphs of CALL_ONCE assign to variables.

    Args:
        graphs: all graphs of the file; the first one is the model.
        spending: the budget for constants.

    Raises:
        ModelError: such a graph does more than to assign constants.
    """
    found: dict[str, Any] = {}
    for operator in graphs[0].operators:
        if operator.kind != "CALL_ONCE":
            continue
        at = operator.options.get("InitSubgraphIndex", 0)
        if not 0 < at < len(graphs):
            raise ModelError(
                f"operator CALL_ONCE of node {operator.number} calls graph {at} of "
                f"{len(graphs)}",
                "Export it again",
            )
        found |= _assigned(graphs[at], spending)
    return found


def _assigned(graph: FileGraph, spending: Spending) -> dict[str, Any]:
    handles: dict[int, str] = {}
    found: dict[str, Any] = {}
    for operator in graph.operators:
        if operator.kind == "VAR_HANDLE" and operator.outputs:
            name = operator.options.get("SharedName") or b""
            own = graph.tensors[operator.outputs[0]].name
            handles[operator.outputs[0]] = bytes(name).decode(errors="replace") or own
        elif operator.kind == "ASSIGN_VARIABLE" and len(operator.inputs) == 2:
            handle, value = operator.inputs
            if (
                handle in handles
                and value >= 0
                and graph.tensors[value].data is not None
            ):
                tensor = constant_of(graph.tensors[value], spending)
                is_coded = isinstance(tensor, QuantizedTensor)
                found[handles[handle]] = np.asarray(
                    dequantize(tensor) if is_coded else tensor
                )
                continue
            raise _error(graph, operator)
        else:
            raise _error(graph, operator)
    return found


def _error(graph: FileGraph, operator: FileOperator) -> ModelError:
    return ModelError(
        f"operator {operator.kind} of node {operator.number} in graph {graph.name!r} "
        "is not supported while variables are set",
        "Export the model with constants as the initial values of its variables",
    )
