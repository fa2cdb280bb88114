"""The oracle of recurrent layers: one sample, one step and one unit at a time."""

from math import exp, expm1, log1p, tanh

import numpy as np

#: Functions of a number, alpha and beta.
FUNCTIONS = {
    "affine": lambda x, a, b: a * x + b,
    "elu": lambda x, a, b: x if x >= 0 else a * expm1(x),
    "hardsigmoid": lambda x, a, b: min(max(a * x + b, 0), 1),
    "leaky_relu": lambda x, a, b: x if x >= 0 else a * x,
    "relu": lambda x, a, b: max(x, 0),
    "scaled_tanh": lambda x, a, b: a * tanh(b * x),
    "sigmoid": lambda x, a, b: 1 / (1 + exp(-x)),
    "softplus": lambda x, a, b: max(x, 0) + log1p(exp(-abs(x))),
    "softsign": lambda x, a, b: x / (1 + abs(x)),
    "tanh": lambda x, a, b: tanh(x),
    "thresholded_relu": lambda x, a, b: x if x > a else 0,
}


def lstm(x, w, r, b, h, c, p, lengths, activations, clip, coupled):
    """Compute the states of an LSTM in float64, [t + 2, n, k]; see `mdtensor.lstm`."""
    (steps, samples, _), k = x.shape, r.shape[1]
    bias = np.zeros(4 * k) if b is None else b[0] + b[1]
    holes = np.zeros((3, k)) if p is None else p
    out = np.zeros((steps + 2, samples, k))
    gate, new = (_limited(entry, clip) for entry in activations[:2])
    state = _limited(activations[2], None)
    for n in range(samples):
        hidden, cell = _start(h, n, k), _start(c, n, k)
        for t in range(steps if lengths is None else lengths[n]):
            z = [_sum(w[j], x[t, n], r[j], hidden) + bias[j] for j in range(4 * k)]
            for u, old in enumerate(list(cell)):
                i = gate(z[u] + holes[0, u] * old)
                f = 1 - i if coupled else gate(z[2 * k + u] + holes[2, u] * old)
                cell[u] = f * old + i * new(z[3 * k + u])
                o = gate(z[k + u] + holes[1, u] * cell[u])
                out[t, n, u] = o * state(cell[u])
            hidden = list(out[t, n])
        out[-2, n], out[-1, n] = hidden, cell
    return out


def gru(x, w, r, b, h, lengths, activations, clip, reset_after):
    """Compute the state of a GRU in float64, [t + 1, n, k]; see `mdtensor.gru`."""
    (steps, samples, _), k = x.shape, r.shape[1]
    left, right = np.zeros((2, 3 * k)) if b is None else b
    out = np.zeros((steps + 1, samples, k))
    gate, new = (_limited(entry, clip) for entry in activations)
    for n in range(samples):
        hidden = _start(h, n, k)
        for t in range(steps if lengths is None else lengths[n]):
            z, s = (
                [
                    gate(_sum(w[j], x[t, n], r[j], hidden) + left[j] + right[j])
                    for j in range(at * k, at * k + k)
                ]
                for at in (0, 1)
            )
            for u in range(k):
                j = 2 * k + u
                reset = [s[v] * hidden[v] for v in range(k)]
                back = _sum((), (), r[j], reset) + right[j]
                if reset_after:
                    back = s[u] * (_sum((), (), r[j], hidden) + right[j])
                found = new(_sum(w[j], x[t, n], (), ()) + left[j] + back)
                out[t, n, u] = (1 - z[u]) * found + z[u] * hidden[u]
            hidden = list(out[t, n])
        out[-1, n] = hidden
    return out


def rnn(x, w, r, b, h, lengths, activations, clip):
    """Compute the state of a plain layer in float64; see `mdtensor.rnn`."""
    (steps, samples, _), k = x.shape, r.shape[1]
    bias = np.zeros(k) if b is None else b[0] + b[1]
    out = np.zeros((steps + 1, samples, k))
    (function,) = (_limited(entry, clip) for entry in activations)
    for n in range(samples):
        hidden = _start(h, n, k)
        for t in range(steps if lengths is None else lengths[n]):
            sums = [_sum(w[j], x[t, n], r[j], hidden) + bias[j] for j in range(k)]
            hidden = [function(z) for z in sums]
            out[t, n] = hidden
        out[-1, n] = hidden
    return out


def _start(state, n, k):
    return [0.0] * k if state is None else [float(v) for v in state[n]]


def _sum(w, x, r, hidden):
    """Return w · x + r · hidden."""
    pairs = [*zip(w, x, strict=True), *zip(r, hidden, strict=True)]
    return sum(float(a) * float(b) for a, b in pairs)


def _limited(entry, clip):
    """Return a function of (name, alpha, beta) that limits its argument first."""
    name, alpha, beta = entry
    limit = float("inf") if clip is None else clip
    return lambda x: FUNCTIONS[name](min(max(x, -limit), limit), alpha, beta)
