"""Heads in a model folder: every registered head can be stored and comes back the same; others are refused."""

import json

import pytest
import torch
from torch import Generator, nn

from pucl.errors import InputError
from pucl.heads import fit_head
from pucl.heads.calibration import Calibrated
from pucl.heads.stored import HeadParts, StoredHead, head_from_parts, heads_of_models, stored_heads
from pucl.pseudo_labels import PseudoLabels
from pucl.registry import entries


def fitted(method: str) -> tuple[nn.Module, torch.Tensor]:
    g = Generator().manual_seed(0)
    z, labelled = torch.randn(80, 6, generator=g), torch.arange(80) < 10
    pseudo = PseudoLabels.from_probability(torch.sigmoid(2 * z[:, 0]), labelled, prior=0.4)
    return fit_head(z, labelled, pseudo, method=method), z


@pytest.mark.parametrize("method", entries("heads"))
def test_a_stored_head_comes_back_the_same(method: str) -> None:
    head, z = fitted(method)
    assert isinstance(head, StoredHead)
    parts = head.to_parts()
    options = json.loads(json.dumps(dict(parts.options)))
    again = head_from_parts(HeadParts(parts.kind, options, parts.tensors))
    assert type(again) is type(head) and not again.training
    assert torch.equal(again(z), head(z)) and not again(z).requires_grad
    shifted = Calibrated(head, shift=0.3, temperature=2.0)
    assert torch.equal(Calibrated.from_parts(shifted.to_parts())(z), shifted(z))
    assert head.takes == shifted.takes == "embedding"


@pytest.mark.parametrize("kind", heads_of_models())
def test_a_kind_is_the_name_of_the_head_that_is_fitted(kind: str) -> None:
    head, _ = fitted(kind)
    assert type(head) is stored_heads()[kind]


def test_parts_share_no_memory_with_the_head() -> None:
    head, z = fitted("linear")
    assert isinstance(head, StoredHead)
    before = head(z).clone()
    head.to_parts().tensors["weight"].zero_()
    assert torch.equal(head(z), before)


def test_a_head_that_cannot_be_stored_is_refused() -> None:
    kinds = "blend or kernel or knn or linear or mlp or support_vectors or trees"
    with pytest.raises(InputError, match=f"head must be {kinds}; got Identity"):
        Calibrated(nn.Identity(), shift=0.0).to_parts()
    with pytest.raises(KeyError):
        head_from_parts(HeadParts("forest", {}, {}))
