"""Confirmed negatives in people's own data: how they are listed, kept and refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from own_data_examples import IDS, S, X, table_file
from pucl.data.own import OwnData, ReadOptions, read, sample
from pucl.errors import InputError

N = np.arange(12) >= 9


def negative(data: OwnData) -> list[bool]:
    assert data.negative is not None
    found: list[bool] = data.negative.tolist()
    return found


def test_negatives_are_listed_as_positives_are(tmp_path: Path) -> None:
    path = table_file(tmp_path, ".csv")
    (tmp_path / "n.txt").write_text("\n".join(IDS[9:]), encoding="utf-8")
    (tmp_path / "n.csv").write_text("id,why\n" + "".join(f"{i},x\n" for i in IDS[9:]), encoding="utf-8")
    np.save(tmp_path / "n.npy", np.flatnonzero(N))
    for listed in (tmp_path / "n.txt", tmp_path / "n.csv", IDS[9:], set(IDS[9:])):
        data = read(path, id_column="id", label="label", negatives=listed)
        assert negative(data) == N.tolist() and data.s.tolist() == S.tolist()
    for rows in (tmp_path / "n.npy", [9, 10, 11]):
        assert negative(read(X, positives=[0, 1, 2, 3], negatives=rows)) == N.tolist()
    assert negative(ReadOptions(label=S, negatives=[9, 10, 11]).read(X)) == N.tolist()
    assert repr(read(X, label=S, negatives=[9])) == (
        "OwnData(vector, 12 rows, 4 labelled positives, 1 confirmed negatives)"
    )
    assert read(X, label=S).negative is None


@pytest.mark.parametrize(
    ("negatives", "message"),
    [
        (["r11", "r02", "r03"], "negatives must be rows that are not labelled positives; got r02, which is"),
        (["r11", "r99"], "negatives must be ids of the data; got 1 unknown, first 'r99'"),
        ([], "negatives must be a list with at least one entry; got an empty one"),
        (np.ones(12, dtype=bool), "negatives must be a list of ids or row numbers; got an array"),
        ("nowhere.txt", "negatives must be a list, or a file that exists; got 'nowhere.txt'"),
        (IDS[5:], "negatives must be few enough to leave 2 unlabelled rows or more; got 7, which leave 1"),
    ],
)
def test_negatives_that_cannot_be(tmp_path: Path, negatives: Any, message: str) -> None:
    path = table_file(tmp_path, ".csv")
    with pytest.raises(InputError) as caught:
        read(path, id_column="id", label="label", negatives=negatives)
    assert str(caught.value).startswith("pucl.read: negatives must be") and message in str(caught.value)


def test_row_numbers_that_are_both_or_neither() -> None:
    with pytest.raises(InputError, match="not labelled positives; got row 3, which is a labelled positive"):
        read(X, label=S, negatives=[11, 3])
    with pytest.raises(InputError, match="negatives must be row numbers from 0 to 11"):
        read(X, label=S, negatives=[12])


def test_a_sample_keeps_all_negatives() -> None:
    data = read(X, label=S, negatives=[9, 10, 11])
    small = sample(data, 9, keep_positives=True)
    assert small.s.sum() == 4 and sum(negative(small)) == 3
    assert small.ids[small.negative].tolist() == [9, 10, 11]
    for n in (7, 8):
        with pytest.raises(InputError, match="more than the 7 labelled positives and confirmed negatives"):
            sample(data, n, keep_positives=True)
    drawn = sample(data, 9, seed=0)
    assert negative(drawn) == [i in (9, 10, 11) for i in drawn.ids]
