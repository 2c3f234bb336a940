"""What learns, learns in any mode of gradients: a caller's, or one that torch is left in when a call is interrupted."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Generator, Tensor

import pucl
from pucl.baselines import fit_baseline
from pucl.fitting.fit import fit
from pucl.fitting.plan import FitOptions
from pucl.heads import fit_head
from pucl.models.schema import learn_schema
from pucl.pseudo_labels import pseudo_label
from pucl.training import TrainConfig

N, LABELLED = 48, 16
X = torch.randn(N, 5, generator=Generator().manual_seed(0)) + (torch.arange(N) < N // 2)[:, None]
S = (torch.arange(N) < LABELLED).int()
IMAGES = torch.rand(N, 1, 8, 8, generator=Generator().manual_seed(0))
QUICK = TrainConfig(epochs=1, batch_size=16)


def pretrained() -> Any:
    return pucl.pretrain(X, S, config=QUICK).encoder


def head() -> Any:
    return fit_head(X, S, pseudo_label(X, S, method="pupl"), method="mlp", epochs=1)


def baseline() -> Any:
    return fit_baseline("nnpu", X, S, prior=0.3, settings={"epochs": 1})


def images() -> Any:
    options = FitOptions(
        encoder="small_cnn", epochs=1, batch_size=16, prior=0.3, labeller="pupl", head="linear", fine_tune=False
    )
    schema, rows = learn_schema(IMAGES.numpy(), kind="image")
    return fit(rows, S.numpy(), schema, options, device="cpu").model.encoder


def weights(module: Any) -> list[Tensor]:
    return [*module.parameters(), *module.buffers()]


@pytest.mark.slow
@pytest.mark.parametrize("learn", [pretrained, head, baseline, images])
def test_learning_without_the_gradients_of_the_caller(learn: Callable[[], Any]) -> None:
    plain = weights(learn())
    with torch.no_grad():
        found = weights(learn())
        assert not torch.is_grad_enabled()
    assert len(plain) == len(found) > 0
    assert all(torch.equal(a, b) for a, b in zip(plain, found, strict=True))
