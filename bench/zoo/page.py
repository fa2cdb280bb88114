"""docs/reference/zoo.md, from the stored run of the zoo."""

import json
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.harness.result import RESULTS, environment_line
from bench.harness.table import shown, table
from bench.zoo.verdict import Verdict

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "zoo.md"
FILE = RESULTS / "zoo.json"
FLOAT, INT8 = "mdtensor float", "mdtensor int8"
PEERS = ("onnxruntime float", "onnxruntime int8", "LiteRT")
#: Float results agree with a peer's up to this, relative to the largest.
AGREE = 1e-4


def line(verdict: Verdict) -> str:
    """Return what is printed of a model."""
    parts = [f"{verdict.name} ({verdict.family}, {verdict.package}): {verdict.end}"]
    if verdict.load_seconds is not None:
        parts.append(f"loads in {verdict.load_seconds:.1f} s")
    if verdict.difference is not None:
        parts.append(f"float differs by {verdict.difference:.1e}")
    if verdict.rms is not None:
        parts.append(f"int8 error {verdict.rms:.3g}, ONNX Runtime {_rms(verdict)}")
    if verdict.saved_rms is not None:
        parts.append(f"saved {verdict.saved_rms:.3g}")
    if verdict.nodes:
        parts.append(f"{verdict.float_nodes} of {verdict.nodes} nodes float")
    if verdict.peak is not None:
        parts.append(f"{verdict.peak:.0f} MB")
    lines = ["; ".join(parts)]
    times = [f"{name} {shown(s, 's')}" for name, s in verdict.seconds.items()]
    lines += [f"    {', '.join(times)}"] if times else []
    calls = [f"{name} {share:.0%}" for name, share in verdict.calls.items()]
    lines += [f"    calls: {', '.join(calls)}"] if calls else []
    lines += [f"    stays float: {reason}" for reason in verdict.reasons]
    lines += [f"    {fault}" for fault in verdict.faults()]
    return "\n".join(lines)


def _rms(verdict: Verdict) -> str:
    return "-" if verdict.peer_rms is None else f"{verdict.peer_rms:.3g}"


def summary(verdicts: Sequence[Verdict]) -> str:
    """Return counts and ratios of a run."""
    met = [one for one in verdicts if one.end != "absent"]
    loaded = [one for one in met if one.load_seconds is not None]
    agree = [one for one in loaded if (one.difference or 0) <= AGREE]
    compared = [one for one in loaded if one.difference is not None]
    small = [one for one in loaded if one.rms is not None]
    both = [one for one in small if one.peer_rms is not None]
    better = [one for one in both if (one.rms or 0) <= (one.peer_rms or 0)]
    count = sum(one.difference is not None for one in agree)
    peers = f"agree with ONNX Runtime or LiteRT up to {AGREE:g}"
    lines = [
        f"- {len(loaded)} of {len(met)} models load.",
        f"- {count} of {len(compared)} float results {peers}.",
        f"- {len(small)} are quantized, {len(both)} also by ONNX Runtime's tool.",
        f"- {len(better)} of these {len(both)} are at least as accurate in mdtensor.",
    ]
    for name, ours in (("float", FLOAT), ("int8", INT8)):
        ratios = [one.ratio(ours, *PEERS) for one in loaded]
        known = [ratio for ratio in ratios if ratio is not None]
        if known:
            lines.append(
                f"- Time of mdtensor {name} / fastest other runtime: median "
                f"{statistics.median(known):.2f}, worst {max(known):.2f}, "
                f"at most 1 for {sum(ratio <= 1 for ratio in known)} of {len(known)}."
            )
    best = [_best(one) for one in loaded]
    ratios = [ratio for ratio in best if ratio is not None]
    if ratios:
        lines.append(
            f"- Time of the faster of float and int8 / fastest other runtime: median "
            f"{statistics.median(ratios):.2f}, worst {max(ratios):.2f}."
        )
    return "\n".join(lines)


def _best(verdict: Verdict) -> float | None:
    found = [verdict.ratio(ours, *PEERS) for ours in (FLOAT, INT8)]
    return min((one for one in found if one is not None), default=None)


HEAD = """# A zoo of models

This page shows for pretrained networks from public packages whether mdtensor can run
and quantize them, how accurate they are, and how fast. Each network runs in its own
process. `bench/zoo/models.toml` lists package, version, licence and file. You can
repeat the run for all networks, or for one:

```sh
python -m bench zoo
python -m bench zoo --row text-direction
```

The page shows a stored run. A line below names its machine, the load of the machine,
and the commit. Times on a busy machine vary, so compare only their ratios.

The files are stored in the folder `MDTENSOR_ZOO`, by default in your cache. If a
package cannot be downloaded, the page says so.

The columns of the table:

- float: the largest difference from ONNX Runtime or LiteRT, relative to the largest
  element of the result.
- int8: the root mean square of the difference between the int8 and the float result,
  relative to the float result, for the worst output. It is measured on 4 samples that
  the calibration has not seen. ORT is the same for ONNX Runtime's `quantize_static`.
  Both are calibrated with the same 8 samples.
- float nodes: nodes of the int8 model that compute in floats.
- time: CPU time of mdtensor on one thread, divided by that of the fastest of ONNX
  Runtime float, ONNX Runtime int8, and LiteRT. They run in turns. Below 1, mdtensor
  is faster.
"""


def write() -> None:
    """Write the page from the stored run."""
    PAGE.write_text(text())


def text() -> str:
    """Return the page of the stored run."""
    kept = json.loads(FILE.read_text())
    verdicts = [Verdict(**model) for model in kept["models"]]
    notes = [f"{environment_line(kept['environment'])}.", kept.get("note", "")]
    parts = [HEAD, "## Summary\n", summary(verdicts) + "\n"]
    parts += [f"{note}\n" for note in notes if note]
    parts += ["## Each model\n", _grid(verdicts) + "\n", "## Errors\n"]
    return "\n".join([*parts, *_faults(verdicts)]) + "\n"


def _grid(verdicts: Sequence[Verdict]) -> str:
    header = ["model", "family", "package", "float", "int8", "ORT", "float nodes"]
    header += ["kB float / int8 / ORT", "time float", "time int8"]
    return table(header, [_cells(verdict) for verdict in verdicts])


def _cells(verdict: Verdict) -> list[str]:
    kilobytes = [verdict.bytes.get(n) for n in ("float", INT8, "onnxruntime int8")]
    sizes = " / ".join("-" if n is None else f"{n / 1000:.0f}" for n in kilobytes)
    nodes = "-" if not verdict.nodes else f"{verdict.float_nodes} of {verdict.nodes}"
    return [
        verdict.name,
        verdict.family,
        f"{verdict.package}, {verdict.licence}",
        _number(verdict.difference, ".0e"),
        _number(verdict.rms, ".2g"),
        _number(verdict.peer_rms, ".2g"),
        nodes,
        sizes,
        _number(verdict.ratio(FLOAT, *PEERS), ".2f"),
        _number(verdict.ratio(INT8, *PEERS), ".2f"),
    ]


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _faults(verdicts: Sequence[Verdict]) -> Iterator[str]:
    for verdict in verdicts:
        for fault in verdict.faults():
            yield f"- {verdict.name}: {fault}"
