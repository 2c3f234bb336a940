"""What a baseline is given: rows, PU labels, perhaps a prior; never the truth."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Generator, Tensor, nn

from pucl.baselines.shared.network import Network, make_network
from pucl.encoders.inputs import Standardise
from pucl.errors import Described, bad_argument
from pucl.risks import Setting
from pucl.seeds import seed_of

PIECE = 4096  # rows scored together


@dataclass(frozen=True)
class PUProblem:
    """The rows and what is known of them, all on the device.

    Attributes:
        owner: the method, for messages.
        x: raw rows.
        labelled: which of them are labelled positives, (n,) bool.
        prior: π, the share of positives inside the unlabelled rows, or None.
        encoder: a registered encoder, or a module, of which every network gets a copy.
        standardise: the scaling of the inputs, on the same device.
        seed: of everything that is drawn.
        setting: how P and U were drawn.
    """

    owner: str
    x: Tensor
    labelled: Tensor
    prior: float | None
    encoder: str | nn.Module
    standardise: Standardise
    seed: int
    setting: Setting = "case-control"

    @property
    def device(self) -> torch.device:
        """Where everything lies."""
        return self.x.device

    @property
    def share(self) -> float:
        """π, for methods that need it."""
        if self.prior is None:
            raise bad_argument(self.owner, "prior", "given: the method needs it", None)
        return self.prior

    @cached_property
    def labelled_share(self) -> float:
        """c, the share of P in the sample of the population, which is P ∪ U in the single-set setting, else U alone.

        mean_X = c mean_P + (1 − c) mean_U,    π_X = c + (1 − c) π,    c = n_P / (n_P + n_U), or 0
        """
        return float(self.labelled.float().mean()) if self.setting == "single-set" else 0.0

    @property
    def drawn(self) -> dict[str, Any]:
        """How P and U were drawn, as options of a risk: with P in the term of the population where it belongs there."""
        single = self.setting == "single-set"
        return {"setting": self.setting, "labelled_share": self.labelled_share} if single else {}

    @cached_property
    def positives(self) -> Tensor:
        """The labelled rows, as indices."""
        return self.labelled.nonzero().flatten()

    @cached_property
    def unlabelled(self) -> Tensor:
        """The unlabelled rows, as indices."""
        return (~self.labelled).nonzero().flatten()

    @cached_property
    def generator(self) -> Generator:
        """For draws on the device inside a step; it is seeded anew before every step."""
        return Generator(self.device)

    def drawing(self, purpose: str, number: int = 0) -> Generator:
        """A generator on the CPU, seeded for a purpose: the same numbers on every device."""
        return Generator().manual_seed(seed_of(self.seed, purpose, number))

    def network(self, number: int = 0, *, outputs: int = 1) -> Network:
        """The `number`-th network of the method, with weights of its own, ready to be trained."""
        seed = seed_of(self.seed, "network", number) >> 31
        shape = tuple(self.x.shape[1:])
        made = make_network(self.encoder, self.standardise, shape, seed=seed, outputs=outputs).to(self.device)
        made.low = self.x.is_cuda
        if self.x.ndim == 4:
            made.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        return made

    def part(self, rows: Tensor) -> "PUProblem":
        """The same with some of the rows only."""
        return replace(self, x=self.x[rows], labelled=self.labelled[rows])

    def hold_out(
        self, share: float, purpose: str = "held out", *, of_each: bool = True
    ) -> tuple["PUProblem", "PUProblem"]:
        """Two problems: what is left, and a share of P and of U each (at least one row) for PU-only validation.

        With `of_each` a single row of P or of U is an error; otherwise it is left, and none of its kind held out.
        """
        if of_each:
            self.check_two(self.positives, self.unlabelled)
        held = torch.zeros(len(self.x), dtype=torch.bool)
        for number, rows in enumerate((self.positives.cpu(), self.unlabelled.cpu())):
            count = min(max(1, round(share * len(rows))), len(rows) - 1)
            held[rows[torch.randperm(len(rows), generator=self.drawing(purpose, number))[:count]]] = True
        return self.part((~held).nonzero().flatten().to(self.device)), self.part(
            held.nonzero().flatten().to(self.device)
        )

    def check_two(self, *kinds: Tensor) -> None:
        """Refuse a kind of rows of which none could be held out."""
        if min(map(len, kinds)) < 2:
            got = Described(f"{len(self.positives)} labelled and {len(self.unlabelled)} unlabelled")
            raise bad_argument(self.owner, "s", "0 or 1, with at least two rows of each kind, to hold one out", got)

    def scores(self, network: nn.Module, rows: Tensor | None = None) -> Tensor:
        """Logits (n,) of the rows (all when not given) by the network in evaluation mode."""
        return torch.cat(list(self.each(network, network, rows)))

    @torch.no_grad()
    def each(self, network: nn.Module, function: Callable[[Tensor], Tensor], rows: Tensor | None) -> Iterator[Tensor]:
        """The function of the rows, piece by piece, with the network in evaluation mode."""
        was_training = network.training
        network.eval()
        order = torch.arange(len(self.x), device=self.device) if rows is None else rows
        for part in torch.split(order, PIECE):
            yield function(self.x.index_select(0, part))
        network.train(was_training)
