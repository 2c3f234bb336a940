"""Judging without negatives: scores of a classifier, the choice of one, and a diagnosis, from P and U alone."""

from pucl.selection.diagnostics import Diagnostics, diagnose
from pucl.selection.scores import PUScores, ThresholdCurve, pu_scores, threshold_curve
from pucl.selection.select import CRITERIA, Selection, hold_out, select

__all__ = [
    "CRITERIA",
    "Diagnostics",
    "PUScores",
    "Selection",
    "ThresholdCurve",
    "diagnose",
    "hold_out",
    "pu_scores",
    "select",
    "threshold_curve",
]
