"""Models: load, calibrate, quantize, inspect, run, save.

    model = load("model.onnx", input_shapes=(1, 3, 224, 224))
    small = model.quantize(model.calibrate(samples))
    print(small.plan())
    y = small(x)
    small.save("small.onnx")

The first call with new input shapes makes a plan for these shapes.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mdtensor import Device, DType, TensorSpec, cpu
from mdtensor.errors import DataError, shown
from mdtensor.extend import LOGS, explain_wrong_calls
from mdtensor.graph import Graph
from mdtensor.graph.bound import in_order, key_of
from mdtensor.graph.inputs import (
    Shapes,
    by_name,
    checked_feeds,
    each,
    is_lazy,
    is_unchanged,
)
from mdtensor.graph.plan import Plan
from mdtensor.graph.profile import Profile, profile_plan
from mdtensor.quant.dtypes import qint8
from mdtensor.quant.model.automatic import place_of
from mdtensor.quant.model.names import hint
from mdtensor.quant.model.passes import scaling
from mdtensor.quant.model.passes.rounding import (
    apply_rule,
    keep_float_error,
    reapply_rule,
    unsupported_nodes,
)
from mdtensor.quant.model.placed import PlacedModel
from mdtensor.quant.model.quantize import (
    algorithms,
    calibrate,
    quantize,
    weight_only,
    weights,
)
from mdtensor.quant.model.quantize.calibrate import Calibration
from mdtensor.quant.model.quantize.float_nodes import STAY_FLOAT, is_quantized
from mdtensor.quant.model.quantize.search import (
    Metric,
    Search,
    Step,
    check_budget,
)
from mdtensor.quant.model.shaped import MOST, ShapedPlans, sized, whole_shapes
from mdtensor.quant.observers import MinMaxObserver, MSEObserver
from mdtensor.quant.rules import EXACT, check_rule
from mdtensor.quant.weights.format import WeightFormat, type_for_bits, type_of_codes
from mdtensor.quant.weights.quantize import check_options

Path = str | os.PathLike[str]


class Model:
    """A float or quantized network: call it, quantize it, inspect it, save it.

    `quant.load` makes it from a file. It keeps the last 64 plans, one for each shape.

    Args:
        graph: the computation.
    """

    #: Where the inputs have to be.
    device: Device = cpu
    remedy = "Use methods of the model, such as x.quantize(x.calibrate(samples))"

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        #: What `quantize` tried and chose for a budget; None without one.
        self.search: Search | None = None
        self._plans = ShapedPlans()
        self._calls: dict[Hashable, Callable[..., tuple[Any, ...]]] = {}
        self._lock = threading.Lock()

    @property
    def inputs(self) -> Mapping[str, TensorSpec]:
        """Return type and shape of each input by name; -1 stands for any size."""
        return self.graph.inputs

    @property
    def outputs(self) -> tuple[str, ...]:
        """Return the names of the results."""
        return self.graph.outputs

    @property
    def states(self) -> Mapping[str, Any]:
        """Return the first value of each input that is the state of a stream, by name.

        The last results are the values for the next call, in the same order; only files
        with variables have such inputs.

            answer, *states = model(sound, *model.states.values())
            answer, *states = model(more, *states)

        `quant.Stream` passes them on for you.
        """
        return self.graph.states

    @property
    def is_quantized(self) -> bool:
        """Return whether any value of the model is quantized."""
        return is_quantized(self.graph)

    @property
    def weight_bytes(self) -> int:
        """Return the bytes of all weights of layers, with the scales of codes."""
        return weights.weight_bytes(self.graph)

    def __call__(self, /, *inputs: Any, **named: Any) -> Any:
        """Run the model; return its result, or a tuple if it has several.

        The first call of a network on a machine compiles kernels, which takes half a
        minute or more, and caches them on disk; `mdtensor warmup FILE` does this in
        advance. With a lazy tensor, as in `md.compile`, the nodes are recorded.

        Args:
            inputs: tensors or NumPy arrays in the order of `inputs`; or pass them by
                name, as keywords or in one dict.

        Raises:
            DataError: an input is missing or unknown, or has a wrong type or shape.
        """
        # `md.checked` counts the losses of each call, and a plan runs many in one.
        if LOGS.get():
            return self._by_node(self.fed(*inputs, **named))
        ordered: Any = in_order(self.inputs, inputs, named)
        key = None if ordered is None else key_of(ordered)
        # Without a lock: a dict answers one question of many threads at a time.
        call = self._calls.get(key)
        if call is None:
            if any(map(is_lazy, (*inputs, *named.values()))):
                return self._by_node(by_name(self.inputs, inputs, named))
            ordered, call = self._bind(key, ordered, self.fed(*inputs, **named))
        results = call(*(ordered or ()))
        return results[0] if len(results) == 1 else results

    def _by_node(self, feeds: Mapping[str, Any]) -> Any:
        found = self.graph.run(feeds)
        results = tuple(found[name] for name in self.outputs)
        return results[0] if len(results) == 1 else results

    # A steady call checks only types and shapes of its inputs (decision 0048).
    def _bind(
        self, key: Hashable, inputs: tuple[Any, ...] | None, feeds: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], Callable[..., tuple[Any, ...]]]:
        """Return the validated inputs in order, and the bound plan that runs them.

        Args:
            key: types and shapes of the inputs; None if the call is not remembered.
            inputs: the arguments of the call in order; None if there is no order.
            feeds: the validated inputs by name.
        """
        tensors = tuple(feeds.values())
        call = self._plan_for(feeds).bound.call
        # An array that had to be converted must be converted at the next call as well.
        is_known = key is not None and inputs is not None
        if is_known and all(map(is_unchanged, inputs or (), tensors)):
            self._remember(key, call)
        return tensors, call

    def _remember(self, key: Hashable, call: Callable[..., tuple[Any, ...]]) -> None:
        with self._lock:
            while len(self._calls) >= MOST:
                del self._calls[next(iter(self._calls))]
            self._calls[key] = call

    def fed(self, /, *inputs: Any, **named: Any) -> dict[str, Any]:
        """Return a validated tensor for each input, by name, in the order of `inputs`.

        Raises:
            DataError: an input is missing or unknown, or has a wrong type or shape.
        """
        given = by_name(self.inputs, inputs, named)
        try:
            return checked_feeds(self.inputs, given)
        except DataError:
            left = [name for name in self.inputs if name not in given]
            if not left or not set(left) <= self.states.keys():
                raise
            count = f"{len(left)} state{'s' * (len(left) > 1)}"
            raise DataError(
                f"the model keeps {count} from call to call, such as {left[0]!r}, and "
                "got none of them",
                "Use quant.Stream(model), or pass model.states as well",
            ) from None

    def _plan_for(self, feeds: Mapping[str, Any]) -> Plan:
        return self._plan_for_shapes({name: feeds[name].shape for name in self.inputs})

    def _plan_for_shapes(self, shapes: Mapping[str, tuple[int, ...]]) -> Plan:
        return self._plans.made(self.graph, shapes)

    @explain_wrong_calls
    def plan(self, input_shapes: Shapes | None = None) -> Plan:
        """Return the plan: for each node its method, kernel, ISA, and the reason.

        Args:
            input_shapes: the shape of each input by name, or of the only input;
                required if the model has dynamic sizes.

        Raises:
            DataError: a size is still dynamic, or the shapes do not fit the inputs.
        """
        return self._plan_for_shapes(whole_shapes(self.graph, input_shapes))

    def profile(self, /, *inputs: Any, repeat: int = 20, **named: Any) -> Profile:
        """Measure each node: time, kernel, work, bytes, and why it is float.

        Args:
            inputs: as for a call.
            repeat: how often each node runs; the shortest time counts.
            named: inputs by name.

        Returns:
            A profile: `print` shows the slowest nodes, `save("trace.json")` writes a
            trace for chrome://tracing or Perfetto.

        Raises:
            DataError: an input is missing or unknown, or has a wrong type or shape.
            OptionError: `repeat` is not an integer of at least 1.
        """
        feeds = self.fed(*inputs, **named)
        graph = sized(self.graph, {name: x.shape for name, x in feeds.items()})
        return profile_plan(self._plan_for(feeds), graph, feeds, repeat)

    @explain_wrong_calls
    def calibrate(
        self,
        samples: Iterable[Any],
        observer: Callable[[], MinMaxObserver] = MSEObserver,
    ) -> Calibration:
        """Run the model on typical inputs, and return the range of each value.

        `quantize` takes the result. A few dozen samples are enough; none is stored.

        Args:
            samples: an iterable with an array for each sample, or a mapping from the
                name of each input to one. Or one array with all samples, which is split
                along its first axis.
            observer: how ranges are chosen: a class of `mdtensor.quant`.

        Raises:
            DataError: there are no samples, one does not fit the inputs, or an output
                or the input of a layer becomes NaN or infinite.
            OptionError: `observer` is not callable.
        """
        return calibrate.calibrate(self.graph, samples, observer)

    @explain_wrong_calls
    def equalize(self, *, sweeps: int = 20, powers_of_two: bool = False) -> Model:
        """Return a model of the same function whose channels have equal ranges.

        The first layer divides each channel by a scale and the following layers
        multiply it back, such that the largest weights on both sides become equal; see
        `quant.equalize`. Between the layers there may be relu, leaky relu,
        pooling and reshapes from [n, c, 1, 1] to [n, c], but not relu6, whose limit of
        6 would have to change. Outputs change only by the rounding of floats. Values
        whose scale changed get new names, so calibrate after this call.

        Args:
            sweeps: the maximal number of passes over all layers.
            powers_of_two: use powers of two as scales: outputs stay equal to the last
                bit, and ranges become equal up to a factor of 2.

        Raises:
            OptionError: `sweeps` is less than 1, or the model is quantized.

        Source: Nagel et al. 2019, "Data-Free Quantization", section 4.1.
        """
        return Model(scaling.equalize(self.graph, sweeps, powers_of_two))

    @explain_wrong_calls
    def smooth(
        self,
        samples: Iterable[Any],
        *,
        strength: float = 0.5,
        powers_of_two: bool = False,
    ) -> Model:
        """Return a model of the same function whose layers read more equal channels.

            s_j = max|x_j|ᵃ / max|W_j|¹⁻ᵃ

        The layer or normalization that writes a channel divides it by s, and the
        weights of the layers that read it are multiplied by s; see `quant.smooth`. The
        operations between them and the effect on outputs are as for `equalize`.

        Args:
            samples: inputs, as for `calibrate`; the model runs on them once.
            strength: a, from 0 (the ranges of the weights become equal) to 1 (the
                ranges of the inputs become equal).
            powers_of_two: use powers of two as scales: outputs stay equal to the last
                bit.

        Raises:
            OptionError: `strength` is out of range, or the model is quantized.
            DataError: the samples do not fit the model, or there are none.

        Source: Xiao et al. 2022, "SmoothQuant", equation 4.
        """
        return Model(scaling.smooth(self.graph, samples, strength, powers_of_two))

    @explain_wrong_calls
    def quantize(
        self,
        calibration: Calibration,
        *,
        keep_float: Sequence[str] = (),
        method: str = "rtn",
        weight_dtype: DType | str = qint8,
        reduce_range: bool = False,
        samples: Iterable[Any] | None = None,
        correct_bias: bool = False,
        rounding: str | None = None,
        budget: float | None = None,
        held_out: Iterable[Any] | None = None,
        metric: Metric | None = None,
        progress: Callable[[Step], None] | None = None,
        **options: Any,
    ) -> Model:
        """Return the model with 8-bit activations and 8-bit or 4-bit weights.

        Args:
            calibration: the result of `calibrate` on this model.
            keep_float: names of nodes that stay float.
            method: the algorithm for the weights: `rtn`, `mse`, `hqq` or `gptq`.
            weight_dtype: element type of the weights: qint8 or qint4.
            reduce_range: use 7 bits of qint8. Choose it for a file that ONNX Runtime
                runs on a CPU with AVX2 but without VNNI: its sums of two products
                saturate at int16 there. Models here do not need it.
            samples: inputs for `gptq` and for `correct_bias`; the model runs on them
                once more.
            correct_bias: correct the biases for the shift that rounding the weights
                adds to the mean of each output; see `quant.correct_bias`.
            rounding: the rounding rule of all results, see `quant.rounding`; None for
                the rule of this model.
            budget: the largest error on `held_out`. If it is exceeded, other grids are
                tried, then nodes stay float, those with the largest errors first.
                `search` of the result says what was tried and chosen.
            held_out: samples that the calibration has not seen, for `budget`.
            metric: a function that takes the outputs of this model and those of the
                quantized one, in lists with an array for each sample, or with a tuple
                of arrays for several outputs; it returns the error. None for the
                relative error, the largest |z - y| / |y| of an output.
            progress: called with each try of the search.
            options: options of the method, as for `quant.quantize_weights`.

        Raises:
            BudgetError: no quantization within the budget was found.
            OptionError: `keep_float` names an unknown node; the method, the type or the
                rule is unknown; the rule does not support an operation of the model;
                samples are missing, or given but not needed; or the model is quantized
                already.
            DataError: the calibration belongs to another model, or the samples do not
                fit the inputs.
            LinAlgError: the samples are too few or too similar for `gptq`.
        """
        # Check all options first: the passes over samples below may take minutes.
        rule = check_rule(self.rounding if rounding is None else rounding)
        algorithms.check_method(method, algorithms.ALGORITHMS)
        check_options(Model.quantize, method, options)
        check_budget(budget, held_out, metric, progress)
        format = algorithms.format_of(weight_dtype, reduce_range)
        chosen = algorithms.choose_algorithm(
            self.graph, method, samples, correct_bias, format, options
        )

        def make(seen: Calibration, keep: Sequence[str]) -> Model:
            return self._quantized(seen, keep, chosen, rule)

        if budget is None:
            return make(calibration, keep_float)
        # Imported late: only a search compares models.
        from mdtensor.quant.model.quantize.searcher import Searcher

        held = list(each(held_out, self.inputs))
        searcher = Searcher(self, make, budget, held, metric, progress)
        small, search = searcher.run(calibration, keep_float)
        found: Model = small
        found.search = search
        return found

    def _quantized(
        self,
        calibration: Calibration,
        keep_float: Sequence[str],
        chosen: algorithms.WeightAlgorithm,
        rule: str,
    ) -> Model:
        graph = quantize.quantize_graph(
            self.graph, calibration, keep_float, chosen, rule
        )
        if unsupported := unsupported_nodes(graph, rule):
            keep = self._to_keep(calibration, rule, [*keep_float, *unsupported])
            raise keep_float_error(rule, unsupported, keep)
        return Model(reapply_rule(replace(graph, rounding=rule)))

    def _to_keep(
        self, calibration: Calibration, rule: str, names: list[str]
    ) -> list[str]:
        """Return `names` and all further nodes that must stay float for `rule` to work.

        A layer that stays float no longer contains the activation that follows it. That
        activation becomes a node of its own, which `rule` may not support either. So
        this is repeated until no unsupported node is left.
        """
        graph = quantize.quantize_graph(self.graph, calibration, names, rule=rule)
        more = [name for name in unsupported_nodes(graph, rule) if name not in names]
        return self._to_keep(calibration, rule, names + more) if more else names

    def quantize_weights(
        self,
        *,
        method: str = "rtn",
        samples: Iterable[Any] | None = None,
        weight_dtype: DType | str | None = None,
        bits: int | None = None,
        block_size: int | None = None,
        symmetric: bool = True,
        keep_float: Sequence[str] = (),
        **options: Any,
    ) -> Model:
        """Return the model with quantized weights; everything else stays float.

            y = x · Wᵀ + b,    w = float32(scale · (code - zero point))

        Products read the codes and convert them to float32 while they run. Activations
        stay float, so no calibration is needed. There is one scale for each output, or
        with `block_size` for each block of neighbouring input channels; in a
        convolution, each position of the window has its own blocks. `plan` shows which
        weights stay float and why: float64 and integer weights, weights that are
        computed, and convolutions with one channel per group.

        Args:
            method: `rtn`, `mse`, `hqq`, `gptq` or `awq`, see docs/how-to/weights.md.
            samples: inputs for `gptq` and `awq`, as for `calibrate`; the model runs on
                them.
            weight_dtype: element type of the codes: qint8, quint8, qint4, quint4, or
                qint16, which a layer stores as floats; None for qint4 if `bits` is at
                most 4, otherwise qint8.
            bits: use only this many of the type's bits; None for all.
            block_size: how many inputs of an output share a scale; None for all.
            symmetric: the zero point is 0, and -c is a code if c is.
            keep_float: names of nodes that stay float.
            options: options of the method, as for `quant.quantize_weights`.

        Raises:
            OptionError: as for `quantize`; also for a format of codes that does not
                exist or does not have a kernel.
            DataError: the samples do not fit the inputs.
            LinAlgError: the samples are too few or too similar for `gptq`.
        """
        algorithms.check_method(method, algorithms.WEIGHTS_ALONE)
        check_options(Model.quantize_weights, method, options)
        dtype = type_for_bits(bits)
        if weight_dtype is not None:
            dtype = type_of_codes("weight_dtype", weight_dtype)
        form = WeightFormat(dtype, bits, 0, block_size, symmetric)
        graph = weight_only.quantize_weights(
            self.graph, method, form, samples, keep_float, options
        )
        return Model(graph)

    @property
    def rounding(self) -> str:
        """Return the rounding rule of the model's results.

        A block `with quant.rounding(...)` does not change it.
        """
        return self.graph.rounding

    @explain_wrong_calls
    def rounded(self, rule: str) -> Model:
        """Return this model with results rounded by `rule`; see `quant.rounding`.

        Raises:
            OptionError: the rule is unknown, or does not support an operation of the
                model.
        """
        return Model(apply_rule(self.graph, rule))

    @explain_wrong_calls
    def save(self, path: Path) -> None:
        """Write an ONNX file; a quantized model is written in QDQ form.

        Raises:
            ModelError: a part cannot be written as ONNX, the path is not writable, or
                its name ends in .tflite; an existing file is unchanged then.
            OptionError: the path is not one of a file.
        """
        # Imported late: only `save` needs the writer.
        from mdtensor.quant.model.onnx import write

        write.write_graph(self.graph, path)

    @explain_wrong_calls
    def compile(
        self,
        path: Path,
        input_shapes: Shapes | None = None,
        *,
        isas: Sequence[str] = (),
    ) -> None:
        """Write a stored plan: what runs, and nothing that is needed to plan it.

        `load_plan` and `mdtensor_run` run the file with the same bytes. It fits this
        version of mdtensor, and the CPUs that you choose.

        Args:
            path: of the file, by convention `net.mdt`.
            input_shapes: as for `plan`.
            isas: one plan for each of these ISAs, in the order in which a machine
                chooses: vnni, avx512, avxvnni, avx2, neon, generic. This CPU need not
                have them. By default that of this model.

        Raises:
            ModelError: a node has no steps, a file cannot hold the type of a value, or
                the path is not writable.
            DataError: as for `plan`.
            OptionError: an ISA is unknown, or the path is not one.
        """
        # Imported late: only `compile` needs the writer.
        from mdtensor.quant.plans.write import chosen_isas, plan_for, write_plan

        names = chosen_isas(isas, self._plans.on.name)
        plan = self.plan(input_shapes)
        write_plan(path, {name: plan_for(plan, name, STAY_FLOAT) for name in names})

    @explain_wrong_calls
    def to(self, device: Device | str) -> Model | PlacedModel:
        """Return the model on a device: weights are copied, nothing moves later.

        Args:
            device: a device or its name; this model for the CPU. With "auto", the
                device that is expected to be the fastest.

        Raises:
            DeviceError: there is no such device, or it lacks a type of the weights.
            AllocationError: no device has the memory, with "auto".
            OptionError: `device` is "auto", and a size of an input is dynamic.
        """
        place = place_of(self.graph, device)
        return self if place is cpu else PlacedModel(self, place)

    def __reduce__(self) -> Any:
        """Pickle the graph only; plans are made again."""
        # The lock cannot be pickled, and plans hold kernels for this machine.
        return Model, (self.graph,)

    def __repr__(self) -> str:
        kind = weights.precision(self.graph)
        if self.rounding != EXACT:
            kind += f", rounding={self.rounding!r}"
        return f"Model({kind}, {self.graph!r})"


def _unknown(model: Model, name: str) -> Any:
    """Raise the error of a missing attribute; the `__getattr__` of models."""
    fix = hint(name, dir(Model))
    raise AttributeError(f"Model has no attribute {shown(name)}.{fix}")


# Not in the class, where a type checker would take every name for an attribute.
setattr(Model, "__getattr__", _unknown)  # noqa: B010
