"""`python -m bench`: see `bench.command`."""

import sys

from bench.harness.machine import one_thread


def main() -> int:
    one_thread()  # before anything imports NumPy
    from bench.command import execute

    return execute(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
