"""Random views of a text: some of its words and a span of it are left out."""

from collections.abc import Sequence

import numpy as np

from pucl.texts.tokens import MAX_CHARACTERS, WORD

DROPPED, SPAN = 0.2, 0.2  # of the words, one by one, and at most in a row


def drop_words(
    texts: Sequence[str], generator: np.random.Generator, *, dropped: float = DROPPED, span: float = SPAN
) -> list[str]:
    """One random view of every text; a word keeps what follows it, so that views are texts like the others.

    Args:
        texts: the texts.
        generator: where chance comes from.
        dropped: the probability with which a word is left out.
        span: the largest share of the words that is left out in one piece, whose length is uniform from 0 on.
    """
    return [_view(text[:MAX_CHARACTERS], generator, dropped, span) for text in texts]


def _view(text: str, generator: np.random.Generator, dropped: float, span: float) -> str:
    starts = [word.start() for word in WORD.finditer(text)]
    n = len(starts)
    if n < 2:
        return text
    kept = generator.random(n) >= dropped
    length = int(generator.integers(int(span * n) + 1))
    first = int(generator.integers(n - length + 1))
    kept[first : first + length] = False
    if not kept.any():
        kept[generator.integers(n)] = True
    ends = [*starts[1:], len(text)]
    pieces = [text[starts[i] : ends[i]] for i in np.flatnonzero(kept)]
    return "".join(pieces).strip()
