from typing import Any

import numpy as np
import pytest

from pucl.data import Dataset, load
from pucl.data.observe import observe
from pucl.data.pu_split import linear_propensity, make_pu
from pucl.errors import InputError

Y = np.arange(1000) % 5 < 2  # 400 positives, 600 negatives


def test_digits_are_the_bundled_ones() -> None:
    data = load("digits")
    assert len(data.x_train) + len(data.x_test) == 1797
    assert data.x_train.shape[1:] == (1, 8, 8) and data.x_train.dtype == np.uint8
    assert data.x_train.max() == 255
    assert int(data.y_train.sum() + data.y_test.sum()) == 182 + 183 + 182 + 179 + 180  # ones, threes, fives, …
    assert not np.array_equal(data.x_train, load("digits", seed=1).x_train)


def test_gaussians_have_the_stated_geometry() -> None:
    data = load("gaussians", n_train=20_000, dim=3, modes=3, separation=8.0, prior=0.3)
    assert data.prior == pytest.approx(0.3, abs=1e-4)
    angle = np.arctan2(data.x_train[:, 1], data.x_train[:, 0])
    mode = np.round(angle / (np.pi / 3)).astype(int) % 6
    centres = np.array([data.x_train[mode == k].mean(axis=0) for k in range(6)])
    assert np.linalg.norm(centres - np.roll(centres, 1, axis=0), axis=1) == pytest.approx(8.0, abs=0.1)
    assert data.x_train[mode == 0].std(axis=0) == pytest.approx(1.0, abs=0.05)
    assert ((mode % 2 == 0) == data.y_train).mean() > 0.999


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prior": 1}, "gaussians: prior must be a number strictly between 0 and 1; got 1"),
        ({"modes": 0}, "gaussians: modes must be a whole number ≥ 1; got 0"),
        ({"separation": -1}, "gaussians: separation must be a finite number > 0; got -1"),
        ({"seed": -1}, "pucl.load: seed must be a whole number ≥ 0; got -1"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        load("gaussians", **options)
    assert str(caught.value) == message


def test_case_control_keeps_the_share_of_the_population() -> None:
    sample = make_pu(Y, 100, seed=3)
    unlabelled = sample.rows[~sample.s]
    assert sample.setting == "case-control" and sample.s.sum() == 100
    assert Y[sample.rows[sample.s]].all(), "only positives may be labelled"
    assert len(np.unique(sample.rows)) == len(sample.rows), "P and U must not overlap"
    assert len(unlabelled) == 750 and Y[unlabelled].sum() == 300  # all positives that are left, and 0.4 of U
    assert sample.prior == 0.4
    assert sample.gamma == pytest.approx(100 / 750)
    assert sample.kappa == pytest.approx(0.4 * 0.6 / (1 + 100 / 750))


def test_single_set_leaves_what_remains() -> None:
    sample = make_pu(Y, 100, setting="single-set")
    assert len(sample.rows) == 1000
    assert sample.prior == pytest.approx(300 / 900)


@pytest.mark.parametrize("prior", [0.1, 0.5, 0.9])
def test_prior_and_size_are_set_independently(prior: float) -> None:
    sample = make_pu(Y, 50, prior=prior, n_unlabelled=200)
    assert (~sample.s).sum() == 200 and sample.prior == pytest.approx(prior)


def test_the_same_seed_draws_the_same_rows() -> None:
    first, again, other = (make_pu(Y, 100, seed=seed).rows for seed in (1, 1, 2))
    assert np.array_equal(first, again) and not np.array_equal(first, other)


def test_sar_labels_by_propensity() -> None:
    weight = np.where(np.arange(1000) < 500, 3.0, 1.0)
    share = [np.mean(make_pu(Y, 60, mechanism="sar", propensity=weight, seed=k).rows[:60] < 500) for k in range(100)]
    # 200 positives at weight 3, 200 at weight 1, 60 drawn without replacement: a little under 3/4.
    assert 0.70 < np.mean(share) < 0.75
    sample = make_pu(Y, 60, mechanism="sar", propensity=weight)
    assert sample.mechanism == "sar" and sample.s.sum() == 60 and Y[sample.rows[sample.s]].all()
    assert len(np.unique(sample.rows)) == len(sample.rows)


def test_linear_propensity_grows_along_the_widest_direction() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 3)) * [1.0, 5.0, 1.0]
    weight = linear_propensity(x)
    assert np.corrcoef(weight, x[:, 1])[0, 1] > 0.9
    assert ((weight > 0) & (weight < 1)).all()
    assert linear_propensity(x, strength=0) == pytest.approx(0.5)


def test_labelling_is_uniform_over_positives() -> None:
    counts = np.zeros(1000)
    for seed in range(400):
        sample = make_pu(Y, 100, seed=seed)
        counts[sample.rows[sample.s]] += 1
    assert counts[~Y].sum() == 0
    expected, spread = 400 / 4, (400 * 0.25 * 0.75) ** 0.5
    assert np.abs(counts[Y] - expected).max() < 4.5 * spread


def test_observe_shows_rows_and_labels_only() -> None:
    data = load("digits")
    seen = observe(data, 50, seed=2)
    assert np.array_equal(seen.x, data.x_train[seen.sample.rows]) and seen.s.sum() == 50
    assert seen.prior == seen.sample.prior
    assert np.array_equal(observe(data, 50, seed=2).x, seen.x)


def test_observe_adds_rows_whose_truth_nobody_knows() -> None:
    x = np.arange(20, dtype=np.float32).reshape(10, 2)
    y = np.arange(10) < 4
    extra = -np.ones((7, 2), dtype=np.float32)
    seen = observe(Dataset("own", "vector", "a", "b", x, y, x, y, extra), 3)
    assert len(seen.x) == 17 and seen.s.sum() == 3 and seen.sample.setting == "single-set"
    assert (seen.x[-7:] == -1).all() and not seen.s[-7:].any()
    assert seen.prior is None, "the share of positives among them is unknown"
    assert sorted(seen.x[:10, 0].tolist()) == x[:, 0].tolist(), "all other labelled rows are part of U"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"n_labelled": 401}, "n_labelled must be a whole number from 1 to 400; got 401"),
        ({"n_labelled": 0}, "n_labelled must be a whole number from 1 to 400; got 0"),
        ({"n_unlabelled": 751}, "n_unlabelled must be a whole number from 1 to 750; got 751"),
        ({"prior": 0.0}, "prior must be a number strictly between 0 and 1; got 0.0"),
        ({"setting": "one-set"}, "unknown setting 'one-set': did you mean 'single-set'?"),
        ({"setting": "single-set", "prior": 0.3}, "prior must be left out in the single-set setting"),
        ({"mechanism": "sarr"}, "unknown mechanism 'sarr': did you mean 'sar'?"),
        (
            {"mechanism": "sar"},
            "propensity must be 1000 finite weights ≥ 0, one per row of y, for mechanism='sar'; got N",
        ),
        ({"mechanism": "sar", "propensity": np.ones(3)}, "got an array of shape (3,)"),
        ({"mechanism": "sar", "propensity": np.zeros(1000)}, "positive for at least 100 positives; got 0 positives"),
        ({"propensity": np.ones(1000)}, "propensity must be left out unless mechanism='sar'"),
        ({"seed": -1}, "seed must be a whole number ≥ 0; got -1"),
        ({"y": [0, 1, 2]}, "y must be a vector of 0 and 1"),
        ({"y": [1, 1, 1], "n_labelled": 1}, "y must be a vector with both classes; got one class only"),
    ],
)
def test_bad_sampling(call: dict[str, Any], message: str) -> None:
    arguments = {"y": Y, "n_labelled": 100, **call}
    with pytest.raises(InputError) as caught:
        make_pu(**arguments)
    assert message in str(caught.value)
