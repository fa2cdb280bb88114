"""Where the time of a network goes, by operation and kernel."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mdtensor as md
from bench.harness import Reading
from bench.harness.machine import pinned
from bench.harness.turns import Effort
from bench.inference.networks import Network


@dataclass(frozen=True)
class Profile:
    """Seconds by operation and kernel, each step timed alone; one thread."""

    name: str
    network: Callable[[], Network]

    def read(self, effort: Effort) -> list[Reading]:
        network = self.network()
        image = network.images[:1]
        plan = network.small.plan(image.shape)
        repeat = max(2, round(50 / effort.haste))
        with pinned(1):
            seconds = plan.profile({"x": md.asarray(image)}, repeat=repeat)
        groups: dict[str, list[float]] = {}
        for node in plan.nodes:
            if node.arithmetic == "integer":
                name = ", ".join((node.operation, node.kernel, node.isa))
                group = groups.setdefault(name, [0, 0.0, 0])
                group[0] += 1
                group[1] += seconds[node.node]
                group[2] += node.macs
        return [self.reading(name, *groups[name], groups) for name in groups]

    def reading(
        self, name: str, steps: float, spent: float, macs: float, groups: Any
    ) -> Reading:
        total = sum(group[1] for group in groups.values())
        more = {"steps": f"{steps}", "share": f"{spent / total:.1%}"}
        more["GMAC/s"] = f"{macs / spent / 1e9:.1f}" if macs and spent else ""
        table = f"Step by step, each timed alone: {self.name}"
        return Reading(table, self.name, name, spent, spent, spent, more=more)
