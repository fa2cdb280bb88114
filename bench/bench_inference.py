"""The int8 classifier of the demo beside ONNX Runtime's float and int8 of it."""

import time

import harness
import numpy as np

import mdtensor as md
from mdtensor.cli import demo_data, peer
from mdtensor.cli.demo import limited
from mdtensor.quant.model.model import load

THREADS = (1, 2)
#: Threads of a runtime spin for a while after its last call.
SETTLE_SECONDS = 0.02
NOTES = """mdtensor int8 runs on one thread in all rows. mdtensor float is the slowest
of all: its tensors run on NumPy, operation by operation (decision 0002), where ONNX
Runtime has fused float kernels."""


def main() -> None:
    options = harness.arguments(__doc__, rounds=15)
    calibration, held_back = demo_data.crops()
    path, pixels = demo_data.classifier_path(), held_back[0].pixels
    network = load(path, demo_data.INPUT_SHAPE)
    small = network.quantize(network.calibrate(c.pixels for c in calibration))
    rival = peer.quantized(path, [c.pixels for c in calibration], "x")
    check(small, held_back)
    rows, limits = [], []
    for threads in THREADS:
        more = whole(network, small, path, rival, pixels, threads, options.rounds)
        rows += more[0]
        limits.append(more[1])
    harness.report(
        "inference",
        "The classifier of the demo, one crop a call",
        ("threads", "runtime", "ms a call", "mdtensor int8 / this (95 %)"),
        rows,
        limits,
        save=not options.no_save,
        notes=NOTES,
    )
    profile(small, pixels, save=not options.no_save)


def check(small, crops) -> None:
    """Before any timing: the plan gives the bytes of dispatch, node by node."""
    feeds = {"x": md.asarray(crops[0].pixels)}
    seen = {}
    small.graph.run(feeds, lambda name, tensor: seen.update({name: tensor}))
    for name, tensor in small.plan().values(feeds).items():
        assert np.array_equal(tensor.buffer, seen[name].buffer), name


def settled(call):
    def settle_and_call():
        time.sleep(SETTLE_SECONDS)
        times = []
        for _ in range(100):
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        settle_and_call.seconds.append(float(np.median(times)))

    settle_and_call.seconds = []
    return settle_and_call


def whole(network, small, path, rival, pixels, threads, rounds):
    calls = {
        "mdtensor int8": lambda: small(pixels),
        "mdtensor float": lambda: network(pixels),
    }
    for name, model in (("onnxruntime float", path), ("onnxruntime int8", rival)):
        session = peer.session(model, threads)
        calls[name] = lambda session=session: session.run(None, {"x": pixels})
    turns = {name: settled(call) for name, call in calls.items()}
    contenders = [harness.Contender(name, turn) for name, turn in turns.items()]
    with limited(threads):
        harness.interleave(contenders, rounds, sample_seconds=0)
    samples = {name: turn.seconds[-rounds:] for name, turn in turns.items()}
    middle = harness.medians(samples)
    ratios = {name: harness.ratio(samples, "mdtensor int8", name) for name in calls}
    best = min(list(calls)[2:], key=lambda name: middle[name])
    rows = [
        (str(threads), name, f"{1e3 * middle[name]:.3f}", str(ratios[name]))
        for name in calls
    ]
    claim = f"time over {best}, the faster peer, {threads} thread(s)"
    return rows, harness.Limit(claim, ratios[best].median, 1.0)


def profile(small, pixels, save) -> None:
    """Where the time goes, by operation and kernel."""
    plan = small.plan()
    seconds = plan.profile({"x": md.asarray(pixels)}, repeat=50)
    groups: dict[tuple[str, str, str], list[float]] = {}
    for node in plan.nodes:
        if node.node in seconds:
            key = (node.operation, node.kernel, node.runway)
            group = groups.setdefault(key, [0, 0.0, 0])
            group[0] += 1
            group[1] += seconds[node.node]
            group[2] += node.macs
    total = sum(group[1] for group in groups.values())
    rows = [
        (
            *key,
            str(count),
            f"{1e6 * spent:.1f}",
            f"{spent / total:.1%}",
            f"{macs / spent / 1e9:.1f}" if macs and spent else "",
        )
        for key, (count, spent, macs) in sorted(
            groups.items(), key=lambda item: -item[1][1]
        )
    ]
    harness.report(
        "inference-profile",
        "The same network, step by step, one thread",
        ("operation", "kernel", "runway", "steps", "us", "share", "GMAC/s"),
        rows,
        [],
        save=save,
        notes=f"Sum of the steps, each timed alone: {1e6 * total:.0f} us.",
    )


if __name__ == "__main__":
    main()
