"""Rows on their way into an encoder: scaling, memory maps, values that are not finite."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Generator, Tensor

from pucl.encoders import inputs
from pucl.encoders.inputs import Standardise, as_rows, to_float
from pucl.errors import InputError
from pucl.numerics import floats
from pucl.numerics.floats import check_finite


def constants(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and spread from the whole set at once."""
    rows, axes = to_float(x).to(torch.float64).numpy(), (0, 2, 3) if x.ndim == 4 else (0,)
    mean, spread = rows.mean(axis=axes, keepdims=True)[0], rows.std(axis=axes, keepdims=True)[0]
    return torch.as_tensor(mean).float(), torch.as_tensor(np.where(spread > 1e-12, spread, 1)).float()


def sets() -> dict[str, Tensor]:
    g = Generator().manual_seed(0)
    table = torch.randn(203, 5, generator=g) * torch.tensor([1.0, 1e-3, 50.0, 0.0, 1.0]) + torch.tensor(
        [0, 3, -7, 2, 0]
    )
    table[0, 4] = 1e6  # a first row far from the others
    return {
        "uint8 images": torch.randint(256, (101, 3, 6, 5), dtype=torch.uint8, generator=g),
        "nearly white images": (torch.rand(101, 1, 6, 5, generator=g) > 0.999).to(torch.uint8) + 254,
        "float images": torch.rand(101, 3, 6, 5, generator=g),
        "table": table,
        "sorted": torch.arange(500.0)[:, None] + 1e5,
        "far from zero": torch.arange(500.0)[:, None] % 3 + 1e7,
        "float64": torch.randn(60, 4, generator=g, dtype=torch.float64),
    }


@pytest.mark.parametrize("kind", sets())
@pytest.mark.parametrize("piece", [1, 100, 1 << 22])
def test_standardise_in_pieces_equals_the_whole(kind: str, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(floats, "PIECE", piece)
    x = sets()[kind]
    found, (mean, spread) = Standardise.of(x), constants(x)
    assert found.mean.shape == mean.shape and found.mean.dtype == found.scale.dtype == torch.float32
    assert torch.allclose(found.mean, mean, rtol=1e-6, atol=1e-6)
    assert torch.allclose(found.scale, spread, rtol=1e-6, atol=1e-6)


def test_standardise_of_images_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    x = sets()["uint8 images"]
    whole = Standardise.of(x)
    monkeypatch.setattr(floats, "PIECE", 1)
    pieced = Standardise.of(x)
    assert torch.equal(whole.mean, pieced.mean) and torch.equal(whole.scale, pieced.scale)
    black = Standardise.of(torch.full((7, 1, 3, 3), 83, dtype=torch.uint8))
    assert black.scale.item() == 1 and black.mean.item() == pytest.approx(83 / 255, rel=1e-7)


def test_no_float_copy_of_the_whole_set(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    convert, isfinite = inputs.in_float64, torch.isfinite

    def note_convert(x: Tensor) -> Tensor:
        seen.append(x.numel())
        return convert(x)

    def note_isfinite(x: Tensor) -> Tensor:
        seen.append(x.numel())
        return isfinite(x)

    monkeypatch.setattr(floats, "PIECE", 70)
    monkeypatch.setattr(inputs, "in_float64", note_convert)
    monkeypatch.setattr(torch, "isfinite", note_isfinite)
    x = torch.rand(50, 1, 4, 5)
    Standardise.of(x)
    check_finite("test", "x", x)
    assert max(seen) == 60 and sum(seen) == 20 + 1000 + 1000  # three rows of 20; the first row once more


@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_memory_map_is_neither_copied_nor_warned_about(
    dtype: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(floats, "PIECE", 100)
    saved: np.ndarray[Any, Any] = np.random.default_rng(0).integers(256, size=(40, 3, 4, 5)).astype(dtype)
    np.save(tmp_path / "x.npy", saved)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    always = torch.is_warn_always_enabled()
    torch.set_warn_always(True)  # torch would warn once per process, perhaps in another test
    try:
        rows = as_rows(mapped, owner="test")
        part = as_rows(mapped[3:], owner="test")
    finally:
        torch.set_warn_always(always)
    assert rows.data_ptr() == mapped.__array_interface__["data"][0]
    assert part.data_ptr() == rows[3:].data_ptr()
    assert np.array_equal(rows.numpy(), saved)
    assert torch.equal(Standardise.of(rows).scale, Standardise.of(torch.as_tensor(saved)).scale)


@pytest.mark.parametrize("piece", [1, 8, 1 << 22])
def test_rows_that_are_not_finite_are_counted_over_all_pieces(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(floats, "PIECE", piece)
    x = np.ones((9, 4), dtype=np.float32)
    x[5, 1], x[8, 0], x[8, 3] = np.nan, np.inf, -np.inf
    with pytest.raises(InputError, match="^test: x must be finite; got NaN or infinity in 2 rows, first 5, column 1$"):
        as_rows(x, owner="test")
    assert len(as_rows(x[:5], owner="test")) == 5
