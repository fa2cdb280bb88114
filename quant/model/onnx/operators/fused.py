"""Readers of the operators that ONNX Runtime's optimizer writes.

Each joins operators of the standard, which take its place here. Their names start with
`com.microsoft`, except SimplifiedLayerNormalization.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.quant.model.onnx.axes import require_between
from mdtensor.quant.model.onnx.build import Builder, Operator
from mdtensor.quant.model.onnx.operators.table import (
    READERS,
    reads,
    require_fixed_shape,
)

MS = "com.microsoft."
#: Activations that are fused, with the attributes that take their parameters.
ACTIVATIONS = {
    "Relu": (),
    "Sigmoid": (),
    "Tanh": (),
    "LeakyRelu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
}


def run(
    g: Builder, op: Operator, kind: str, inputs: Any, output: str = "", **more: Any
) -> str:
    """Read an operator of the standard in place of a part of `op`.

    Args:
        kind: its name.
        inputs: names of values.
        output: the name of its result; by default a new one.
        more: its attributes.

    Returns:
        The name of its result.
    """
    name = output or g.fresh(f"{op.outputs[0]}.{kind.lower()}")
    made = replace(
        op, kind=kind, inputs=tuple(inputs), outputs=(name,), attributes=more
    )
    READERS[kind](g, made)
    return name


def _activate(g: Builder, op: Operator, x: str, given: tuple[float, ...]) -> None:
    """Add the fused activation of the operator, its last part; none is the identity."""
    kind = op.get("activation", "")
    if not kind:
        g.alias(op, op.outputs[0], x)
        return
    if kind == "Clip":
        low, high = given[:2]
        g.call(op, md.clip, x, min=low, max=high)
        return
    if kind not in ACTIVATIONS:
        listed = ", ".join((*ACTIVATIONS, "Clip"))
        raise op.error(f"has activation={kind}", f"Supported are {listed}")
    attributes = dict(zip(ACTIVATIONS[kind], given, strict=False))
    run(g, op, kind, (x,), op.outputs[0], **attributes)


@reads(f"{MS}FusedConv")
def fused_conv(g: Builder, op: Operator) -> None:
    """Read FusedConv: a convolution, the sum with another value, an activation."""
    own = {"activation", "activation_params"}
    options = {k: v for k, v in op.attributes.items() if k not in own}
    x = run(g, op, "Conv", op.inputs[:3], **options)
    if op.input(3):
        x = g.step(op, "sum", md.add, x, op.inputs[3])
    _activate(g, op, x, op.get("activation_params", ()))


@reads(f"{MS}FusedGemm")
def fused_gemm(g: Builder, op: Operator) -> None:
    """Read FusedGemm: Gemm and an activation."""
    own = ("alpha", "beta", "transA", "transB")
    options = {k: v for k, v in op.attributes.items() if k in own}
    x = run(g, op, "Gemm", op.inputs, **options)
    names = ("activation_alpha", "activation_beta", "activation_gamma")
    given = tuple(op.get(name) for name in names if name in op.attributes)
    _activate(g, op, x, given)


@reads(f"{MS}FusedMatMul", f"{MS}TransposeMatMul")
def fused_matmul(g: Builder, op: Operator) -> None:
    """Read FusedMatMul: alpha times the product of transposed values."""
    given = [
        _turned(g, op, str(name), letter)
        for name, letter in zip(op.inputs[:2], "AB", strict=True)
    ]
    alpha = op.get("alpha", 1.0)
    if alpha == 1:
        run(g, op, "MatMul", given, op.outputs[0])
    else:
        g.call(op, md.mul, run(g, op, "MatMul", given), float(alpha))


def _turned(g: Builder, op: Operator, name: str, letter: str) -> str:
    """Return an input of FusedMatMul with its batches first, then rows and columns."""
    axes = list(range(len(g.shape(name))))
    if len(axes) < 2:
        return name
    # transBatch: the rows (or columns, if they are turned, too) are the first axis.
    if op.get(f"transBatch{letter}", 0):
        axes = [*axes[1:-1], 0, axes[-1]]
    if op.get(f"trans{letter}", 0):
        axes = [*axes[:-2], axes[-1], axes[-2]]
    if axes == sorted(axes):
        return name
    return g.step(op, f"trans{letter}", md.permute_dims, name, axes=tuple(axes))


def _require_inputs(op: Operator, count: int) -> None:
    """Require a number of inputs, which no schema of the package onnx states."""
    if len(op.inputs) != count:
        problem = f"has {len(op.inputs)} inputs, expected {count}"
        raise op.error(problem, "Export it again")


@reads(f"{MS}Gelu", f"{MS}BiasGelu", f"{MS}FastGelu")
def gelu(g: Builder, op: Operator) -> None:
    """Read Gelu of the sum of the inputs; FastGelu is the one of tanh."""
    if op.kind != f"{MS}FastGelu":
        _require_inputs(op, 2 if op.kind == f"{MS}BiasGelu" else 1)
    x: Any = op.inputs[0]
    if op.input(1):
        x = g.step(op, "sum", md.add, x, op.inputs[1])
    approximate = "tanh" if op.kind == f"{MS}FastGelu" else "none"
    g.call(op, md.gelu, x, approximate=approximate)


@reads(f"{MS}QuickGelu")
def quick_gelu(g: Builder, op: Operator) -> None:
    """Read QuickGelu: x · sigmoid(alpha · x)."""
    _require_inputs(op, 1)
    x = op.inputs[0]
    scaled = g.step(op, "scaled", md.mul, x, op.get("alpha", 1.702))
    g.call(op, md.mul, x, g.step(op, "gate", md.sigmoid, scaled))


# Norms.


@reads("SimplifiedLayerNormalization")
def simplified_layer_norm(g: Builder, op: Operator) -> None:
    """Read SimplifiedLayerNormalization, which became RMSNormalization."""
    READERS["RMSNormalization"](g, op)


@reads(f"{MS}SkipLayerNormalization", f"{MS}SkipSimplifiedLayerNormalization")
def skip_layer_norm(g: Builder, op: Operator) -> None:
    """Read SkipLayerNormalization: the norm of a sum, which is output 3."""
    is_simple = op.kind == f"{MS}SkipSimplifiedLayerNormalization"
    x = g.step(op, "sum", md.add, op.inputs[0], op.inputs[1])
    beta, bias = (None, op.input(3)) if is_simple else (op.input(3), op.input(4))
    if bias:
        x = g.step(op, "biased", md.add, x, bias)
    _norm(g, op, x, str(op.inputs[2]), beta, is_simple)
    g.call_output(op, 3, md.astype, x, g.specs[x].dtype)


def _norm(
    g: Builder, op: Operator, x: str, gamma: str, beta: str | None, is_simple: bool
) -> None:
    """Add the norm over the last axis as the first output."""
    shape, eps = g.shape(x)[-1:], op.get("epsilon", 1e-12 if not is_simple else 1e-5)
    if is_simple:
        g.call(op, md.rms_norm, x, gamma, normalized_shape=shape, eps=eps)
    else:
        g.call(op, md.layer_norm, x, gamma, beta, normalized_shape=shape, eps=eps)


@reads(f"{MS}EmbedLayerNormalization")
def embed_layer_norm(g: Builder, op: Operator) -> None:
    """Read EmbedLayerNormalization: the norm of the sum of rows of embeddings.

    The rows of positions are the first ones, unless the file lists them. Output 1 is
    the number of elements that the mask keeps, output 2 the sum.
    """
    tokens, segments, words, places, kinds, gamma, beta = op.inputs[:7]
    batch, length = require_fixed_shape(g, op, tokens)
    x = g.step(op, "words", md.take, words, tokens, axis=0)
    at = op.input(8)
    if at is None:
        rows = g.shape(places)[0]
        require_between(op, length, 0, rows, "the length of a sequence")
        at = g.new_constant(op, "places", np.arange(length))
    x = g.step(op, "placed", md.add, x, g.step(op, "at", md.take, places, at, axis=0))
    if segments and kinds:
        of = g.step(op, "segments", md.take, kinds, segments, axis=0)
        x = g.step(op, "sum", md.add, x, of)
    _norm(g, op, x, str(gamma), str(beta), False)
    if op.input(7):
        counts = g.step(op, "counts", md.sum, op.inputs[7], axis=1)
        g.call_output(op, 1, md.astype, counts, md.int32)
    elif len(op.outputs) > 1 and op.outputs[1]:
        zeros = g.new_constant(op, "zeros", np.zeros(batch, np.int32))
        g.call_output(op, 1, md.astype, zeros, md.int32)
    g.call_output(op, 2, md.astype, x, g.specs[x].dtype)
