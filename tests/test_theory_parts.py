"""What the statements are checked with: known embeddings, exact expectations, and populations with all their views."""

from itertools import product

import pytest
import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from pucl.losses import contrastive_loss
from pucl.theory.atoms import TEMPERATURE, Atoms, binomial_law, draw_batches, ideal_terms, make_atoms
from pucl.theory.augmented import Augmented, two_points
from pucl.theory.centroid_divergence import product_bound
from pucl.theory.seeding import (
    best_potential,
    class_bound,
    expected_after_lloyd,
    expected_after_pupl,
    potential,
    random_mixture,
    three_modes,
)


@pytest.fixture
def atoms(generator: Generator) -> Atoms:
    return make_atoms(generator)


def test_similarities_of_atoms_are_those_of_their_draws(atoms: Atoms, generator: Generator) -> None:
    y = torch.arange(40_000) < 20_000
    first, second = atoms.draw(y, generator), atoms.draw(y, generator)
    torch.testing.assert_close(first.norm(dim=1), torch.ones(len(y), dtype=torch.float64))
    near = (first * second).sum(dim=1) / TEMPERATURE
    assert float(near[y].mean()) == pytest.approx(atoms.rho_positive, abs=0.01)
    assert float(near[~y].mean()) == pytest.approx(atoms.rho_negative, abs=0.01)
    across = (first[y] * second[~y]).sum(dim=1) / TEMPERATURE
    assert float(across.mean()) == pytest.approx(atoms.rho_inter, abs=0.01)


def test_values_of_batches_are_those_of_the_objectives(atoms: Atoms, generator: Generator) -> None:
    batches = draw_batches(atoms, 5, n_labelled=3, n_unlabelled=6, prior=0.4, generator=generator)
    assert batches.labelled[:, :3].all() and not batches.labelled[:, 3:].any() and batches.y[:, :3].all()
    values = batches.values("pucl", "scl")
    for at in range(5):
        views = batches.first[at], batches.second[at]
        for column, (name, labels) in enumerate((("pucl", batches.labelled[at]), ("scl", batches.y[at]))):
            assert float(values[at, column]) == pytest.approx(float(contrastive_loss(name, *views, labels)))
    copies = draw_batches(atoms, 50, n_labelled=3, n_unlabelled=6, prior=0.4, generator=generator, copied=1.0)
    torch.testing.assert_close(copies.first, copies.second)


def test_the_ideal_loss_has_the_other_class_in_its_partition(generator: Generator) -> None:
    ends = Atoms(torch.tensor([[1.0, 0.0]]).double(), torch.tensor([[-1.0, 0.0]]).double())
    loss, log_z = ideal_terms(ends, 10, share=0.5, n_negatives=3, generator=generator)
    expected = torch.tensor(2.0).exp() + 3 * torch.tensor(-2.0).exp()
    torch.testing.assert_close(log_z, expected.log().double().expand(10))
    torch.testing.assert_close(loss, log_z - 2)


def test_probabilities_of_positives() -> None:
    assert binomial_law(3, 0.5).tolist() == pytest.approx([1 / 8, 3 / 8, 3 / 8, 1 / 8])


def test_seeding_and_iterations_by_hand(generator: Generator) -> None:
    z, labelled = random_mixture(generator, n=30)
    mean = z[labelled].mean(dim=0)
    weight = (z - mean).pow(2).sum(dim=1) * ~labelled
    once = 0.0
    for j in (~labelled).nonzero().flatten().tolist():
        nearer = labelled | ((z - mean).pow(2).sum(dim=1) < (z - z[j]).pow(2).sum(dim=1))
        centres = torch.stack([z[nearer].mean(dim=0), z[~nearer].mean(dim=0)])
        once += float(weight[j] / weight.sum() * potential(z, centres))
    assert float(expected_after_lloyd(z, labelled, max_iter=1)) == pytest.approx(once)
    assert expected_after_lloyd(z, labelled, max_iter=50) <= once + 1e-9 <= float(expected_after_pupl(z, labelled)) * 2


def test_the_bound_by_classes_holds_where_the_theorem_does_not(generator: Generator) -> None:
    z, labelled, positive = three_modes(generator, share=0.1)
    found = expected_after_pupl(z, labelled)
    assert found > 16 * best_potential(z, starts=10, generator=generator)
    assert found <= class_bound(z, labelled, positive)
    for _ in range(10):
        z = torch.randn(20, 2, generator=generator, dtype=torch.float64)
        positive = torch.arange(20) < 12
        labelled = torch.arange(20) < int(torch.randint(1, 11, (), generator=generator))
        assert expected_after_pupl(z, labelled) <= class_bound(z, labelled, positive)


def random_population(generator: Generator, n: int = 6, m: int = 3) -> Augmented:
    z = F.normalize(torch.randn(n, m, 4, generator=generator, dtype=torch.float64) + 0.5, dim=2)
    y = torch.arange(n) < n // 2
    return Augmented(torch.randn(n, m, 5, generator=generator, dtype=torch.float64), z, torch.arange(n) == 0, y)


def test_quantities_of_a_population_by_hand(generator: Generator) -> None:
    population = random_population(generator)
    z, x, n, m = population.z, population.x, 6, 3
    partition = [
        torch.logaddexp(z[i, a] @ z[i, b], z[i, a] @ z[j, c])
        for i, j in product(range(n), range(n))
        for a, b, c in product(range(m), repeat=3)
    ]
    assert population.partition_loss == pytest.approx(float(torch.stack(partition).mean()))
    gaps = torch.stack([(z[i, a] - z[i, b]).norm() for i in range(n) for a, b in product(range(m), repeat=2)])
    assert population.alignment_loss == pytest.approx(float(gaps.square().mean()))
    torch.testing.assert_close(population.spread, gaps.view(n, -1).amax(dim=1))
    assert population.misaligned(float(population.spread.median())) == pytest.approx(1 / 2)
    nearest = min(float((x[0, a] - x[1, b]).norm()) for a, b in product(range(m), repeat=2))
    assert float(population.distances[0][0, 1]) == pytest.approx(nearest)
    slopes = [
        float((z[i, a] - z[j, b]).norm() / (x[i, a] - x[j, b]).norm())
        for (i, a), (j, b) in product(product(range(n), range(m)), repeat=2)
        if (i, a) != (j, b)
    ]
    assert population.lipschitz == pytest.approx(max(slopes))


def test_concentration_counts_rows_that_are_all_near_each_other() -> None:
    places = torch.tensor([0.0, 1.0, 2.0, 9.0, 0.0, 0.1, 0.2, 0.3]).double()
    line = Augmented(places.view(8, 1, 1), torch.ones(8, 1, 1).double(), places < 0, torch.arange(8) < 4)
    assert [line.concentration(delta) for delta in (0.0, 1.0, 2.0, 9.0)] == [0.25, 0.5, 0.75, 1.0]


def test_the_corrected_bound_on_the_product_holds_and_is_attained(generator: Generator) -> None:
    for _ in range(20):
        population = random_population(generator)
        assert float(population.centres[0] @ population.centres[1]) <= product_bound(population) + 1e-9
    ends = two_points(outliers=0.0, jumps=0.0)
    assert product_bound(ends) == pytest.approx(float(ends.centres[0] @ ends.centres[1]), abs=1e-3)


def test_eta_is_that_of_the_theorem() -> None:
    best = two_points().best_eta
    reach = best.lipschitz * best.delta + 2 * best.epsilon
    assert best.value == pytest.approx(2 * (1 - best.sigma) + 2 * best.misaligned + best.sigma * reach)
    assert best.sigma == pytest.approx(0.96) and best.misaligned == pytest.approx(0.02)
    assert str(best).startswith("η = ")


def test_the_error_counts_rows_on_the_wrong_side() -> None:
    points = two_points(outliers=0.1)
    assert points.error(points.centres) == pytest.approx(0.05)
    assert points.error(points.centres.flip(0)) == pytest.approx(0.95)
    moved: Tensor = points.estimated_centres
    assert float(moved[0, 0]) > 0.9 > -0.9 > float(moved[1, 0])
