"""Judging without negatives: scores of a classifier, the choice of one, and a diagnosis, from P and U alone."""

from pucl.selection.diagnostics import Diagnostics, diagnose
from pucl.selection.lift import Lift, lift
from pucl.selection.scores import (
    PUScores,
    RankingScores,
    ThresholdCurve,
    pu_scores,
    ranking_scores,
    threshold_curve,
)
from pucl.selection.select import CRITERIA, Selection, hold_out, select
from pucl.selection.verdict import Verdict, verdict

__all__ = [
    "CRITERIA",
    "Diagnostics",
    "Lift",
    "PUScores",
    "RankingScores",
    "Selection",
    "ThresholdCurve",
    "Verdict",
    "diagnose",
    "hold_out",
    "lift",
    "pu_scores",
    "ranking_scores",
    "select",
    "threshold_curve",
    "verdict",
]
