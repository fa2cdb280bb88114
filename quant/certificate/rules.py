"""Cases of the rounding rules of other libraries, with one oracle for each element.

Each operation that a rule defines is computed on qint8 codes with arbitrary scales. If
the rule allows quint8, it is computed on these as well, with powers of 2 as scales, so
that many results lie on a tie.
"""

from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor import OptionError
from mdtensor.kernels.presets import Grid
from mdtensor.kernels.reference.conv import conv2d_u8s8s32
from mdtensor.kernels.reference.presets import onnx, ort, tflite, xnnpack
from mdtensor.quant.certificate import case as draw
from mdtensor.quant.certificate.calls import codes_on, every_code, steps_of
from mdtensor.quant.certificate.case import Array, Case
from mdtensor.quant.certificate.curves import FUNCTIONS, NEVER_TIES, OPTIONS, value
from mdtensor.quant.dtypes import qint8, quint8
from mdtensor.quant.generics import quantize, requantize
from mdtensor.quant.presets.calls import BOUNDED
from mdtensor.quant.presets.table import APPROXIMATED, STEPWISE, TABLE
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import QuantizedTensor, quantized

Oracle = Callable[..., Any]
#: Scales of two arguments and a result; zero points for qint8.
SCALES = {"any scales": (0.0713, 0.0391, 0.0873), "ties": (2.0**-4, 2.0**-5, 2.0**-3)}
ZEROS = (3, -7, 11)
#: Types with their scales; all four pairs would make the certificate a quarter longer.
KINDS = ((qint8, "any scales"), (quint8, "ties"))
#: The scale of products is this many times larger, because their sums are larger.
WIDER = 8
PAIRS = ("add", "sub", "mul", "div", "minimum", "maximum")
#: Grids of the functions with bounded values.
ENDS = BOUNDED | {"hardsigmoid": BOUNDED["sigmoid"], "softsign": BOUNDED["tanh"]}
POOL = {"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False}
PADDING = (1, 1, 1, 1)


def _functions_of(module: ModuleType, *names: str) -> dict[str, Oracle]:
    """Return functions of a module by name."""
    return {name: getattr(module, name) for name in names}


_LITERT = _functions_of(
    tflite, "sub", "mul", "concat", "global_avg_pool", "hardswish", "curve"
)
_XNNPACK = _functions_of(xnnpack, "quantize", "requantize", "add", "sub", "mul")
_XNNPACK |= _functions_of(xnnpack, "products", "curve")
_IN_FLOATS = (*PAIRS, *STEPWISE, *APPROXIMATED)
_BOTH = ("quantize", "requantize", "products", "curve", "softmax", "avg_pool")
#: The oracle of one element, by rule, then by operation or family of operations.
ORACLES: dict[str, dict[str, Oracle]] = {
    "onnx": _functions_of(onnx, *_BOTH, *_IN_FLOATS, "image_mean"),
    "ort_cpu": _functions_of(onnx, *_IN_FLOATS)
    | _functions_of(ort, *_BOTH, "add", "mul", "global_avg_pool"),
    "tflite_ref": _LITERT
    | {
        "quantize": tflite.quantize_ref,
        "requantize": tflite.requantize_ref,
        "add": tflite.add_ref,
        "linear": tflite.linear_ref,
        "products": tflite.products_ref,
        "softmax": tflite.softmax_ref,
        "mean": tflite.mean_ref,
    },
    "tflite_opt": _LITERT
    | {
        "quantize": tflite.quantize_opt,
        "requantize": tflite.requantize_opt,
        "add": tflite.add_opt,
        "add of quint8": tflite.add_opt_u8,
        "products": tflite.products_opt,
        "depthwise, one scale": tflite.products_ref,
        "softmax": tflite.softmax_opt,
        "mean": tflite.mean_opt,
    },
    "xnnpack_x86": _LITERT
    | _XNNPACK
    | {"softmax": tflite.softmax_opt, "mean": xnnpack.mean},
    "xnnpack_arm": _XNNPACK
    | {"mul": xnnpack.mul_arm, "depthwise, one scale": xnnpack.products_arm},
}


def cases() -> Iterator[Case]:
    """Return the cases of this module."""
    for rule in TABLE:
        for dtype, scales in KINDS:
            yield from Rule(rule, dtype, scales).cases()


def plain(grid: QParams) -> Grid:
    """Convert a QParams with one scale to a `Grid`, which the oracles take."""
    scale, zero = np.float32(grid.scale), int(grid.zero_point)
    return Grid(scale, zero, grid.minimum, grid.maximum)


class Rule:
    """The cases of one rule on grids of one type.

    Args:
        rule: its name.
        dtype: the type of arguments and results.
        scales: one of `SCALES`.
    """

    def __init__(self, rule: str, dtype: md.DType, scales: str) -> None:
        self.rule, self.dtype, self.scales = rule, dtype, scales
        self.middle = 128 if dtype is quint8 else 0
        self.x, self.y, self.out = (
            self.grid(scale, zero)
            for scale, zero in zip(SCALES[scales], ZEROS, strict=True)
        )

    def grid(self, scale: float, zero: int) -> QParams:
        """Return a grid of the type; `zero` is the zero point for qint8."""
        return QParams(np.float32(scale), zero + self.middle, dtype=self.dtype)

    def cases(self) -> Iterator[Case]:
        """Return the cases that the rule defines for this type."""
        ways = (
            self.requantization,
            self.concat,
            self.mean,
            self.pool,
            self.softmax,
        )
        yield from (case for way in ways for case in way())
        for name in STEPWISE:
            yield from self.stepwise(name)
        for name in APPROXIMATED:
            if self.scales != "ties" or name not in NEVER_TIES:
                yield from self.stepwise(name)
        yield from self.quantization()
        for name in PAIRS:
            yield from self.pair(name)
        for name in FUNCTIONS:
            if self.scales != "ties" or name not in NEVER_TIES:
                yield from self.curve(name)
        yield from self.products("linear", (5, 37), (11, 37), 0)
        yield from self.products("matmul", (3, 29), (29, 17), 1)
        yield from self.products("matmul", (3, 29), (29, 17), None)
        yield from self.products("conv2d", (1, 4, 6, 5), (6, 2, 3, 3), 0, 2)
        yield from self.products("conv2d", (1, 4, 6, 5), (4, 1, 3, 3), None, 4)

    def codes(self, name: str, shape: tuple[int, ...], grid: QParams) -> Any:
        """Return a tensor of arbitrary codes."""
        return codes_on(grid, f"{self.rule}: {self.case_name(name)}", shape)

    def case_name(self, name: str) -> str:
        """Return the full name of a case."""
        return f"{name}, {self.dtype}, {self.scales}"

    def oracle(self, *names: str) -> Any:
        """Return the first of these oracles that the rule has, or None."""
        known = ORACLES[self.rule]
        return next((known[name] for name in names if name in known), None)

    def make_cases(
        self,
        operation: str,
        name: str,
        given: tuple[Any, ...],
        compute: Callable[[QParams], Any],
        oracle: Callable[[], Any],
        **options: Any,
    ) -> Iterator[Case]:
        """Make a case, if the rule computes this operation; otherwise none.

        The last of `given` is the grid of the result.
        """
        call, out = TABLE[self.rule].get(operation), given[-1]
        if call is None:
            return
        # A rule may define the operation only for some grids or options.
        try:
            call.allow(*given, **options)
        except OptionError:
            return
        yield Case(
            self.rule,
            self.case_name(name),
            lambda threads: np.asarray(compute(out.rounded(self.rule)).codes),
            lambda: np.asarray(oracle(), out.dtype.storage),
        )

    def quantization(self) -> Iterator[Case]:
        """Return the case of quantize: eighths of a step, and numbers out of range."""
        name, one = "quantize", self.oracle("quantize")
        title = f"{self.rule}: {self.case_name(name)}"
        steps = draw.integers(title, (254,), -1300, 1300)
        near = steps.astype(np.float32) * np.float32(self.out.scale / 8)
        x = np.concatenate([near, np.array([1e30, -1e30], np.float32)])
        yield from self.make_cases(
            *(name, name, (self.out,)),
            lambda out: quantize(md.asarray(x), out),
            lambda: [one(value, plain(self.out)) for value in x],
        )

    def requantization(self) -> Iterator[Case]:
        """Make the test case that compares requantize of every code with its oracle."""
        name, one, x = "requantize", self.oracle("requantize"), every_code(self.x)
        grids = plain(self.x), plain(self.out)
        yield from self.make_cases(
            *(name, name, (x, self.out)),
            lambda out: requantize(x, out=out),
            lambda: [one(code, *grids) for code in codes_of(x)],
        )

    def concat(self) -> Iterator[Case]:
        """Make the test case that compares concat of two grids with its oracle."""
        name, one = "concat", self.oracle("concat", "requantize")
        xs, out = [every_code(self.x), every_code(self.y)], plain(self.out)
        yield from self.make_cases(
            *(name, name, (*xs, self.out)),
            lambda out: md.concat(xs, out=out),
            lambda: [one(c, plain(x.qparams), out) for x in xs for c in codes_of(x)],
        )

    def pair(self, name: str) -> Iterator[Case]:
        """Make the test case of an operation of two tensors."""
        one = self.oracle(f"{name} of {self.dtype}", name)
        x1 = self.codes(f"{name}: x1", (64,), self.x)
        x2 = self.codes(f"{name}: x2", (64,), self.y)
        if name == "div":
            x2 = without_zeros(x2)
        grids = plain(self.x), plain(self.y), plain(self.out)
        both = [*zip(codes_of(x1), codes_of(x2), strict=True)]
        yield from self.make_cases(
            *(name, name, (x1, x2, self.out)),
            lambda out: getattr(md, name)(x1, x2, out=out),
            lambda: [one(a, b, *grids) for a, b in both],
        )

    def products(
        self,
        operation: str,
        shape: tuple[int, ...],
        weights: tuple[int, ...],
        axis: int | None,
        groups: int = 1,
    ) -> Iterator[Case]:
        """Return a case of products; weights have a scale each along `axis`, or one."""
        is_single = axis is None
        name = operation + f", {groups} groups" * (groups > 1)
        name += ", one scale" * is_single
        one = self.oracle("depthwise, one scale") if is_single else None
        one = one or self.oracle(operation, "products")
        x = self.codes(f"{name}: x", shape, self.x)
        w = self.codes_of_weights(f"{name}: w", weights, axis)
        grid = self.out.replace(scale=self.out.scale * np.float32(WIDER))
        how: dict[str, Any] = {"groups": groups} if operation == "conv2d" else {}
        places = {"stride": (2, 1), "padding": 1} if how else {}
        rest = () if operation == "matmul" else (None,)
        yield from self.make_cases(
            *(operation, name, (x, w, grid)),
            lambda out: getattr(md, operation)(x, w, *rest, **how, **places, out=out),
            lambda: self.round_sums(one, sums(operation, x, w, groups), x, w, grid),
            **how,
        )

    def codes_of_weights(
        self, name: str, shape: tuple[int, ...], axis: int | None
    ) -> Any:
        """Return symmetric qint8 weights."""
        count = 1 if axis is None else shape[axis]
        ties = self.scales == "ties"
        scales = [
            2.0 ** -(6 + i % 3) if ties else (8 + i % 5) / 512 for i in range(count)
        ]
        grid = QParams(scales[0]) if axis is None else QParams(scales, axis=axis)
        return self.codes(name, shape, grid)

    def round_sums(
        self,
        one: Any,
        found: Array,
        x: QuantizedTensor,
        w: QuantizedTensor,
        out: QParams,
    ) -> Any:
        """Round sums [n, outputs, ...] to codes, element by element."""
        scales = np.broadcast_to(w.qparams.scale, found.shape[1])
        grids = [Grid(np.float32(scale), 0) for scale in scales]
        codes = [
            one(int(found[at]), plain(x.qparams), grids[at[1]], plain(out))
            for at in np.ndindex(*found.shape)
        ]
        return np.reshape(codes, found.shape)

    def mean(self) -> Iterator[Case]:
        """Return the cases of the mean of images."""
        name, shape = "global_avg_pool2d", (1, 16, 3, 5)
        x = self.codes(f"{name}: x", shape, self.x)
        images = np.asarray(x.codes).reshape(16, -1).tolist()
        yield from self.averages(name, x, images, (1, 16, 1, 1), {})

    def pool(self) -> Iterator[Case]:
        """Return the cases of an average pool."""
        name = "avg_pool2d"
        x = self.codes(f"{name}: x", (1, 3, 7, 6), self.x)
        seen = [codes for image in np.asarray(x.codes)[0] for codes in windows(image)]
        yield from self.averages(name, x, seen, (1, 3, 4, 3), POOL)

    def averages(
        self,
        name: str,
        x: QuantizedTensor,
        seen: list[list[int]],
        shape: tuple[int, ...],
        options: dict[str, Any],
    ) -> Iterator[Case]:
        """Return two cases: to another grid, if the rule allows it, and to the same."""
        for title, grid in ((name, self.out), (f"{name}, grid kept", self.x)):
            given = options | {"x": x}
            yield from self.make_cases(
                *(name, title, (x, grid)),
                partial(_pool, getattr(md, name), **given),
                partial(self.all_averages, name, seen, shape, grid),
            )

    def all_averages(
        self, name: str, seen: list[list[int]], shape: tuple[int, ...], out: QParams
    ) -> Array:
        """Compute the average of each window with the oracle."""
        return np.reshape([self.average(name, codes, out) for codes in seen], shape)

    def average(self, name: str, codes: list[int], out: QParams) -> Any:
        """Compute the average of the codes in one window or image."""
        grids, count = (plain(self.x), plain(out)), len(codes)
        in_turn = self.oracle("avg_pool" if name == "avg_pool2d" else "image_mean")
        if in_turn:
            return in_turn(codes, *grids)
        moving = self.oracle("mean") if out is self.out else None
        if moving:
            return moving(sum(codes), count, *grids)
        one = self.oracle("global_avg_pool")
        zero = 0 if one is tflite.global_avg_pool else int(self.x.zero_point)
        return one and one(sum(codes) - zero * count, count, *grids)

    def stepwise(self, name: str) -> Iterator[Case]:
        """Return the case of a function that the rule rounds after each operation."""
        one, x = self.oracle(name), every_code(self.x)
        target = self.grid(*ENDS[name]) if name in ENDS else self.out
        options = OPTIONS.get(name, {})
        if one is not None:
            yield from self.make_cases(
                *(name, name, (x, target)),
                lambda out: getattr(md, name)(x, **options, out=out),
                lambda: [
                    one(code, plain(self.x), plain(target), **options)
                    for code in codes_of(x)
                ],
            )

    def softmax(self) -> Iterator[Case]:
        """Make the test case that compares softmax over rows with its oracle."""
        name, one = "softmax", self.oracle("softmax")
        x = self.codes(f"{name}: x", (3, 33), self.x)
        bounded = self.grid(*BOUNDED[name])
        yield from self.make_cases(
            *(name, name, (x, bounded)),
            lambda out: md.softmax(x, axis=-1, out=out),
            lambda: [
                one(row, plain(self.x), plain(bounded))
                for row in np.asarray(x.codes).tolist()
            ],
        )

    def curve(self, name: str) -> Iterator[Case]:
        """Return the case of a function of every code, through a lookup table."""
        if self.oracle(name):
            return
        one, x, scale = self.oracle("curve"), every_code(self.x), float(self.x.scale)
        target = self.grid(*ENDS[name]) if name in ENDS else self.out
        options = OPTIONS.get(name, {})
        yield from self.make_cases(
            *(name, name, (x, target)),
            lambda out: getattr(md, name)(x, **options, out=out),
            lambda: [
                one(value(name, scale, n), plain(target)) for n in steps_of(x).tolist()
            ],
        )


def _pool(
    operation: Callable[..., Any], out: QParams, x: QuantizedTensor, **options: Any
) -> Any:
    """Call a pool; `out` comes second so that `partial` can fix all other arguments."""
    return operation(x, **options, out=out)


def codes_of(x: QuantizedTensor) -> list[int]:
    """Return the codes of a tensor as a list."""
    codes: list[int] = np.asarray(x.codes).tolist()
    return codes


def without_zeros(x: QuantizedTensor) -> Any:
    """Replace codes at the zero point, because divisors must not be 0."""
    codes = np.asarray(x.codes)
    return quantized(codes + (codes == x.qparams.zero_point), x.qparams)


def windows(image: Array) -> list[list[int]]:
    """Return the codes in each window of `POOL`, without the padding."""
    places = [[slice(max(2 * i - 1, 0), 2 * i + 2) for i in range(n)] for n in (4, 3)]
    return [image[i, j].ravel().tolist() for i in places[0] for j in places[1]]


def sums(operation: str, x: QuantizedTensor, w: QuantizedTensor, groups: int) -> Array:
    """Compute sums of products of steps exactly."""
    if operation == "conv2d":
        images = np.moveaxis(steps_of(x), 1, -1)
        how: dict[str, Any] = {"stride": (2, 1), "padding": PADDING, "groups": groups}
        return np.moveaxis(
            conv2d_u8s8s32(images, np.asarray(w.codes), None, **how), -1, 1
        )
    weights = np.asarray(w.codes).astype(np.int64)
    return steps_of(x) @ (weights if operation == "matmul" else weights.T)
