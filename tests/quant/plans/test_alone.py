"""The runner in an environment that has NumPy and nothing else."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from support import libraries, stored_plans

import mdtensor
import mdtensor_run
from mdtensor.kernels.cpu import kernel_set
from mdtensor.kernels.native import library
from mdtensor_run.machine import INDEX
from mdtensor_run.packing import PACKINGS

SOURCES = Path(mdtensor_run.__file__).parent
SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from mdtensor_run import run
y = run(sys.argv[2])(np.load(sys.argv[3]))
np.save(sys.argv[4], y)
names = {name.split(".")[0] for name in sys.modules} - set(sys.stdlib_module_names)
# What NumPy loads of its own.
names = {n for n in names if not n.startswith("_") and n != "numpy"}
print(sorted(names))
"""


def environment(folder):
    """A folder of modules as `make runner` and pip leave it."""
    place = folder / "modules"
    (place / "mdtensor_run").mkdir(parents=True)
    for path in SOURCES.glob("*.py"):
        shutil.copy(path, place / "mdtensor_run")
    libraries.copy(place / "mdtensor_run")
    packages = Path(np.__file__).parents[1]
    for name in ("numpy", "numpy.libs"):
        if (packages / name).exists():
            (place / name).symlink_to(packages / name)
    return place


@pytest.mark.compiled
@pytest.mark.skipif(
    bool(libraries.missing()) or kernel_set.HOST.name not in PACKINGS,
    reason=f"{libraries.missing()}: run make native",
)
def test_the_same_bytes_without_mdtensor(tmp_path):
    model, x = stored_plans.small_network(tmp_path)
    model.compile(tmp_path / "net.mdt", x.shape)
    np.save(tmp_path / "x.npy", x)
    files = (tmp_path / name for name in ("net.mdt", "x.npy", "y.npy"))
    # Without the site module nothing that is installed is found.
    command = [sys.executable, "-I", "-S", "-c", SCRIPT, environment(tmp_path), *files]
    clean = {n: v for n, v in os.environ.items() if not n.startswith("MDTENSOR")}
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, env=clean
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "['mdtensor_run']"
    assert np.array_equal(np.load(tmp_path / "y.npy"), np.asarray(model(x)))


def test_the_project_of_the_wheel():
    project = tomllib.loads((SOURCES / "wheel.toml").read_text())
    assert project["project"]["version"] == mdtensor.__version__
    found = project["tool"]["setuptools"]["package-data"]["mdtensor_run"]
    assert INDEX == library.INDEX and INDEX in found
