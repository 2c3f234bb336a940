"""ContrastiveLoss, PURisk and pu_risk: what loops of other libraries need of every registered loss and risk."""

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import pucl
from pucl.errors import InputError
from pucl.losses import ContrastiveLoss, contrastive_loss
from pucl.registry import entries
from pucl.risks import PURisk, pu_risk

from references import options

every_loss = pytest.mark.parametrize("name", list(entries("losses")))
every_risk = pytest.mark.parametrize("name", list(entries("risks")))
N = 12
S = torch.arange(N) % 3 == 0
LABELS: dict[str, Any] = {
    "bool": S,
    "int": S.long(),
    "float": S.float(),
    "half": S.half(),
    "minus one": torch.where(S, 1, -1),
    "array": S.numpy(),
    "list": S.tolist(),
}


def views(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(0)
    z1, z2 = (torch.randn(N, 5, generator=g).to(dtype).requires_grad_() for _ in range(2))
    return z1, z2


def some_logits(dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.linspace(-2, 3, N).to(dtype).requires_grad_()


@every_loss
@pytest.mark.parametrize("kind", LABELS)
def test_a_loss_is_its_function_for_all_kinds_of_labels(name: str, kind: str) -> None:
    module = ContrastiveLoss(name, temperature=0.3, **options(name))
    expected = contrastive_loss(name, *views(), S, temperature=0.3, **options(name))
    assert torch.equal(module(*views(), LABELS[kind]), expected)
    assert not list(module.parameters()) and not module.state_dict()


@every_risk
@pytest.mark.parametrize("kind", LABELS)
def test_a_risk_is_its_function_for_all_kinds_of_labels(name: str, kind: str) -> None:
    expected = entries("risks")[name].function(some_logits(), S, prior=0.3)
    column = LABELS[kind].reshape(-1, 1) if hasattr(LABELS[kind], "reshape") else LABELS[kind]
    for logits, s in ((some_logits(), LABELS[kind]), (some_logits()[:, None], column)):
        assert torch.equal(PURisk(name, prior=0.3)(logits, s), expected)
        assert torch.equal(pu_risk(name, logits, s, prior=0.3), expected)


@pytest.mark.parametrize("labelled", [torch.zeros(N), torch.ones(N)], ids=["none labelled", "all labelled"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_edge_batches_and_half_precision(labelled: Tensor, dtype: torch.dtype) -> None:
    for name in entries("losses"):
        z1, z2 = views(dtype)
        value = ContrastiveLoss(name, **options(name))(z1, z2, labelled)
        first, second = torch.autograd.grad(value, (z1, z2))
        assert value.dtype == torch.float32 and value.isfinite()
        assert first.dtype == dtype and first.isfinite().all() and second.isfinite().all()
    for name in entries("risks"):
        logits = some_logits(dtype)
        value = PURisk(name, prior=0.3)(logits[:, None], labelled)
        (gradient,) = torch.autograd.grad(value, logits)
        assert value.dtype == torch.float32 and value.isfinite() and gradient.isfinite().all()


def test_options_go_through_by_their_own_names() -> None:
    z1, z2 = views()
    released = ContrastiveLoss("punce", prior=0.3, variant="released")
    assert released(z1, z2, S) != ContrastiveLoss("punce", prior=0.3)(z1, z2, S)
    assert repr(released) == "ContrastiveLoss('punce', temperature=0.5, prior=0.3, variant='released')"
    risk = PURisk("nnpu", prior=0.9, loss="logistic", setting="single-set", beta=0.1, gamma=0.5)
    expected = entries("risks")["nnpu"].function(
        some_logits(), S, prior=0.9, loss="logistic", setting="single-set", beta=0.1, gamma=0.5
    )
    assert torch.equal(risk(some_logits(), S), expected)
    assert pucl.losses.ContrastiveLoss is pucl.ContrastiveLoss and pucl.risks.PURisk is pucl.PURisk


def test_modules_are_parts_of_models_that_are_copied_and_pickled() -> None:
    model = nn.ModuleDict({"loss": ContrastiveLoss("mcl", mixing=0.2), "risk": PURisk("upu", prior=0.2)})
    for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):  # noqa: S301
        assert torch.equal(again["loss"](*views(), S), model["loss"](*views(), S))
        assert torch.equal(again["risk"](some_logits(), S), model["risk"](some_logits(), S))


def test_infinity_goes_through_to_a_gradient_scaler() -> None:
    z1, z2 = views(torch.float16)
    with torch.no_grad():
        z1[0, 0] = torch.inf
    assert ContrastiveLoss("pucl")(z1, z2, S).isnan()


@pytest.mark.slow
def test_modules_compile_as_one_graph() -> None:
    z1, z2 = (z.detach() for z in views())
    loss = torch.compile(ContrastiveLoss("pucl"), backend="eager", fullgraph=True)
    assert float(loss(z1, z2, S.long())) == pytest.approx(float(contrastive_loss("pucl", z1, z2, S)), rel=1e-6)
    logits = some_logits().detach()
    risk = torch.compile(PURisk("nnpu", prior=0.3), backend="eager", fullgraph=True)
    assert float(risk(logits, S.long())) == pytest.approx(float(pu_risk("nnpu", logits, S, prior=0.3)))
    options: dict[str, Any] = {"prior": 0.3, "loss": "logistic", "setting": "single-set"}
    other = torch.compile(PURisk("upu", **options), backend="eager", fullgraph=True)
    value = float(other(logits[:, None], S.long()[:, None]))
    assert value == pytest.approx(float(pu_risk("upu", logits, S, **options)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ContrastiveLoss("pucll"), "ContrastiveLoss: unknown loss 'pucll': did you mean 'pucl'?"),
        (lambda: ContrastiveLoss("pucl", temprature=1), "unknown option of pucl 'temprature': did you mean"),
        (lambda: ContrastiveLoss("pucl", temperature=0), "ContrastiveLoss: temperature must be a finite number > 0"),
        (lambda: ContrastiveLoss("punce"), "ContrastiveLoss: prior must be a number strictly between 0 and 1"),
        (lambda: ContrastiveLoss("pucl")(*views(), [1, 0]), "ContrastiveLoss: s must be of length 12"),
        (lambda: ContrastiveLoss("pucl")(*views(), torch.arange(N)), "ContrastiveLoss: s must be 1 (labelled"),
        (lambda: ContrastiveLoss("pucl")(views()[0], views()[0][1:], S), "ContrastiveLoss: z2 must be of the same"),
        (lambda: PURisk("nnpuu", prior=0.3), "PURisk: unknown risk 'nnpuu': did you mean 'nnpu'?"),
        (lambda: PURisk("upu", prior=0.3, beta=1), "PURisk: unknown option of upu 'beta': "),
        (lambda: PURisk("nnpu", prior=0), "prior must be a number strictly between 0 and 1; got 0"),
        (lambda: PURisk("nnpu", prior=0.3, beta=-1), "beta must be a finite number ≥ 0; got -1"),
        (lambda: PURisk("nnpu", prior=0.3)(torch.rand(N, 2), S), "PURisk: logits must be a floating-point tensor (n,)"),
        (lambda: PURisk("nnpu", prior=0.3)(torch.rand(N), S[:4]), "PURisk: s must be of length 12"),
        (lambda: pu_risk("nnpu", torch.arange(N), S, prior=0.3), "pucl.pu_risk: logits must be a floating-point"),
    ],
)
def test_bad_input(make: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        make()
    assert message in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("n", [N, 300], ids=["plain", "tiled"])
def test_processes_do_not_wait_for_each_other_unless_asked(monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    """As if there were two: without a process group, any call to the other one fails."""
    z1, z2 = (torch.randn(n, 4, generator=torch.Generator().manual_seed(seed)) for seed in range(2))
    z1.requires_grad_()
    module = ContrastiveLoss("punce", prior=0.3)
    (expected,) = torch.autograd.grad(module(z1, z2, torch.arange(n) % 2), z1)
    for part in ("distributed", "losses.pairs", "losses.partition"):
        monkeypatch.setattr(f"pucl.{part}.rank_and_world", lambda: (1, 2))
    assert torch.equal(torch.autograd.grad(module(z1, z2, torch.arange(n) % 2), z1)[0], expected)
    with pytest.raises(ValueError, match="process group"):
        ContrastiveLoss("punce", prior=0.3, gather_distributed=True)(z1, z2, torch.arange(n) % 2)
