"""Labels from several embeddings of the same rows at once."""

import re
from typing import Any

import numpy as np
import pytest
import torch
from torch import Generator, Tensor

from pucl.errors import InputError
from pucl.pseudo_labels import PseudoLabels, pseudo_label
from pucl.ranking.stacking import stack
from ranking_examples import right, weights


def halves(n: int = 800, *, seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Positives are on one side of two splits, of which each embedding shows one: z, other, labelled, truth."""
    g = Generator().manual_seed(seed)
    first, second = torch.rand(2, n, generator=g) < 0.6
    z, other = (torch.randn(n, 4, generator=g) for _ in range(2))
    z[:, 0] += 6.0 * first
    other[:, 1] += 6.0 * second
    y = first & second
    return z, other, y & (torch.rand(n, generator=g) < 0.3), y


def quick(z: Any, labelled: Any, *others: Any, **options: Any) -> PseudoLabels:
    return pseudo_label(z, labelled, other_embeddings=list(others), **{"repeats": 1, **options})


def test_weights_are_never_negative() -> None:
    alive = 0
    for seed in range(20):
        g = Generator().manual_seed(seed)
        y, labelled = torch.arange(600) < 300, torch.arange(600) < 80
        shared = torch.randn(600, 3, generator=g, dtype=torch.float64) @ torch.randn(3, 5, generator=g).double()
        noise = torch.randn(600, 5, generator=g, dtype=torch.float64)
        columns = list((shared + 0.3 * noise + y[:, None] * torch.linspace(-0.2, 2, 5)).T)
        found = stack(columns, labelled, prior=None if seed % 2 else 0.42)
        given = weights(found.score, *columns)
        assert found.score.isfinite().all() and min(given) > -1e-9, "a score may be left out, not subtracted"
        assert max(given) > 0.1
        alive += sum(value > 1e-9 for value in given)
    assert 20 < alive < 100, "some are left out, some count together"


@pytest.mark.slow
@pytest.mark.parametrize("prior", [None, 0.28])
@pytest.mark.parametrize("seed", range(2))
def test_what_one_embedding_lost_another_shows(seed: int, prior: float | None) -> None:
    z, other, labelled, y = halves(seed=seed)
    alone = [right(quick(rows, labelled, prior=prior), labelled, y) for rows in (z, other)]
    for first, second in ((z, other), (other, z)):
        both = quick(first, labelled, second, prior=prior)
        assert right(both, labelled, y) > max(0.91, *(value + 0.15 for value in alone))
        assert both.labels[labelled].all() and (both.reliability[labelled] == 1).all()
        assert both.prior == (prior or pytest.approx(float(y[~labelled].float().mean()), abs=0.04))


@pytest.mark.slow
def test_any_number_of_embeddings() -> None:
    z, other, labelled, y = halves()
    noise = torch.randn(800, 6, generator=Generator().manual_seed(1))
    assert right(quick(noise, labelled, z, other), labelled, y) > 0.9
    assert right(quick(noise, labelled, z), labelled, y) < 0.8
    tuples = pseudo_label(z, labelled, other_embeddings=(other, noise), repeats=1)
    assert torch.equal(tuples.probability, quick(z, labelled, other, noise).probability)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_noise_does_little_harm(seed: int) -> None:
    z, other, labelled, y = halves(seed=seed)
    whole, g = torch.cat([z, other], dim=1), Generator().manual_seed(seed)
    noise = [torch.randn(800, k, generator=g) for k in (3, 30)]
    alone, weighed = quick(whole, labelled), quick(whole, labelled, *noise)
    assert right(alone, labelled, y) > 0.97
    assert right(weighed, labelled, y) > right(alone, labelled, y) - 0.015
    assert weighed.prior == pytest.approx(alone.prior, abs=0.03)


def test_rows_seen_by_the_encoder_are_left_out_of_all_embeddings() -> None:
    z, other, labelled, _ = halves(300)
    seen = labelled & (torch.arange(300) % 3 == 0)
    found = quick(z, labelled, other, seen_by_encoder=seen)
    without = quick(z[~seen], labelled[~seen], other[~seen])
    assert torch.equal(found.probability[~seen], without.probability) and found.prior == without.prior
    assert found.labels[seen].all() and (found.reliability[seen] == 1).all()
    moved = other.clone()
    moved[seen] += 100
    assert torch.equal(quick(z, labelled, moved, seen_by_encoder=seen).probability, found.probability)
    assert not torch.equal(quick(z, labelled, moved).probability, quick(z, labelled, other).probability)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype: torch.dtype) -> None:
    z, other, labelled, y = halves(400)
    found, same = quick(z, labelled, other.to(dtype)), quick(z, labelled, other.to(dtype).float())
    assert torch.equal(found.probability, same.probability) and right(found, labelled, y) > 0.9
    assert quick(z.to(dtype), labelled, other.to(dtype)).probability.dtype == torch.float32


def test_labels_have_the_precision_of_the_first() -> None:
    """Raw rows are often float64, embeddings float32."""
    z, other, labelled, y = halves(400)
    first, second = quick(z, labelled, other.double().numpy()), quick(z.double(), labelled, other)
    assert first.probability.dtype == torch.float32 and second.probability.dtype == torch.float64
    both = quick(z, labelled, other)
    for found in (first, second):
        assert found.labels.shape == (400,) and float((found.labels == both.labels).float().mean()) > 0.99
    assert min(right(found, labelled, y) for found in (first, second)) > 0.9


@pytest.mark.slow
@pytest.mark.parametrize(("method", "options"), [("auto", {"repeats": 1}), ("stacked", {"repeats": 1}), ("pupl", {})])
def test_no_other_embeddings_is_as_not_given(method: str, options: dict[str, Any]) -> None:
    z, _, labelled, _ = halves(200)
    empty: tuple[Any, ...] = ([], (), None)
    for seen in (None, labelled & (torch.arange(200) % 2 == 0)):
        plain = pseudo_label(z, labelled, method=method, seen_by_encoder=seen, **options)
        for nothing in empty:
            found = pseudo_label(z, labelled, method=method, seen_by_encoder=seen, other_embeddings=nothing, **options)
            assert torch.equal(found.probability, plain.probability) and found.prior == plain.prior
            assert torch.equal(found.labels, plain.labels) and torch.equal(found.reliability, plain.reliability)


GOOD = torch.rand(40, 3, generator=Generator().manual_seed(0))
HOLE = torch.where(torch.arange(40)[:, None] == 7, torch.nan, GOOD)
MATRIX = "a floating-point matrix (n, k)"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([GOOD, GOOD[:39]], "other_embeddings[1] must be a matrix of 40 rows, as many as z has; got 39 rows"),
        ([GOOD, GOOD[:0]], "other_embeddings[1] must be at least two different rows; got no rows"),
        (GOOD, "other_embeddings must be a list of matrices; got Tensor"),
        (GOOD.numpy(), "other_embeddings must be a list of matrices; got ndarray"),
        ("raw", "other_embeddings must be a list of matrices; got str"),
        ([GOOD, HOLE], "other_embeddings[1] must be finite; got NaN or infinity in 1 rows, first 7, column 0"),
        ([GOOD, GOOD[:, 0]], f"other_embeddings[1] must be {MATRIX}; got torch.float32 of shape (40,)"),
        ([GOOD, GOOD.long()], f"other_embeddings[1] must be {MATRIX}; got torch.int64 of shape (40, 3)"),
        ([GOOD, torch.ones(40, 2)], "other_embeddings[1] must be at least two different rows; got all rows equal"),
        ([GOOD, torch.ones(40, 0)], "other_embeddings[1] must be at least two different rows; got all rows equal"),
        ([GOOD, None], f"other_embeddings[1] must be {MATRIX}; got a NoneType that holds no such matrix"),
        ([GOOD, [[1.0], [1.0, 2.0]]], f"other_embeddings[1] must be {MATRIX}; got a list that holds no such matrix"),
        ([GOOD, np.array(["a"])], f"other_embeddings[1] must be {MATRIX}; got a ndarray that holds no such matrix"),
    ],
)
def test_bad_input(given: Any, message: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(f'pucl.pseudo_label: {message}')}$"):
        pseudo_label(GOOD, torch.arange(40) < 9, other_embeddings=given)


@pytest.mark.parametrize("z", [torch.rand(0, 3), None])
def test_bad_rows_are_said_of_z(z: Any) -> None:
    with pytest.raises(InputError, match=r"^pucl\.pseudo_label: z must be .*; got [^\n]*$"):
        pseudo_label(z, torch.arange(40) < 9, other_embeddings=[GOOD])


@pytest.mark.parametrize("method", ["label_spreading", "kernel_cvir", "cvir", "prototypes", "pupl"])
def test_other_methods_take_one_embedding(method: str) -> None:
    message = f"other_embeddings must be given with a method that takes it, such as 'stacked'; got '{method}'"
    with pytest.raises(InputError, match=f"^{re.escape(f'pucl.pseudo_label: {message}')}$"):
        pseudo_label(GOOD, torch.arange(40) < 9, method=method, other_embeddings=[GOOD])


@pytest.mark.cuda
def test_a_card_gives_the_same_labels() -> None:
    z, other, labelled, y = halves()
    here = quick(z, labelled, other)
    for embedding in (other, other.cuda(), other.half()):
        there = quick(z.cuda(), labelled.cuda(), embedding)
        assert there.labels.is_cuda and float((there.labels.cpu() == here.labels).float().mean()) >= 0.995
    back = quick(z, labelled, other.cuda())
    assert not back.labels.is_cuda and float((back.labels == here.labels).float().mean()) >= 0.995
    seen = (labelled & (torch.arange(800) % 3 == 0)).cuda()
    assert right(quick(z.cuda(), labelled.cuda(), other, seen_by_encoder=seen), labelled.cuda(), y.cuda()) > 0.9
