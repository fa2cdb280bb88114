"""Named algorithms that quantize the weights of the layers of a graph.

    rtn    the grid covers the weights                          the default
    mse    the grid with the least squared error
    hqq    the grid that outliers change least
    gptq   later weights compensate for earlier rounding        needs samples
    awq    like rtn, after `awq` moved scales                   needs samples

In a grouped convolution each group reads other inputs, so each is treated as a layer of
its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor import DType
from mdtensor.errors import OptionError, shown, written
from mdtensor.graph import Graph, Node
from mdtensor.quant.dtypes import qint4, qint8
from mdtensor.quant.model.quantize.calibrate import input_moments
from mdtensor.quant.tensor import quantized
from mdtensor.quant.weights.algorithms import compensate, least_squares
from mdtensor.quant.weights.format import (
    WeightFormat,
    check_flag,
    matrix,
    type_of_codes,
)
from mdtensor.quant.weights.layer import Grids, Layer, Rounded, real_weights
from mdtensor.quant.weights.moments import InputMoments
from mdtensor.quant.weights.quantize import METHODS
from mdtensor.quant.weights.transforms import correct_bias

#: Algorithms for layers that read codes. Not awq: it changes the ranges of activations,
#: for which the grids are chosen.
ALGORITHMS = ("rtn", "mse", "hqq", "gptq")
#: Algorithms for weights alone, next to float activations.
WEIGHTS_ALONE = (*ALGORITHMS, "awq")
#: Algorithms that need samples of the inputs of layers.
SAMPLED = ("gptq", "awq")


@dataclass(frozen=True)
class WeightAlgorithm:
    """An algorithm that turns weights into codes, with its data and options.

    Args:
        name: the name of the algorithm.
        inputs: by the name of a layer, the moments of the inputs of each of its groups;
            empty for algorithms that do not need samples.
        corrects_bias: whether biases are corrected for the shift that rounding adds to
            the mean of each output.
        format: the format of the codes.
        options: options of the algorithm.
    """

    name: str = "rtn"
    inputs: Mapping[str, list[InputMoments]] = field(default_factory=dict)
    corrects_bias: bool = False
    format: WeightFormat = field(default_factory=WeightFormat)
    options: Mapping[str, Any] = field(default_factory=dict)

    def codes(
        self, node: Node, weights: Any, axis: int | None = 0, floor: Any = 0.0
    ) -> Any:
        """Quantize the weights of `node`.

        A block consists of neighbouring channels; in a convolution, each position of
        the window has blocks of its own.

        Args:
            node: the layer.
            weights: float, output channels first.
            axis: None if all weights share a scale, 0 to use the axis of the format.
            floor: the smallest allowed scale.
        """
        # A layer on single vectors may have one scale for all weights (decision 0005).
        format = self.format if axis == 0 else replace(self.format, axis=axis)
        order = _order(weights.shape, format)
        rows = matrix(np.asarray(weights))[:, order]
        layer = Layer(rows, format, floor=floor)
        if self.name == "gptq":
            inputs = [group.reordered(order) for group in self.inputs[node.name]]
            found = _run_gptq(layer, inputs, self.options)
        else:
            found = [METHODS[self.name](layer, **self.options)]
        return _tensor(found, weights.shape, order)

    def bias(self, node: Node, bias: Any, weights: Any, found: Any) -> Any:
        """Return the bias of `node`, corrected if the algorithm says so, as float64.

        Args:
            node: the layer.
            bias: float, one number for each output.
            weights: the float weights, output channels first.
            found: the quantized weights.
        """
        values = np.asarray(bias).astype(np.float64)
        groups = self.inputs.get(node.name, [])
        if not self.corrects_bias or not groups:
            return values
        parts = (np.split(real_weights(x), len(groups)) for x in (weights, found))
        layers = zip(np.split(values, len(groups)), *parts, groups, strict=True)
        return np.concatenate([correct_bias(*layer) for layer in layers])


def _run_gptq(
    layer: Layer, groups: list[InputMoments], options: Mapping[str, Any]
) -> list[Rounded]:
    """Quantize each group of outputs by GPTQ; the grids are found for all at once."""
    # Grids first, for all groups: with axis=None all outputs share one scale.
    grids = least_squares(layer, layer.weights)
    found: list[Rounded] = []
    places = np.split(np.arange(len(layer.weights)), len(groups))
    for rows, inputs in zip(places, groups, strict=True):
        part = replace(layer, weights=layer.weights[rows], inputs=inputs)
        at = slice(None) if layer.format.axis is None else rows
        own = Grids(grids.scale[at], grids.zero[at], part.groups, layer.format)
        found.append(compensate(part, own, **options))
    return found


def _order(shape: tuple[int, ...], format: WeightFormat) -> Any:
    """Return the order in which the inputs of an output form contiguous blocks."""
    # Blocks hold neighbouring channels of one position, so channels must be last.
    places = np.arange(prod(shape[1:])).reshape(shape[1:])
    return (places if format.block_size is None else np.moveaxis(places, 0, -1)).ravel()


def _tensor(found: list[Rounded], shape: tuple[int, ...], order: Any) -> Any:
    """Join groups of outputs to one quantized tensor."""
    grids = [part.grids.qparams() for part in found]
    # ONNX files do not store narrow_range: without it a loaded model has equal grids.
    grid = grids[0].replace(narrow_range=False)
    if grid.axis is not None:
        scale = np.concatenate([grid.scale for grid in grids])
        zero = np.concatenate([grid.zero_point for grid in grids])
        if grid.block_size is not None:
            scale, zero = (_channels_first(x, shape) for x in (scale, zero))
        grid = grid.replace(scale=scale, zero_point=zero)
    codes = np.empty((shape[0], order.size), grid.dtype.storage)
    codes[:, order] = np.concatenate([part.codes for part in found])
    return quantized(codes.reshape(shape), grid)


def _channels_first(
    blocks: npt.NDArray[Any], shape: tuple[int, ...]
) -> npt.NDArray[Any]:
    """Reorder blocks from positions first to channels first, the layout of weights."""
    return np.moveaxis(blocks.reshape(shape[0], *shape[2:], -1), -1, 1)


#: The bits of 8-bit weights with `reduce_range`: sums of two products fit int16.
REDUCED = 7


def format_of(dtype: DType | str, reduce_range: bool = False) -> WeightFormat:
    """Return the format of quantized layers' weights: one scale for each output.

    Raises:
        OptionError: quantized products do not accept weights of this type, or the range
            of 4-bit weights is to be reduced.
    """
    check_flag("reduce_range", reduce_range)
    found = type_of_codes("weight_dtype", dtype)
    if found not in (qint8, qint4):
        raise OptionError(f"{written('weight_dtype')} is {found}", "Use qint8 or qint4")
    if reduce_range and found is not qint8:
        problem = f"{written('reduce_range', True)} is for qint8, not {found}"
        raise OptionError(problem, "Leave it out: sums of 4-bit weights are small")
    return WeightFormat(found, REDUCED if reduce_range else None)


def check_method(name: object, known: Sequence[str]) -> None:
    """Check that `name` is a known method.

    Raises:
        OptionError: `name` is not in `known`.
    """
    if isinstance(name, str) and name in known:
        return
    fix = f"Use one of {', '.join(known)}"
    if isinstance(name, str) and name == "awq":
        alone, also = written("Model.quantize_weights"), written("Model.smooth")
        problem = f"{written('method', 'awq')} quantizes weights only"
        raise OptionError(problem, f"Use it with {alone}; or use {also} and {fix[4:]}")
    raise OptionError(f"{written('method')} is {shown(name)}", fix)


def choose_algorithm(
    graph: Graph,
    name: str,
    samples: Iterable[Any] | None = None,
    corrects_bias: bool = False,
    format: WeightFormat | None = None,
    options: Mapping[str, Any] | None = None,
    layers: Collection[str] | None = None,
) -> WeightAlgorithm:
    """Return the algorithm `name` for a float graph, with the data that it needs.

    Args:
        graph: a float graph.
        name: one of `WEIGHTS_ALONE`.
        samples: inputs, as for `calibrate`, if the algorithm needs them; the graph runs
            on them once.
        corrects_bias: whether biases are corrected, which needs samples too.
        format: the format of the codes; None for 8 bits, a scale for each output.
        options: options of the algorithm; they must be known ones.
        layers: the names of the layers to quantize; None for all.

    Raises:
        OptionError: samples are needed but missing, or given but not needed.
        DataError: the samples do not fit the graph, or there are none.
    """
    check_flag("correct_bias", corrects_bias)
    # Samples that are not needed raise too: the caller expects them to have an effect.
    if (name in SAMPLED or corrects_bias) != (samples is not None):
        option = ("correct_bias", True) if corrects_bias else ("method", name)
        what, given = written(*option), written("samples")
        if samples is None:
            raise OptionError(f"{what} needs samples", f"Pass them as {given}")
        raise OptionError(f"{what} does not need samples", f"Omit {given}")
    form = format or WeightFormat()
    found = WeightAlgorithm(name, format=form, options=options or {})
    if samples is None:
        return found
    inputs = input_moments(graph, samples, layers)
    return replace(found, inputs=inputs, corrects_bias=corrects_bias)
