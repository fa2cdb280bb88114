"""How windows of codes are covered by groups of four weights, two safe pairs each.

An instruction multiplies four codes by four weights and adds the products in pairs, in
16 bits. Codes are up to 255, so a pair is safe if its weights of one sign add up to 128
at most. Groups may begin at any code of a run and may overlap: where a pair is unsafe,
the next group has the second weight, and the first group has 0 in its place.
"""

import numpy as np

#: Weights of a group, columns of a panel, bytes of a group of all columns.
GROUP, PANEL = 4, 16
GROUP_BYTES = GROUP * PANEL
#: The most that weights of one sign of a pair add up to: 255 * 128 < 2**15.
MOST_PAIR = 128
#: Bits of the place of a group in its kernel line, and the most kernel lines.
LINE_BITS = 24
MOST_LINES = 127


# Sums of pairs stay exact, because the weights are known (decision 0112).
def unsafe_pairs(w):
    """Return which pairs of neighbours are unsafe in one of the columns of a panel.

    Args: w: int8 [panels, 16, length].

    Returns: bool [panels, length]; the last is False.
    """
    found = np.zeros((len(w), w.shape[2]), bool)
    for sign in (1, -1):
        parts = np.maximum(sign * w.astype(np.int16), 0)
        sums = parts[:, :, 1:] + parts[:, :, :-1]
        found[:, :-1] |= (sums > MOST_PAIR).any(axis=1)
    return found


def reach(start, first, unsafe):
    """Return where the weights end that a group from `start` on has, from `first` on.

    Weights before `first` are in earlier groups.
    """
    for place in range(first, start + GROUP):
        is_second = (place - start) % 2 == 1
        if is_second and place > first and unsafe[place - 1]:
            return place
    return start + GROUP


def cover(unsafe):
    """Return the groups that cover a run: lists of starts, of firsts and of ends.

    A group from `start` on has the weights first .. end - 1.

    Args: unsafe: list of bool, at least `GROUP`.
    """
    length, first, found = len(unsafe), 0, ([], [], [])
    last = length - GROUP
    while first < length:
        start = min(first, last)
        end = reach(start, first, unsafe)
        # One code earlier, other weights are pairs.
        if end < start + GROUP and start > 0 and start + GROUP - 1 > first:
            other = reach(start - 1, first, unsafe)
            if other > end:
                start, end = start - 1, other
        for values, value in zip(found, (start, first, end), strict=True):
            values.append(value)
        first = end
    return found


def pack_pairs(w):
    """Pack weights as panels of groups; see above.

    Args:
        w: int8 [n, kernel lines, runs of a line, length], length at least `GROUP`. A
            run has codes that lie side by side.

    Returns: (starts, entries, packed): int64 [panels + 1], the first group of each
        panel; int32 [groups, 3]: kernel line, run and first code in the run of a group;
        int8 [groups, 16, 4].
    """
    n, lines, runs, length = w.shape
    panels = -(-n // PANEL)
    wide = np.zeros((panels * PANEL, lines, runs, length), np.int8)
    wide[:n] = w
    wide = wide.reshape(panels, PANEL, lines, runs, length)
    starts, entries, packed, count = [0], [], [], 0
    for panel in wide:
        parts = panel.transpose(1, 2, 0, 3).reshape(lines * runs, PANEL, length)
        for i, unsafe in enumerate(unsafe_pairs(parts).tolist()):
            own, group = groups_of(parts[i], *cover(unsafe))
            packed.append(group)
            places = np.full((len(own), 3), (i // runs, i % runs, 0), np.int32)
            places[:, 2] = own
            entries.append(places)
            count += len(own)
        starts.append(count)
    return np.array(starts, np.int64), np.concatenate(entries), np.concatenate(packed)


def groups_of(part, starts, firsts, ends):
    """Return (starts, weights) of the groups of a run: int8 [groups, 16, 4].

    Args: part: int8 [16, length].
    """
    at = np.asarray(starts)[:, None] + np.arange(GROUP)
    is_own = (at >= np.asarray(firsts)[:, None]) & (at < np.asarray(ends)[:, None])
    weights = np.where(is_own[:, None, :], part[:, at].transpose(1, 0, 2), 0)
    return np.asarray(starts, np.int32), weights.astype(np.int8)
