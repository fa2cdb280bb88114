"""From a hundred to ten million elements: mdtensor, its peers, and what is possible."""

from collections.abc import Callable, Iterator

from bench.harness import Bench, Found, Promise, Reason, Row
from bench.sizes import moving, products
from bench.sizes.task import NUMEXPR, NUMPY, ORT, OUT, SHAPES, TORCH

QUICK = (100, 10_000)
LARGE = (1_000_000, 10_000_000)
#: Where the call costs more than the work.
SMALL = ("*, 100", "*, 256", "*, 9,216", "*, 10,000")
CHECKS = "mdtensor checks types, shapes and grids in Python before a kernel runs"


def rows(quick: bool) -> Iterator[Row]:
    for task in moving.TASKS:
        for count in QUICK if quick else SHAPES:
            yield task.race(count)
    yield from products.rows(quick)


def worst(rival: str, *names: str) -> Callable[[Found], float]:
    labels = [f"{name}, {count:,}" for name in names for count in LARGE]
    return lambda found: found.worst(labels, rival)


#: A reason of several rows.
FASTER = "mdtensor runs NumPy's loop; this contender has a faster one"

BENCH = Bench(
    "From a hundred elements to ten million",
    rows,
    rounds=20,
    promises=[
        Promise(
            "from a million elements on: add, mul, exp and tanh, relative to numexpr",
            1.0,
            worst(NUMEXPR, "add", "mul", "exp", "tanh"),
        ),
        Promise(
            "from a million elements on: chains, relative to numexpr",
            1.0,
            worst(NUMEXPR, "a * b + c", "a * b + c at once"),
        ),
        Promise(
            "from a million elements on: float16 and bfloat16, relative to NumPy",
            0.9,
            worst(NUMPY, "as float16", "as bfloat16"),
        ),
    ],
    reasons=[
        Reason("ONNX Runtime's tanh may be off by 5 ulp", "tanh, *", ORT),
        *(Reason(CHECKS, small) for small in SMALL),
        Reason(
            "mdtensor first looks for NaN, and its quotients are exact", "quantize*"
        ),
        Reason(
            "the kernels are equally fast, but a call takes 20 us more",
            "as *float16*",
            TORCH,
        ),
        Reason(
            "mdtensor first makes two passes that check whether a number would wrap",
            "as int8, *",
        ),
        Reason(
            "a call of a function made by `elementwise` takes 40 us more; apart from "
            "that, both wait for memory",
            "* at once, *",
        ),
        Reason("NumPy writes to memory that was allocated before the call", "*", OUT),
        Reason("both call one kernel of OpenBLAS", "matmul float32*", NUMPY),
        Reason("ONNX Runtime packs weights before the call", "matmul float32*", ORT),
        Reason("torch uses MKL, mdtensor uses OpenBLAS", "matmul float32*", TORCH),
        Reason(
            "the other contender adds products of bytes in 16 bits, which is exact "
            "only for weights of at most 7 bits",
            "*int8*",
        ),
        Reason(
            "mdtensor first copies the windows of the image to columns (im2col)",
            "conv2d float32*",
        ),
        Reason("NumPy adds to the product in place", "a [*] b + c, *", NUMPY),
        Reason("mdtensor runs NumPy's loop after the checks of a call", "*", NUMPY),
        Reason(FASTER, "exp, *"),
        Reason(FASTER, "sum*"),
        Reason(FASTER, "max*"),
        Reason(FASTER, "mean*"),
        Reason(
            "mdtensor makes a new result; this contender writes to the same memory "
            "each time",
            "*",
            ORT,
        ),
        Reason(
            "mdtensor's call takes longer, in Python; then both wait for memory",
            "*",
            TORCH,
        ),
    ],
    notes="""All libraries run on one thread, through their public Python API. mdtensor,
NumPy, numexpr and torch make a new result; "NumPy, out=" and ONNX Runtime write to
existing memory. Floats are float32, codes int8 on one grid; matrices are row-major,
images of codes are channels-last.

"limit" is a lower bound of the time. For elementwise operations it is a loop that only
moves the bytes which the operation reads and writes, with ordinary or with streaming
stores, whichever is faster. For products it is the time of the same number of
multiply-adds on registers, for codes by the widest instruction that is exact for all
codes (vpmaddwd, or vpdpbusd if the CPU has it). ONNX Runtime and torch use an
instruction that is twice as wide and may saturate; the weights have 7 bits, so it does
not saturate.

For "at once" mdtensor runs a Python function that `md.elementwise` compiled, and torch
runs `addcmul`. Only ONNX Runtime keeps float weights packed.""",
)
