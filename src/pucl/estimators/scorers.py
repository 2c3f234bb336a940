"""Scorers for cross-validation and searches: how good an estimator is, judged by P and U alone."""

from collections.abc import Callable
from typing import Any

from pucl.errors import Described, bad_argument, check_share, unknown_name
from pucl.selection import CRITERIA, pu_scores

OWNER = "pucl.pu_scorer"
WITHOUT_PRIOR = ("auc", "pu_auc")


def pu_scorer(criterion: str = "auc", *, prior: float | None = None) -> Callable[[Any, Any, Any], float]:
    """A scorer ``(estimator, X, s) → number``, higher is better, for ``scoring=`` of scikit-learn.

    Args:
        criterion: one of `pucl.selection.CRITERIA`; risks are negated. ``"auc"`` and ``"pu_auc"`` give the same for
            every π; the others compare candidates fairly only under one π.
        prior: π; when not given, the estimator's own `prior_`.
    """
    if criterion not in CRITERIA:
        raise unknown_name("criterion", criterion, CRITERIA)
    if prior is not None:
        check_share(OWNER, "prior", prior)
    sign = 1.0 if CRITERIA[criterion] else -1.0

    def score(estimator: Any, X: Any, s: Any) -> float:  # noqa: N803
        share = _prior(estimator, criterion) if prior is None else prior
        scores = pu_scores(estimator.decision_function(X), s, prior=share)
        # AUC before it is clipped, so that candidates at the border still differ.
        value = scores.pu_auc if criterion in WITHOUT_PRIOR else getattr(scores, criterion)
        return sign * float(value.value)

    return score


def _prior(estimator: Any, criterion: str) -> float:
    """The π of the estimator or of the last step of a pipeline, its low end where that is known; 1/2 for the AUC.

    The order by AUC does not depend on it.
    """
    last = estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator
    if criterion in WITHOUT_PRIOR:
        return 0.5
    if not hasattr(last, "prior_"):
        raise bad_argument(
            OWNER, "prior", "given for an estimator that does not estimate it", Described(type(last).__name__)
        )
    if getattr(last, "prior_is_bound_", False):
        got = Described(f"only the bound {last.prior_:.3f}, from the data")
        raise bad_argument(OWNER, "prior", "given for a score that depends on it", got)
    record = getattr(getattr(last, "model_", None), "record", None)
    return float(last.prior_) if record is None else float(record.prior.cautious)
