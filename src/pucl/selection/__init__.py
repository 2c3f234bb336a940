"""Judging without negatives: scores of a classifier, the choice of one, and a diagnosis, from P and U alone."""

from pucl.selection.diagnostics import Diagnostics, diagnose
from pucl.selection.leaks import Leaks, find_leaks
from pucl.selection.lift import Lift, lift
from pucl.selection.limits import Geometry, Limits, limits
from pucl.selection.rivals import simple_rivals
from pucl.selection.scores import (
    PUScores,
    RankingScores,
    ThresholdCurve,
    pu_scores,
    ranking_scores,
    score_ranges,
    threshold_curve,
)
from pucl.selection.select import CRITERIA, Selection, hold_out, select
from pucl.selection.verdict import NOT_JUDGED, Verdict, verdict

__all__ = [
    "CRITERIA",
    "NOT_JUDGED",
    "Diagnostics",
    "Geometry",
    "Leaks",
    "Lift",
    "Limits",
    "PUScores",
    "RankingScores",
    "Selection",
    "ThresholdCurve",
    "Verdict",
    "diagnose",
    "find_leaks",
    "hold_out",
    "lift",
    "limits",
    "pu_scores",
    "ranking_scores",
    "score_ranges",
    "select",
    "simple_rivals",
    "threshold_curve",
    "verdict",
]
