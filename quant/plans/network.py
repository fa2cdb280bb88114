"""A stored plan as a function of typed tensors."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor import TensorSpec, asarray
from mdtensor.errors import CastError, DataError, MdtensorError, ModelError
from mdtensor.extend import explain_wrong_calls, file_path
from mdtensor.quant.dtypes import qint8, quint8
from mdtensor.quant.plans.machine import Process
from mdtensor.quant.plans.write import PLAIN
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import QInt8Tensor, QUInt8Tensor
from mdtensor_run.errors import HasNaN, PlanError
from mdtensor_run.runner import Runner, Value

Array = npt.NDArray[Any]
NUMBERS = {name: kind for kind, name in PLAIN.items()}
TYPES = {qint8.name: (qint8, QInt8Tensor), quint8.name: (quint8, QUInt8Tensor)}


def spec_of(value: Value) -> TensorSpec:
    """Return type, shape and grid of an input or a result.

    Raises:
        ModelError: the file describes no grid.
    """
    if value.grid is None:
        return TensorSpec(NUMBERS[value.type], value.shape)
    try:
        options = dict(value.grid)
        dtype, kind = TYPES[options.pop("dtype")]
        grid = QParams(options.pop("scale"), dtype=dtype, **options)
        grid.check_fit(value.shape, "codes of shape", kind.__name__)
    except (MdtensorError, KeyError, TypeError, ValueError, OverflowError):
        problem = f"{value.name!r} has a grid that does not exist"
        raise ModelError(problem, "Compile the model again") from None
    return TensorSpec(kind, value.shape, grid)


class StoredNetwork:
    """The network of a stored plan: a function of tensors, as its model is.

    Args: path: a file that `Model.compile` wrote.

    Attributes:
        inputs, outputs: the spec of each, by name.
        isa: the ISA whose kernels run it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        try:
            self._runner = Runner(file_path(path, "path"), Process)
        except PlanError as error:
            raise ModelError(error.problem, error.fix) from None
        self.isa = self._runner.isa
        self.inputs = {value.name: spec_of(value) for value in self._runner.inputs}
        self.outputs = {value.name: spec_of(value) for value in self._runner.outputs}

    def __call__(self, /, *inputs: Any, threads: int = 1, **named: Any) -> Any:
        """Return the result, or a tuple if there are several.

        Args:
            inputs: tensors or NumPy arrays, in the order of `inputs`, or by name.
            threads: the most threads: for large steps, or for inputs that hold several
                times the images of the plan.

        Raises:
            DataError: an input is missing or unknown, or has a wrong type or shape; or
                `threads` is not an integer of at least 1.
            CastError: a NaN would become a code.
        """
        arrays = [
            self._array(name, spec, value)
            for (name, spec), value in zip(
                self.inputs.items(), self._in_order(inputs, named), strict=True
            )
        ]
        try:
            made = self.run_arrays(arrays, threads)
        except HasNaN as error:
            raise CastError(error.problem, error.fix, "quantize") from None
        except PlanError as error:
            raise DataError(error.problem, error.fix) from None
        return made[0] if len(made) == 1 else made

    def run_arrays(self, arrays: Sequence[Array], threads: int = 1) -> tuple[Any, ...]:
        """Return the results as tensors, for the elements of each input in order.

        Raises:
            PlanError: an array has another type or shape, or a NaN.
        """
        found = self._runner(*arrays, threads=threads)
        results = found if isinstance(found, tuple) else (found,)
        return tuple(
            spec.type.wrap(array, *((spec.qparams,) if spec.qparams else ()))
            for spec, array in zip(self.outputs.values(), results, strict=True)
        )

    def attempt(self, arrays: Sequence[Array]) -> tuple[Any, ...] | None:
        """Return what `run_arrays` returns; None where it raises."""
        try:
            return self.run_arrays(arrays)
        except PlanError:
            return None

    def _in_order(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> list[Any]:
        """Return a value for each input.

        Raises:
            DataError: there are more, fewer, or others.
        """
        given = {**dict(zip(self.inputs, inputs, strict=False)), **named}
        if len(inputs) + len(named) != len(given) or set(given) != set(self.inputs):
            listed = ", ".join(map(repr, self.inputs))
            problem = f"the network has the inputs {listed}, but got {len(given)}"
            raise DataError(problem, "Give each of them once, in this order")
        return [given[name] for name in self.inputs]

    def _array(self, name: str, spec: TensorSpec, value: Any) -> Array:
        """Return the elements of an input.

        Raises:
            DataError: it has another type.
        """
        tensor = asarray(value)
        if type(tensor) is not spec.type:
            problem = f"input {name!r} must be {spec}, but is {type(tensor).__name__}"
            raise DataError(problem, f"Give an array of {spec.dtype}")
        codes = getattr(tensor, "code_array", None)
        return np.asarray(tensor.buffer if codes is None else codes)

    def __repr__(self) -> str:
        given = ", ".join(f"{name}: {spec}" for name, spec in self.inputs.items())
        return f"StoredNetwork({given}; {self.isa})"


@explain_wrong_calls
def load_plan(path: str | os.PathLike[str]) -> StoredNetwork:
    """Load a plan that `Model.compile` stored: no file of a model is read.

    The first result takes half of the time of `load`, because nothing is planned. Every
    step is checked, so a damaged file cannot make a kernel write elsewhere.

    Args: path: the file; it stays mapped, so replace it rather than write into it.

    Raises:
        ModelError: the file is not a plan, is damaged, or is for other kernels or
            another CPU.
        OptionError: `path` is neither a str nor a path.

    Example:
        >>> load_plan("no.mdt")
        Traceback (most recent call last):
        mdtensor.errors.ModelError: no.mdt cannot be read: No such file or ...
    """
    return StoredNetwork(path)
