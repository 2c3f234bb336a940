"""Neighbours of raw rows: the baseline, its axes and votes, and rows of very many columns."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from pucl import PUClassifier
from pucl.baselines import fit_baseline, settings_of
from pucl.baselines.neighbours import DEFAULT, NeighbourSettings, principal_axes_of
from pucl.baselines.shared.training_problem import PUProblem
from pucl.encoders.inputs import Standardise
from pucl.errors import InputError
from pucl.pseudo_labels import PseudoLabels
from pucl.ranking.whitening import WIDE, directions, fit_whitening

Floats = NDArray[np.float32]


def people(seed: int = 0, n: int = 60, pictures: int = 20) -> tuple[Floats, NDArray[np.bool_], NDArray[np.bool_]]:
    """Small clusters, every second of them positive, a third of whose rows are labelled: x, s, truth."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(n), pictures)
    x = 3 * rng.standard_normal((n, 30))[who] + rng.standard_normal((n * pictures, 30))
    truth = who % 2 == 0
    return x.astype(np.float32), truth & (rng.random(len(who)) < 1 / 3), truth


def problem_of(x: torch.Tensor) -> PUProblem:
    labelled = torch.arange(len(x)) < 5
    return PUProblem("test", x, labelled, None, "raw", Standardise.of(x), 0)


def test_axes_are_those_of_largest_variance() -> None:
    g = torch.Generator().manual_seed(0)
    x = torch.randn(400, 3, generator=g) @ torch.randn(3, 40, generator=g) + torch.randn(400, 40, generator=g)
    problem = problem_of(x)
    found = principal_axes_of(problem, NeighbourSettings(axes=3))
    flat = problem.standardise(x)
    exact = torch.linalg.eigh(torch.cov(flat.T)).eigenvectors[:, -3:]
    along = found(x)
    assert along.shape == (400, 3)
    # The same plane: as much of the variance as the exact axes hold, up to what few turns of the power method leave.
    assert float(along.var(dim=0).sum()) > 0.99 * float((flat @ exact).var(dim=0).sum())
    assert torch.allclose(along.mean(dim=0), torch.zeros(3), atol=1e-4)
    axes = found.get_buffer("axes")
    assert torch.allclose(axes.T @ axes, torch.eye(3), atol=1e-4)


def test_more_axes_than_there_are_keep_all_angles() -> None:
    x = torch.randn(30, 4, 3, generator=torch.Generator().manual_seed(1))
    problem = problem_of(x)
    along = principal_axes_of(problem, DEFAULT)(x)
    flat = problem.standardise(x).flatten(1)
    flat = flat - flat.mean(dim=0)
    assert along.shape == (30, 12) and torch.allclose(along @ along.T, flat @ flat.T, atol=1e-3)


@pytest.mark.slow
def test_people_are_recognised() -> None:
    x, s, truth = people()
    answer, noise = truth, np.random.default_rng(9).standard_normal(x.shape) / 2
    fresh = (x + noise).astype(np.float32)  # the same people, other pictures
    scorer = fit_baseline("neighbours", x, s, device="cpu")
    right = (scorer(torch.from_numpy(fresh)).numpy() > 0) == answer
    assert right.mean() > 0.97
    naive = fit_baseline("naive", x, s, encoder="raw", device="cpu")(torch.from_numpy(fresh)).numpy() > 0
    assert right.mean() > (naive == answer).mean() + 0.1
    assert (scorer(torch.from_numpy(x)).numpy()[~s] > 0).mean() == pytest.approx(truth[~s].mean(), abs=0.05)


@pytest.mark.slow
def test_a_known_prior_is_taken() -> None:
    x, s, _ = people(1, n=20)
    few, many = (fit_baseline("neighbours", x, s, prior=prior, device="cpu") for prior in (0.1, 0.6))
    rows = torch.from_numpy(x[~s])
    assert (few(rows) > 0).float().mean() < (many(rows) > 0).float().mean() - 0.1


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_prior_found_at_the_edge_is_taken(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    x, s, _ = people(1, n=20)

    def label(z: torch.Tensor, labelled: torch.Tensor, **_: object) -> PseudoLabels:
        return PseudoLabels.from_probability(torch.full((len(z),), share), labelled)

    monkeypatch.setattr("pucl.baselines.neighbours.pseudo_label", label)
    logits = fit_baseline("neighbours", x, s, device="cpu")(torch.from_numpy(x[~s]))
    assert logits.isfinite().all() and (logits > 0).float().mean() == pytest.approx(share, abs=0.2)


@pytest.mark.parametrize("change", [{"axes": 0}, {"k": 0}, {"temperature": 0.0}, {"max_rows": 0}])
def test_bad_settings_are_said(change: dict[str, float]) -> None:
    with pytest.raises(InputError, match=f"NeighbourSettings: {next(iter(change))} must be"):
        NeighbourSettings(**change)  # type: ignore[arg-type]


def test_the_old_name_of_max_rows_still_works_and_warns() -> None:
    with pytest.warns(FutureWarning, match="baseline 'neighbours': 'most' is now called 'max_rows'"):
        assert settings_of("neighbours", most=7) == NeighbourSettings(max_rows=7)
    with pytest.raises(InputError, match="max_rows must be given once, not as 'most' too"):
        settings_of("neighbours", most=7, max_rows=8)


@pytest.mark.slow
def test_of_very_many_columns_the_first_axes_stand_for_all() -> None:
    g = torch.Generator().manual_seed(2)
    wide = torch.randn(500, 40, generator=g) @ torch.randn(40, WIDE + 100, generator=g)
    wide += torch.randn(wide.shape, generator=g) / 100
    exact = F.normalize(wide, dim=1)
    exact = exact - exact.mean(dim=0)
    variances, axes = torch.linalg.eigh((exact.T @ exact / 500).double())
    exact = F.normalize(exact @ (axes * (variances.clamp(min=0) / variances[-1] + 1e-3) ** -0.25).float(), dim=1)
    found = directions(wide, whitening=0.5)
    assert found.shape[1] < wide.shape[1]
    assert torch.allclose(found @ found.T, exact @ exact.T, atol=0.01)
    plain = directions(wide)
    assert plain.shape[1] < wide.shape[1] and not torch.allclose(plain @ plain.T, exact @ exact.T, atol=0.01)
    view = fit_whitening(wide, centred=True, whitening=0.5)
    assert torch.allclose(view(wide[:3]), found[:3], atol=1e-5), "a row is seen alike alone and with others"


@pytest.mark.slow
@pytest.mark.usefixtures("one_draw")
def test_large_images_are_tried_as_they_are() -> None:
    x, s, truth = people(2, n=26)
    shades = np.random.default_rng(0).standard_normal((30, 36 * 36)) / 8
    pictures = (255 / (1 + np.exp(-x @ shades))).astype(np.uint8).reshape(-1, 1, 36, 36)
    model = PUClassifier(encoder="auto", epochs=1, random_state=0).fit(pictures, s)
    assert "raw + stacked + knn" in str(model.summary())
    assert (model.predict(pictures) == truth).mean() > 0.9
