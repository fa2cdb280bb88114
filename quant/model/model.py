"""Models: load, calibrate, quantize, look, run, save.

    model = load("model.onnx", input_shapes=(1, 3, 224, 224))
    small = model.quantize(model.calibrate(samples))
    print(small.plan())
    y = small(x)
    small.save("small.onnx")

A plan is made for each choice of input shapes, on the first call with it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mdtensor import DType, TensorSpec
from mdtensor.checking.checked import LOGS
from mdtensor.errors import DataError, written
from mdtensor.kernels.cpu import kernel_set
from mdtensor.quant.dtypes import qint8
from mdtensor.quant.model.graph import Graph
from mdtensor.quant.model.onnx import read
from mdtensor.quant.model.passes import scaling, simplify
from mdtensor.quant.model.passes.rounding import refusal, refused, ruled, settled
from mdtensor.quant.model.quantize import (
    algorithms,
    calibrate,
    quantize,
    weight_only,
    weights,
)
from mdtensor.quant.model.quantize.calibrate import Calibration
from mdtensor.quant.model.quantize.float_nodes import is_quantized
from mdtensor.quant.model.run.bound import BoundPlan, key_of
from mdtensor.quant.model.run.inputs import Shapes, checked_feeds, chosen
from mdtensor.quant.model.run.plan import Plan
from mdtensor.quant.observers import MinMaxObserver, MSEObserver
from mdtensor.quant.rules import EXACT, check_rule
from mdtensor.quant.weights.format import WeightFormat, type_of_codes
from mdtensor.quant.weights.quantize import check_options

Path = str | os.PathLike[str]
#: Calls that a model remembers; for a new one the oldest goes.
MOST = 64


class Model:
    """A graph that runs by plans, one for each choice of input shapes.

    Args:
        graph: what it computes; float or quantized.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph, self._on = graph, kernel_set.CHOSEN.get()
        self._plans: dict[tuple[tuple[int, ...], ...], Plan] = {}
        self._calls: dict[Hashable, BoundPlan] = {}
        self._lock = threading.Lock()

    @property
    def inputs(self) -> Mapping[str, TensorSpec]:
        """Type and shape of each input; -1 is any size."""
        return self.graph.inputs

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the results."""
        return self.graph.outputs

    @property
    def is_quantized(self) -> bool:
        """Whether any of its values is quantized."""
        return is_quantized(self.graph)

    @property
    def weight_bytes(self) -> int:
        """Bytes of the weights of convolutions and products; codes and their scales."""
        return weights.weight_bytes(self.graph)

    def __call__(self, /, *inputs: Any, **named: Any) -> Any:
        """The result for these inputs; a tuple if the model has several.

        The first call on a machine compiles kernels, up to half a minute, and keeps
        them on disk; `mdtensor warmup FILE` does it beforehand.

        Args:
            inputs: tensors or NumPy arrays in the order of `inputs`, or by name, as
                keywords or in one dict.

        Raises:
            DataError: an input is missing, unknown, or of another type or shape.
        """
        # In `md.checked` each node is a call, whose losses are counted.
        if LOGS.get():
            found = self.graph.run(self.fed(*inputs, **named))
            results = tuple(found[name] for name in self.outputs)
        else:
            key = None if named else key_of(inputs)
            # Without a lock: a dict answers one question of many threads at a time.
            call = self._calls.get(key)
            if call is None:
                inputs, call = self._bind(key, inputs, named)
            results = call(*inputs)
        return results[0] if len(results) == 1 else results

    # A steady call checks only types and shapes of its inputs (decision 0048).
    def _bind(
        self, key: Hashable, inputs: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], BoundPlan]:
        """Return the checked inputs in order, and what runs them.

        Args:
            key: of a call that may be remembered; None for others.
            inputs, named: as of a call.

        Raises:
            DataError: an input is missing, unknown, or of another type or shape.
        """
        feeds = self.fed(*inputs, **named)
        tensors = tuple(feeds.values())
        call = self._plan_for(feeds).bound
        # An array that had to be converted must be converted at the next call as well.
        if key is not None and all(map(_is_unchanged, inputs, tensors)):
            self._remember(key, call)
        return tensors, call

    def _remember(self, key: Hashable, call: BoundPlan) -> None:
        with self._lock:
            while len(self._calls) >= MOST:
                del self._calls[next(iter(self._calls))]
            self._calls[key] = call

    def fed(self, /, *inputs: Any, **named: Any) -> dict[str, Any]:
        """Return a checked tensor for each input, by name, in the order of `inputs`.

        Raises:
            DataError: an input is missing, unknown, or of another type or shape.
        """
        return checked_feeds(self.inputs, self._named(inputs, named))

    def _named(self, inputs: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        if len(inputs) == 1 and isinstance(inputs[0], Mapping):
            # Names of inputs in files are often no identifiers of Python.
            named = {**inputs[0], **named}
            inputs = ()
        if len(inputs) > len(self.inputs):
            raise DataError(
                f"{len(inputs)} inputs given, the model has {len(self.inputs)}",
                f"It has {', '.join(map(repr, self.inputs)) or 'none'}",
            )
        if any(isinstance(one, Mapping) for one in inputs):
            raise DataError("inputs are given as a dict", "Use model(**inputs)")
        placed = dict(zip(self.inputs, inputs, strict=False))
        for name in placed.keys() & named.keys():
            raise DataError(f"input {name!r} is given twice", "Give it once")
        return {**placed, **named}

    def _plan_for(self, feeds: Mapping[str, Any]) -> Plan:
        return self._planned({name: feeds[name].shape for name in self.inputs})

    def _planned(self, shapes: Mapping[str, tuple[int, ...]]) -> Plan:
        key = tuple(shapes.values())
        with self._lock:
            if key not in self._plans:
                specs = {n: s.with_shape(shapes[n]) for n, s in self.inputs.items()}
                graph = replace(self.graph, inputs=specs)
                self._plans[key] = kernel_set.make_on(self._on, Plan, graph)
            return self._plans[key]

    def plan(self, input_shapes: Shapes | None = None) -> Plan:
        """How it runs: for each node the method, kernel, runway, and why.

        Args:
            input_shapes: of each input by name, or of the only input; needed where
                its sizes are dynamic.

        Raises:
            DataError: a size is still dynamic; shapes of other inputs or sizes, or
                one shape for several inputs.
        """
        shapes = chosen(self.inputs, input_shapes)
        for name, shape in shapes.items():
            if -1 in shape:
                raise DataError(
                    f"input {name!r} has the dynamic shape {shape}",
                    f"Give {written('input_shapes')} to plan for",
                )
        return self._planned(shapes)

    def calibrate(
        self,
        samples: Iterable[Any],
        observer: Callable[[], MinMaxObserver] = MSEObserver,
    ) -> Calibration:
        """What every value does on `samples`; see `calibrate.calibrate`."""
        return calibrate.calibrate(self.graph, samples, observer)

    def equalize(self, *, sweeps: int = 20, powers_of_two: bool = False) -> Model:
        """The same function by layers whose channels have equal ranges.

        Between two layers with nothing but relu, leaky relu, pools and views of vectors
        (not relu6, whose 6 would move), each channel is divided by what makes its
        largest weights equal on both sides, and the layers behind are multiplied by it;
        see `quant.equalize`. Outputs are those of before but for the rounding of
        floats. Values whose scale changed have other names: calibrate afterwards.

        Args:
            sweeps: how often to go through the layers at most.
            powers_of_two: scales are powers of two: outputs stay equal to the bit, and
                ranges are equal to a factor of 2.

        Raises:
            OptionError: fewer than one sweep, or the model is quantized.

        Source: Nagel et al. 2019, "Data-Free Quantization", section 4.1.
        """
        return Model(scaling.equalize(self.graph, sweeps, powers_of_two))

    def smooth(
        self,
        samples: Iterable[Any],
        *,
        strength: float = 0.5,
        powers_of_two: bool = False,
    ) -> Model:
        """The same function by layers that read channels of more equal ranges.

            s_j = max|x_j|ᵃ / max|W_j|¹⁻ᵃ

        Each channel that layers read is divided by s where it is written, by a layer or
        a normalization with weights, and their weights are multiplied by it; see
        `quant.smooth`. What may lie between, and what it gives, is as of `equalize`.

        Args:
            samples: as `calibrate` takes them; the model runs on them.
            strength: a, from 0 (the ranges of weights become equal) to 1 (those of what
                layers read).
            powers_of_two: scales are powers of two: outputs stay equal to the bit.

        Raises:
            OptionError: another strength, or the model is quantized.
            DataError: bad samples, or none.

        Source: Xiao et al. 2022, "SmoothQuant", equation 4.
        """
        return Model(scaling.smooth(self.graph, samples, strength, powers_of_two))

    def quantize(
        self,
        calibration: Calibration,
        *,
        keep_float: Sequence[str] = (),
        method: str = "rtn",
        weight_dtype: DType | str = qint8,
        samples: Iterable[Any] | None = None,
        correct_bias: bool = False,
        rounding: str | None = None,
        **options: Any,
    ) -> Model:
        """The model on 8-bit grids, weights on 8 or 4; see `quantize.quantize_graph`.

        Args:
            calibration: of this model.
            keep_float: names of nodes that stay float.
            method: how weights become codes: `rtn`, `mse`, `hqq` or `gptq`.
            weight_dtype: type of these codes: qint8 or qint4.
            samples: for gptq and correct_bias; the model runs on them once more.
            correct_bias: whether biases make up for what rounding the weights adds to
                the mean of each output; see `quant.correct_bias`.
            rounding: the rule of all its results, see `quant.rounding`; None for that
                of this model.
            options: of the method, as `quant.quantize_weights` takes them.

        Raises:
            OptionError: a node that is not there, another method or type, samples
                that are needed and not given or the other way round, no such rule or
                one without an answer for an operation here, or the model is quantized
                already.
            DataError: the calibration is of another model, or bad samples.
            LinAlgError: samples that do not determine what gptq asks of them.
        """
        rule = check_rule(self.rounding if rounding is None else rounding)
        algorithms.check_method(method, algorithms.ALGORITHMS)
        check_options(Model.quantize, method, options)
        format = algorithms.format_of(weight_dtype)
        chosen = algorithms.algorithm(
            self.graph, method, samples, correct_bias, format, options
        )
        graph = quantize.quantize_graph(
            self.graph, calibration, keep_float, chosen, rule
        )
        if told := refused(graph, rule):
            keep = self._to_keep(calibration, rule, [*keep_float, *told])
            raise refusal(rule, told, keep)
        return Model(settled(replace(graph, rounding=rule)))

    def _to_keep(
        self, calibration: Calibration, rule: str, names: list[str]
    ) -> list[str]:
        """These names, and those that `rule` refuses once these are float, and so on.

        An activation that was a part of its layer stands alone beside a float one.
        """
        graph = quantize.quantize_graph(self.graph, calibration, names, rule=rule)
        more = [name for name in refused(graph, rule) if name not in names]
        return self._to_keep(calibration, rule, names + more) if more else names

    def quantize_weights(
        self,
        *,
        method: str = "rtn",
        samples: Iterable[Any] | None = None,
        weight_dtype: DType | str = qint8,
        bits: int | None = None,
        block_size: int | None = None,
        symmetric: bool = True,
        keep_float: Sequence[str] = (),
        **options: Any,
    ) -> Model:
        """The model with weights as codes and all else in float.

            y = x · Wᵀ + b,    w = float32(scale · (code - zero point))

        Products read the codes, and turn them into numbers on the way. There is a scale
        for each output, or with `block_size` one for so many of its inputs, which are
        neighbouring channels; in a window those of one place, or if they are no whole
        blocks, a scale for each output all the same. Nothing is calibrated: no
        activation is rounded. What stays float, and why, is in `plan`: weights of
        float64 or integers, those that are computed, those of convolutions with one
        channel a group.

        Args:
            method: `rtn`, `mse`, `hqq`, `gptq` or `awq`, see `quant.quantize_weights`.
                For awq, channels are scaled where they are written, or by a product
                of their own if that leaves at most 0.9 of the squared error; those of
                float16 and bfloat16 always by the latter, with powers of two.
            samples: for gptq and awq; the model runs on them.
            weight_dtype: type of the codes: qint8, quint8, qint4, quint4, or qint16,
                which a layer keeps as numbers.
            bits: use only so many of the type's bits; None for all.
            block_size: how many inputs of an output share a scale; None for all.
            symmetric: zero point 0, and as many codes below as above.
            keep_float: names of nodes that stay float.
            options: of the method, as `quant.quantize_weights` takes them.

        Raises:
            OptionError: as of `quantize`; codes that there are not, or no kernel for
                them.
            DataError: bad samples.
            LinAlgError: samples that do not determine what gptq asks of them.

        Source: the papers that `mdtensor.quant.weights` names for each algorithm.
        """
        algorithms.check_method(method, algorithms.WEIGHTS_ALONE)
        check_options(Model.quantize_weights, method, options)
        dtype = type_of_codes("weight_dtype", weight_dtype)
        form = WeightFormat(dtype, bits, 0, block_size, symmetric)
        graph = weight_only.quantize_weights(
            self.graph, method, form, samples, keep_float, options
        )
        return Model(graph)

    @property
    def rounding(self) -> str:
        """The rule that its results are rounded by, whatever the context."""
        return self.graph.rounding

    def rounded(self, rule: str) -> Model:
        """The same model, its results rounded by `rule`; see `quant.rounding`.

        Raises:
            OptionError: no rule has this name, or it has none for an operation here.
        """
        return Model(ruled(self.graph, rule))

    def save(self, path: Path) -> None:
        """Write ONNX; a quantized model as QDQ.

        Raises:
            ModelError: a part has no ONNX form, or the place cannot be written; an
                existing file is not touched then.
        """
        from mdtensor.quant.model.onnx import write

        write.write_graph(self.graph, path)

    def __reduce__(self) -> Any:
        """By its graph; plans are made again."""
        return Model, (self.graph,)

    def __repr__(self) -> str:
        kind = weights.kind(self.graph)
        if self.rounding != EXACT:
            kind += f", rounding={self.rounding!r}"
        return f"Model({kind}, {self.graph!r})"


def _is_unchanged(given: Any, tensor: Any) -> bool:
    """Return whether a tensor is what was given, or has it as its buffer."""
    return tensor is given or tensor.buffer is given


def load(path: Path | Any, input_shapes: Shapes | None = None) -> Model:
    """The model in an ONNX file, simplified: constants and batch norms are folded.

    Args:
        path: the file, or an `onnx.ModelProto`; float, or quantized as QDQ or as
            QLinear operators.
        input_shapes: of each input by name, or of the only input.

    Raises:
        ModelError: no such file, no model, or a part that is not supported.
    """
    return Model(settled(simplify.simplify(read.read_graph(path, input_shapes))))
