"""Nearest labelled centroid: closer to the mean of P than to the mean of U."""

from torch import nn

from pucl.baselines.shared.training_problem import PUProblem
from pucl.baselines.shared.training_settings import Settings
from pucl.encoders.inputs import Encoder
from pucl.heads.nearest_centroid import nearest_centroid
from pucl.pseudo_labels import PseudoLabels
from pucl.registry import register

DEFAULT = Settings()


@register("baselines", reference="the paper's remark on nearest centroids, with U standing in for the negatives")
def labelled_centroid(problem: PUProblem, settings: Settings = DEFAULT) -> nn.Module:
    """Positive where the mean of the labelled rows is nearer than the mean of the unlabelled rows.

    Raw rows are compared; nothing is trained, so that no setting matters.

    Fidelity: paper only.
    """
    del settings
    encoder = Encoder(problem.standardise, nn.Flatten()).to(problem.device)
    pseudo = PseudoLabels.from_probability(problem.labelled.float(), problem.labelled)
    return nn.Sequential(encoder, nearest_centroid(encoder(problem.x), problem.labelled, pseudo))
