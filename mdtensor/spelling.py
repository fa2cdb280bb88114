"""Words that are like a misspelled one."""

from collections.abc import Iterable


def similar(word: str, known: Iterable[str], most: int, least: float) -> list[str]:
    """Return up to `most` of the known words that are like `word`, the likest first.

    Args:
        least: the least similarity, from 0 to 1.

    Example:
        >>> similar("flaot", ["int", "float"], 1, 0.75)
        ['float']

    Source: Python, `difflib.get_close_matches`.
    """
    # Imported late: only errors need it.
    from difflib import get_close_matches

    return get_close_matches(word, list(known), most, least)
