"""`python -m bench`: see `bench.command`."""

import sys

from bench.harness.machine import one_thread, write_bytecode


def main() -> int:
    one_thread()  # before anything imports NumPy
    write_bytecode()
    from bench.command import execute

    return execute(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
