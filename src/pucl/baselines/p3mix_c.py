"""P3Mix-C (Li et al. 2022): mixing with the right partner, and likely positives of U relabelled."""

from torch import nn

from pucl.baselines.shared.p3mix import P3MixSettings, fit, presets
from pucl.baselines.shared.training_problem import PUProblem
from pucl.registry import register

DEFAULT = P3MixSettings()
PRESETS = presets(DEFAULT)


@register("baselines", reference="Li et al. 2022 (P3Mix)")
def p3mix_c(problem: PUProblem, settings: P3MixSettings = DEFAULT) -> nn.Module:
    """U as negative; doubtful rows are mixed with hard positives, and likely positives relabelled.

        min_f  mean_P CE(p̃, t̃) + mean_U CE(p̃, t̃) + w_e mean H(p̃)
        p̃ = σ(f(λ h(x) + (1 − λ) h(x'))),    t̃ = λ t + (1 − λ) t',    λ ~ Beta(α, α), λ ← max(λ, 1 − λ)

    where h is what lies behind the first layers of f, H the entropy and t = 1 in P, and in U 1 where σ(f(x)) ≥ γ, else
    0. The partner x' is any row of the batch; for rows of U with 1 − γ < σ(f(x)) < γ it is one of the 100 labelled rows
    of the highest entropy, which are found anew before every epoch, and t' = 1. Before the epoch `start` all partners
    are random and all of U is 0.

    Fidelity: second-hand (the authors' supplement as ported by XiXiphus/PU-Bench, whose authors include one of theirs).

    Differs:
        - The teacher that the authors average but never use in this variant is left out.
        - The author logs test accuracies of all epochs; here the last epoch counts.
        - A batch may span two passes over P; the author drops the rows that are left over after full batches.

    Presets: that of CIFAR-I for all data: batches of 512 + 512, 200 epochs of 20 steps, Adam 5e-5 with betas (0.5,
    0.99), halved at 20, 40, …, 100, weight decay 1e-6, γ = 0.8, w_e = 0.1. Those of F-MNIST exist but are not public;
    with ten times the learning rate, as vPU's author has it for F-MNIST, it is worse by far. It mixes after the last
    convolution of the 7-layer CNN and of LeNet-5, after the fourth of the 13-layer CNN, and the inputs elsewhere;
    batches of 64 + 64 for Alzheimer.
    """
    return fit(problem, settings, relabel=True)
