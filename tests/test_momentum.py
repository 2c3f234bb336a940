"""Momentum training: how labels and prototypes move, what it must reach, and what it must refuse."""

import copy
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from head_examples import accuracy, known, two_gaussians
from pucl.encoders.inputs import Encoder, Standardise
from pucl.errors import InputError
from pucl.heads import momentum
from pucl.heads.momentum import MomentumConfig, momentum_train
from pucl.heads.targets import (
    first_labels,
    followed_prototypes,
    moved_labels,
    nearest_is_positive,
    targets_of_step,
)
from pucl.heads.tuned import FineTuned
from pucl.pseudo_labels import PseudoLabels

QUICK = MomentumConfig(epochs=6, hold=1, learning_rate=1e-2, batch_size=64)


def network(seed: int = 0) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 16))


def noisy(n: int, share: float = 0.25) -> tuple[Tensor, Tensor, Tensor, PseudoLabels]:
    """Two classes; a share of the labels of U is wrong."""
    z, labelled, y = two_gaussians(n, gap=5.0, n_labelled=60)
    wrong = ~labelled & (torch.rand(len(y), generator=Generator().manual_seed(1)) < share)
    return z, labelled, y, PseudoLabels.from_probability((y ^ wrong).float(), labelled, prior=0.4)


def test_prototypes_follow_their_class_and_stay_without_it() -> None:
    k = F.normalize(torch.tensor([[1.0, 0.1], [1, -0.1], [0.1, 1]]), dim=1)
    positive = torch.tensor([True, True, False])
    first = followed_prototypes(torch.zeros(2, 2), k, positive, 0.0)
    torch.testing.assert_close(first, torch.stack([k[2], torch.tensor([1.0, 0.0])]))
    assert nearest_is_positive(k, first).tolist() == positive.tolist()
    moved = followed_prototypes(first, -k, positive & False, 0.5)
    assert torch.equal(moved[1], first[1]), "no row was positive"
    torch.testing.assert_close(moved[0], F.normalize(0.5 * first[0] - 0.5 * F.normalize(k.sum(0), dim=0), dim=0))


def test_labels_move_by_a_share_and_known_rows_stay() -> None:
    labelled = torch.tensor([True, False, False, False])
    pseudo = PseudoLabels.from_probability(
        torch.tensor([0.2, 0.6, 0.1, 0.9]), labelled, negative=torch.tensor([False, False, False, True])
    )
    label, free = first_labels(labelled, pseudo), pseudo.unlabelled(labelled)
    torch.testing.assert_close(label, torch.tensor([1.0, 0.6, 0.1, 0.0]))
    away = torch.tensor([False, False, True, True])
    torch.testing.assert_close(moved_labels(label, away, 0.1, free), torch.tensor([1.0, 0.54, 0.19, 0.0]))
    sure = torch.tensor([0.01, 0.01, 0.2, 0.9])
    assert targets_of_step(label, sure, free, 0.05).tolist() == pytest.approx([1.0, 0.0, 0.1, 0.0])
    assert label.tolist() == pytest.approx([1.0, 0.6, 0.1, 0.0]), "the stored label stays"


@pytest.mark.slow
def test_moving_labels_mend_wrong_ones() -> None:
    """A quarter of the labels is wrong: labels that stay are memorised, labels that move become right."""
    z, labelled, y, pseudo = noisy(500)
    config = replace(QUICK, epochs=15, label_momentum=0.7, confident_negative=0.0, view=lambda x, _: x)
    scores = {}
    for name, settings in (("moving", config), ("still", replace(config, label_momentum=1.0))):
        scores[name] = accuracy(momentum_train(z, labelled, pseudo, network(), settings, device="cpu"), z, y)
    assert scores["moving"] > 0.95 and scores["moving"] > scores["still"]


def test_a_labeller_labels_what_the_target_network_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    z, labelled, y, pseudo = noisy(300)
    calls: list[dict[str, Any]] = []

    def label(of: Tensor, s: Tensor, **options: Any) -> PseudoLabels:
        calls.append({"z": of, "s": s, **options})
        return known(labelled, y, 0.4)

    monkeypatch.setattr(momentum, "pseudo_label", label)
    config = replace(QUICK, epochs=7, hold=2, every=2, labels="cvir", label_momentum=0.0)
    model = momentum_train(z, labelled, pseudo, network(), config, device="cpu")
    assert len(calls) == 3, "before epochs 2, 4 and 6"
    assert all(call["prior"] == 0.4 and call["method"] == "cvir" for call in calls)
    assert not torch.equal(calls[0]["z"], calls[1]["z"]), "the network has moved on"
    assert accuracy(model, z, y) > 0.95


def test_the_same_seed_gives_the_same_network_and_nothing_else_changes() -> None:
    z, labelled, _, pseudo = noisy(300)
    encoder = network()
    before, state = copy.deepcopy(encoder.state_dict()), torch.get_rng_state()
    first, again, other, mixed, average = (
        momentum_train(z, labelled, pseudo, encoder, replace(QUICK, epochs=2, **change), device="cpu")
        for change in ({}, {}, {"seed": 1}, {"mixup": 1.0}, {"average": 0.9})
    )
    assert torch.equal(first(z), again(z))
    for different in (other, mixed, average):
        assert not torch.equal(first(z), different(z))
    assert isinstance(first, FineTuned) and not first.training
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(value, before[name]) for name, value in encoder.state_dict().items())


def test_without_its_loss_the_strong_views_change_nothing_but_statistics() -> None:
    """With no weight the non-contrastive loss has no gradient: the encoder without batch norm ends the same."""
    z, labelled, _, pseudo = noisy(300)
    config = replace(QUICK, epochs=2, alignment=0.0, hold=2, confident_negative=0.0, view=lambda x, _: x)
    plain, odd = (
        momentum_train(z, labelled, pseudo, network(), replace(config, strong_view=view), device="cpu")(z)
        for view in (lambda x, _: x, lambda x, _: -x)
    )
    torch.testing.assert_close(plain, odd)


def test_images_take_a_mild_and_a_strong_view() -> None:
    labelled = torch.arange(40) < 8
    y = torch.arange(40) < 20
    x = (torch.rand(40, 1, 8, 8, generator=Generator().manual_seed(0)) * 100).to(torch.uint8)
    x[y] += 100
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 8))
    encoder = Encoder(Standardise.of(x), layers)
    config = MomentumConfig(epochs=4, batch_size=20, hold=1, learning_rate=1e-2)
    model = momentum_train(x, labelled, known(labelled, y, 0.375), encoder, config, device="cpu")
    with torch.no_grad():
        assert accuracy(model, x, y) > 0.9


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("momentum", 1.0, "momentum must be a number strictly between 0 and 1; got 1.0"),
        ("label_momentum", 1.5, "label_momentum must be a number within [0, 1]; got 1.5"),
        ("prototype_momentum", -1, "prototype_momentum must be a number within [0, 1]; got -1"),
        ("confident_negative", 2, "confident_negative must be a number within [0, 1]; got 2"),
        ("alignment", -1, "alignment must be a finite number ≥ 0; got -1"),
        ("hold", -1, "hold must be a whole number ≥ 0; got -1"),
        ("every", 0, "every must be a whole number ≥ 1; got 0"),
        ("labels", "stackd", "unknown labels 'stackd': did you mean 'stacked'?"),
        ("epochs", 0, "epochs must be a whole number ≥ 1; got 0"),
        ("average", 1, "average must be a number in [0, 1); got 1"),
    ],
)
def test_bad_config(field: str, value: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        MomentumConfig(**{field: value})
    assert message in str(caught.value) and str(caught.value).startswith("MomentumConfig")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"s": [1, 0]}, "pucl.momentum_train: s must be of length 30, one label per row; got length 2"),
        ({"config": MomentumConfig(strong_view="simclrr")}, "unknown view 'simclrr': did you mean 'simclr'?"),
    ],
)
def test_bad_input(change: dict[str, Any], message: str) -> None:
    labelled = torch.arange(30) < 3
    pseudo = PseudoLabels.from_probability((torch.arange(30) < 12).float(), labelled, prior=0.3)
    call: dict[str, Any] = {"x": torch.rand(30, 4), "s": labelled, "pseudo": pseudo, "encoder": nn.Linear(4, 3)}
    with pytest.raises(InputError) as caught:
        momentum_train(**(call | change), device="cpu")
    assert message in str(caught.value) and "\n" not in str(caught.value)


class Slowly(nn.Module):
    """A part of somebody's own, which asks the device for a number: it cannot be recorded."""

    def forward(self, x: Tensor) -> Tensor:
        return x if float(x.detach().abs().max()) >= 0 else -x


@pytest.mark.cuda
@pytest.mark.parametrize("labels", [momentum.PROTOTYPES, "cvir"])
def test_on_a_card_recorded_or_not(labels: str) -> None:
    z, labelled, y, pseudo = noisy(800)
    config = replace(QUICK, epochs=20, label_momentum=0.7, labels=labels, average=0.9)
    for encoder in (network(), nn.Sequential(network(), Slowly())):
        model = momentum_train(z, labelled, pseudo, encoder, config, device="cuda").cpu()
        assert accuracy(model, z, y) > 0.95
