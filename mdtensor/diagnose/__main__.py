"""`python -m mdtensor.diagnose` is `mdtensor dispatch`."""

import runpy
import sys

if __name__ == "__main__":
    sys.argv[1:1] = ["dispatch"]
    runpy.run_module("mdtensor", run_name="__main__")
