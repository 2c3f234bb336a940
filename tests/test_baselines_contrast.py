"""PiCO and WConPU: contrast, prototypes, queues and thresholds by hand."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from baseline_examples import problem_of, spread_blobs
from pucl.baselines.pico import PiCOSettings
from pucl.baselines.shared.contrast import Contrasted, Prototypes, Queue, contrast, taken_for_positive
from pucl.baselines.shared.learning import PUBatch
from pucl.baselines.wconpu import Thresholds, hard_load, share_loss

CPU = torch.device("cpu")


def unit(n: int, dim: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return nn.functional.normalize(torch.randn(n, dim, generator=generator, dtype=torch.float64), dim=1)


def test_contrast_is_the_formula() -> None:
    q, z = unit(4, 5, 1), unit(9, 5, 2)
    generator = torch.Generator().manual_seed(3)
    peers, among = (torch.rand(4, 9, generator=generator) < share for share in (0.4, 0.8))
    peers[2] = False
    among[:, 0] = True
    load = torch.rand(4, 9, generator=generator, dtype=torch.float64)

    expected = 0.0
    for i in range(4):
        total = sum(np.exp(float(load[i, j])) * np.exp(float(q[i] @ z[j]) / 0.2) for j in range(9) if among[i, j])
        terms = [np.log(np.exp(float(q[i] @ z[j]) / 0.2) / total) for j in range(9) if peers[i, j]]
        expected -= float(np.mean(terms)) / 4 if terms else 0.0
    assert float(contrast(q, z, peers, among, 0.2, load)) == pytest.approx(expected, rel=1e-12)
    plain = contrast(q, z, peers, among, 0.2)
    assert float(plain) == pytest.approx(float(contrast(q, z, peers, among, 0.2, torch.zeros(4, 9))), rel=1e-12)


def test_prototypes_follow_row_after_row() -> None:
    prototypes = Prototypes(5, 0.9, CPU)
    expected = np.zeros((2, 5))
    for seed in range(3):
        z = unit(7, 5, seed).float()
        positive = torch.tensor([True, False, True, True, False, True, True])
        for row, of in zip(z.numpy(), positive.numpy(), strict=True):
            expected[int(of)] = 0.9 * expected[int(of)] + 0.1 * row
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
        prototypes.pull(z, positive)
    np.testing.assert_allclose(prototypes.vectors.numpy(), expected, atol=1e-6)
    near = prototypes.nearest(prototypes.vectors)
    assert near.tolist() == [False, True]


def test_a_class_without_rows_keeps_its_prototype() -> None:
    prototypes = Prototypes(5, 0.9, CPU)
    prototypes.pull(unit(6, 5, 0).float(), torch.tensor([True, False] * 3))
    before = prototypes.vectors.clone()
    prototypes.pull(unit(6, 5, 1).float(), torch.ones(6, dtype=torch.bool))
    torch.testing.assert_close(prototypes.vectors[0], before[0])
    assert not torch.allclose(prototypes.vectors[1], before[1])


def test_the_guard_moves_the_border_only_when_a_class_is_lost() -> None:
    labelled = torch.tensor([True, False, False, False, False])
    split = torch.tensor([-9.0, -1.0, -2.0, 1.0, 0.5])
    assert taken_for_positive(split, labelled, 0.3).tolist() == [True, False, False, True, True]
    lost = torch.tensor([-9.0, 1.0, 2.0, 3.0, 4.0])
    assert taken_for_positive(lost, labelled, 0.0).tolist() == [True] * 5
    assert taken_for_positive(lost, labelled, 0.3).tolist() == [True, False, False, True, True]  # the mean of U is 2.5


def contrasted(**changes: Any) -> tuple[Contrasted, PUBatch]:
    x, s = spread_blobs()
    settings = PiCOSettings(**{"queue": 10, "dim": 6, "key_decay": 0.75, **changes})
    rows = torch.arange(4)
    return Contrasted(problem_of(x, s), settings), PUBatch(x[rows + 10], s[rows + 10], rows + 10, 0)


def test_the_pool_holds_queries_keys_and_the_queue() -> None:
    parts, batch = contrasted()
    seen = parts.look(batch)
    assert seen.pool.shape == (18, 6)
    assert torch.equal(seen.pool[:4], seen.queries)
    assert torch.equal(seen.pool[4:8], seen.keys)
    expected = torch.cat([~torch.eye(4, dtype=torch.bool), torch.ones(4, 4, dtype=torch.bool)], dim=1)
    assert torch.equal(seen.others[:, :8], expected)
    assert not seen.others[:, 8:].any()  # nothing queued yet
    assert torch.equal(parts.own(seen).nonzero()[:, 1], torch.arange(4) + 4)
    assert seen.positive[:2].all()  # rows 10 and 11 are labelled
    assert seen.nearest[:2].all()
    assert float(parts.instance_loss(seen).detach()) == pytest.approx(
        0.0, abs=1e-6
    )  # each key is alone in an empty queue

    parts.remember(seen)
    again = parts.look(batch)
    assert torch.equal(again.pool[8:12], seen.keys)
    assert again.others[:, 8:12].all()
    assert not again.others[:, 12:].any()
    assert torch.equal(again.classes[8:12], seen.positive)
    near = (again.queries[:, None] * torch.cat([again.keys[:, None], seen.keys.expand(4, -1, -1)], dim=1)).sum(2) / 0.07
    expected_loss = -near.log_softmax(dim=1)[:, 0].mean()
    torch.testing.assert_close(parts.instance_loss(again), expected_loss)


def test_keys_follow_queries_and_get_no_gradient() -> None:
    parts, batch = contrasted()
    with torch.no_grad():
        for parameter in parts.query.parameters():
            parameter.add_(1.0)
    before = [parameter.clone() for parameter in parts.key.parameters()]
    seen = parts.look(batch)
    for key, old, query in zip(parts.key.parameters(), before, parts.query.parameters(), strict=True):
        torch.testing.assert_close(key, 0.75 * old + 0.25 * query)
        assert not key.requires_grad
    assert seen.queries.requires_grad
    assert not seen.keys.requires_grad
    assert parts.key.training  # its norms see the batch
    torch.testing.assert_close(seen.keys.norm(dim=1), torch.ones(4))


def test_pseudo_labels_wait_for_their_epoch() -> None:
    parts, _ = contrasted(start=2)
    begun = []
    for epoch in range(4):
        parts.begin(epoch)
        begun.append(bool(parts.started))
    assert begun == [False, False, True, True]


# WConPU


def test_thresholds_follow_the_batches() -> None:
    limits, level, share = Thresholds(0.8, CPU), 0.5, 0.5
    for seed in range(3):
        logits = 2 * torch.randn(6, generator=torch.Generator().manual_seed(seed))
        positive = logits > 0
        sure = limits.sure(logits, positive)
        p = 1 / (1 + np.exp(-logits.numpy().astype(float)))
        level = 0.8 * level + 0.2 * np.maximum(p, 1 - p).mean()
        share = 0.8 * share + 0.2 * p.mean()
        mass = np.array([1 - share, share]) / max(share, 1 - share)
        expected = [max(one, 1 - one) >= mass[int(one > 0.5)] * level for one in p]
        assert sure.tolist() == expected


def test_hard_negatives_weigh_the_inverse_of_their_distance() -> None:
    prototypes, queue = Prototypes(3, 0.9, CPU), Queue(16, z=torch.zeros(3))
    prototypes.vectors.copy_(torch.tensor([[-1.0, 0, 0], [1.0, 0, 0]]))
    keys, queries = unit(12, 3, 5).float(), unit(4, 3, 6).float()
    queue.push(z=keys)
    load = hard_load(queries, queue, prototypes, 0.25)
    assert load.shape == (4, 16)
    assert (load[:, 12:] == 0).all()  # never written
    for i, q in enumerate(queries.numpy()):
        apart = ((q - keys.numpy()) ** 2).sum(1) / 4
        limit = np.sort(apart)[2]  # the third of twelve
        for j, key in enumerate(keys.numpy()):
            hard = apart[j] <= limit and (q[0] > 0) != (key[0] > 0)
            assert float(load[i, j]) == pytest.approx(-np.log(apart[j]) if hard else 0.0, abs=1e-4)
    assert (load > 0).any()


def test_loss_of_the_shares() -> None:
    logits = torch.tensor([2.0, -1.0, 0.5, 0.3, -2.0], dtype=torch.float64)
    labelled = torch.tensor([True, True, False, False, False])
    p = 1 / (1 + np.exp(-logits.numpy()))
    expected = 2 * 0.4 * abs(p[:2].mean() - 1) + abs(p[2:].mean() - 0.4)
    assert float(share_loss(logits, labelled, 0.4)) == pytest.approx(expected, rel=1e-12)
    alone = share_loss(logits, torch.zeros(5, dtype=torch.bool), 0.4)
    assert float(alone) == pytest.approx(abs(p.mean() - 0.4), rel=1e-12)
