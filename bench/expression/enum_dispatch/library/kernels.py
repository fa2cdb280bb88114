"""Kernels: arrays in, arrays out. int32 wraps, int8 saturates."""

import numpy as np


def add_float32(a, b):
    return a.astype(np.float32) + b.astype(np.float32)


def mul_float32(a, b):
    return a.astype(np.float32) * b.astype(np.float32)


def total_float32(a):
    return float(a.sum(dtype=np.float64))


def add_int32(a, b):
    return a + b


def mul_int32(a, b):
    return a * b


def total_int32(a):
    return float(a.sum(dtype=np.int64))


def add_int8(a, b):
    return np.clip(a.astype(int) + b, -128, 127).astype(np.int8)


def mul_int8(a, b):
    return np.clip(a.astype(int) * b, -128, 127).astype(np.int8)


def total_int8(a):
    return float(a.sum(dtype=np.int64))
