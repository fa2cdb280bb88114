"""The judge of one model, in a process of its own.

    python -m bench.zoo.judge NAME FILE

It prints what it finds as soon as it finds it, so a crash loses only the rest.
"""

import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.harness import Contender
from bench.harness.turns import interleave
from bench.zoo import samples
from bench.zoo.agreement import difference, numbers, rms
from bench.zoo.listing import Entry, entries
from bench.zoo.peers import LiteRT, OnnxRuntime, quantized, saved
from bench.zoo.verdict import tell
from mdtensor.errors import MdtensorError
from mdtensor.quant import Model, Stream, load, threads

#: Runtimes, as `Verdict.seconds` names them.
FLOAT, INT8 = "mdtensor float", "mdtensor int8"
ORT_FLOAT, ORT_INT8, LITERT = "onnxruntime float", "onnxruntime int8", "LiteRT"
#: Samples that calibrate, and samples that are held back.
SEEN, HELD = 8, 4
ROUNDS, SAMPLE_SECONDS = 5, 0.02
#: A saved float file must give this, relative to the largest result.
NEAR = 1e-3
#: The shortest reasons and operations are listed, so many of them.
LISTED = 5
Feeds = Mapping[str, Any]


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Run a stage; print its error and go on if it fails."""
    try:
        yield
    except Exception as error:
        tell(errors={name: sentence(error)})


def sentence(error: Exception) -> str:
    """Return an error in a line; the place of a foreign one stands behind it."""
    text = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    if isinstance(error, MdtensorError):
        return text
    places = traceback.extract_tb(error.__traceback__)
    return f"{text} at {Path(places[-1].filename).name}:{places[-1].lineno}"


def peak() -> float:
    """Return the most megabytes that this process had; 0 where nothing tells."""
    status = Path("/proc/self/status")
    if not status.exists():
        return 0.0
    lines = status.read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if "VmHWM" in line)


def judge(entry: Entry, path: Path) -> None:
    """Print all that is found about a model."""
    tell(bytes={"float": path.stat().st_size})
    before, start = peak(), time.perf_counter()
    try:
        network = load(
            path, samples.shapes(entry.inputs) or None, constants=entry.constants
        )
    except Exception as error:
        return tell(load_error=sentence(error))
    tell(load_seconds=time.perf_counter() - start)
    seen = [feeds(entry, network, seed) for seed in range(SEEN)]
    held = [feeds(entry, network, SEEN + seed) for seed in range(HELD)]
    results = None
    with stage("run"):
        results = [answer(network, one) for one in held]
        tell(peak=peak() - before)
    if results is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        Court(entry, path, network, seen, held, results, Path(folder)).run()


def feeds(entry: Entry, network: Model, seed: int) -> dict[str, Any]:
    """Return a sample for every input of the network."""
    made = samples.sample(entry.inputs, seed)
    for name, spec in network.inputs.items():
        if name in network.states:
            made[name] = np.asarray(network.states[name])
        elif name not in made:
            made[name] = samples.noise(spec.shape, spec.dtype.storage, seed)
    return {name: made[name] for name in network.inputs}


def answer(network: Model, given: Feeds) -> list[Any]:
    """Return the results of a call as arrays of numbers."""
    found = network(given)
    return [numbers(one) for one in (found if isinstance(found, tuple) else (found,))]


def call_of(network: Model, given: Feeds) -> Callable[[], Any]:
    """Return the call to time: of a stream where the peer keeps its variables, too."""
    if not network.states:
        return partial(network, given)
    stream = Stream(network)
    return partial(stream, {name: given[name] for name in stream.inputs})


class Court:
    """The stages after a model was loaded and ran."""

    def __init__(
        self,
        entry: Entry,
        path: Path,
        network: Model,
        seen: Sequence[Feeds],
        held: Sequence[Feeds],
        results: Sequence[Sequence[Any]],
        folder: Path,
    ) -> None:
        self.entry, self.path, self.network = entry, path, network
        self.seen, self.held, self.results = seen, held, results
        self.folder = folder
        self.calls: dict[str, Any] = {}

    def run(self) -> None:
        name = INT8 if self.network.is_quantized else FLOAT
        self.calls[name] = call_of(self.network, self.held[0])
        with stage("peer"):
            self.meet_peer()
        small = self.network
        if not small.is_quantized:
            with stage("float file"):
                self.check_float_file()
            small = self.quantize()
        if small is not None:
            self.examine(small)
        with stage("time"):
            contenders = [Contender(name, call) for name, call in self.calls.items()]
            found = interleave(contenders, ROUNDS, SAMPLE_SECONDS)
            tell(seconds={name: min(times) for name, times in found.items()})

    def meet_peer(self) -> None:
        """Compare float results with the peer's, and prepare to time it."""
        if self.entry.is_tflite:
            runtime: Any = LiteRT(self.path)
        else:
            runtime = OnnxRuntime(self.path, self.entry.constants)
        given = [runtime.feeds(one) for one in self.held]
        self.wanted = [runtime.first(one) for one in given]
        name = LITERT if self.entry.is_tflite else ORT_FLOAT
        self.calls[name] = partial(runtime, given[0])
        tell(difference=difference(self.results, self.wanted))
        if not self.entry.is_tflite and not self.network.is_quantized:
            with stage("onnxruntime int8"):
                self.meet_int8_peer(runtime)

    def meet_int8_peer(self, runtime: OnnxRuntime) -> None:
        seen = [runtime.feeds(one) for one in self.seen]
        file = quantized(self.path, seen, self.folder)
        small = OnnxRuntime(file, self.entry.constants)
        given = [small.feeds(one) for one in self.held]
        tell(
            peer_rms=rms([small(one) for one in given], self.wanted),
            bytes={ORT_INT8: len(file)},
        )
        self.calls[ORT_INT8] = partial(small, given[0])

    def check_float_file(self) -> None:
        """Save the float network; read it again here and in ONNX Runtime."""
        path, _ = saved(self.network)
        try:
            again = [answer(load(path), one) for one in self.held[:1]]
            if (apart := difference(again, self.results[:1])) > NEAR:
                tell(errors={"float file": f"read again, it differs by {apart:.1e}"})
            peer = OnnxRuntime(path, {})
            apart = difference([peer(self.held[0])], self.results[:1])
            if apart > NEAR:
                tell(
                    errors={"float file": f"in ONNX Runtime it differs by {apart:.1e}"}
                )
        finally:
            path.unlink()

    def quantize(self) -> Model | None:
        try:
            small = self.network.quantize(self.network.calibrate(self.seen))
            tell(rms=rms([answer(small, one) for one in self.held], self.results))
        except Exception as error:
            tell(quantize_error=sentence(error))
            return None
        self.calls[INT8] = call_of(small, self.held[0])
        return small

    def examine(self, small: Model) -> None:
        """Tell what stays float, what runs as calls, and what the file is like."""
        with stage("plan"):
            plan = small.plan({name: x.shape for name, x in self.held[0].items()})
            found = plan.float_nodes
            reasons = Counter(f"{node.operation}: {node.why}" for node in found)
            tell(float_nodes=len(found), nodes=len(plan.nodes))
            tell(reasons=[f"{n} {why}" for why, n in reasons.most_common(LISTED)])
        for name, model in ((FLOAT, self.network), (INT8, small)):
            with stage(f"profile of {name}"):
                tell(calls=self.called(name, model))
        with stage("int8 file"):
            self.check_int8_file(small)

    def called(self, name: str, model: Model) -> dict[str, float]:
        """Return the share of the time of each operation that runs as a call."""
        plan = model.plan({name: x.shape for name, x in self.held[0].items()})
        seconds = plan.profile(model.fed(self.held[0]), repeat=3)
        total = sum(seconds.values()) or 1.0
        shares: Counter[str] = Counter()
        for node in plan.nodes:
            if node.isa == "numpy":
                shares[f"{name}: {node.operation}"] += seconds[node.node] / total
        return {key: share for key, share in shares.most_common(LISTED) if share > 0.01}

    def check_int8_file(self, small: Model) -> None:
        path, file = saved(small)
        tell(bytes={INT8: len(file)})
        try:
            again, first = load(path), answer(small, self.held[0])
            if difference([answer(again, self.held[0])], [first]) > 0:
                tell(errors={"int8 file": "read again, it gives other results"})
            peer = OnnxRuntime(path, {})
            found = [peer(one) for one in self.held]
            tell(saved_rms=rms(found, self.results))
        finally:
            path.unlink()


def main(name: str, path: str) -> None:
    warnings.simplefilter("ignore")
    (entry,) = entries(name)
    with np.errstate(all="ignore"), threads(1):
        judge(entry, Path(path))


if __name__ == "__main__":
    main(*sys.argv[1:])
