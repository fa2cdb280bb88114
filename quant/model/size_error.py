"""The error of a file that can only be read for known input shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mdtensor import TensorSpec
from mdtensor.errors import ModelError


def has_open_size(inputs: Mapping[str, TensorSpec]) -> bool:
    """Return whether a size of an input is not known."""
    return any(-1 in spec.shape for spec in inputs.values())


class SizeError(ModelError):
    """A graph that can only be read for known input shapes.

    Attributes:
        inputs: type and shape of each input by name.
        outputs: the names of the results.
    """

    inputs: Mapping[str, TensorSpec] = {}
    outputs: tuple[str, ...] = ()

    def of(self, inputs: Mapping[str, TensorSpec], outputs: Sequence[str]) -> SizeError:
        """Return the error with the inputs and results of the graph."""
        self.inputs, self.outputs = dict(inputs), tuple(outputs)
        return self
