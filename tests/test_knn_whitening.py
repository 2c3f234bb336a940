"""The head `knn` on rows seen from their mean, along axes made more alike."""

from typing import Any

import pytest
import torch
from torch import Tensor

from pucl.errors import InputError
from pucl.heads import fit_head
from pucl.heads.knn import NearestNeighbours
from pucl.pseudo_labels import PseudoLabels
from pucl.ranking.whitening import directions
from ranking_examples import broad


def reference() -> tuple[Tensor, Tensor, PseudoLabels]:
    z, labelled, y = broad(200)
    z = z.double() + torch.tensor([5.0] * 10)  # in a cone, so that it matters where rows are seen from
    return z, labelled, PseudoLabels.from_probability(0.9 * y.double() + 0.05, labelled, prior=0.4)


SEEN: dict[str, Any] = {"method": "knn", "k": 20, "centred": True, "whitening": 0.5}


def test_knn_from_the_mean_is_knn_of_directions() -> None:
    z, labelled, pseudo = reference()
    plain = fit_head(z, labelled, pseudo, method="knn", k=20)
    assert isinstance(plain, NearestNeighbours) and plain.mean is None and plain.axes is None
    assert not {"mean", "axes"} & set(plain.state_dict())
    for whitening in (0.0, 0.5):
        seen = directions(z, centred=True, whitening=whitening)
        head = fit_head(z, labelled, pseudo, **{**SEEN, "whitening": whitening})
        moved = fit_head(seen, labelled, pseudo, method="knn", k=20)
        assert torch.allclose(head(z), moved(seen), atol=1e-10)
        assert not torch.allclose(head(z), plain(z), atol=0.1)


def test_knn_sees_new_rows_from_where_it_saw_its_own() -> None:
    z, labelled, pseudo = reference()
    head, new = fit_head(z, labelled, pseudo, **SEEN), broad(50, seed=1)[0].double() + 5
    together = head(new)
    assert torch.allclose(torch.cat([head(row[None]) for row in new]), together, atol=1e-10)
    assert torch.allclose(head(torch.cat([new, z]))[:50], together, atol=1e-10)
    assert torch.allclose(head(7 * new), together, atol=1e-10), "the length of a row says nothing"


def test_knn_from_the_mean_is_kept_by_its_state() -> None:
    z, labelled, pseudo = reference()
    head, other = fit_head(z, labelled, pseudo, **SEEN), fit_head(z.flip(1) + 1, labelled, pseudo, **SEEN)
    assert not torch.allclose(other(z), head(z))
    other.load_state_dict(head.state_dict())
    assert torch.equal(other(z), head(z))


@pytest.mark.parametrize("whitening", [2, -0.1, "half", None])
def test_bad_whitening_of_knn(whitening: Any) -> None:
    z, labelled, pseudo = reference()
    with pytest.raises(InputError, match=r"^head 'knn': whitening must be a number within \[0, 1\]; got"):
        fit_head(z, labelled, pseudo, **{**SEEN, "whitening": whitening})
