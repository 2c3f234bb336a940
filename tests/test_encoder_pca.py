"""The encoder that projects rows on their principal axes."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from pucl.encoders import make_encoder
from pucl.encoders.pca_projection import PCAProjection
from pucl.encoders.plain import pca_encoder, plain_encoder, raw_encoder
from pucl.encoders.saved import load_encoder, save_encoder


def low_rank(n: int, rank: int, columns: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(n, rank, generator=generator) @ torch.randn(rank, columns, generator=generator)


def test_axes_lose_nothing_of_rows_of_low_rank() -> None:
    rows = low_rank(300, 40, 1500)
    along, whole = pca_encoder(rows)(rows), raw_encoder(rows)(rows)
    assert along.shape == (300, 513) and whole.shape == (300, 1501)
    torch.testing.assert_close(along[:, :-1] @ along[:, :-1].T, whole[:, :-1] @ whole[:, :-1].T, rtol=1e-3, atol=0.1)
    torch.testing.assert_close(along[:, -1], whole[:, -1], rtol=1e-3, atol=0)  # √d, the mean length of a row


def test_axes_are_those_of_largest_variance() -> None:
    generator = torch.Generator().manual_seed(1)
    rows = torch.cat([low_rank(600, 3, 900), torch.randn(600, 300, generator=generator)], dim=1)
    z = pca_encoder(rows)(rows)[:, :-1]
    spread = z.square().mean(dim=0)
    assert (spread[:200].diff() <= 1e-3).all()
    assert spread[:3].sum() > 890, "three axes hold the 900 columns that go together"
    assert spread[3:].max() < 10


def test_axes_of_few_rows_and_of_few_columns() -> None:
    few = low_rank(20, 20, 1100)
    z = pca_encoder(few)(few)
    assert z.shape == (20, 513) and (z[:, 20:-1] == 0).all()
    narrow = low_rank(50, 6, 6)
    assert pca_encoder(narrow)(narrow).shape == (50, 7)
    images = (255 * torch.rand(30, 3, 20, 20)).to(torch.uint8)
    assert pca_encoder(images)(images).shape == (30, 513)


def test_axes_before_any_rows_are_orthonormal_and_always_the_same() -> None:
    first, second = (make_encoder("pca", (1200,)) for _ in range(2))
    assert isinstance(first, PCAProjection) and isinstance(second, PCAProjection)
    assert torch.equal(first.directions, second.directions)
    torch.testing.assert_close(first.directions.T @ first.directions, torch.eye(512), rtol=0, atol=1e-5)


def test_plain_rows_are_taken_along_axes_where_they_are_wide() -> None:
    assert plain_encoder(low_rank(30, 5, 1024))[0] == "raw"
    assert plain_encoder(low_rank(30, 5, 1025))[0] == "pca"
    assert plain_encoder(low_rank(30, 5, 10), use_pca=True)[0] == "pca"


def test_axes_come_back_bit_for_bit(tmp_path: Path) -> None:
    rows = low_rank(100, 30, 1100)
    encoder = pca_encoder(rows, seed=3)
    save_encoder(tmp_path, encoder, name="pca", input_shape=(1100,), options={}, extra={})
    assert torch.equal(load_encoder(tmp_path)(rows), encoder(rows))


def test_the_former_name_still_works(tmp_path: Path) -> None:
    with pytest.warns(FutureWarning, match="encoders: 'axes' is now called 'pca'"):
        assert isinstance(make_encoder("axes", (1200,)), PCAProjection)
    rows = low_rank(100, 30, 1100)
    encoder = pca_encoder(rows)
    save_encoder(tmp_path, encoder, name="pca", input_shape=(1100,), options={}, extra={})
    about = tmp_path / "encoder.json"
    about.write_text(about.read_text(encoding="utf-8").replace('"pca"', '"axes"'), encoding="utf-8")
    assert torch.equal(load_encoder(tmp_path)(rows), encoder(rows)), "stored under the former name: no warning"
    save_encoder(tmp_path, encoder, name="axes", input_shape=(1100,), options={}, extra={})
    assert '"name": "pca"' in about.read_text(encoding="utf-8")
