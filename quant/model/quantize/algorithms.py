"""Codes for the weights of layers, by a named algorithm.

    rtn    the grid covers the weights                     the default
    mse    the grid with the least squared error
    hqq    the grid that outliers move least
    gptq   later weights make good what rounding did       needs samples
    awq    as rtn, once `awq` has moved scales             needs samples

Where a layer has channels in groups, each group reads other inputs and is a layer of
its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from mdtensor import DType
from mdtensor.errors import OptionError, shown, written
from mdtensor.quant.dtypes import qint4, qint8
from mdtensor.quant.model.graph import Graph, Node
from mdtensor.quant.model.quantize.calibrate import input_moments
from mdtensor.quant.tensor import quantized
from mdtensor.quant.weights.algorithms import compensated, least_squares
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

#: Those for layers that read codes: awq would move ranges that grids are chosen for.
ALGORITHMS = ("rtn", "mse", "hqq", "gptq")
#: Those for weights alone.
WEIGHTS_ALONE = (*ALGORITHMS, "awq")
#: Those that look at what layers read.
SAMPLED = ("gptq", "awq")


@dataclass(frozen=True)
class WeightAlgorithm:
    """How weights become codes.

    Args:
        name: of the algorithm.
        inputs: moments of the inputs of each layer, a group after another, by the name
            of its node; none for algorithms that need none.
        corrects_bias: whether biases make up for what rounding adds to the mean of each
            output.
        format: which codes weights get.
        options: of the algorithm.
    """

    name: str = "rtn"
    inputs: Mapping[str, list[InputMoments]] = field(default_factory=dict)
    corrects_bias: bool = False
    format: WeightFormat = field(default_factory=WeightFormat)
    options: Mapping[str, Any] = field(default_factory=dict)

    def codes(
        self, node: Node, weights: Any, axis: int | None = 0, floor: Any = 0.0
    ) -> Any:
        """The weights of `node` as a quantized tensor.

        Blocks are of neighbouring channels: in a convolution, of each place of the
        window by itself.

        Args:
            node: the layer.
            weights: float, output channels first.
            axis: None where all weights share a scale, 0 where the format says.
            floor: scales are at least this large.
        """
        format = self.format if axis == 0 else replace(self.format, axis=axis)
        order = _order(weights.shape, format)
        rows = matrix(np.asarray(weights))[:, order]
        layer = Layer(rows, format, floor=floor)
        if self.name == "gptq":
            inputs = [group.reordered(order) for group in self.inputs[node.name]]
            found = _compensated(layer, inputs, self.options)
        else:
            found = [METHODS[self.name](layer, **self.options)]
        return _tensor(found, weights.shape, order)

    def bias(self, node: Node, bias: Any, weights: Any, found: Any) -> Any:
        """The bias of `node`, as float64.

        Args:
            node: the layer.
            bias: float, one number an output.
            weights: float, output channels first.
            found: what they have become.
        """
        values = np.asarray(bias).astype(np.float64)
        groups = self.inputs.get(node.name, [])
        if not self.corrects_bias or not groups:
            return values
        parts = (np.split(real_weights(x), len(groups)) for x in (weights, found))
        shares = zip(np.split(values, len(groups)), *parts, groups, strict=True)
        return np.concatenate([correct_bias(*share) for share in shares])


def _compensated(
    layer: Layer, groups: list[InputMoments], options: Mapping[str, Any]
) -> list[Rounded]:
    """Each group of outputs by GPTQ, on grids that are found for all at once."""
    grids = least_squares(layer, layer.weights)
    found: list[Rounded] = []
    places = np.split(np.arange(len(layer.weights)), len(groups))
    for rows, inputs in zip(places, groups, strict=True):
        part = replace(layer, weights=layer.weights[rows], inputs=inputs)
        at = slice(None) if layer.format.axis is None else rows
        own = Grids(grids.scale[at], grids.zero[at], part.groups, layer.format)
        found.append(compensated(part, own, **options))
    return found


def _order(shape: tuple[int, ...], format: WeightFormat) -> Any:
    """The inputs of an output as blocks need them: channels last."""
    places = np.arange(prod(shape[1:])).reshape(shape[1:])
    return (places if format.block_size is None else np.moveaxis(places, 0, -1)).ravel()


def _tensor(found: list[Rounded], shape: tuple[int, ...], order: Any) -> Any:
    """Groups of outputs as one tensor, whose grid does not say that it is narrow."""
    grids = [part.grids.qparams() for part in found]
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


def _channels_first(blocks: Any, shape: tuple[int, ...]) -> Any:
    """Blocks [outputs, ...], those of a place together, as weights lie."""
    return np.moveaxis(blocks.reshape(shape[0], *shape[2:], -1), -1, 1)


def format_of(dtype: DType | str) -> WeightFormat:
    """A scale for each output, and codes that products of codes take.

    Raises:
        OptionError: they take none of this type.
    """
    found = type_of_codes("weight_dtype", dtype)
    if found not in (qint8, qint4):
        raise OptionError(f"{written('weight_dtype')} is {found}", "Use qint8 or qint4")
    return WeightFormat(found)


def check_method(name: Any, known: Sequence[str]) -> None:
    """Raise unless `name` is one of those `known`.

    Raises:
        OptionError: it is not.
    """
    if isinstance(name, str) and name in known:
        return
    fix = f"Use one of {', '.join(known)}"
    if isinstance(name, str) and name == "awq":
        alone, also = written("Model.quantize_weights"), written("Model.smooth")
        fix += f"; awq is for {alone}, and {also} for activations too"
    raise OptionError(f"{written('method')} is {shown(name)}", fix)


def algorithm(
    graph: Graph,
    name: str,
    samples: Iterable[Any] | None = None,
    corrects_bias: bool = False,
    format: WeightFormat | None = None,
    options: Mapping[str, Any] | None = None,
    layers: Collection[str] | None = None,
) -> WeightAlgorithm:
    """The algorithm `name` for the layers of a float graph.

    Args:
        graph: float.
        name: one of `WEIGHTS_ALONE`.
        samples: as `calibrate` takes them; for those that need them, which run the
            graph once more.
        corrects_bias: whether biases are corrected, which needs samples too.
        format: which codes weights get; None for 8 bits, a scale for each output.
        options: of the algorithm; those that there are.
        layers: names of those whose weights become codes; None for all.

    Raises:
        OptionError: samples are needed and there are none, or there are some and none
            are needed.
        DataError: bad samples.
    """
    check_flag("correct_bias", corrects_bias)
    if (name in SAMPLED or corrects_bias) != (samples is not None):
        asked = ("correct_bias", True) if corrects_bias else ("method", name)
        what, given = written(*asked), written("samples")
        if samples is None:
            raise OptionError(f"{what} needs samples", f"Pass them as {given}")
        raise OptionError(f"{what} needs no samples", f"Leave {given} away")
    form = format or WeightFormat()
    found = WeightAlgorithm(name, format=form, options=options or {})
    if samples is None:
        return found
    inputs = input_moments(graph, samples, layers)
    return replace(found, inputs=inputs, corrects_bias=corrects_bias)
