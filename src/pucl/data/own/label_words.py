"""Labels as people write them: yes and no, the name of a class beside "unknown", or a value beside nothing."""

from collections.abc import Sequence
from typing import Any

UNLABELLED_WORDS = (
    "no", "n", "false", "f", "unlabelled", "unlabeled", "unknown", "u", "none", "null", "nan", "na", "n/a", "?", "-",
    "not labelled", "not labeled", "0", "0.0", "-1",
)  # fmt: skip
POSITIVE_WORDS = ("positive", "pos", "p", "yes", "y", "true", "t", "1", "1.0", "+")
NEGATIVE_WORDS = ("negative", "neg", "no", "n", "false", "f", "0", "0.0", "-1", "-")
SKIP_WORDS = ("skip", "s", "unknown", "unsure", "?")


def positive_of(distinct: Sequence[Any], *, missing: bool) -> Any:
    """The value that means a labelled positive, None where that cannot be told.

    Two values are understood where one of them is a word for no or unknown, and one value where other rows have none.

    Args:
        distinct: the values that occur, without missing ones.
        missing: whether some rows have none.
    """
    plain = [str(value).strip().casefold() for value in distinct]
    if len(distinct) == 1:
        return distinct[0] if missing and plain[0] not in UNLABELLED_WORDS else None
    if len(distinct) != 2 or missing:  # a second value beside missing ones may mean a negative
        return None
    unlabelled = [word in UNLABELLED_WORDS for word in plain]
    if sum(unlabelled) == 1:
        return distinct[unlabelled.index(False)]
    return None


def in_words(name: str, positive: Any, n_positive: int, others: Sequence[Any], n_others: int, n_missing: int) -> str:
    """What was taken for what: "column 'fraud': 'yes' (71 rows) is a labelled positive, 'no' (498 rows) unlabelled"."""
    shown = ", ".join(repr(value) for value in others[:4]) + (" …" if len(others) > 4 else "")
    rest = [f"{shown} ({n_others:,} rows)"] if others else []
    rest += [f"empty ({n_missing:,} rows)"] if n_missing else []
    return f"{name}: {positive!r} ({n_positive:,} rows) is a labelled positive, {' and '.join(rest)} unlabelled"


def answer_of(word: str) -> str | None:
    """What a reviewer wrote, as positive, negative, skip or an empty text for no answer; None for any other word."""
    plain = word.strip().casefold()
    known = {"positive": POSITIVE_WORDS, "negative": NEGATIVE_WORDS, "skip": SKIP_WORDS, "": ("",)}
    return next((answer for answer, words in known.items() if plain in words), None)
