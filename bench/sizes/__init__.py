"""From a hundred to ten million elements: mdtensor, its peers, and what is possible."""

from collections.abc import Callable, Iterator

from bench.harness import Bench, Found, Promise, Reason, Row
from bench.sizes import moving, products
from bench.sizes.task import NUMEXPR, NUMPY, ORT, OUT, SHAPES, TORCH

QUICK = (100, 10_000)
LARGE = (1_000_000, 10_000_000)
#: Where the call costs more than the work.
SMALL = ("*, 100", "*, 256", "*, 9,216", "*, 10,000")
CHECKS = "types, shapes and grids are checked in Python before a kernel runs"


def rows(quick: bool) -> Iterator[Row]:
    for task in moving.TASKS:
        for count in QUICK if quick else SHAPES:
            yield task.race(count)
    yield from products.rows(quick)


def worst(rival: str, *names: str) -> Callable[[Found], float]:
    labels = [f"{name}, {count:,}" for name in names for count in LARGE]
    return lambda found: found.worst(labels, rival)


BENCH = Bench(
    "From a hundred elements to ten million",
    rows,
    rounds=20,
    promises=[
        Promise(
            "from a million elements on, add, mul, exp and tanh over numexpr",
            1.0,
            worst(NUMEXPR, "add", "mul", "exp", "tanh"),
        ),
        Promise(
            "from a million elements on, chains over numexpr",
            1.0,
            worst(NUMEXPR, "a * b + c", "a * b + c at once"),
        ),
        Promise(
            "from a million elements on, float16 and bfloat16 over NumPy",
            0.9,
            worst(NUMPY, "as float16", "as bfloat16"),
        ),
    ],
    reasons=[
        Reason("its tanh may be off by 5 units in the last place", "tanh, *", ORT),
        *(Reason(CHECKS, small) for small in SMALL),
        Reason("a pass looks for NaN, and quotients are exact", "quantize*"),
        Reason("kernels are as fast, a call takes 20 us more", "as *float16*", TORCH),
        Reason("two passes before it tell whether any number wraps", "as int8, *"),
        Reason(
            "a call of a function of elements takes 40 us, then both wait for memory",
            "* at once, *",
        ),
        Reason("the memory of its result is there before the call", "*", OUT),
        Reason("both call one kernel of OpenBLAS", "matmul float32*", NUMPY),
        Reason("its weights are packed before", "matmul float32*", ORT),
        Reason("its product is MKL's, ours OpenBLAS's", "matmul float32*", TORCH),
        Reason(
            "it adds products of bytes in 16 bits, exact up to 7 bits of weights",
            "*int8*",
        ),
        Reason("images become columns in memory first", "conv2d float32*"),
        Reason("NumPy adds to the product where it lies", "a [*] b + c, *", NUMPY),
        Reason("NumPy's own loop runs, after the checks of a call", "*", NUMPY),
        Reason("NumPy's loop is what runs, and this has a faster one", "exp, *"),
        Reason("NumPy's loop is what runs, and this has a faster one", "sum*"),
        Reason("NumPy's loop is what runs, and this has a faster one", "max*"),
        Reason("NumPy's loop is what runs, and this has a faster one", "mean*"),
        Reason("a new result is made where this writes to the same memory", "*", ORT),
        Reason("a call takes longer, in Python; then both wait for memory", "*", TORCH),
    ],
    notes="""All on one thread, called as their users call them. mdtensor, NumPy,
numexpr and torch make a new result; "NumPy, out=" and ONNX Runtime write to memory
that is there. Numbers are float32, codes int8 on one grid; what has rows and columns
lies row by row, images of codes channels last. "limit" moves as many bytes and does
nothing else, in the faster of two ways: with ordinary and with streaming stores; for
products it does as many multiply-adds on registers alone, codes in the widest
instruction that is exact for all codes (vpmaddwd, or vpdpbusd where there is one).
ONNX Runtime and torch use one that is twice as wide and may saturate; weights have 7
bits here, so that it does not. The function "at once" is one of Python, compiled by
`md.elementwise`; torch has `addcmul`. Only ONNX Runtime holds weights of floats
packed.""",
)
