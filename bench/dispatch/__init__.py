"""What a call costs before its kernel runs, beside all that is used instead of it."""

from collections.abc import Callable, Iterator

from bench.dispatch import growth, model, ours, threads, warm, whole
from bench.harness import Bench, Found, Promise, Reason, Row
from bench.rivals import NAMES, enums, libraries


def rows(quick: bool) -> Iterator[Row]:
    for part in (warm, growth, threads, whole, model):
        yield from part.rows(quick)


def to(rival: str, row: str = warm.WARM) -> Callable[[Found], float]:
    return lambda found: found.ratio(row, rival)


POSITIONS = [f"type {at + 1} of {len(NAMES)}" for at in range(len(NAMES))]
MANY = [growth.label(count) for count in growth.COUNTS]
PLUMS = [growth.label(n) for n in growth.COUNTS if n <= growth.PLUM_COUNT]
BENCH = Bench(
    "Dispatch: the cost of a call before its kernel runs",
    rows,
    rounds=200,
    promises=[
        Promise("time of a call relative to a dict of Enum pairs", 0.6, to(enums.ENUM)),
        Promise(
            "time of a call relative to a dict of IntEnum pairs",
            1.15,
            to(enums.INT_ENUM),
        ),
        Promise(
            "time of a call relative to a match on Enum, the worst case",
            1.0,
            lambda found: found.worst(POSITIONS, enums.MATCH),
        ),
        Promise(
            "call of a handle relative to a direct call",
            1.3,
            to(ours.BARE, warm.SELECTED),
        ),
        Promise(
            "4 to 1,000 methods, relative to plum",
            0.4,
            lambda found: found.worst(PLUMS, libraries.PLUM),
        ),
        Promise(
            "4 to 5,000 methods, relative to a dict of Enum pairs",
            0.6,
            lambda found: found.worst(MANY, enums.ENUM),
        ),
        Promise(
            "a call with 5,000 methods relative to a call with 4",
            1.1,
            to(growth.SMALL, "flat"),
        ),
        Promise(
            "one node of a loaded model",
            150,
            lambda found: 1e9 * found.value(model.NODE),
            " ns",
        ),
    ],
    reasons=[
        Reason(
            "a handle is a method that was selected before the call",
            "two*",
            "handle*",
        ),
        Reason("a direct call does not select a kernel", rival=ours.BARE),
        Reason("a direct call does not select a kernel", rival="kernel*"),
        Reason(
            "the other contender is machine code, without an interpreter",
            "no *",
        ),
        Reason(
            "the other contender makes two dict lookups, as mdtensor does, but does "
            "not check for unknown arguments",
            "*",
            "nested*",
        ),
        Reason("Python selects a method by the first argument only", "*", "virtual*"),
        Reason(
            "mdtensor looks up one nested dict more for each argument", "*argument*"
        ),
        Reason(
            "mdtensor checks each method against the declaration when it is registered",
            "*registered*",
        ),
        Reason(
            "mdtensor searches all methods for the most specific one, and raises if "
            "two tie",
            "*seen",
        ),
        Reason(
            "each method stores its source line, its shape rule and its signature for "
            "diagnosis",
            "*bytes",
        ),
        Reason(
            "mdtensor checks shapes and types, in one more Python call", "addition*"
        ),
        Reason("the time of a call includes the rows above it", whole.PARTS),
        Reason(
            "a step of a model also computes; the kernel in the compared loop is empty",
            "one*",
        ),
        Reason("the difference is noise", "flat"),
        Reason("the difference is noise", "two*selected*"),
    ],
    notes=(
        "All contenders select among the same ten kernels, one for each element type, "
        "and are checked on every pair of types. Unless a row says otherwise, kernels "
        "return a constant, calls are warm and `out=` is unused. A handle is a method "
        "that was selected before the call."
    ),
)
