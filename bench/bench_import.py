"""What `import mdtensor` costs beyond `import numpy, plum`, in fresh interpreters."""

import subprocess
import sys
import tempfile

import harness

IMPORTS = {
    "bare interpreter": "pass",
    "numpy, plum": "import numpy, plum",
    "mdtensor": "import mdtensor",
    "mdtensor.quant": "import mdtensor.quant",
}


def main() -> None:
    options = harness.arguments(__doc__, rounds=15)
    with tempfile.TemporaryDirectory() as elsewhere:
        contenders = [
            harness.Contender(name, lambda code=code: start(code, elsewhere))
            for name, code in IMPORTS.items()
        ]
        # One interpreter a sample: a second import would find everything loaded.
        samples = harness.interleave(contenders, options.rounds, sample_seconds=0)
    rows = [
        (name, f"{1e3 * seconds:.0f}", f"{1e3 * over(samples, name).median:+.0f}")
        for name, seconds in harness.medians(samples).items()
    ]
    extra = over(samples, "mdtensor")
    limit = harness.Limit(
        "import mdtensor beyond import numpy, plum", 1e3 * extra.median, 100, " ms"
    )
    harness.report(
        "import",
        "Import in a fresh interpreter",
        ("import", "ms", "ms over numpy, plum"),
        rows,
        [limit],
        save=not options.no_save,
    )


def start(code: str, folder: str) -> None:
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)


def over(samples: harness.Samples, name: str) -> harness.Ratio:
    """Seconds beyond numpy and plum, round by round."""
    pairs = zip(samples[name], samples["numpy, plum"], strict=True)
    return harness.interval([mine - theirs for mine, theirs in pairs])


if __name__ == "__main__":
    main()
