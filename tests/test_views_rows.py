"""Views of tables and vectors: what they draw."""

import math

import pytest
import torch

from pucl.views import make_view
from view_examples import assert_rate, assert_uniform, seeded


def test_scarf_draws_from_the_marginals() -> None:
    n, d = 500, 8
    x = torch.randn(n, d, generator=seeded())
    out = make_view("scarf")(x, seeded(1))
    assert all(torch.isin(out[:, j], x[:, j]).all() for j in range(d))
    changed = out != x
    assert_rate(changed, 0.3 * (1 - 1 / n))
    assert changed.any(dim=1).double().mean() < 1 and not changed.all(dim=1).any(), "features change one by one"
    sources = (out[:, None] == x).float()  # (i, k, j): feature j of row i is that of row k
    assert sources.sum(dim=1).eq(1).all()
    donors = sources.argmax(dim=1)[changed].double()
    assert abs(donors.mean() - (n - 1) / 2) < 4 * n / math.sqrt(12 * len(donors))
    assert torch.equal(make_view("scarf", corruption=0)(x, seeded()), x)


def test_scarf_noise_is_in_units_of_the_spread() -> None:
    x = torch.randn(4000, 3, generator=seeded()) * torch.tensor([0.1, 1.0, 10.0])
    moved = make_view("scarf", corruption=0, noise=0.2)(x, seeded(1)) - x
    ratio = moved.std(dim=0) / x.std(dim=0)
    assert torch.allclose(ratio, torch.full((3,), 0.2), rtol=4 / math.sqrt(2 * 4000))


def test_feature_noise_is_what_it_was() -> None:
    x, g = torch.randn(40, 5, generator=seeded()), seeded(2)
    noisy = x + 0.1 * x.std(dim=0, correction=0) * torch.randn(x.shape, generator=g)
    donor = torch.randint(40, x.shape, generator=g)
    expected = torch.where(torch.rand(x.shape, generator=g) < 0.2, x.gather(0, donor), noisy)
    assert torch.equal(make_view("feature_noise")(x, seeded(2)), expected)
    assert torch.equal(make_view("scarf", corruption=0.2, noise=0.1)(x, seeded(2)), expected)


def test_vector_dropout_keeps_the_mean() -> None:
    x = 1 + torch.rand(400, 50, generator=seeded())
    out = make_view("vector", noise=0, mix=0, dropout=0.25)(x, seeded(1))
    dropped = out == 0
    assert_rate(dropped, 0.25)
    torch.testing.assert_close(out[~dropped], (x / 0.75)[~dropped])


def test_vector_mixes_with_another_row() -> None:
    n = 3000
    out = make_view("vector", noise=0, dropout=0, mix=0.3)(torch.eye(n), seeded())
    weight = 1 - out.diagonal()
    assert_uniform(weight, 0, 0.3)
    other = out - out.diagonal().diag()
    assert (other > 0).sum(dim=1).eq(1).all()
    torch.testing.assert_close(other.sum(dim=1), weight, rtol=0, atol=1e-6)
    ahead = (other.argmax(dim=1) - torch.arange(n)) % n
    assert_uniform(ahead.double(), 1, n - 1)
    view = make_view("vector", noise=0, dropout=0)
    assert all((view(torch.eye(2), seeded(seed)) > 0).all() for seed in range(20)), "of two rows always the other"


def test_vector_mixes_with_near_rows_when_asked() -> None:
    groups = torch.eye(6).repeat_interleave(4, dim=0) * (1 + torch.arange(24.0))[:, None]  # same directions by fours
    view = make_view("vector", noise=0, dropout=0, mix=0.5, neighbours=3)
    partners = set()
    for seed in range(20):
        out = view(groups, seeded(seed))
        assert ((out > 0) == (groups > 0)).all(), "only rows of the same direction are mixed"
        partners.add(bool(out[1, 0] > groups[1, 0]))
    assert partners == {False, True}, "not always the same neighbour"
    nearest = make_view("vector", noise=0, dropout=0, neighbours=1)(groups, seeded())
    assert (nearest != groups).any(dim=1).all(), "a row is not its own neighbour"
    assert view(groups[:2], seeded()).shape == (2, 6) and torch.equal(view(groups[:1], seeded()), groups[:1])


def test_vector_noise_is_in_units_of_the_spread() -> None:
    x = torch.randn(4000, 3, generator=seeded()) * torch.tensor([0.1, 1.0, 10.0])
    moved = make_view("vector", noise=0.2, dropout=0, mix=0)(x, seeded(1)) - x
    assert torch.allclose(moved.std(dim=0) / x.std(dim=0), torch.full((3,), 0.2), rtol=4 / math.sqrt(2 * 4000))


@pytest.mark.parametrize("name", ["scarf", "feature_noise", "vector"])
def test_one_row_alone(name: str) -> None:
    x = torch.rand(1, 4, generator=seeded())
    assert make_view(name)(x, seeded()).isfinite().all()
