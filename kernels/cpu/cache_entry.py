"""The format of a file in the kernel cache: a digest, facts in one line, the code.

The facts are JSON, so that a list of the cache need not load code:

    function    the module and name of the compiled function
    signature   the types of its arguments, cut after 200 characters
    seconds     what compiling it took, with the functions that it calls
"""

import hashlib
import json

# The digest of all that follows, so that damage is found.
DIGEST = hashlib.sha256().digest_size
LONGEST = 200
#: No line of facts is longer.
HEAD = 4096


def facts_of(compiled, function):
    """Return the facts of a compiled signature.

    Args:
        compiled: numba's CompileResult.
        function: the Python function.
    """
    times = (compiled.metadata or {}).get("pipeline_times", {})
    seconds = sum(sum(t) for passes in times.values() for t in passes.values())
    return {
        "function": f"{function.__module__}.{function.__qualname__}"[:LONGEST],
        "signature": str(compiled.signature.args)[:LONGEST],
        "seconds": round(seconds, 3),
    }


def pack(facts, code):
    """Return the content of a file."""
    rest = json.dumps(facts).encode() + b"\n" + code
    return hashlib.sha256(rest).digest() + rest


def unpack(content):
    """Return (facts, code) of the content of a file, or None if it is damaged."""
    rest = content[DIGEST:]
    if hashlib.sha256(rest).digest() != content[:DIGEST]:
        return None
    line, _, code = rest.partition(b"\n")
    return json.loads(line), code


def read_facts(path):
    """Return the facts of a file without reading its code; none if it is damaged.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        line = file.read(DIGEST + HEAD)[DIGEST:].partition(b"\n")[0]
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
