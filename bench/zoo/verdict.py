"""The findings about one model, as plain data that a process prints and reads."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class Verdict:
    """The findings about one model: does it load, agree, quantize, and how fast is it?

    Args:
        name, family, package, licence: from the list.
        end: `done`, or how it ended before: absent, crashed, out of time or of memory.
        load_seconds: of `load`; None if it raised `load_error`.
        difference: the largest difference of float results to the peer's, relative to
            the largest result.
        quantize_error: the error of calibrating or quantizing.
        rms, peer_rms: error of int8 results, ours and ONNX Runtime's, relative to
            float ones, both as root mean squares.
        saved_rms: error of our saved file in ONNX Runtime.
        float_nodes, nodes: how many nodes of the int8 model compute in floats, of all.
        reasons: why they do, the most frequent first.
        bytes: of the files.
        seconds: of one call on one thread, by runtime.
        peak: megabytes that loading and the first call took.
        calls: share of the time in nodes that are not compiled steps, by operation.
        errors: other errors, by stage.
    """

    name: str
    family: str
    package: str
    licence: str
    end: str = "absent"
    load_seconds: float | None = None
    load_error: str = ""
    difference: float | None = None
    quantize_error: str = ""
    rms: float | None = None
    peer_rms: float | None = None
    saved_rms: float | None = None
    float_nodes: int | None = None
    nodes: int | None = None
    reasons: list[str] = field(default_factory=list)
    bytes: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    peak: float | None = None
    calls: dict[str, float] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    def take(self, line: str) -> None:
        """Take what a process printed; other lines are ignored."""
        if not line.startswith(MARK):
            return
        for key, value in json.loads(line.removeprefix(MARK)).items():
            known = getattr(self, key)
            setattr(self, key, {**known, **value} if isinstance(known, dict) else value)

    def ratio(self, ours: str, *peers: str) -> float | None:
        """Return our time divided by the fastest peer's; None if one is missing."""
        known = [self.seconds[name] for name in peers if name in self.seconds]
        if ours not in self.seconds or not known:
            return None
        return self.seconds[ours] / min(known)

    def faults(self) -> Iterator[str]:
        """Yield what went wrong, a sentence each."""
        if self.end != "done":
            yield self.end
        if self.load_error:
            yield f"load: {self.load_error}"
        if self.quantize_error:
            yield f"quantize: {self.quantize_error}"
        for stage, error in self.errors.items():
            yield f"{stage}: {error}"


MARK = "zoo: "


def tell(**found: Any) -> None:
    """Print findings for the process that waits for them."""
    print(MARK + json.dumps(found), flush=True)


def as_data(verdict: Verdict) -> Mapping[str, Any]:
    return asdict(verdict)
