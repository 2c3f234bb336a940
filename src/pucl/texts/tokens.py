"""Words of a text in any script, and the numbers that stand for words, pairs of words and pieces of words."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

MAX_CHARACTERS = 100_000  # of a text that are looked at
PIECE = 4  # characters of a piece of a word, which has a mark at both of its ends
UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"  # scripts without spaces
MARKS = "\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0900-\u0dff"  # accents and vowel signs, which are parts of words
SIGNS = "\u2600-\u27bf\U0001f000-\U0001faff"  # among them emoji
WORD = re.compile(rf"[{UNSPACED}{SIGNS}]|(?:(?![{UNSPACED}{SIGNS}])[\w{MARKS}])+")
ALONE = re.compile(f"[{UNSPACED}]")
OF_PAIR, OF_PIECE = 1 << 32, 2 << 32  # added to the numbers of pairs and of pieces, to tell them from words
PRIME = np.uint64(0x9E3779B97F4A7C15)  # of multiplicative hashing: 2⁶⁴ by the golden ratio

Ints = NDArray[np.int64]


def words_of(text: str) -> list[str]:
    """The words of a text in lower case; in scripts without spaces every character is one."""
    return WORD.findall(unicodedata.normalize("NFKC", text[:MAX_CHARACTERS]).lower())


def count_words(text: str) -> int:
    """How many words a text has, by spaces; in scripts without spaces two characters count as a word."""
    return max(len(text.split()), len(ALONE.findall(text)) // 2)


@dataclass(frozen=True)
class Tokens:
    """The n-grams of some texts as numbers that are the same on every machine.

    Attributes:
        word: the number of every distinct word, (v,).
        pieces: the numbers of the pieces of every distinct word, one word after the other.
        pieces_end: where the pieces of every distinct word end, (v,).
        place: which distinct word every word of the texts is, (t,).
        text: which text it belongs to, (t,).
        n_texts: how many texts there are.
    """

    word: Ints
    pieces: Ints
    pieces_end: Ints
    place: Ints
    text: Ints
    n_texts: int

    def all(self) -> tuple[Ints, Ints]:
        """The text and the number of every n-gram: words, then pairs of words, then pieces of words."""
        of_pair, pair = self._pairs()
        start = np.concatenate([np.zeros(1, dtype=np.int64), self.pieces_end[:-1]])
        many = (self.pieces_end - start[: len(self.pieces_end)])[self.place]
        within = np.arange(int(many.sum())) - np.repeat(np.cumsum(many) - many, many)
        piece = self.pieces[np.repeat(start[self.place], many) + within]
        texts = np.concatenate([self.text, of_pair, np.repeat(self.text, many)])
        return texts, np.concatenate([self.word[self.place], pair, piece])

    def _pairs(self) -> tuple[Ints, Ints]:
        """The text and the number of every pair of neighbouring words."""
        within = self.text[1:] == self.text[:-1]
        number = self.word[self.place].astype(np.uint64)
        with np.errstate(over="ignore"):
            mixed = ((number[:-1] * PRIME + number[1:]) * PRIME) >> np.uint64(32)
        return self.text[1:][within], mixed[within].astype(np.int64) + OF_PAIR


def tokens_of(texts: Sequence[Sequence[str]]) -> Tokens:
    """The n-grams of texts that are given as words; a number is the CRC-32 of what it stands for."""
    known: dict[str, int] = {}
    place = [known.setdefault(word, len(known)) for text in texts for word in text]
    lengths = [len(text) for text in texts]
    pieces = [_pieces(word) for word in known]
    flat = [number for numbers in pieces for number in numbers]
    return Tokens(
        np.array([crc32(word.encode("utf-8", "replace")) for word in known], dtype=np.int64),
        np.array(flat, dtype=np.int64) + OF_PIECE,
        np.cumsum([len(numbers) for numbers in pieces], dtype=np.int64),
        np.array(place, dtype=np.int64),
        np.repeat(np.arange(len(texts)), lengths),
        len(texts),
    )


def _pieces(word: str) -> list[int]:
    marked = f"<{word}>"
    return [crc32(marked[i : i + PIECE].encode("utf-8", "replace")) for i in range(len(marked) - PIECE + 1)]
