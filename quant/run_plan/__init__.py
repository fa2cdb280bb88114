"""A runner for stored plans: NumPy and a library of kernels, nothing else.

    from mdtensor_run import run

    network = run("net.mdt")
    answer = network(image)

`Model.compile` and `mdtensor compile` write the files.
"""

from mdtensor_run.errors import PlanError
from mdtensor_run.runner import Runner, run

__all__ = ["PlanError", "Runner", "run"]
