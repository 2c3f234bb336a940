"""A small network on the embeddings: one hidden layer, cross-entropy on the pseudo-labels."""

from typing import Self

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from pucl.errors import bad_argument, check_count, check_positive
from pucl.heads.stored import HeadParts, StoredHead
from pucl.pseudo_labels import PseudoLabels
from pucl.registry import register
from pucl.seeds import seed_of, seeded
from pucl.training.batches import epoch_order, steps_per_epoch
from pucl.training.config import TrainConfig
from pucl.training.schedule import learning_rate as scheduled

OWNER = "head 'mlp'"


class MLPHead(StoredHead):
    """One hidden layer with batch norm and ReLU, then a linear score."""

    kind = "mlp"

    def __init__(self, dim: int, hidden: int, *, seed: int) -> None:
        super().__init__()
        self.scale = dim**0.5  # unit mean square per feature of an L2-normalised embedding
        with seeded(seed):
            self.inner = nn.Sequential(nn.Linear(dim, hidden, bias=False), nn.BatchNorm1d(hidden), nn.ReLU())
            self.outer = nn.Linear(hidden, 1)

    def forward(self, z: Tensor, keep: Tensor | None = None) -> Tensor:
        """Logits (n,) of embeddings (n, k); `keep` multiplies the hidden units (n, hidden), for dropout."""
        hidden: Tensor = self.inner(z.to(self.outer.weight.dtype) * self.scale)
        logits: Tensor = self.outer(hidden if keep is None else hidden * keep)
        return logits.squeeze(1)

    @classmethod
    def from_parts(cls, parts: HeadParts) -> Self:
        """The stored head; its widths are those of the weights."""
        hidden, dim = parts.tensors["inner.0.weight"].shape
        head = cls(dim, hidden, seed=0).requires_grad_(False)
        head.load_state_dict(parts.tensors)
        return head


@register("heads", reference="sec:puPL; ours")
def mlp(
    z: Tensor,
    labelled: Tensor,
    pseudo: PseudoLabels,
    *,
    hidden: int = 256,
    dropout: float = 0.5,
    epochs: int = 20,
    batch_size: int = 512,
    learning_rate: float = 3e-3,
    weight_decay: float = 1e-2,
    weighted: bool = True,
    seed: int = 0,
) -> MLPHead:
    """One hidden layer trained on the pseudo-labels, for classes that are not linearly separable.

        min_θ  Σ_i r_i · CE(σ(f_θ(z_i)), ỹ_i),    f_θ(z) = v · ReLU(BN(W z)) + b

    where ỹ is the pseudo-label and r its reliability. AdamW, the learning rate falling along half a cosine; units are
    dropped by a generator of the head's own.

    Args:
        z: embeddings (n, k).
        labelled: s, (n,) bool.
        pseudo: pseudo-labels.
        hidden: width of the hidden layer.
        dropout: share of the hidden units dropped at every step, within [0, 1).
        epochs: passes over the rows.
        batch_size: rows per step; all of them when there are fewer.
        learning_rate: at the start.
        weight_decay: of AdamW.
        weighted: weight rows by their reliability; otherwise all rows count alike.
        seed: of the weights, the batches and the dropped units.
    """
    check_count(OWNER, "hidden", hidden)
    check_count(OWNER, "seed", seed, low=0)
    check_positive(OWNER, "learning_rate", learning_rate)
    if not 0 <= dropout < 1:
        raise bad_argument(OWNER, "dropout", "a number in [0, 1)", dropout)
    check_count(OWNER, "batch_size", batch_size, low=2)
    plan = TrainConfig(epochs=epochs, batch_size=min(batch_size, len(z)), seed=seed)
    head = MLPHead(z.shape[1], hidden, seed=seed).to(z)
    optimiser = torch.optim.AdamW(head.parameters(), lr=learning_rate, weight_decay=weight_decay)
    generator = Generator(device=z.device).manual_seed(seed_of(seed, "dropout", 0))
    goal, weight = pseudo.labels.to(z), pseudo.reliability.to(z) if weighted else torch.ones_like(z[:, 0])
    weight = weight / weight.mean().clamp(min=1e-12)
    per_epoch = steps_per_epoch(len(z), plan)
    for step in range(epochs * per_epoch):
        epoch, at = divmod(step, per_epoch)
        if at == 0:
            order = epoch_order(labelled, plan, epoch).to(z.device)
        rows = order[at]
        keep = torch.rand(len(rows), hidden, generator=generator, device=z.device, dtype=z.dtype) >= dropout
        loss = F.binary_cross_entropy_with_logits(head(z[rows], keep / (1 - dropout)), goal[rows], weight[rows])
        for group in optimiser.param_groups:
            group["lr"] = scheduled(step, total=epochs * per_epoch, warmup=0, peak=learning_rate, final=0.0)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return head.eval().requires_grad_(False)
