"""Support vectors and blends: the same as scikit-learn and as a slow loop, stored and loaded, refused when changed."""

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save
from sklearn.svm import SVC
from torch import Tensor

from model_examples import blend_model, mixed_table, resign
from pucl.data.own.expand import Expand
from pucl.errors import InputError
from pucl.heads import LinearHead
from pucl.heads import support_vectors as module
from pucl.heads.blend import Blend, Member, RankCurve, reference_scores
from pucl.heads.stored import HeadParts, head_from_parts
from pucl.models.folder import load_model, save_model
from tree_examples import blend, support_vectors, table


def machines(seed: int = 0, **options: Any) -> tuple[list[Any], Any, Any, Any]:
    """Two machines on overlapping rows, the mean and scale of the rows, and the rows."""
    x, goal = table(300, gaps=False, seed=seed)
    x = x * np.float32(3) + np.float32(10)
    mean, scale = x.mean(axis=0), x.std(axis=0)
    scaled = (x - mean) / scale
    return [SVC(gamma=0.2, **options).fit(scaled[k : k + 200], goal[k : k + 200]) for k in (0, 100)], mean, scale, x


def test_support_vectors_score_as_in_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    both, mean, scale, x = machines(C=5.0)
    head = support_vectors(both, mean, scale)
    expected = np.mean([machine.decision_function((x - mean) / scale) for machine in both], axis=0)
    np.testing.assert_allclose(head(torch.from_numpy(x)).numpy(), expected, atol=2e-5)
    assert len(head.vectors) < sum(len(machine.support_vectors_) for machine in both), "shared vectors are kept once"
    monkeypatch.setattr(module, "PAIRS", 1)
    np.testing.assert_allclose(head(torch.from_numpy(x[:9])).numpy(), expected[:9], atol=2e-5)
    again = head_from_parts(head.to_parts())
    assert torch.equal(again(torch.from_numpy(x)), head(torch.from_numpy(x)))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("scale", torch.zeros(6)), ("mean", torch.zeros(5)), ("weight", torch.zeros(3)), ("bias", torch.tensor([1.0])),
        ("vectors", torch.full((2, 6), torch.nan)), ("vectors", torch.zeros(0, 6)), ("gamma", 0), ("gamma", "scale"),
        ("bias", torch.tensor(1)), ("vectors", torch.zeros(3)),
    ],
)  # fmt: skip
def test_tampered_support_vectors_are_refused(name: str, value: Any) -> None:
    parts = support_vectors(*machines()[:3]).to_parts()
    changed = (
        replace(parts, options={name: value})
        if name in parts.options
        else replace(parts, tensors={**parts.tensors, name: value})
    )
    with pytest.raises(ValueError, match=r"\w+"):
        head_from_parts(changed)
    with pytest.raises(KeyError):
        head_from_parts(HeadParts(parts.kind, parts.options, {}))


def slow_rank(reference: list[float], score: float) -> float:
    m = len(reference)

    def mid(value: float) -> float:
        return (sum(q < value for q in reference) + sum(q <= value for q in reference)) / (2 * m)

    low, high = min(reference), max(reference)
    spread = (high - low) or 1.0
    if score > high or score < low:
        excess = (score - high if score > high else low - score) / spread
        tail = excess / (1 + excess) / (4 * m)
        return mid(high) + tail if score > high else mid(low) - tail
    if score in reference:
        return mid(score)
    left, right = max(q for q in reference if q < score), min(q for q in reference if q > score)
    return mid(left) + (score - left) / (right - left) * (mid(right) - mid(left))


@pytest.mark.parametrize("kind", ["different", "ties", "constant", "single"])
def test_ranks_equal_a_slow_loop_and_keep_the_order(kind: str) -> None:
    rng = np.random.default_rng(0)
    reference = {
        "different": rng.normal(size=40), "ties": rng.integers(5, size=40).astype(float), "constant": np.full(9, 2.0),
        "single": np.array([1.0]),
    }[kind]  # fmt: skip
    reference = reference.astype(np.float32).astype(np.float64)
    curve = RankCurve(torch.from_numpy(reference))
    scores = np.unique(np.concatenate([rng.normal(size=60) * 3, reference, [-1e6, 1e6, -50, 50, 49]]))
    found = curve(torch.from_numpy(scores))
    expected = [slow_rank(reference.tolist(), float(score)) for score in scores]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-12)
    assert (found.diff() > 0).all(), "different scores have different ranks, beyond the ends too"
    assert found.min() >= 1 / (4 * len(reference)) and found.max() <= 1 - 1 / (4 * len(reference))


def test_rounding_errors_split_no_ties() -> None:
    near = 0.4 + 1e-16 * np.arange(-8.0, 9.0)
    assert len(np.unique(near)) > 3
    rank = RankCurve(torch.from_numpy(np.concatenate([near, [0.1, 0.7]])))(torch.from_numpy(near))
    assert float(rank.max() - rank.min()) < 1e-12


def test_a_reference_is_short_and_has_the_quantiles() -> None:
    scores = np.random.default_rng(0).exponential(size=20_000)
    reference = reference_scores(scores)
    assert len(reference) == 1001 and (reference.diff() >= 0).all()
    rank = RankCurve(reference)(torch.from_numpy(scores))
    exact = np.argsort(np.argsort(scores)) / len(scores)
    assert np.abs(rank.numpy() - exact).max() < 1e-3
    assert reference_scores(torch.tensor([3.0, 1.0])).tolist() == [1.0, 3.0]


def example() -> tuple[Blend, Tensor]:
    x, goal = table(300)
    rows = torch.from_numpy(x)
    return blend(Expand.identity(6), rows, goal), rows


def test_a_blend_is_the_logit_of_the_average_rank() -> None:
    whole, rows = example()
    assert list(whole.weights) == ["bag", "boosted", "svm", "linear"]
    assert sum(whole.weights.values()) == pytest.approx(1)
    assert whole.weights["bag"] == pytest.approx(0.4 / 1.2)
    above = torch.ones(len(rows), dtype=torch.float64)
    for member in whole.members:
        score = member.head(rows if member.on == "columns" else torch.nan_to_num(rows).double()).detach()
        reference = member.reference.float().tolist()
        ranks = torch.tensor([slow_rank(reference, float(v)) for v in score.double()], dtype=torch.float64)
        above *= (1 - ranks) ** whole.weights[member.name]
    torch.testing.assert_close(whole(rows).double(), torch.logit(1 - above), rtol=1e-5, atol=1e-5)
    new = torch.from_numpy(table(2000, seed=4)[0])
    assert len(torch.unique(whole(new))) > 1980, "hardly any ties"


def test_a_blend_comes_back_the_same_through_json() -> None:
    whole, rows = example()
    parts = whole.to_parts()
    again = head_from_parts(HeadParts(parts.kind, json.loads(json.dumps(parts.options)), parts.tensors))
    assert isinstance(again, Blend) and again.takes == "rows" and again.weights == whole.weights
    assert torch.equal(again(rows), whole(rows)) and not again(rows).requires_grad


def test_a_blend_of_arithmetic_means_is_refused() -> None:
    parts = example()[0].to_parts()
    with pytest.raises(ValueError, match="averaged in another way"):
        head_from_parts(HeadParts(parts.kind, {"members": parts.options["members"]}, parts.tensors))


@pytest.mark.parametrize(
    ("member", "message"),
    [
        ({"weight": -1.0}, "weights of the members"), ({"weight": "all"}, "weights of the members"),
        ({"name": "svm"}, "same name"), ({"on": "pixels"}, "neither columns nor features"),
        ({"reference": torch.tensor([])}, "no vector of finite scores"),
        ({"reference": torch.tensor([1.0, torch.nan])}, "no vector of finite scores"),
    ],
)  # fmt: skip
def test_members_that_cannot_be_used(member: dict[str, Any], message: str) -> None:
    whole, _ = example()
    with pytest.raises(ValueError, match=message):
        Blend([replace(whole.members[0], **member), *whole.members[1:]], whole.expand)
    with pytest.raises(ValueError, match="sum above 0"):
        Blend([], whole.expand)
    with pytest.raises(ValueError, match="a blend itself"):
        Blend([Member("inner", whole, "columns", torch.zeros(3), 1.0)], whole.expand)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("weight", torch.tensor([1.0])), ("weight", torch.ones(5)), ("0.reference", torch.zeros(0)),
        ("0.feature", torch.zeros(3, dtype=torch.int32)), ("3.weight", torch.ones(5)),
        ("expand.source", torch.arange(6) - 1), ("expand.source", torch.arange(6).float()),
        ("expand.kind", torch.full((6,), 9)), ("expand.value", torch.full((6,), torch.inf)),
        ("expand.value", torch.zeros(5)), ("expand.source", torch.arange(6) + 1),
    ],
)  # fmt: skip
def test_tampered_blends_are_refused(name: str, value: Tensor) -> None:
    parts = example()[0].to_parts()
    assert name in parts.tensors
    with pytest.raises((ValueError, KeyError, RuntimeError)):
        head_from_parts(replace(parts, tensors={**parts.tensors, name: value}))
    changes: list[dict[str, Any]] = [{"kind": "forest"}, {"options": {}}, {"on": 1}]
    for change in changes:
        entries = [{**parts.options["members"][0], **change}, *parts.options["members"][1:]]
        with pytest.raises((ValueError, KeyError)):
            head_from_parts(replace(parts, options={"members": entries}))


def test_a_model_folder_holds_a_blend_and_refuses_a_changed_one(tmp_path: Path) -> None:
    model = blend_model()
    folder = save_model(tmp_path / "model", model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about cities that training never saw
        rows = model.schema.encode(mixed_table(200, seed=8, new=True))
    found = load_model(folder)
    assert found.head.takes == "rows" and torch.equal(found.logits(rows), model.logits(rows))
    for name, value in (("0.table", torch.full((1, 3), torch.nan)), ("0.feature", torch.zeros(4, dtype=torch.int32))):
        tensors = {**model.head.to_parts().tensors, name: value}
        (folder / "head.safetensors").write_bytes(save(tensors))
        resign(folder)
        with pytest.raises(
            InputError, match=r"^pucl.load_model, .*model: the stored head cannot be used: .*(finite|trees)"
        ):
            load_model(folder)


def test_a_head_without_encoder_is_linear_in_features() -> None:
    expand = Expand.identity(2)
    head = LinearHead(torch.tensor([1.0, 0.0]), torch.tensor(0.0))
    alone = Blend([Member("linear", head, "features", torch.arange(11.0), 2.0)], expand)
    rows = torch.tensor([[5.0, 1.0], [torch.nan, 0.0], [10.0, 0.0]])
    torch.testing.assert_close(torch.sigmoid(alone(rows)), torch.tensor([0.5, 0.5 / 11, 10.5 / 11]))
