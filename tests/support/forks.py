"""A process that imports what is slow to import once, and forks for each script."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

SERVER = """
import json, os, sys, tempfile, traceback
exec(sys.argv[1])
def run(script, arguments, environment):
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[1:] = arguments
    try:
        exec(script, {"__name__": "__main__"})
    except SystemExit as ended:
        return ended.code or 0
    except BaseException:
        traceback.print_exc()
        return 1
    return 0
for line in sys.stdin:
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        child = os.fork()
        if child == 0:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            code = run(*json.loads(line))
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        out.seek(0)
        err.seek(0)
        print(json.dumps((code, out.read(), err.read())), flush=True)
"""


class Forks:
    """The server, in a `with` block.

    Args:
        prelude: what the process runs before it forks.
    """

    def __init__(self, prelude: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-B", "-c", SERVER, prelude],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> "Forks":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def run(
        self,
        script: str,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] = os.environ,
    ) -> tuple[int, str, str]:
        """The exit code of a script in a process of its own, its output, its errors."""
        assert self._process.stdin is not None and self._process.stdout is not None
        request = json.dumps((script, arguments, dict(environment)))
        self._process.stdin.write(request + "\n")
        self._process.stdin.flush()
        code, out, err = json.loads(self._process.stdout.readline())
        return code, out, err
