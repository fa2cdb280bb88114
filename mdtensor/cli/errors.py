"""Failed commands: the exit code, and one line for stderr.

Errors of the library name Python arguments. `option` writes them as options instead:

    method='gptq' needs samples. Pass them as samples.
    --method gptq needs samples. Pass them as --data.
"""

import sys
from shlex import quote

from mdtensor.errors import MdtensorError

#: The extra that installs each optional package, by its import name.
EXTRAS = {
    "click": "cli",
    "distributed": "dask",
    "h11": "serve",
    "rich": "cli",
    "typer": "cli",
    "uvicorn": "serve",
    "onnx": "onnx",
    "onnxruntime": "demo",
    "PIL": "demo",
    "rapidocr_onnxruntime": "demo",
    "skimage": "demo",
    "starlette": "serve",
    "tflite": "tflite",
    "threadpoolctl": "demo",
}
# 130 is 128 + SIGINT, the code that shells use for an interrupt.
REFUSED, UNIMPORTABLE, INTERRUPTED = 2, 3, 130


class ModuleError(MdtensorError, ImportError):
    """The import of a module that the user named failed."""


def ending(error: BaseException) -> tuple[int, str]:
    """Return the exit code, and the line for stderr, which may be empty.

    Raises:
        BaseException: `error` itself, if it is a bug in mdtensor.
    """
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED, ""
    text = _text(error)
    if text is None:
        raise error
    code = UNIMPORTABLE if isinstance(error, ModuleError) else REFUSED
    return code, "mdtensor: " + " ".join(text.splitlines())


def _text(error: BaseException) -> str | None:
    """Return the problem and its fix; None if the user cannot mend it."""
    if isinstance(error, MdtensorError):
        return f"{type(error).__name__}: {error}"
    if isinstance(error, ModuleNotFoundError):
        return _missing(error)
    if isinstance(error, MemoryError):
        return "out of memory. Use smaller shapes, or fewer inputs at once."
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{error.strerror}."
    if hasattr(error, "format_message"):
        return _usage(error)
    return None


def _missing(error: ModuleNotFoundError) -> str | None:
    name = (error.name or "").split(".")[0]
    if name not in EXTRAS:
        return None
    install = f"mdtensor[{EXTRAS[name]}]"
    # Its metadata exclude Python 3.13, where it runs all the same.
    if name == "rapidocr_onnxruntime" and sys.version_info >= (3, 13):
        install = "--ignore-requires-python rapidocr-onnxruntime==1.4.4"
    return f"the package {name} is not installed. Use `pip install {install}`."


def _usage(error: BaseException) -> str:
    """Return the line for a wrong or missing option or argument."""
    # typer's versions use different packages below it, so this avoids their classes.
    message = str(getattr(error, "format_message")()).rstrip(".")  # noqa: B009
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "mdtensor"
    end = "" if message.endswith("?") else "."
    return f"{message[:1].lower()}{message[1:]}{end} See `{command} --help`."


#: Options whose name differs from the argument; methods that are other commands.
NAMES = {
    "input_shapes": "--shape",
    "samples": "--data",
    "strength": "--smooth",
    "Model.equalize": "--equalize",
    "Model.smooth": "--smooth",
    "Model.quantize_weights": "`mdtensor quantize-weights`",
    "model.graph.nodes": "`mdtensor run --plan`",
}


def option(name: str, *value: object) -> str:
    """Return an argument as an option, as `errors.written` requires."""
    # The command line has the opposite flag of the argument.
    if name == "symmetric":
        return option("asymmetric", *(not given for given in value))
    flag = NAMES.get(name, f"--{name.replace('_', '-')}")
    if not value:
        return flag
    (given,) = value
    # Shapes by name of the input.
    if isinstance(given, dict):
        texts = (f"{name}={','.join(map(str, n))}" for name, n in given.items())
        return " ".join(f"{flag} {quote(text)}" for text in texts)
    if isinstance(given, bool):
        return flag if given else f"no {flag}"
    each = given if isinstance(given, list) else [given]
    return " ".join(f"{flag} {quote(str(one))}" for one in each)
