"""The figures of the paper that need no results: their data against closed forms."""

import numpy as np
import pytest
import torch

from figure_examples import picture
from pucl.bench.figures import kappa as kappa_file
from pucl.bench.figures.point_config import arrangements, energy, free_minimum
from pucl.bench.figures.pupl_gmm import PRIOR, SEPARATION, accuracy, boundary, classifiers
from pucl.data.gaussians import gaussians
from pucl.heads import LinearHead


def test_kappa_is_largest_at_one_half_and_falls_with_gamma() -> None:
    heat, over_gamma, over_prior = picture("kappa").panels
    assert heat.heat is not None
    values = np.array(heat.heat.values)  # γ × π
    assert np.allclose(values, values[:, ::-1]) and (np.diff(values[:, 1:-1], axis=0) < 0).all()
    assert all(heat.heat.x[column] == 0.5 for column in values.argmax(axis=1))
    assert values.max() == 0.25 and values[-1].max() == 0.125
    assert [curve.y[0] for curve in over_gamma.curves] == pytest.approx([p * (1 - p) for p in kappa_file.PRIORS])
    assert [max(curve.y) for curve in over_prior.curves] == pytest.approx([0.25 / (1 + g) for g in kappa_file.GAMMAS])


def test_densities_add_up() -> None:
    seen, parts = picture("problem_setup").panels
    labelled, unlabelled = seen.curves
    mixture, positive, negative = parts.curves
    step = labelled.x[1] - labelled.x[0]
    assert unlabelled == mixture
    assert np.allclose(mixture.y, np.add(positive.y, negative.y))
    assert [sum(curve.y) * step for curve in (labelled, mixture)] == pytest.approx([1, 1], abs=1e-3)
    assert sum(positive.y) * step == pytest.approx(0.4, abs=1e-3)


def neighbours(places: torch.Tensor, first: int, second: int) -> bool:
    return float(places[first] @ places[second]) == 0


@pytest.mark.parametrize("objective", ["sscl", "scl", "pucl"])
def test_arrangements_of_least_energy_are_the_papers(objective: str) -> None:
    """Same shapes side by side for ssCL, same colours for sCL, and both for puCL."""
    energies = [energy(objective, places) for places in arrangements()]
    for places, value in zip(arrangements(), energies, strict=True):
        shapes = neighbours(places, 0, 2) and neighbours(places, 1, 3)
        colours = neighbours(places, 0, 1) and neighbours(places, 2, 3)
        preferred = {"sscl": shapes, "scl": colours, "pucl": shapes and colours}[objective]
        assert (value - min(energies) < 1e-9) == preferred


@pytest.mark.slow
def test_free_points_collapse_into_two_opposite_places() -> None:
    """Cosines are 1 within a pair and −1 across, so ℓ = log(1 + 2 e^(−2/τ))."""
    for objective, (first, second) in (("sscl", (0, 2)), ("scl", (0, 1))):
        places = free_minimum(objective)
        assert energy(objective, places) == pytest.approx(np.log(1 + 2 * np.exp(-2 / 0.5)), abs=1e-6)
        assert torch.allclose(places[first], places[second], atol=1e-2)
    lowest = min(energy("pucl", places) for places in arrangements())
    assert energy("pucl", free_minimum("pucl")) < lowest


def test_boundaries_lie_between_the_two_gaussians() -> None:
    data = gaussians(seed=5, n_train=4000, n_test=2000, modes=1, separation=SEPARATION, prior=PRIOR)
    heads, _, s = classifiers(data, 250)
    assert int(s.sum()) == 250 and list(heads) == ["CE* (truth)", "CE", "nnPU (true π)", "puPL (guarded)", "ours"]
    ((first, second), _) = boundary(heads["CE* (truth)"])
    assert abs(first + second) / 2 < 0.3, "by symmetry the best line is x = 0"
    best = accuracy(heads["CE* (truth)"], data)
    assert best > 96 and accuracy(heads["CE"], data) < 75
    assert all(accuracy(heads[name], data) > best - 3 for name in ("nnPU (true π)", "puPL (guarded)"))


def test_boundary_is_where_the_logit_is_zero() -> None:
    head = LinearHead(torch.tensor([3.0, -4.0]), torch.tensor(5.0))
    xs, ys = boundary(head)
    assert torch.allclose(head(torch.tensor([xs, ys]).T), torch.zeros(2), atol=1e-4)
