"""Sound on its way to a wake word: mel spectrogram, embeddings, and the surest row."""

import numpy as np

#: Rows of the spectrogram in a window, the steps between windows, windows for the head.
WINDOW, STEP, EMBEDDINGS = 76, 8, 16


def windows(mel, sound):
    """Return the windows of the mel spectrogram, [n, 76, 32, 1]."""
    # The word stands between silences with a little noise, as in a room.
    noise = np.random.default_rng(0).normal(0, 20, sound.size + 32_000)
    noise[20_000 : 20_000 + sound.size] += sound
    found = np.asarray(mel(noise.astype(np.float32)[None])).reshape(-1, 32) / 10 + 2
    starts = range(0, len(found) - WINDOW + 1, STEP)
    return np.stack([found[i : i + WINDOW, :, None] for i in starts])


def features(embed, parts):
    """Return the rows that the head hears, [n, 16, 96]."""
    made = [np.asarray(embed(part[None])).reshape(96) for part in parts]
    starts = range(len(made) - EMBEDDINGS + 1)
    return np.stack([made[i : i + EMBEDDINGS] for i in starts])


def score(embed, head, parts):
    return max(float(np.asarray(head(x[None])).item()) for x in features(embed, parts))
