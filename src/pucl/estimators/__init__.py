"""The scikit-learn face: estimators that hold parameters and call functions; no mathematics."""

from pucl.estimators.baseline import PUBaseline
from pucl.estimators.classifier import PUClassifier
from pucl.estimators.encoder import PUEncoder
from pucl.estimators.labeller import PseudoLabeller
from pucl.estimators.prior_estimator import PriorEstimator
from pucl.estimators.scorers import pu_scorer

__all__ = ["PUBaseline", "PUClassifier", "PUEncoder", "PriorEstimator", "PseudoLabeller", "pu_scorer"]
