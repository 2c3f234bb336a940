from collections.abc import Iterator

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from pucl.data.pu_split import linear_propensity, make_pu
from pucl.errors import InputError
from pucl.pseudo_labels import PseudoLabels
from pucl.selection import Diagnostics, diagnose
from pucl.selection.diagnostics import EFFECT, SIGNIFICANT, cohens_kappa, memorised


def axes(seed: int, *, n: int = 3000, k: int = 6) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """`k` clusters along `k` axes, classes taking turns, the first axis stretched: x, truth."""
    rng = np.random.default_rng(seed)
    cluster = rng.integers(k, size=n)
    x = 6 * np.eye(k)[cluster] + rng.standard_normal((n, k))
    x[:, 0] *= 1.5
    return x.astype(np.float32), cluster % 2 == 0


def sample(seed: int, *, strength: float = 0.0, n_labelled: int = 300) -> tuple[Tensor, Tensor, Tensor]:
    """z, s and the truth, labelled at random (SCAR) or, with a strength, more often along the first axis (SAR)."""
    x, y = axes(seed)
    if strength:
        drawn = make_pu(
            y,
            n_labelled,
            setting="single-set",
            mechanism="sar",
            propensity=linear_propensity(x, strength=strength),
            seed=seed,
        )
    else:
        drawn = make_pu(y, n_labelled, setting="single-set", seed=seed)
    return torch.tensor(x[drawn.rows]), torch.tensor(drawn.s), torch.tensor(y[drawn.rows])


def labeller(s: Tensor, y: Tensor, *, wrong: float, seed: int) -> PseudoLabels:
    """Pseudo-labels wrong on a share of the rows, and aware of it."""
    flip = torch.rand(len(y), generator=torch.Generator().manual_seed(seed)) < wrong
    return PseudoLabels.from_probability(torch.where(y ^ flip, 1 - wrong, wrong), s)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Many small fits: threads only get in each other's way."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


SEEDS = 20


@pytest.mark.slow
@pytest.mark.parametrize("given", [True, False], ids=["pseudo", "clusters"])
def test_silent_when_labelled_at_random(given: bool) -> None:
    fired = 0
    for seed in range(SEEDS):
        z, s, y = sample(seed)
        found = diagnose(z, s, pseudo=labeller(s, y, wrong=0.05, seed=seed) if given else None, seed=seed)
        fired += found.biased
    assert fired <= 0.05 * SEEDS


@pytest.mark.slow
@pytest.mark.parametrize("strength", [2.0, 4.0])
def test_fires_when_labelling_is_biased(strength: float) -> None:
    fired = 0
    for seed in range(SEEDS):
        z, s, y = sample(seed, strength=strength)
        found = diagnose(z, s, pseudo=labeller(s, y, wrong=0.05, seed=seed), seed=seed)
        fired += found.biased
    assert fired >= 0.95 * SEEDS


def test_clusters_alone_see_a_strong_bias_in_large_sets() -> None:
    """Without pseudo-labels half of P is compared with rich clusters only: less power, as the documents say."""
    silent: list[float] = []
    biased: list[float] = []
    for seed in range(5):
        for strength, values in ((0.0, silent), (4.0, biased)):
            z, s, _ = sample(seed, strength=strength, n_labelled=600)
            values.append(diagnose(z, s, seed=seed).bias_auc)
    assert max(silent) < np.mean(biased)


def test_a_doubtful_labeller_is_allowed_more() -> None:
    z, s, y = sample(0, strength=2.0)
    sure = labeller(s, y, wrong=0.02, seed=0)
    unsure = PseudoLabels(sure.labels, torch.where(s, 1.0, 0.1 + 0.5 * sure.labels), sure.reliability, sure.prior)
    assert diagnose(z, s, pseudo=sure).biased and not diagnose(z, s, pseudo=unsure).biased


def test_pseudo_labels_that_contradict_the_clusters_say_nothing() -> None:
    z, s, y = sample(0)
    inverted = PseudoLabels.from_probability(torch.where(y, 0.02, 0.98), s)
    found = diagnose(z, s, pseudo=inverted)
    assert not found.biased and "cannot be checked" in found.messages[-1]
    nothing = diagnose(z, s, pseudo=PseudoLabels.from_probability(torch.zeros(len(y)), s))
    assert not nothing.biased and nothing.bias_auc == 0.5 and "cannot be checked" in nothing.messages[-1]


def test_the_rule_is_the_one_documented() -> None:
    z, s, y = sample(1, strength=4.0)
    found = diagnose(z, s, pseudo=labeller(s, y, wrong=0.05, seed=0))
    assert found.biased == (found.bias_auc - 0.5 - 0.05 / 2 > max(EFFECT, SIGNIFICANT * found.bias_error))


def test_clusters_that_gather_positives() -> None:
    z, s, _ = sample(0)
    found = diagnose(z, s)
    assert found.n_clusters == 30
    assert 0.7 < found.ratio_auc < 0.85  # perfect clusters reach 1 − π/2, about 0.78
    assert 0.1 < found.ratio_spearman < 1
    assert found.rich_positive > 0.9 and found.rich_unlabelled < 0.55
    assert found.messages[0].startswith("The embedding groups the positives")
    assert all("\n" not in line for line in found.messages) and str(found).count("\n") == len(found.messages) - 1


def test_an_embedding_without_information() -> None:
    _, s, _ = sample(0)
    z = torch.randn(len(s), 6, generator=torch.Generator().manual_seed(0))
    found = diagnose(z, s)
    assert abs(found.ratio_auc - 0.5) < 0.1 and abs(found.ratio_spearman) < 0.1
    assert found.messages[0].startswith("Warning: the embedding does not group")


def test_ratio_is_judged_on_positives_it_was_not_made_from() -> None:
    """Every labelled row its own cluster would look perfect to itself; held-out rows tell otherwise."""
    values = []
    for seed in range(20):
        g = torch.Generator().manual_seed(seed)
        values.append(diagnose(torch.randn(200, 20, generator=g), torch.arange(200) < 40, seed=seed).ratio_auc)
    assert abs(np.mean(values) - 0.5) < 3 * np.std(values) / 20**0.5


def test_agreement_equals_scikit_learn() -> None:
    from sklearn.metrics import cohen_kappa_score

    z, s, y = sample(0)
    a, b = labeller(s, y, wrong=0.1, seed=1), labeller(s, y, wrong=0.2, seed=2)
    found = diagnose(z, s, pseudo=a, other=b)
    mine, theirs = a.labels[~s].numpy(), b.labels[~s].numpy()
    assert found.agreement == pytest.approx((mine == theirs).mean())
    assert found.kappa == pytest.approx(cohen_kappa_score(mine, theirs))
    assert "agree on" in found.messages[2] and len(found.messages) == 4
    assert cohens_kappa(torch.ones(5) > 0, torch.ones(5) > 0) == (1.0, 1.0)
    assert diagnose(z, s, pseudo=a).kappa is None


def test_same_seed_same_diagnosis() -> None:
    z, s, _ = sample(0)
    first, second, third = (diagnose(z, s, seed=seed) for seed in (3, 3, 4))
    assert isinstance(first, Diagnostics) and first == second != third


def test_large_unlabelled_sets_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pucl.selection.diagnostics.MOST_ROWS", 100)
    z, s, y = sample(0)
    assert diagnose(z, s, pseudo=labeller(s, y, wrong=0.05, seed=0)).bias_error > 0.03


def test_small_and_odd_inputs() -> None:
    g = torch.Generator().manual_seed(0)
    assert np.isfinite(diagnose(torch.randn(8, 2, generator=g), [1] * 4 + [0] * 4).ratio_auc)
    assert not diagnose(torch.ones(40, 3), torch.arange(40) < 10).biased  # all rows equal
    assert diagnose(np.ones((40, 3)), np.arange(40) < 10).ratio_auc == 0.5


def test_bad_input_is_one_clear_error() -> None:
    z, s, y = sample(0)
    pseudo = labeller(s, y, wrong=0.1, seed=0)
    with pytest.raises(InputError, match="other must be given together with pseudo; got other alone"):
        diagnose(z, s, other=pseudo)
    with pytest.raises(InputError, match="pseudo must be for the 100 rows of z; got pseudo-labels of 3000 rows"):
        diagnose(z[:100], torch.arange(100) < 20, pseudo=pseudo)
    with pytest.raises(InputError, match="at least four rows of each kind; got 3 labelled and 7 unlabelled"):
        diagnose(z[:10], torch.arange(10) < 3)
    with pytest.raises(InputError, match="z must be a floating-point matrix"):
        diagnose(torch.zeros(10), s[:10])
    with pytest.raises(InputError, match="s must be of length 3000"):
        diagnose(z, s[:-1])
    with pytest.raises(InputError, match="z must be finite"):
        diagnose(torch.where(torch.arange(3000)[:, None] == 5, torch.nan, z), s)


def test_rows_memorised_are_told_from_others() -> None:
    g = torch.Generator().manual_seed(0)
    z = torch.randn(400, 8, generator=g)
    seen, hidden = torch.arange(400) < 240, torch.arange(400) >= 240
    value, known = memorised(z, seen, hidden)
    assert 0.4 < value < 0.6 and not known
    z[seen, 3] += 0.7
    value, known = memorised(z, seen, hidden)
    assert value > 0.62 and known
    few = torch.arange(400) < 4
    assert memorised(z, few, hidden) == (0.5, False), "four rows tell nothing"
