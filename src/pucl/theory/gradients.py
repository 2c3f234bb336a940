"""sec:proof.gradient: gradients of ssCL and puCL in closed form, and how they differ from that of sCL."""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from pucl.losses.pairs import Pairs
from pucl.registry import get, register
from pucl.theory.atoms import TEMPERATURE, Atoms, Batches, binomial_law, draw_batches, make_atoms
from pucl.theory.comparison import Comparison, exact, mean_of

PRIOR, N_LABELLED, N_UNLABELLED, DRAWS = 0.5, 6, 10, 3000
COPIED = 0.5


def sscl_weights(labelled: Tensor) -> Tensor:
    """How much anchor i is drawn to row j in ssCL: w_ij = 1[j = a(i)], (2n, 2n)."""
    return torch.eye(len(labelled), dtype=torch.float64).roll(len(labelled) // 2, 0)


def pucl_weights(labelled: Tensor) -> Tensor:
    r"""In puCL: w_ij = 1[j ∈ P \ i] / |P \ i| for i ∈ P, and 1[j = a(i)] for i ∈ U, (2n, 2n)."""
    return _pucl_weights(labelled, float(labelled.sum()) - 1)


def pucl_weights_of_main_text(labelled: Tensor) -> Tensor:
    """As the main text prints it, with 1/|P|."""
    return _pucl_weights(labelled, float(labelled.sum()))


def anchor_gradient(z: Tensor, weights: Tensor) -> Tensor:
    """∂ℓ_i/∂z_i through the anchor alone, (2n, d), as the appendix derives it.

        ∂ℓ_i/∂z_i = −(1/τ) Σ_{j ≠ i} (w_ij − P_ij) z_j,    P_ij = exp(z_i · z_j / τ) / Z(z_i)

    where w_ij is how much i is drawn to j.
    """
    return -(weights - _softmax(z)) @ z / TEMPERATURE


def whole_gradient(z: Tensor, weights: Tensor) -> Tensor:
    """∂L/∂z_i of the mean over anchors, (2n, d): every row also stands in the terms of the other anchors.

    ∂L/∂z_i = −(1/(τ |I|)) Σ_{j ≠ i} (w_ij − P_ij + w_ji − P_ji) z_j
    """
    pull = weights - _softmax(z)
    return -(pull + pull.T) @ z / (TEMPERATURE * len(z))


@register("statements", reference="sec:proof.gradient", inputs=("vector",))
def gradients(*, seed: int = 0) -> tuple[Comparison, ...]:
    r"""Closed forms of both gradients; puCL's are nearer to sCL's, though neither is biased.

        ∂ℓ_i/∂z_i = −(1/τ) [Σ_{q ∈ P \ i} z_q (1/|P \ i| − P_iq) − Σ_{j ∈ U \ i} z_j P_ij]

    where P_ij is the softmax of similarities. The forms hold for what comes through the anchor; the display of ∇L also
    needs what comes through the other anchors (`whole_gradient`), and 1/|P| in the main text should be 1/|P \ i|. That
    puCL has less bias towards sCL's gradient does not follow from the forms: where views are independent draws of a
    class both have none, and puCL's is nearer only on average. Where views resemble each other, puCL has less.
    """
    generator = Generator().manual_seed(seed)
    atoms = make_atoms(generator)
    return (*_closed(_Probe.draw(atoms, generator)), *_towards_scl(atoms, generator))


def _pucl_weights(labelled: Tensor, others: float) -> Tensor:
    members = labelled.double().expand(len(labelled), -1).clone().fill_diagonal_(0) / others
    return torch.where(labelled[:, None], members, sscl_weights(labelled))


def _softmax(z: Tensor) -> Tensor:
    """P_ij, 0 on the diagonal."""
    return (z @ z.T / TEMPERATURE).fill_diagonal_(-torch.inf).softmax(dim=1)


@dataclass(frozen=True)
class _Probe:
    """A batch of both views (2n, d), its labels, and a direction along which derivatives are compared."""

    z: Tensor
    labelled: Tensor
    direction: Tensor

    @classmethod
    def draw(cls, atoms: Atoms, generator: Generator) -> "_Probe":
        batch = _batches(atoms, 1, generator)
        z = torch.cat([batch.first[0], batch.second[0]])
        direction = torch.randn(z.shape, generator=generator, dtype=torch.float64)
        return cls(z, batch.labelled[0].repeat(2), direction)

    def along(self, gradient: Tensor) -> float:
        """The derivative of what has this gradient (2n, d)."""
        return float((gradient * self.direction).sum())

    def jacobian(self, objective: str) -> Tensor:
        """∂ℓ_i/∂z_k of the registered objective by autograd, (2n, 2n, d)."""

        def terms(z: Tensor) -> Tensor:
            pairs = Pairs(z, z.roll(len(z) // 2, 0), self.labelled, z.dtype, "plain", gather_distributed=False)
            found: Tensor = get("losses", objective).function(pairs, temperature=TEMPERATURE)
            return found

        found: Tensor = torch.autograd.functional.jacobian(terms, self.z)  # type: ignore[no-untyped-call]
        return found


def _closed(probe: _Probe) -> tuple[Comparison, ...]:
    """Derivatives along a random direction: by the forms, and by autograd of the objectives themselves."""
    rows = []
    for name, objective, weights in (("ssCL", "sscl", sscl_weights), ("puCL", "pucl", pucl_weights)):
        by_autograd, w = probe.jacobian(objective), weights(probe.labelled)
        through_anchor = by_autograd.diagonal(dim1=0, dim2=1).T
        own = anchor_gradient(probe.z, w)
        rows.append(Comparison(f"∂ℓ_i/∂z_i of {name}", probe.along(own), exact(probe.along(through_anchor))))
        rows.append(
            Comparison(
                f"∂L/∂z_i of {name}", probe.along(own / len(own)), exact(probe.along(by_autograd.mean(dim=0))),
                corrected=probe.along(whole_gradient(probe.z, w)),
                note="The display leaves out that z_i also stands in the terms of the other anchors.",
            )
        )  # fmt: skip
    printed = anchor_gradient(probe.z, pucl_weights_of_main_text(probe.labelled))
    rows.append(
        Comparison(
            "∂ℓ_i/∂z_i of puCL with the 1/|P| of the main text", probe.along(printed),
            exact(probe.along(through_anchor)), corrected=probe.along(own),
            note=r"The appendix has it right: 1/|P \ i|.",
        )
    )  # fmt: skip
    return tuple(rows)


def distance_to_scl(n_others: int, spread: float) -> float:
    """E ‖∂ℓ_i − ∂ℓ_i^sCL‖² at a labelled anchor that is drawn to the mean of k others of its class.

        (v / τ²) (1/k − E 1/(2m − 1))

    where v is the variance of a positive and m the number of positives in the batch.
    """
    return spread / TEMPERATURE**2 * (1 / n_others - _mean_inverse())


def pull_of_copies(n_others: int, spread: float) -> float:
    """How much harder than in sCL a labelled anchor is pulled to itself, if views are copies with probability q.

        (q v / τ) (1/k − E 1/(2m − 1))

    where the other view is one of k rows that the anchor is drawn to.
    """
    return COPIED * spread / TEMPERATURE * (1 / n_others - _mean_inverse())


def _mean_inverse() -> float:
    """E 1/(2m − 1), m − n_P ~ Binomial(n_U, π)."""
    counts = torch.arange(N_UNLABELLED + 1, dtype=torch.float64)
    return float((binomial_law(N_UNLABELLED, PRIOR) / (2 * (N_LABELLED + counts) - 1)).sum())


def _towards_scl(atoms: Atoms, generator: Generator) -> tuple[Comparison, ...]:
    """Labelled anchors: the mean and the mean square of the difference to sCL's gradient, and its pull with copies."""
    centre = atoms.positive.mean(dim=0)
    spread = 1 - float(centre @ centre)
    apart = _differences(_batches(atoms, DRAWS, generator))
    copies = _batches(atoms, DRAWS, generator, copied=COPIED)
    own_pull = (_differences(copies) * copies.first[:, None]).sum(dim=3)[..., :N_LABELLED].mean(dim=2)
    rows = []
    for at, (name, others) in enumerate((("ssCL", 1), ("puCL", 2 * N_LABELLED - 1))):
        difference = apart[:, at, :N_LABELLED]
        problem = f"{name}'s gradient less sCL's, labelled anchors"
        rows += [
            Comparison(f"{problem}: mean along the class mean", 0.0, mean_of((difference @ centre).mean(dim=1))),
            Comparison(
                f"{problem}: mean square", distance_to_scl(others, spread),
                mean_of(difference.square().sum(dim=2).mean(dim=1)),
            ),
            Comparison(
                f"{problem}: pull towards itself, half of all views copies", pull_of_copies(others, spread),
                mean_of(own_pull[:, at]),
            ),
        ]  # fmt: skip
    return tuple(rows)


def _differences(batches: Batches) -> Tensor:
    """What draws the anchors of the first view less what draws them in sCL, over τ, (b, 2, n, d): ssCL, puCL."""

    def one(first: Tensor, second: Tensor, labelled: Tensor, y: Tensor) -> Tensor:
        pairs = Pairs.of(first, second, labelled, "plain", gather_distributed=False)
        ideal = pairs.mean_of_others(y.repeat(2))
        drawn = torch.stack([pairs.partner, pairs.mean_of_others(pairs.labelled)])
        return (drawn - ideal)[:, : len(first)] / TEMPERATURE

    found: Tensor = torch.vmap(one)(batches.first, batches.second, batches.labelled, batches.y)
    return found


def _batches(atoms: Atoms, n: int, generator: Generator, *, copied: float = 0.0) -> Batches:
    return draw_batches(
        atoms, n, n_labelled=N_LABELLED, n_unlabelled=N_UNLABELLED, prior=PRIOR, generator=generator, copied=copied
    )
