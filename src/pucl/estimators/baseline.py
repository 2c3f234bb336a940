"""PUBaseline: any published method as an estimator."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted
from torch import nn

from pucl.baselines import Settings, fit_baseline, settings_of
from pucl.data import Kind
from pucl.encoders.embedding import embed
from pucl.encoders.plain import raw_encoder
from pucl.errors import Described, bad_argument, signed_by
from pucl.estimators.decisions import Decisions, check_width
from pucl.estimators.observed import as_input, observe, refuse_weights, seed_of
from pucl.ranking.prior import estimate_prior
from pucl.risks import Setting
from pucl.selection import PUScores, pu_scores

OWNER = "PUBaseline"


class PUBaseline(Decisions, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A published method of learning from labelled positives and unlabelled rows, used like `PUClassifier`.

    Args:
        method: a registered baseline, see ``pucl list baselines``.
        prior: π, the share of positives among the unlabelled rows: a number, the name of an estimator (``"auto"``,
            ``"bbe"`` …, used on the standardised rows), or None for methods that need none.
        setting: ``"case-control"`` (P and U drawn apart) or ``"single-set"`` (P labelled out of one set, so that the
            population is P ∪ U), see `pucl.fit_baseline`.
        encoder: a registered encoder or your own network; chosen by the shape of the rows when not given.
        task: the name of a benchmark task, to train with the author's settings for it.
        settings: fields of the method's settings to change, such as ``{"epochs": 100}``.
        kind: ``"image"``, ``"table"`` or ``"vector"``; chosen by X when not given.
        categorical: columns whose numbers are categories.
        device: where to train; a GPU if there is one.
        random_state: an int, a RandomState or None; the same int gives the same model.

    Attributes:
        classes_: the two values `predict` gives; the second means positive.
        prior_: π, given or estimated; None for methods that used none.
        settings_: everything it was trained with.
        scorer_: the network itself, rows → logits.
    """

    classes_: NDArray[np.int64]
    prior_: float | None
    settings_: dict[str, Any]
    scorer_: nn.Module

    def __init__(
        self,
        method: str = "nnpu",
        *,
        prior: float | str | None = None,
        setting: Setting = "case-control",
        encoder: str | nn.Module | None = None,
        task: str | None = None,
        settings: Mapping[str, Any] | None = None,
        kind: Kind | None = None,
        categorical: Any = (),
        device: Any = None,
        random_state: Any = None,
    ) -> None:
        self.method = method
        self.prior = prior
        self.setting = setting
        self.encoder = encoder
        self.task = task
        self.settings = settings
        self.kind = kind
        self.categorical = categorical
        self.device = device
        self.random_state = random_state

    @signed_by(OWNER)
    def fit(self, X: Any, s: Any = None, **keywords: Any) -> Self:  # noqa: N803
        """Learn from rows X and PU labels s: 1 for labelled positives, 0 for unlabelled rows.

        The published methods know no confirmed negatives: these are refused.
        """
        negatives = keywords.pop("negatives", None)
        refuse_weights(OWNER, keywords)
        seed = seed_of(OWNER, self.random_state)
        settings: Settings = settings_of(self.method, self.task, **dict(self.settings or {}))
        seen = observe(OWNER, X, s, kind=self.kind, categorical=self.categorical, negatives=negatives)
        if seen.negative is not None:
            allowed = (
                f"left out: {self.method} learns from positives and unlabelled rows alone (PUClassifier takes them)"
            )
            raise bad_argument(OWNER, "negatives", allowed, Described(f"{int(seen.negative.sum())} of them"))
        prior = self.prior
        if isinstance(prior, str):
            prior = estimate_prior(
                embed(raw_encoder(seen.features), seen.features), seen.s, method=prior, seed=seed
            ).value
        scorer = fit_baseline(
            self.method, seen.features, seen.s, prior=prior, setting=self.setting, encoder=self.encoder,
            settings=settings, seed=seed, device=self.device,
        )  # fmt: skip
        self.scorer_, self.schema_, self.classes_ = scorer.cpu(), seen.schema, seen.classes
        self.prior_, self.settings_ = prior, asdict(settings)
        columns = seen.schema.given
        if len(seen.schema.shape) == 1:
            self.n_features_in_ = len(columns) or seen.schema.shape[0]
        if hasattr(X, "columns"):
            self.feature_names_in_ = np.array([str(name) for name in columns], dtype=object)
        return self

    def decision_function(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Scores (n,), positive above 0. For most methods they are not log-odds: probabilities are not calibrated."""
        check_is_fitted(self, "scorer_")
        x = as_input(OWNER, X)
        check_width(OWNER, x, getattr(self, "n_features_in_", None))
        rows = self.schema_.features(self.schema_.rows(x, owner=OWNER))
        with torch.no_grad():
            parts = [self.scorer_(part) for part in torch.split(rows, 4096)]
        return torch.cat(parts).double().numpy()

    @signed_by(OWNER)
    def score_report(self, X: Any, s: Any, *, prior: float | None = None) -> PUScores:  # noqa: N803
        """Estimate the quality on rows that did not train the model; π is `prior`, or the one it was trained with."""
        scores, share = self.decision_function(X), self.prior_ if prior is None else prior
        if share is None:
            raise bad_argument(OWNER, "prior", "given to score_report, because the method was fitted without one", None)
        return pu_scores(scores, s, prior=share)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_class = False
        return tags
