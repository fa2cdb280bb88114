"""Quantized models whose values carry what the float model computes.

shadowed = ShadowModel(model, small, min_sqnr=20)
y = shadowed(x)                 # raises at the first node below 20 dB
y.value, y.reference, y.sqnr
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mdtensor import Tensor, TensorSpec
from mdtensor.errors import BudgetError, MdtensorError
from mdtensor.extend import default_settings, run_under
from mdtensor.graph import name_node
from mdtensor.graph.inputs import by_name, checked_feeds
from mdtensor.quant.generics import quantize
from mdtensor.quant.model.compare.compare import Runs, check_models
from mdtensor.quant.model.compare.gains import channel_axis, channel_gains
from mdtensor.quant.model.compare.match import Match, match_nodes
from mdtensor.quant.model.compare.measure import array_of
from mdtensor.quant.model.compare.noise import Noise
from mdtensor.quant.model.compare.visible import View, Views
from mdtensor.quant.shadows import ShadowTensor, run_both, shadow, with_reference
from mdtensor.quant.sqnr import least_decibels
from mdtensor.quant.tensor import QuantizedTensor


class ShadowModel:
    """A quantized model that runs beside its float model, node by node.

    Each node computes its codes with the bytes of the quantized model, and a reference
    from the references of its arguments and the weights of the float model. So an error
    is compared where it arises, without a second run. Channels count by the weights of
    the layers that read them, as in `quant.compare`, which sums errors over samples.

    Args:
        model: the float model on which `quantize` was called.
        small: the quantized model, or its file, loaded.
        min_sqnr: the least SQNR in dB of the result of a node; None to never raise.

    Raises:
        OptionError: an argument is not a model, their inputs or outputs differ, or
            `min_sqnr` is not a number of decibels.

    Example:
        >>> from mdtensor import quant
        >>> from mdtensor.cli import demo_data
        >>> model = quant.load(demo_data.classifier_path(), demo_data.INPUT_SHAPE)
        >>> crops = [crop.pixels for crop in demo_data.crops()[0][:4]]
        >>> small = model.quantize(model.calibrate(crops))
        >>> y = ShadowModel(model, small)(crops[0])
        >>> type(y).__name__, y.sqnr > 30
        ('ShadowFloat32Tensor', True)

    Source: PyTorch, "Numeric Suite", shadow modules.
    """

    def __init__(
        self, model: Runs, small: Runs, *, min_sqnr: float | None = None
    ) -> None:
        check_models(model, small)
        self._float, self.graph = model.graph, small.graph
        self.min_sqnr = least_decibels(min_sqnr)
        self._matches = match_nodes(model.graph, small.graph)
        self._twins = {node.name: node for node in model.graph.nodes}
        self._views = self._seen_by_readers()
        self._gains = channel_gains(model.graph)
        self._constants = self._with_weights()

    @property
    def inputs(self) -> Mapping[str, TensorSpec]:
        """Return type and shape of each input of the float model, by name."""
        return self._float.inputs

    @property
    def outputs(self) -> tuple[str, ...]:
        """Return the names of the results."""
        return self.graph.outputs

    def _seen_by_readers(self) -> dict[str, View]:
        """Return for each value what removes the numbers that no reader tells apart."""
        views, values = Views(self._float), dict[str, str | None]()
        values |= {name: name for name in self._float.inputs}
        for match in self._matches:
            source = match.node.values[0] if match.is_conversion else ""
            values[match.node.output] = match.value or values.get(source)
        return {name: views.of(value) for name, value in values.items()}

    def _with_weights(self) -> dict[str, Any]:
        """Return the constants; floats of the float model are references of codes."""
        known: dict[str, Any] = {}
        for match in self._matches:
            twin = self._twins.get(match.node.name) if match.covers else None
            pairs = zip(match.node.inputs, twin.inputs, strict=False) if twin else ()
            for mine, theirs in pairs:
                if isinstance(mine, str) and isinstance(theirs, str):
                    known[mine] = self._float.constants.get(theirs)
        return {
            name: _shadowed(x, known.get(name))
            for name, x in self.graph.constants.items()
        }

    def __call__(self, /, *inputs: Any, **named: Any) -> Any:
        """Run the model; return its result, or a tuple if it has several.

        Args:
            inputs: as the float model takes them.

        Returns:
            Shadow tensors; integers and bools are those of the quantized model.

        Raises:
            BudgetError: the result of a node has a lower SQNR than `min_sqnr`; it names
                the node, its SQNR and that of its arguments.
            DataError: an input is missing or unknown, or has a wrong type or shape.
        """
        found = self.run(by_name(self.inputs, inputs, named))
        results = tuple(found[name] for name in self.outputs)
        return results[0] if len(results) == 1 else results

    def run(
        self,
        feeds: Mapping[str, Any],
        observe: Callable[[str, Any], None] | None = None,
    ) -> dict[str, Any]:
        """Return the outputs by name; `observe` gets each name and shadow tensor."""
        known = dict(self._constants)
        for name, x in checked_feeds(self.inputs, feeds).items():
            grid = self.graph.inputs[name].qparams
            known[name] = _shadowed(x if grid is None else quantize(x, grid), x)
        for match in self._matches:
            known[match.node.output] = self._result(match, known)
            if observe:
                observe(match.node.output, known[match.node.output])
        return {name: known[name] for name in self.outputs}

    def _result(self, match: Match, known: Mapping[str, Any]) -> Any:
        node = match.node
        arguments = node.arguments(known)
        given = (arguments,) if node.operation.operation.sequence else tuple(arguments)
        try:
            # The blocks around a caller must not change the results of a model.
            found = run_under(
                default_settings(), run_both, node.operation, given, dict(node.options)
            )
        except MdtensorError as error:
            raise name_node(error, node) from None
        if isinstance(found, ShadowTensor):
            found = self._after_covered(match, found)
            self._check(match, found, arguments)
        return found

    def _after_covered(self, match: Match, found: ShadowTensor) -> ShadowTensor:
        """Return `found` with the reference that the cuts of its grid stand for."""
        reference = found.reference
        for name in match.covers[1:]:
            reference = self._twins[name](reference)
        return with_reference(found, reference)

    def _check(self, match: Match, found: ShadowTensor, arguments: list[Any]) -> None:
        if self.min_sqnr is None:
            return
        view = self._views[match.node.output]
        axis = channel_axis(match.node, found.ndim)
        noise = Noise(axis, self._gains.get(match.value or ""))
        noise.add(view(array_of(found.reference)), view(array_of(found.value)))
        if noise.seen >= self.min_sqnr:
            return
        before = [f"{x.sqnr:.1f}" for x in arguments if isinstance(x, ShadowTensor)]
        node = match.node
        raise BudgetError(
            f"node {node.name!r} ({node.operation.__name__}) has a result with an SQNR "
            f"of {noise.seen:.1f} dB, less than {self.min_sqnr:g} dB; its arguments "
            f"have {', '.join(before)} dB",
            f"Keep it float: quantize(..., keep_float=[{node.name!r}]); quant.compare "
            "suggests other ways",
        )


def _shadowed(x: Any, reference: Any) -> Any:
    """Return floats and codes as shadow tensors, and other values as they are."""
    if not isinstance(x, Tensor):
        return x
    is_codes = isinstance(x, QuantizedTensor)
    if not (is_codes or x.dtype.is_floating):
        return x
    is_like = getattr(reference, "shape", None) == x.shape
    return shadow(x, reference if is_like and reference.dtype.is_floating else None)
