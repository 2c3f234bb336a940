import json
import re
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from pucl.errors import InputError
from pucl.numerics.logistic import balanced_weights, fit_logistic, stratified_folds
from pucl.priors.bbe import bbe
from pucl.pseudo_labels import PseudoLabels, pseudo_label
from pucl.pseudo_labels.prototypes import log_ratio
from pucl.pseudo_labels.pupl import orientation_guard, seed_centres
from pucl.ranking.cvir import cross_fitted_rounds
from pucl.ranking.kernel_features import KernelFeatures
from pucl.ranking.thresholds import move_to_gap
from pucl.ranking.whitening import FLAT, directions


def modes(n: int = 1500, *, k: int = 6, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """`k` tight clusters along `k` axes, classes taking turns: z, labelled, truth."""
    g = Generator().manual_seed(seed)
    cluster = torch.randint(k, (n,), generator=g)
    z = F.one_hot(cluster, k).float() * 8 + torch.randn(n, k, generator=g)
    y = cluster % 2 == 0
    return z, y & (torch.rand(n, generator=g) < 0.15), y


def accuracy(found: PseudoLabels, labelled: Tensor, y: Tensor) -> float:
    return float((found.labels == y)[~labelled].float().mean())


def pupl_by_hand(z: Tensor, s: Tensor, start: int) -> list[bool]:
    """algo:puPL, line by line, with μ_N given."""
    rows = [[float(v) for v in row] for row in F.normalize(z, dim=1)]

    def mean(members: list[list[float]]) -> list[float]:
        return [sum(column) / len(members) for column in zip(*members, strict=True)]

    def distance(a: list[float], b: list[float]) -> float:
        return sum((u - v) ** 2 for u, v in zip(a, b, strict=True))

    labelled = [bool(v) for v in s]
    positive, negative = mean([r for r, v in zip(rows, labelled, strict=True) if v]), rows[start]
    labels: list[bool] = []
    while True:
        new = [v or distance(r, positive) < distance(r, negative) for r, v in zip(rows, labelled, strict=True)]
        if new == labels:
            return labels
        labels = new
        positive = mean([r for r, v in zip(rows, labels, strict=True) if v])
        negative = mean([r for r, v in zip(rows, labels, strict=True) if not v])


@pytest.mark.slow
def test_rows_seen_by_the_encoder_do_not_stand_for_the_positives() -> None:
    """Half of P was memorised and lies apart from all others: with it π̂ is half of what it is."""
    g = torch.Generator().manual_seed(0)
    y, s = torch.arange(1200) < 600, torch.arange(1200) < 200
    z = torch.randn(1200, 4, generator=g)
    z[:, 0] += 6 * y.float()
    seen = torch.arange(1200) < 100
    z[seen, 1] += 12
    blind, aware = pseudo_label(z, s, seed=0), pseudo_label(z, s, seen_by_encoder=seen, seed=0)
    assert blind.prior < 0.3 and aware.prior == pytest.approx(0.4, abs=0.03)
    right = [float((found.labels == y).float().mean()) for found in (blind, aware)]
    assert right[1] > max(0.96, right[0] + 0.05) and bool(aware.labels[s].all())
    assert bool((aware.reliability[s] == 1).all()) and len(aware.probability) == 1200


@pytest.mark.parametrize(
    ("seen", "message"),
    [
        ([True] * 3, "seen_by_encoder must be a mask of length 40, one per row of z; got torch.bool of shape (3,)"),
        (
            [1] + [0] * 39,
            "seen_by_encoder must be a mask of length 40, one per row of z; got torch.int64 of shape (40,)",
        ),
        (
            [True] * 4 + [False] * 36,
            "seen_by_encoder must be some of the 4 labelled rows, not all of them; got 0 unlabelled",
        ),
        (
            [False] * 39 + [True],
            "seen_by_encoder must be some of the 4 labelled rows, not all of them; got 1 unlabelled and 0",
        ),
    ],
)
def test_bad_rows_seen_by_the_encoder(seen: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        pseudo_label(torch.rand(40, 3), torch.arange(40) < 4, seen_by_encoder=seen)


@pytest.mark.parametrize("seed", range(5))
def test_pupl_is_the_algorithm_of_the_paper(seed: int) -> None:
    g = Generator().manual_seed(seed)
    z = torch.randn(120, 4, generator=g, dtype=torch.float64)
    labelled = torch.arange(120) < 15
    found = pseudo_label(z, labelled, method="pupl", seed=seed)
    # The draw of μ_N is the algorithm's only randomness: repeat it, then follow the paper by hand.
    rows = F.normalize(z, dim=1)
    weight = (rows[~labelled] - rows[labelled].mean(0)).pow(2).sum(1)
    drawn = torch.rand((), generator=Generator().manual_seed(seed), dtype=torch.float64) * weight.sum()
    start = 15 + int((weight.cumsum(0) <= drawn).sum())
    assert found.labels.tolist() == pupl_by_hand(z, labelled, start)


def test_pupl_draws_the_negative_centre_by_squared_distance() -> None:
    # Three unlabelled points at squared distances 0, 2 and 4 from the labelled mean: drawn 0, 1/3 and 2/3 of the time.
    z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    labelled = torch.tensor([True, True, False, False, False])
    picks = [tuple(seed_centres(z, labelled, Generator().manual_seed(k))[1].tolist()) for k in range(1500)]
    share = picks.count((-1.0, 0.0)) / len(picks)
    assert (1.0, 0.0) not in picks
    assert share == pytest.approx(2 / 3, abs=0.05)


def test_guard_turns_inverted_centres_and_leaves_others() -> None:
    rows, labelled = torch.eye(3), torch.tensor([True, False, False])
    upright = torch.stack([rows[0], rows[1]])
    assert torch.equal(orientation_guard(rows, labelled, upright), upright)
    assert torch.equal(orientation_guard(rows, labelled, upright.flip(0)), upright)


def test_guard_prevents_flips_on_classes_of_several_modes() -> None:
    kept = {True: 0, False: 0}
    for seed in range(40):
        z, labelled, _ = modes(k=4, seed=seed)
        rows = F.normalize(z, dim=1)
        for guard in kept:
            found = pseudo_label(z, labelled, method="pupl", seed=seed, guard=guard)
            mean_p = rows[found.labels & ~labelled].mean(0)
            mean_n = rows[~found.labels].mean(0)
            nearer = ((rows[labelled] - mean_p).pow(2).sum(1) < (rows[labelled] - mean_n).pow(2).sum(1)).float().mean()
            kept[guard] += int(nearer > 0.5)
    assert kept[True] == 40
    assert kept[False] < 40, "if puPL no longer flips here, the guard has nothing to show"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("method", ["auto", "cvir", "prototypes"])
def test_ours_hold_where_pupl_breaks(method: str, seed: int) -> None:
    z, labelled, y = modes(seed=seed)
    found = pseudo_label(z, labelled, method=method, seed=seed)
    assert accuracy(found, labelled, y) > 0.97
    assert found.prior == pytest.approx(float(y[~labelled].float().mean()), abs=0.04)
    assert accuracy(pseudo_label(z, labelled, method="pupl", seed=seed, guard=True), labelled, y) < 0.9


def loud(n: int = 1500, *, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Classes 4 apart along one quiet axis, beside loud ones that say nothing and faint ones: z, truth."""
    g = Generator().manual_seed(seed)
    y = torch.arange(n) % 2 == 0
    noise, faint = 6 * torch.randn(n, 12, generator=g), 0.1 * torch.randn(n, 20, generator=g)
    return torch.cat([noise, (4.0 * y - 2 + torch.randn(n, generator=g))[:, None], faint], dim=1), y


@pytest.mark.slow
def test_loud_axes_are_made_quieter() -> None:
    z, y = loud()
    labelled = torch.arange(1500) % 4 == 0  # 375, half of the positives
    plain, ours, more = (
        pseudo_label(z, labelled, method="kernel_cvir", whitening=whitening, prior=1 / 3, repeats=1)
        for whitening in (0, None, 0.5)
    )
    assert 1 - accuracy(ours, labelled, y) < 0.6 * (1 - accuracy(plain, labelled, y))
    assert torch.equal(ours.labels, more.labels)
    few = labelled & (torch.arange(1500) < 900)  # 225 of them
    plain, ours = (
        pseudo_label(z, few, method="kernel_cvir", whitening=whitening, prior=0.4, repeats=1) for whitening in (0, None)
    )
    assert torch.equal(ours.probability, plain.probability), "many axes need many labelled rows"
    for wrong in (-0.1, 1.5, "all"):
        with pytest.raises(InputError, match=r"whitening.*\[0, 1\]"):
            pseudo_label(z, labelled, method="kernel_cvir", whitening=wrong)


def test_axes_made_alike_by_hand() -> None:
    # The mean row is the origin; rows have length 1 and variances 0.9, 0.1 and 0.
    a, b = (0.9**0.5, 0.1**0.5)
    z = torch.tensor([[a, b, 0.0], [-a, -b, 0.0], [a, -b, 0.0], [-a, b, 0.0]])
    assert torch.allclose(directions(z), z)
    for whitening in (0.5, 1.0):
        found = directions(5 * z, whitening=whitening)
        slope = (b / a) * ((1 / 9 + FLAT) / (1 + FLAT)) ** (-whitening / 2)  # 1 / 3 made 3^(−1/2), and 1
        lengths = (found @ found.T)[0]
        cos = (1 - slope**2) / (1 + slope**2)
        assert torch.allclose(lengths, torch.tensor([1.0, -1.0, cos, -cos]), atol=1e-5)
    assert directions(torch.ones(4, 3), whitening=0.5).isfinite().all()


@pytest.mark.slow
@pytest.mark.usefixtures("one_draw")
@pytest.mark.parametrize("method", ["kernel_cvir", "cvir", "prototypes"])
def test_a_given_prior_is_the_share_labelled_positive(method: str) -> None:
    z, labelled, _ = modes()
    for prior in (0.2, 0.45, 0.7):
        found = pseudo_label(z, labelled, method=method, prior=prior)
        assert float(found.labels[~labelled].float().mean()) == pytest.approx(prior, abs=0.002)
        assert found.prior == prior


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"z": torch.ones(6, 2)}, "z must be at least two different rows; got all rows equal"),
        ({"z": torch.tensor([[1.0, 2], [3, 4], [0, float("inf")], [0, 1], [1, 1], [2, 2]])}, "1 rows, first 2"),
        ({"z": torch.arange(12).reshape(6, 2)}, "z must be a floating-point matrix (n, k); got torch.int64"),
        ({"z": torch.rand(5, 2)}, "s must be of length 5, one label per row; got length 6"),
        ({"prior": 0}, "prior must be a number strictly between 0 and 1; got 0"),
        ({"prior": 1.0}, "prior must be a number strictly between 0 and 1; got 1.0"),
        ({"s": [1, 0, 0, 0, 0, 0]}, "at least two rows of each kind, to hold one out; got 1 labelled and 5"),
        ({"method": "cvri"}, "unknown labeller 'cvri': did you mean 'cvir'?"),
        ({"seed": -1}, "seed must be a whole number ≥ 0; got -1"),
        ({"method": "kernel_cvir", "rounds": -1}, "rounds must be a whole number ≥ 0; got -1"),
        ({"method": "kernel_cvir", "spread": 0.0}, "spread must be a finite number > 0; got 0.0"),
        ({"method": "kernel_cvir", "width": -1.0}, "width must be a finite number > 0; got -1.0"),
        ({"method": "prototypes", "clusters": ()}, "clusters must be at least one number of clusters; got none"),
    ],
)
def test_bad_input(change: dict[str, Any], message: str) -> None:
    call = {"z": torch.rand(6, 2), "s": [1, 1, 0, 0, 0, 0], **change}
    with pytest.raises(InputError) as caught:
        pseudo_label(call.pop("z"), call.pop("s"), **call)
    assert message in str(caught.value)


def scores(alpha: float) -> tuple[Any, Any]:
    r = np.random.RandomState(0)
    p, k = r.beta(5, 2, 1000), round(alpha * 2000)
    return p, np.r_[r.beta(5, 2, k), r.beta(2, 5, 2000 - k)]


PUBLISHED = json.loads('{"0.1": 0.129794, "0.3": 0.315946, "0.5": 0.519648, "0.7": 0.713049}')
AUTHORS_CODE = json.loads('{"0.1": 0.129056, "0.3": 0.315201, "0.5": 0.518970, "0.7": 0.712383}')


@pytest.mark.parametrize("alpha", ["0.1", "0.3", "0.5", "0.7"])
def test_bbe_values(alpha: str) -> None:
    assert bbe(*scores(float(alpha)), cuts="unlabelled").value == pytest.approx(PUBLISHED[alpha], abs=1e-6)
    assert bbe(*scores(float(alpha))).value == pytest.approx(AUTHORS_CODE[alpha], abs=1e-6)


def test_bbe_on_separable_scores_is_exact() -> None:
    p, u = np.linspace(0.51, 0.99, 100), np.r_[np.linspace(0.5101, 0.9899, 60), np.linspace(0.01, 0.49, 140)]
    assert bbe(p, u).value == pytest.approx(0.3, abs=1e-12)


def test_bbe_when_u_scores_above_p() -> None:
    assert bbe(np.array([0.1, 0.2]), np.array([0.8, 0.9]), cuts="unlabelled").value == 1.0
    with pytest.raises(InputError, match="unknown cuts of bbe 'both'"):
        bbe(*scores(0.1), cuts="both")  # type: ignore[arg-type]


def test_logistic_equals_scikit_learn() -> None:
    from sklearn.linear_model import LogisticRegression

    g = Generator().manual_seed(0)
    z = torch.randn(400, 5, generator=g, dtype=torch.float64)
    target = (z @ torch.arange(5.0).double() + torch.randn(400, generator=g) > 1).double()
    weight = torch.rand(400, generator=g).double()
    layer = fit_logistic(z, target, weight, l2=0.01)
    model = LogisticRegression(C=1 / (0.01 * float(weight.sum())), tol=1e-10, max_iter=1000)
    model.fit(z.numpy(), target.numpy(), sample_weight=weight.numpy())
    assert layer.weight[0].numpy() == pytest.approx(model.coef_[0], abs=1e-4)
    assert float(layer.bias) == pytest.approx(model.intercept_[0], abs=1e-4)
    warm = fit_logistic(z, target, weight, l2=0.01, start=layer)
    assert torch.allclose(warm.weight, layer.weight, atol=1e-5)


def test_logistic_survives_separable_data() -> None:
    z = torch.tensor([[-1.0], [-2.0], [1.0], [2.0]])
    layer = fit_logistic(z, torch.tensor([0, 0, 1, 1]), torch.ones(4), l2=1e-8)
    assert layer(z).isfinite().all() and ((layer(z)[:, 0] > 0) == torch.tensor([False, False, True, True])).all()


def test_balanced_weights_give_both_classes_the_same_total() -> None:
    target = torch.tensor([True, False, False, False])
    weight = balanced_weights(target)
    assert float(weight[target].sum()) == pytest.approx(float(weight[~target].sum()))


def test_folds_deal_out_both_kinds_evenly() -> None:
    target = torch.arange(203) % 4 == 0
    fold = stratified_folds(target, 5, seed=0)
    for kind in (target, ~target):
        counts = torch.bincount(fold[kind], minlength=5)
        assert int(counts.max() - counts.min()) <= 1


def chance(n: int, k: int, *, n_p: int, seed: int) -> tuple[Tensor, Tensor]:
    """Rows without any structure, of which `n_p` are labelled."""
    return F.normalize(torch.randn(n, k, generator=Generator().manual_seed(seed)), dim=1), torch.arange(n) < n_p


def rounds_on(z: Tensor, labelled: Tensor, **change: Any) -> tuple[Tensor, float]:
    how: dict[str, Any] = {"prior": None, "seed": 0, "rounds": 10, "folds": 5, "spread": 50.0, "max_rows": 20_000}
    return cross_fitted_rounds("test", z, labelled, lambda x: x, **{**how, **change})


def test_no_row_is_scored_by_a_model_that_has_seen_it() -> None:
    # Labels without any relation to z: honest scores are at chance, whatever the rounds drop.
    z, labelled = chance(400, 60, n_p=200, seed=0)
    for rounds in (0, 5):
        score = rounds_on(z, labelled, rounds=rounds, prior=0.5)[0]
        share = (score[labelled][:, None] > score[~labelled]).float().mean()
        assert abs(float(share) - 0.5) < 0.1
    seen = fit_logistic(z, labelled, torch.ones(400), l2=1e-6)(z)[:, 0]
    assert (seen[labelled][:, None] > seen[~labelled]).float().mean() > 0.65


def test_rounds_do_not_lower_the_prior_by_themselves() -> None:
    # P is a fair sample of U: π = 1. Scores that leak from fold to fold would make it fall from round to round.
    values = []
    for seed in range(5):
        z, labelled = chance(600, 100, n_p=100, seed=seed)
        values.append(rounds_on(z, labelled, seed=seed)[1])
    assert sum(values) / 5 > 0.85


@pytest.mark.parametrize("method", ["kernel_cvir", "cvir", "prototypes"])
def test_equal_unlabelled_rows_are_never_all_called_positive(method: str) -> None:
    labelled = torch.arange(40) < 10
    z = torch.where(labelled[:, None], torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0]))
    found = pseudo_label(z, labelled, method=method)
    assert found.probability.isfinite().all() and not found.labels[~labelled].any()


def test_what_is_not_fitted_to_is_scored_all_the_same() -> None:
    z, labelled, _ = modes(3000)
    rows = F.normalize(z, dim=1)
    some, every = (rounds_on(rows, labelled, max_rows=max_rows)[0] for max_rows in (150, 20_000))
    assert some.isfinite().all() and float(torch.corrcoef(torch.stack([some, every]))[0, 1]) > 0.9


def test_landmarks_give_the_kernel() -> None:
    z, _ = chance(50, 4, n_p=5, seed=0)
    z = z.double()
    f = KernelFeatures(z, width=0.5, landmarks=50, seed=0)(z)
    assert torch.allclose(f @ f.T, torch.exp((z @ z.T - 1) / 0.5), atol=1e-4)
    few = KernelFeatures(z, width=0.5, landmarks=10, seed=0)(z)
    assert few.shape[1] <= 10 and (few.pow(2).sum(1) <= 1 + 1e-6).all()


def test_ratio_of_a_cluster_leaves_the_row_itself_out() -> None:
    cluster, labelled = torch.tensor([0, 0, 0, 1, 1, 1]), torch.tensor([True, True, False, True, False, False])
    found = log_ratio(cluster, labelled, 2)
    # Row 0 sees one other labelled and one unlabelled row in its cluster; row 5 one labelled and one unlabelled.
    by_hand = [(2 / 5, 2 / 5), (2 / 5, 2 / 5), (3 / 5, 1 / 5), (1 / 5, 3 / 5), (2 / 5, 2 / 5), (2 / 5, 2 / 5)]
    assert found.tolist() == pytest.approx([float(np.log(p / u)) for p, u in by_hand], abs=1e-6)


def test_a_clear_gap_near_the_estimate_is_the_share() -> None:
    g = Generator().manual_seed(0)
    positive = torch.arange(2000) < 900
    apart, together = (torch.randn(2000, generator=g) + gap * positive for gap in (8.0, 1.5))
    few, many = (torch.randn(n, generator=g) + 8 for n in (100, 10_000))
    for wrong in (0.38, 0.45, 0.52):
        assert move_to_gap(apart, few, wrong) == pytest.approx(0.45, abs=0.003)
        assert move_to_gap(together, few - 6.5, wrong) == wrong, "no gap"
        assert move_to_gap(apart, many, wrong) == pytest.approx(wrong, abs=0.008), "P is large: π̂ is trusted"


def test_a_gap_between_two_modes_of_the_positives_is_no_border() -> None:
    g = Generator().manual_seed(0)
    mode = torch.arange(2000) % 4  # negatives, negatives, positives, positives further up
    scores = torch.randn(2000, generator=g) + torch.tensor([0.0, 0.0, 8.0, 18.0])[mode]
    positive = torch.randn(40, generator=g) + torch.tensor([8.0, 18.0]).repeat(20)
    assert move_to_gap(scores, positive, 0.4) == pytest.approx(0.5, abs=0.003)
    assert move_to_gap(scores, positive[1::2], 0.3) == pytest.approx(0.25, abs=0.003), "P knows of the upper mode only"


def test_prototypes_with_few_rows() -> None:
    z, labelled, y = modes(120, k=2)
    found = pseudo_label(z, labelled, method="prototypes", clusters=(100,))
    fifth = int((~labelled).sum()) // 5
    assert torch.equal(found.labels, pseudo_label(z, labelled, method="prototypes", clusters=(fifth,)).labels)
    assert accuracy(pseudo_label(z, labelled, method="prototypes", clusters=(4,)), labelled, y) > 0.95
    with pytest.raises(InputError, match="at least 2 labelled and 10 unlabelled rows; got 2 labelled and 4 unlabelled"):
        pseudo_label(torch.rand(6, 2), [1, 1, 0, 0, 0, 0], method="prototypes")
