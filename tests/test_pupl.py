"""puPL beyond the letter of the algorithm: restarts, Faiss, several processes, and its theorem."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from pucl.errors import InputError
from pucl.pseudo_labels import pseudo_label
from pucl.pseudo_labels.assign import PIECE, Sides, margin
from pucl.pseudo_labels.pupl import lloyd, seed_centres
from pucl.theory.seeding import (
    best_potential,
    check_seeding,
    expected_after_kmeans_plus_plus,
    expected_after_pupl,
    random_mixture,
)

from conftest import SRC, environment


def blobs(n: int, *, dim: int = 8, gap: float = 3.0, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    g = Generator().manual_seed(seed)
    y = torch.rand(n, generator=g) < 0.4
    z = torch.randn(n, dim, generator=g) + 1
    z[y, 0] += gap
    return z, y & (torch.rand(n, generator=g) < 0.1), y


def potential(rows: Tensor, positive: Tensor, centres: Tensor) -> float:
    return float((rows - torch.where(positive[:, None], centres[0], centres[1])).double().pow(2).sum())


def test_what_lloyd_explains_is_the_rest_of_the_potential() -> None:
    z, labelled, _ = blobs(500)
    rows = F.normalize(z, dim=1).double()
    found = lloyd(rows, labelled, seed_centres(rows, labelled, Generator().manual_seed(0)))
    assert found.explained == pytest.approx(float(rows.pow(2).sum()) - potential(rows, found.positive, found.centres))
    for side, centre in ((found.positive, found.centres[0]), (~found.positive, found.centres[1])):
        torch.testing.assert_close(rows[side].mean(dim=0), centre)


def test_many_pieces_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    z, labelled, _ = blobs(3000)
    rows = F.normalize(z, dim=1)
    start = seed_centres(rows, labelled, Generator().manual_seed(0))
    whole = lloyd(rows, labelled, start)
    assert len(rows) * rows.shape[1] < PIECE
    monkeypatch.setattr("pucl.pseudo_labels.assign.PIECE", 700)
    pieces = lloyd(rows, labelled, start)
    assert torch.equal(whole.positive, pieces.positive) and whole.iterations == pieces.iterations
    torch.testing.assert_close(whole.centres, pieces.centres)


def test_restarts_keep_the_lowest_potential() -> None:
    for seed in range(10):
        z, labelled, _ = blobs(200, dim=3, gap=2.0, seed=seed)
        rows, generator = F.normalize(z, dim=1), Generator().manual_seed(seed)
        tries = [lloyd(rows, labelled, seed_centres(rows, labelled, generator)) for _ in range(8)]
        best = max(tries, key=lambda found: found.explained)
        found = pseudo_label(z, labelled, method="pupl", seed=seed, n_init=8)
        assert torch.equal(found.labels, best.positive)


@pytest.mark.parametrize("gap", [0.5, 1.5])
def test_the_released_start_is_plain_two_means_of_all_rows(gap: float) -> None:
    """As scikit-learn's from the same centres; the cluster nearer to the mean of P is positive."""
    from sklearn.cluster import KMeans

    z, labelled, _ = blobs(800, gap=gap)
    rows = F.normalize(z.double(), dim=1)
    start = torch.stack([rows[labelled].mean(dim=0), rows[~labelled].mean(dim=0)])
    theirs = KMeans(2, init=start.numpy(), n_init=1, tol=0, max_iter=300).fit(rows.numpy())
    centres = torch.from_numpy(theirs.cluster_centers_)
    positive = int((centres - start[0]).norm(dim=1).argmin())
    ours = pseudo_label(z.double(), labelled, method="pupl", start="means", seed=3)
    expected = torch.from_numpy(theirs.labels_ == positive)
    assert torch.equal(ours.labels[~labelled], expected[~labelled]) and ours.labels[labelled].all()
    assert not expected[labelled].all(), "labelled rows were free to change sides"
    other = pseudo_label(z.double(), labelled, method="pupl", seed=3)
    assert not torch.equal(ours.probability, other.probability)


def test_an_unknown_start() -> None:
    z, labelled, _ = blobs(50)
    with pytest.raises(InputError, match="unknown start of pupl 'mean': did you mean 'means'"):
        pseudo_label(z, labelled, method="pupl", start="mean")


def test_faiss_finds_the_same() -> None:
    pytest.importorskip("faiss")
    z, labelled, _ = blobs(2000)
    mine, theirs = (pseudo_label(z, labelled, method="pupl", backend=backend) for backend in ("torch", "faiss"))
    assert torch.equal(mine.labels, theirs.labels)
    torch.testing.assert_close(mine.probability, theirs.probability)


def test_a_missing_faiss_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    z, labelled, _ = blobs(50)
    with pytest.raises(InputError, match="backend='faiss' needs the faiss package"):
        pseudo_label(z, labelled, method="pupl", backend="faiss")
    with pytest.raises(InputError, match="did you mean 'faiss'"):
        pseudo_label(z, labelled, method="pupl", backend="fais")


def test_a_row_between_the_centres_is_not_nearer_to_the_first() -> None:
    centres = torch.tensor([[0.0, 0.0], [2.0, 0.0]])
    rows = torch.tensor([[1.0, 5.0], [0.9, 0.0], [1.1, 0.0]])
    assert (margin(rows, centres) < 0).tolist() == [False, True, False]
    assert Sides(rows, torch.tensor([False, False, True])).of(centres).tolist() == [False, True, True]


def test_sides_of_moving_centres_are_those_of_a_full_look() -> None:
    z, labelled, _ = blobs(4000)
    rows, g = F.normalize(z, dim=1), Generator().manual_seed(0)
    sides, looked = Sides(rows, labelled), 0
    centres = torch.randn(2, 8, generator=g)
    for step in range(60):
        centres = centres + torch.randn(2, 8, generator=g) * (0.3 if step % 20 == 0 else 0.003)
        before = sides.known
        assert torch.equal(sides.of(centres), (margin(rows, centres) < 0) | labelled)
        looked += sides.known is not before
    assert looked < 30, "most of the time only rows near the border are looked at"


SCRIPT = """
import json, sys, time
import torch
import torch.distributed as dist
from torch import Generator
sys.path.insert(0, sys.argv[1])
from test_pupl import blobs
from pucl.pseudo_labels.pupl import lloyd, pupl, seed_centres
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
z, labelled, _ = blobs(600)
part = slice(rank * 300, (rank + 1) * 300)
found = pupl(z[part], labelled[part], seed=3, n_init=2)
open(f"{sys.argv[2]}/{rank}.json", "w").write(json.dumps([found.labels.tolist(), found.prior]))
time.sleep(0.05)  # as `pucl.distributed.joined` does
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_two_processes_label_as_one(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    words = [str(tmp_path / "script.py"), str(Path(__file__).parent), str(tmp_path)]
    env = {**environment(SRC), "OMP_NUM_THREADS": "1"}
    run = subprocess.run([*start, *words], capture_output=True, text=True, check=False, env=env)
    assert run.returncode == 0, run.stderr[-2000:]
    parts = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    z, labelled, _ = blobs(600)
    one = pseudo_label(z, labelled, method="pupl", seed=3, n_init=2)
    assert parts[0][0] + parts[1][0] == one.labels.tolist()
    assert parts[0][1] == parts[1][1] == pytest.approx(one.prior, abs=1e-6)


def test_expected_potentials_by_slow_loops() -> None:
    z, labelled = random_mixture(Generator().manual_seed(5), n=25)
    points, n = z.tolist(), len(z)

    def squared(a: list[float], b: list[float]) -> float:
        return sum((u - v) ** 2 for u, v in zip(a, b, strict=True))

    def phi(a: list[float], b: list[float]) -> float:
        return sum(min(squared(p, a), squared(p, b)) for p in points)

    mean = z[labelled].mean(dim=0).tolist()
    unlabelled = [p for p, known in zip(points, labelled.tolist(), strict=True) if not known]
    weights = [squared(p, mean) for p in unlabelled]
    ours = sum(w * phi(mean, p) for w, p in zip(weights, unlabelled, strict=True)) / sum(weights)
    assert float(expected_after_pupl(z, labelled)) == pytest.approx(ours)
    theirs = 0.0
    for first in points:
        draw = [squared(p, first) for p in points]
        theirs += sum(w * phi(first, p) for w, p in zip(draw, points, strict=True)) / sum(draw) / n
    assert float(expected_after_kmeans_plus_plus(z)) == pytest.approx(theirs)


@pytest.mark.slow
def test_theorem_of_the_seeding() -> None:
    """th:puPL on 60 random mixtures: below 16 φ*, and below k-means++ on average."""
    found = check_seeding(60, seed=1)
    assert (found.pupl >= 1 - 1e-9).all(), "nothing is better than the best"
    assert found.pupl.max() <= 16 and found.kmeans_plus_plus.max() <= 21.55
    assert found.pupl.mean() < found.kmeans_plus_plus.mean()


def test_the_best_potential_is_found() -> None:
    z = torch.tensor([[0.0], [0.1], [1.0], [1.2]], dtype=torch.float64)
    best = best_potential(z, starts=10, generator=Generator().manual_seed(0))
    assert float(best) == pytest.approx(2 * 0.05**2 + 2 * 0.1**2)
