"""`python -m bench`: see `bench.command`."""

import sys

from bench.harness.machine import keep_no_plans, one_thread, write_bytecode


def main() -> int:
    one_thread()  # before anything imports NumPy
    write_bytecode()
    keep_no_plans()
    from bench.command import execute

    return execute(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
