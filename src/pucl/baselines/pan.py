"""PAN (Hu et al. 2021): a classifier of U plays against a discriminator of P and U."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pucl.baselines.shared.learning import Learner, PUBatch, train
from pucl.baselines.shared.network import Network
from pucl.baselines.shared.regularisers import dropout
from pucl.baselines.shared.training_problem import PUProblem
from pucl.baselines.shared.training_settings import StreamSettings, with_networks
from pucl.errors import check_share
from pucl.registry import register

SLOPE = 0.2  # of the leaky ReLU before the last layer
NEAREST = 1e-6  # how near to 1 the mean score of U' may come, whose distance to 1 goes into a logarithm


@dataclass(frozen=True, kw_only=True)
class PanSettings(StreamSettings):
    """Those of PAN, for both networks.

    Attributes:
        weight: λ, of the game between the networks.
        slack: ε, added inside the logarithms.
        dropout: the share of the features set to 0 in training.
    """

    epochs: int = 16
    batch_size: int = 256
    labelled_batch: int | None = 32
    learning_rate: float = 1e-4
    betas: tuple[float, float] = (0.5, 0.999)
    weight_decay: float = 1e-3
    weight: float = 1e-4
    slack: float = 0.01
    dropout: float = 0.3

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dropout != 0:
            check_share(type(self).__name__, "dropout", self.dropout)


DEFAULT = PanSettings()
_CIFAR = PanSettings(epochs=200, batch_size=1961, labelled_batch=39)
_MNIST = replace(_CIFAR, batch_size=2951, labelled_batch=49)
_SMALL = replace(_CIFAR, batch_size=300)
PRESETS = with_networks(_CIFAR, mnist=_MNIST, fmnist=_MNIST, stl=_SMALL, alzheimer=_SMALL)


class Leaky(nn.Module):
    """A network with a leaky ReLU before its last layer."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network
        self.slope = SLOPE if network.relu else 1.0  # raw rows and user networks have no ReLU there
        network.relu = False

    def forward(self, x: Tensor, noise: Callable[[Tensor], Tensor] = lambda z: z) -> Tensor:
        """Logits (n,) of raw rows, with noise on the features."""
        return self.network.score(noise(F.leaky_relu(self.network.features(x), self.slope)))


def game(positive: Tensor, unlabelled: Tensor, classified: Tensor, *, weight: float, slack: float) -> Tensor:
    """The value of the game, which D makes large and C small.

        V = Σ_P log(D + ε) + Σ_U' max(log(1 − D + ε) − log(1 − mean_U' D), 0)
            + λ Σ_U (log(1 − C + ε) − log(C + ε)) (2 D − 1)

    where U' are the first rows of U, as many as P has; no gradient goes through the mean.

    Args:
        positive: D of the labelled rows, within (0, 1).
        unlabelled: D of the unlabelled rows.
        classified: C of the unlabelled rows.
        weight: λ.
        slack: ε.
    """
    some = unlabelled[: len(positive)]
    usual = torch.log(1 - some.detach().mean().clamp(max=1 - NEAREST))
    below = (torch.log(1 - some + slack) - usual).clamp(min=0)
    towards = (torch.log(1 - classified + slack) - torch.log(classified + slack)) * (2 * unlabelled - 1)
    return torch.log(positive + slack).sum() + below.sum() + weight * towards.sum()


@register("baselines", reference="Hu et al. 2021, predictive adversarial networks")
def pan(problem: PUProblem, settings: PanSettings = DEFAULT) -> nn.Module:
    """A discriminator that tells P from U, and against it a classifier that must agree with it on U.

        max_D min_C  Σ_P log(D + ε) + Σ_U' max(log(1 − D + ε) − log(1 − mean_U' D), 0)
                     + λ Σ_U (log(1 − C + ε) − log(C + ε)) (2 D − 1)

    where D and C are sigmoids of networks and U' the first rows of the batch of U, as many as there are labelled ones.
    Both networks take a step on the same value V, from what they said before either step; C is the scorer. No prior is
    needed.

    Fidelity: author code (morning-dews/PAN).

    Differs:
        - Their CIFAR network has batch norm and dropout after its convolutions and one linear layer less; here it is
          that of the table with a leaky ReLU and dropout before the last layer only. Their MNIST network is a
          perceptron of 512 and 256 units with dropout in both.
        - They read the batch size from settings files, not from the argument of 64. The file for CIFAR is missing; ours
          is the 2,000 of a fork (unofficialinh/PAN). A batch has P and U in the proportion of all rows; the presets are
          for 1,000 labelled rows.
        - Here log(1 − mean D) is kept finite.
        - They report the best error and the best F1 over all epochs on the test rows; here the last epoch counts.

    Presets: Adam 1e-4 (0.5, 0.999), weight decay 1e-3, 200 epochs of batches of 2,000 (CIFAR, 39 of them labelled) or
    3,000 (MNIST and F-MNIST, 49), dropout 0.3, λ = 1e-4, ε = 0.01; SVHN as CIFAR; STL and Alzheimer 39 and 300, the
    author's batch for small sets.
    """
    networks = [Leaky(problem.network(number)) for number in range(2)]
    players = [Learner(network, settings) for network in networks]
    n_p = settings.labelled_batch or 1

    def noise(z: Tensor) -> Tensor:
        return dropout(z, settings.dropout, problem.generator) if settings.dropout else z

    def value(d: Tensor, c: Tensor) -> Tensor:
        return game(d[:n_p], d[n_p:], c, weight=settings.weight, slack=settings.slack)

    def update(batch: PUBatch) -> Tensor:
        d = torch.sigmoid(networks[0](batch.x, noise))
        c = torch.sigmoid(networks[1](batch.unlabelled, noise))
        players[0].descend(-value(d, c.detach()))
        players[1].descend(value(d.detach(), c))
        return value(d.detach(), c.detach())

    train(problem, settings, update, *players)
    return networks[1]
