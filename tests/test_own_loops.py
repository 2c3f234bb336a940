"""ContrastiveLoss and PURisk in a loop by hand, in Lightning and in the Trainer of Hugging Face."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from pucl import ContrastiveLoss, PURisk

POSITIVE = torch.arange(600) < 240
S = torch.arange(600) < 120  # so that π is 120 / 480
X = torch.randn(600, 8, generator=torch.Generator().manual_seed(0)) + 1.3 * POSITIVE[:, None]


def network(out: int) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, out))


def batches() -> list[tuple[Tensor, Tensor]]:
    order = torch.randperm(600, generator=torch.Generator().manual_seed(1))
    return [(X[part], S[part].long()) for part in torch.split(order, 100)]


def views(x: Tensor) -> tuple[Tensor, Tensor]:
    """Two fixed views, so that two loops see the same."""
    return x * torch.tensor([1.0, 0.0] * 4), x * torch.tensor([0.0, 1.0] * 4)


def by_hand(model: nn.Module, loss_of: Any, epochs: int) -> list[float]:
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
    losses = []
    for _ in range(epochs):
        for x, s in batches():
            loss = loss_of(model, x, s)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
    return losses


def accuracy(model: nn.Module) -> float:
    with torch.no_grad():
        return float(((model(X[~S])[:, 0] > 0) == POSITIVE[~S]).float().mean())


@pytest.mark.slow
def test_a_loop_by_hand() -> None:
    risk, contrast = PURisk("nnpu", prior=0.25), ContrastiveLoss("pucl", temperature=0.5)
    classifier, encoder = network(1), network(16)
    by_hand(classifier, lambda model, x, s: risk(model(x), s), epochs=15)
    assert accuracy(classifier) > 0.93
    losses = by_hand(encoder, lambda model, x, s: contrast(*map(model, views(x)), s), epochs=10)
    assert sum(losses[-6:]) < 0.97 * sum(losses[:6])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # what Lightning warns of is its own
def test_lightning_trains_as_by_hand(tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning")

    class Module(lightning.LightningModule):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.encoder = network(16)
            self.losses: list[float] = []
            self.loss = ContrastiveLoss("punce", prior=0.25)

        def training_step(self, batch: tuple[Tensor, Tensor], number: int) -> Tensor:
            del number
            x, s = batch
            loss: Tensor = self.loss(*map(self.encoder, views(x)), s)
            self.losses.append(loss.item())
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.parameters(), lr=5e-3)

    model, contrast = Module(), ContrastiveLoss("punce", prior=0.25)
    lightning.Trainer(
        max_epochs=3, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, default_root_dir=tmp_path,
    ).fit(model, DataLoader(batches(), batch_size=None))  # type: ignore[arg-type]  # fmt: skip
    expected = by_hand(network(16), lambda own, x, s: contrast(*map(own, views(x)), s), epochs=3)
    assert model.losses == pytest.approx(expected, rel=1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # what transformers warns of is its own
def test_the_trainer_of_hugging_face_learns(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")

    class Rows(Dataset[dict[str, Tensor]]):
        def __len__(self) -> int:
            return 600

        def __getitem__(self, number: int) -> dict[str, Tensor]:
            return {"features": X[number], "labels": S[number].float()}

    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = network(1)

        def forward(self, features: Tensor) -> dict[str, Tensor]:
            return {"logits": self.layers(features)}

    class PUTrainer(transformers.Trainer):  # type: ignore[name-defined, misc]
        risk = PURisk("nnpu", prior=0.25)

        def compute_loss(self, model: nn.Module, inputs: Any, return_outputs: bool = False, **_: Any) -> Any:
            outputs = model(inputs["features"])
            loss = self.risk(outputs["logits"], inputs["labels"])
            return (loss, outputs) if return_outputs else loss

    model = Classifier()
    before = copy.deepcopy(model)
    arguments = transformers.TrainingArguments(
        str(tmp_path), num_train_epochs=10, per_device_train_batch_size=100, learning_rate=1e-2, report_to="none",
        per_device_eval_batch_size=600, label_names=["labels"], remove_unused_columns=False, save_strategy="no",
        disable_tqdm=True, use_cpu=True, seed=0,
    )  # fmt: skip
    trainer = PUTrainer(model=model, args=arguments, train_dataset=Rows(), eval_dataset=Rows())
    trainer.train()
    assert accuracy(before.layers) < 0.85 and accuracy(model.layers) > 0.93
    assert trainer.evaluate()["eval_loss"] < float(PURisk("nnpu", prior=0.25)(before.layers(X), S).detach())
