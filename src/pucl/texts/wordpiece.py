"""WordPiece: texts as numbers of pieces of words, as BERT without upper case reads them."""

import unicodedata
from collections.abc import Iterator, Mapping

from pucl.texts.tokens import MAX_CHARACTERS

UNKNOWN, START, END = "[UNK]", "[CLS]", "[SEP]"
LONGEST = 100  # characters of a word; a longer one is unknown
IDEOGRAPHS = ((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2CEAF), (0x2F800, 0x2FA1F))


def pieces_of(text: str, vocabulary: Mapping[str, int], *, most: int) -> list[int]:
    """The numbers of the first pieces of a text, at most `most` with the marks of start and end."""
    numbers = [vocabulary[START]]
    for word in _words(text[:MAX_CHARACTERS]):
        numbers += _pieces(word, vocabulary)
        if len(numbers) >= most:
            break
    return [*numbers[: most - 1], vocabulary[END]]


def _pieces(word: str, vocabulary: Mapping[str, int]) -> list[int]:
    """The longest known piece first, then the longest that continues it, and so on; unknown if that fails."""
    numbers, start = [], 0
    while start < len(word) <= LONGEST:
        prefix = "##" if start else ""
        ends = (end for end in range(len(word), start, -1) if prefix + word[start:end] in vocabulary)
        end = next(ends, None)
        if end is None:
            return [vocabulary[UNKNOWN]]
        numbers.append(vocabulary[prefix + word[start:end]])
        start = end
    return numbers or [vocabulary[UNKNOWN]]


def _words(text: str) -> Iterator[str]:
    """Words in lower case without accents; punctuation and ideographs stand alone."""
    spaced = "".join(_spaced(character) for character in text).lower()
    for word in spaced.split():
        plain = (
            character for character in unicodedata.normalize("NFD", word) if unicodedata.category(character) != "Mn"
        )
        yield from "".join(f" {c} " if _is_punctuation(c) else c for c in plain).split()


def _spaced(character: str) -> str:
    if character.isspace():
        return " "
    if character in "\0\ufffd" or unicodedata.category(character).startswith("C"):
        return ""
    return f" {character} " if any(low <= ord(character) <= high for low, high in IDEOGRAPHS) else character


def _is_punctuation(character: str) -> bool:
    symbol = character.isascii() and character.isprintable() and not character.isalnum() and not character.isspace()
    return symbol or unicodedata.category(character).startswith("P")
