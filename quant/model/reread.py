"""Models whose files are read again, for what the inputs of a call make known."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self

from mdtensor import TensorSpec
from mdtensor.errors import ModelError, OptionError
from mdtensor.extend import explain_wrong_calls
from mdtensor.graph import Graph
from mdtensor.graph.inputs import Shapes, each, fed
from mdtensor.graph.plan import Plan
from mdtensor.graph.profile import Profile
from mdtensor.quant.model.model import Model, Path
from mdtensor.quant.model.quantize.calibrate import Calibration, calibrate_each
from mdtensor.quant.model.size_error import SizeError
from mdtensor.quant.observers import MinMaxObserver, MSEObserver


class RereadModel(Model):
    """A model without a graph of its own: each call may read the file for another one.

    Subclasses say what a call makes known. One calibration serves all graphs, because
    values have the same names in each.

    Args:
        error: the error of reading the file for one graph.
    """

    #: What `at` takes.
    known: ClassVar[str]

    def __init__(self, error: SizeError) -> None:
        self._error, self.search = error, None

    @abstractmethod
    def _needs_more(self) -> ModelError:
        """Return the error of a call that needs one graph, with what would work."""

    @abstractmethod
    def _for(self, feeds: Mapping[str, Any]) -> Model:
        """Return the model that runs for these inputs."""

    @abstractmethod
    def _changed(self, change: Callable[[Model], Model]) -> Self:
        """Return the model where each model for inputs is changed."""

    @property
    def graph(self) -> Graph:  # type: ignore[override]
        """Raise, since inputs have a graph of their own.

        Raises:
            ModelError: always; it names the node that needs more.
        """
        raise self._needs_more()

    @property
    def inputs(self) -> Mapping[str, TensorSpec]:
        """Return type and shape of each input by name; -1 stands for any size."""
        return self._error.inputs

    @property
    def outputs(self) -> tuple[str, ...]:
        """Return the names of the results."""
        return self._error.outputs

    @property
    def states(self) -> Mapping[str, Any]:
        """Return no states: files with variables have one graph."""
        return {}

    def profile(self, /, *inputs: Any, repeat: int = 20, **named: Any) -> Profile:
        """Measure each node that runs for these inputs; see `Model.profile`."""
        feeds = self.fed(*inputs, **named)
        return self._for(feeds).profile(feeds, repeat=repeat)

    @explain_wrong_calls
    def calibrate(
        self,
        samples: Iterable[Any],
        observer: Callable[[], MinMaxObserver] = MSEObserver,
    ) -> Calibration:
        """Run on `samples` and observe all values; see `Model.calibrate`.

        The samples may have different shapes, and may decide differently.
        """
        pairs = ((self._graph_for(one), one) for one in each(samples, self.inputs))
        return calibrate_each(pairs, observer)

    def _graph_for(self, sample: Any) -> Graph:
        feeds = fed(self.inputs, sample)
        model = self._for(feeds)
        while isinstance(model, RereadModel):
            model = model._for(feeds)
        return model.graph

    def plan(self, input_shapes: Shapes | None = None) -> Plan:
        """Return the plan of one graph; see `Model.plan`."""
        raise self._needs_more()

    def save(self, path: Path) -> None:
        """Write an ONNX file of one graph; see `Model.save`."""
        raise self._needs_more()

    def compile(
        self,
        path: Path,
        input_shapes: Shapes | None = None,
        *,
        isas: Sequence[str] = (),
    ) -> None:
        """Write a stored plan of one graph; see `Model.compile`."""
        raise self._needs_more()

    def equalize(self, **options: Any) -> Self:
        """Equalize the channels of weights, as `Model.equalize`."""
        return self._changed(lambda model: model.equalize(**options))

    def quantize(self, calibration: Calibration, **options: Any) -> Self:
        """Return the quantized model for all inputs, see `Model.quantize`.

        Raises:
            OptionError: an option takes samples, and those need one graph; use it on
                `at(...)`. Else as `Model.quantize`, maybe at a later call.
        """
        self._refuse_samples(options, "quantize")
        return self._changed(lambda model: model.quantize(calibration, **options))

    def quantize_weights(self, **options: Any) -> Self:
        """Return the model with quantized weights, see `Model.quantize_weights`.

        Raises:
            OptionError: an option takes samples, and those need one graph; use it on
                `at(...)`. Else as `Model.quantize_weights`, maybe at a later call.
        """
        self._refuse_samples(options, "quantize_weights")
        return self._changed(lambda model: model.quantize_weights(**options))

    @explain_wrong_calls
    def rounded(self, rule: str) -> Self:
        """Return the model under a rounding rule, see `Model.rounded`."""
        return self._changed(lambda model: model.rounded(rule))

    def __reduce__(self) -> Any:
        """Raise, since a file cannot be pickled.

        Raises:
            ModelError: always.
        """
        raise self._needs_more()

    def _refuse_samples(self, options: Mapping[str, Any], call: str) -> None:
        """Require options without samples, which need one graph.

        Raises:
            OptionError: an option needs samples.
        """
        for name in ("samples", "held_out", "budget", "correct_bias"):
            value = options.get(name)
            if value is not None and value is not False:
                raise OptionError(
                    f"{name} needs one graph",
                    f"Use model.at({self.known}).{call}({name}=...)",
                    call,
                )
