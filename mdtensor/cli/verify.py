"""`mdtensor verify`: do the kernels give the same bytes here as everywhere?"""

from dataclasses import asdict

from rich.console import Console
from rich.progress import TaskProgressColumn
from rich.text import Text

from mdtensor.cli.report import Facts as VerifyFacts, columns, progress
from mdtensor.kernels.cpu import isa
from mdtensor.quant.certificate.case import EDITION
from mdtensor.quant.certificate.runs import Run, runways
from mdtensor.quant.certificate.verify import Verdict, certify, total_cost


def describe_verdict(
    quick: bool, emulated: bool, is_quiet: bool = False
) -> VerifyFacts:
    """Run the certificate, with a bar unless `is_quiet`; plain facts, for JSON."""
    title = f"{', '.join(runways(emulated))}, oracle"
    with progress(is_quiet, TaskProgressColumn()) as bar:
        task = bar.add_task(title, total=total_cost(quick, emulated))
        verdict = certify(quick, emulated, lambda cost: bar.advance(task, cost))
    return {
        "conforms": verdict.conforms,
        "edition": EDITION,
        "quick": quick,
        "hash": verdict.oracle,
        "published": verdict.published,
        "cpu": isa.cpu_name(),
        "runs": list(map(_run, verdict.runs, verdict.hashes)),
        "kernels": [asdict(tally) for tally in verdict.tallies],
        "first_difference": _difference(verdict),
    }


def _run(run: Run, found: str) -> VerifyFacts:
    return {
        "runway": run.runway,
        "threads": run.threads,
        "hash": found or None,
        "problem": run.problem or None,
        "seconds": round(run.seconds, 2),
    }


def _difference(verdict: Verdict) -> VerifyFacts | None:
    if verdict.first is None:
        return None
    run = verdict.runs[verdict.first.run]
    facts = asdict(verdict.first)
    return facts | {"run": {"runway": run.runway, "threads": run.threads}}


def show_verdict(console: Console, facts: VerifyFacts) -> None:
    runs, kernels = facts["runs"], facts["kernels"]
    table = columns("kernel", "cases", "results", *map(_head, runs))
    for row in kernels:
        cells = map(_cell, runs, row["mismatches"])
        table.add_row(row["kernel"], str(row["cases"]), f"{row['elements']:,}", *cells)
    cases, elements = (sum(k[key] for k in kernels) for key in ("cases", "elements"))
    seconds = [f"{run['seconds']:.1f} s" for run in runs]
    table.add_row("all", str(cases), f"{elements:,}", *seconds, style="bold")
    console.print(table)
    for run in runs:
        if run["problem"]:
            console.print(f"{_label(run)}: {run['problem']}")
    console.print(f"\nhash       {facts['hash']}")
    console.print(f"published  {facts['published']}")
    color = "green" if facts["conforms"] else "red"
    console.print(_ending(facts), style=f"bold {color}")


def _cell(run: VerifyFacts, mismatches: int) -> Text:
    if run["problem"]:
        return Text("failed", "red")
    return Text(f"{mismatches} differ", "red") if mismatches else Text("equal", "green")


def _head(run: VerifyFacts) -> str:
    return _label(run).replace(", ", "\n")


def _label(run: VerifyFacts) -> str:
    return f"{run['runway']}, {run['threads']} thread{'s' * (run['threads'] > 1)}"


def _ending(facts: VerifyFacts) -> str:
    first, cpu = facts["first_difference"], facts["cpu"]
    if facts["conforms"]:
        return f"{cpu} conforms: every run gave the published hash"
    if first is None:
        return f"{cpu} does not conform: see above"
    index = ",".join(map(str, first["index"]))
    where = f"[{index}]" if index else "type and shape"
    return (
        f"{cpu} does not conform: {first['case']}\n"
        f"on {_label(first['run'])} at {where}: expected {first['expected']}, "
        f"got {first['got']}"
    )
