"""The cache of embeddings: by content of the row and identity of the encoder, whole or not at all, bounded."""

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import pucl.texts as texts_module
from pucl import cache
from pucl.encoders.frozen.embedding import embed_frozen
from pucl.encoders.frozen.encoder import FrozenEncoder
from pucl.errors import RunWarning
from pucl.texts import vectors_of

from conftest import Command


class Counted(nn.Module):
    """A linear layer that counts the rows it sees."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 3)
        with torch.no_grad():
            self.layer.weight.copy_(torch.randn(3, 5, generator=torch.Generator().manual_seed(seed)))
        self.rows = 0

    def forward(self, x: Tensor) -> Tensor:
        self.rows += len(x)
        out: Tensor = self.layer(x)
        return out


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PUCL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def encoder(seed: int = 0, **options: Any) -> FrozenEncoder:
    torch.manual_seed(0)
    return FrozenEncoder(Counted(seed), name="counted", stored_as="counted", cached=True, options=options)


def rows(n: int = 20, seed: int = 1) -> Tensor:
    return torch.randn(n, 5, generator=torch.Generator().manual_seed(seed))


def seen(one: FrozenEncoder, x: Tensor) -> tuple[int, Tensor]:
    """How many rows had to be computed, and the vectors."""
    before = int(one.network.rows)  # type: ignore[arg-type]
    z = embed_frozen(one, x)
    return int(one.network.rows) - before, z  # type: ignore[arg-type]


def test_rows_are_computed_once_whatever_their_order(folder: Path) -> None:
    x = rows()
    first, z = seen(encoder(), x)
    again, same = seen(encoder(), x.flip(0))  # another object, as another fit or process has
    assert (first, again) == (20, 0)
    assert torch.equal(same, z.flip(0))
    more, both = seen(encoder(), torch.cat([rows(4, seed=2), x]))
    assert more == 4 and torch.equal(both[4:], z)
    assert torch.allclose(both, encoder()(torch.cat([rows(4, seed=2), x])))
    assert [path.name for path in folder.iterdir()] == [cache.FILE]


def test_another_encoder_another_type_or_another_value_is_another_entry(folder: Path) -> None:
    assert not folder.exists()
    x = rows()
    seen(encoder(), x)
    changed = x.clone()
    changed[3, 2] += 1e-6
    assert seen(encoder(seed=1), x)[0] == 20  # other weights
    assert seen(encoder(size=7), x)[0] == 20  # other settings
    assert seen(encoder(), changed)[0] == 1
    keys = cache.row_keys(np.zeros((1, 4), np.uint8)), cache.row_keys(np.zeros((1, 1), np.float32))
    assert keys[0] != keys[1]  # the same four bytes


class CountedTexts:
    """Texts by their length and their first letter; counts what it reads."""

    cached: ClassVar[bool] = True

    def __init__(self, weights: Sequence[float] = (1.0, 2.0)) -> None:
        self.weights, self.read = np.array(weights, np.float32), list[str]()

    @classmethod
    def fit(cls, texts: Sequence[str], *, seed: int) -> "CountedTexts":
        raise NotImplementedError

    @classmethod
    def load(cls, arrays: Mapping[str, NDArray[Any]]) -> "CountedTexts":
        raise NotImplementedError

    @property
    def arrays(self) -> Mapping[str, NDArray[Any]]:
        return {"weights": self.weights}

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.read += texts
        numbers = [[len(text), ord(text[:1] or " ")] for text in texts]
        return np.array(numbers, np.float32).reshape(-1, 2) * self.weights


@pytest.mark.usefixtures("folder")
def test_texts_are_encoded_once_by_published_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts_module, "SAVED", 2)
    texts = ["battery", "heiß", "", "battery", "\ud800 half a sign", "smoke"]
    first, again, other = CountedTexts(), CountedTexts(), CountedTexts((1.0, 3.0))
    z = vectors_of(first, texts, name="st:folder")
    assert first.read == ["battery", "heiß", "", "\ud800 half a sign", "smoke"]
    assert np.array_equal(z, CountedTexts().encode(texts))
    assert np.array_equal(vectors_of(again, [*texts[::-1], "new"], name="st:elsewhere")[:6], z[::-1])
    assert again.read == ["new"] and vectors_of(again, [], name="st:elsewhere").shape[0] == 0
    vectors_of(other, texts, name="st:folder")
    assert len(other.read) == 5, "other weights have other vectors"
    vectors_of(first, texts, name="hf:folder")
    assert len(first.read) == 10, "another scheme makes other vectors of the same files"
    assert {(held.name, held.rows) for held in cache.held()} == {("st:folder", 6), ("st:folder", 5), ("hf:folder", 5)}
    monkeypatch.setattr(CountedTexts, "cached", False)
    vectors_of(again, texts, name="st:folder")
    assert len(again.read) == 7, "what learns from the texts themselves is not kept"


def test_own_code_is_never_cached(folder: Path) -> None:
    own = FrozenEncoder(Counted(), name="own")
    assert [seen(own, rows())[0] for _ in range(2)] == [20, 20]
    assert not folder.exists()


def test_it_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUCL_CACHE", "off")
    assert cache.cache_path() is None
    assert [seen(encoder(), rows())[0] for _ in range(2)] == [20, 20]


def test_a_changed_vector_is_computed_anew(folder: Path) -> None:
    x = rows()
    _, z = seen(encoder(), x)
    with sqlite3.connect(folder / cache.FILE) as base:
        ((number, data),) = base.execute("SELECT n, vector FROM vectors LIMIT 1")
        base.execute("UPDATE vectors SET vector = ? WHERE n = ?", (b"\0\0\0\1" + data[4:], number))
    base.close()
    again, same = seen(encoder(), x)
    assert again == 1 and torch.allclose(same, z)


def test_a_damaged_file_does_not_stop_the_work(folder: Path) -> None:
    folder.mkdir()
    (folder / cache.FILE).write_bytes(b"not a database at all" * 99)
    with pytest.warns(RunWarning, match=r"cannot be used .*pucl cache --clear"):
        again, z = seen(encoder(), rows())
    assert again == 20 and torch.allclose(z, encoder()(rows()))


def test_an_interrupted_write_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed: Callable[[Any], bytes] = cache.packed
    calls: list[int] = []

    def breaks(vector: Any) -> bytes:
        calls.append(1)
        if len(calls) > 10:
            raise KeyboardInterrupt
        return packed(vector)

    monkeypatch.setattr(cache, "packed", breaks)
    with pytest.raises(KeyboardInterrupt):
        embed_frozen(encoder(), rows())
    assert folder.is_dir() and cache.held() == []


def test_the_oldest_rows_go_when_it_is_full(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "LARGEST", 20 * (3 * 4 + 4 + 16))
    old, new = rows(15, seed=1), rows(15, seed=2)
    seen(encoder(), old)
    seen(encoder(), new)
    (held,) = cache.held()
    assert held.rows <= 20 and (folder / cache.FILE).stat().st_size > 0
    assert seen(encoder(), new)[0] == 0
    assert seen(encoder(), old[:5])[0] == 5


def test_the_command_shows_and_clears_it(folder: Path, command: Command) -> None:
    empty = json.loads(command("cache", "--json").out)
    assert (empty["bytes"], empty["encoders"]) == (0, [])
    seen(encoder(), rows())
    shown = json.loads(command("cache", "--json").out)
    assert [(each["encoder"], each["rows"]) for each in shown["encoders"]] == [("counted", 20)]
    assert shown["path"] == str(folder / cache.FILE) and "counted" in command("cache").out
    assert command("cache", "--clear").code == 0
    assert not (folder / cache.FILE).exists()
