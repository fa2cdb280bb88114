"""Texts as numbers of word pieces, as BERT splits them."""

import re
import unicodedata


def pieces(text, vocabulary):
    """Return the numbers of the word pieces of a text, between [CLS] and [SEP]."""
    plain = unicodedata.normalize("NFD", text.lower())
    plain = "".join(c for c in plain if unicodedata.category(c) != "Mn")
    found = [vocabulary["[CLS]"]]
    for word in re.findall(r"\w+|[^\w\s]", plain):
        start = ""
        while word:
            # The longest known beginning is a piece; what follows starts with ##.
            fits = (
                n for n in range(len(word), 0, -1) if start + word[:n] in vocabulary
            )
            end = next(fits, 0)
            found.append(vocabulary[start + word[:end] if end else "[UNK]"])
            start, word = "##", word[end:] if end else ""
    return [*found, vocabulary["[SEP]"]]
