"""PUEncoder: the contrastive encoder alone, as a transformer."""

from dataclasses import asdict
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import nn

from pucl.data import Kind
from pucl.device import pick_device
from pucl.encoders import embedding_dim
from pucl.encoders.embedding import embed
from pucl.encoders.frozen.resolve import is_frozen
from pucl.encoders.plain import PCA, plain_encoder
from pucl.errors import Described, bad_argument, signed_by
from pucl.estimators.observed import as_input, observe, refuse_weights, seed_of
from pucl.fitting.plan import FitOptions, name_of, plan_pretraining
from pucl.training.pretraining import pretrain

OWNER = "PUEncoder"


class PUEncoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Embeddings learnt from labelled positives and unlabelled rows by a contrastive objective.

    The parameters are those of `PUClassifier`; `prior` is a number, for objectives that need one. With fewer than 500
    rows or 20 labelled ones, and ``encoder="auto"``, the embedding is the standardised rows.
    """

    def __init__(
        self,
        *,
        objective: str = "auto",
        prior: float | None = None,
        encoder: str | nn.Module = "auto",
        view: Any = "auto",
        kind: Kind | None = None,
        categorical: Any = (),
        temperature: float = 0.5,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        device: Any = None,
        random_state: Any = None,
    ) -> None:
        self.objective = objective
        self.prior = prior
        self.encoder = encoder
        self.view = view
        self.kind = kind
        self.categorical = categorical
        self.temperature = temperature
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.device = device
        self.random_state = random_state

    @signed_by(OWNER)
    def fit(self, X: Any, s: Any = None, **keywords: Any) -> Self:  # noqa: N803
        """Train the encoder on rows X with PU labels s; confirmed negatives of `pucl.read` count as unlabelled."""
        refuse_weights(OWNER, keywords)
        names = (
            "prior", "objective", "encoder", "view", "temperature", "epochs", "batch_size", "learning_rate"
        )  # fmt: skip
        seed = seed_of(OWNER, self.random_state)
        options = FitOptions(**{name: getattr(self, name) for name in names}, seed=seed, owner=OWNER)
        if is_frozen(options.encoder, None):
            allowed = "a network to train; PUClassifier(encoder=…).fit(X, s).transform(X) gives the vectors of others"
            raise bad_argument(OWNER, "encoder", allowed, Described(name_of(options.encoder)))
        seen = observe(OWNER, X, s, kind=self.kind, categorical=self.categorical)
        place = pick_device(self.device)
        plan = plan_pretraining(options, seen.schema, len(seen.rows), int(seen.s.sum()), place)
        if plan is None:
            name, self.encoder_ = plain_encoder(seen.features, use_pca=options.encoder == PCA, seed=seed)
            self.history_, self.choices_ = [], {"encoder": name}
        else:
            trained = pretrain(
                seen.features, seen.s, objective=plan.objective, encoder=plan.encoder, view=plan.view,
                temperature=self.temperature, prior=self.prior, config=plan.config, device=place,
            )  # fmt: skip
            self.encoder_ = trained.encoder.cpu().eval()
            self.history_ = trained.history
            self.choices_ = {"encoder": name_of(plan.encoder), **asdict(plan.choices)}
        self.schema_ = seen.schema
        if len(seen.schema.shape) == 1:
            self.n_features_in_ = len(seen.schema.columns) or seen.schema.shape[0]
        return self

    @signed_by(OWNER)
    def transform(self, X: Any) -> NDArray[np.float32]:  # noqa: N803
        """Embeddings (n, k) of length 1."""
        check_is_fitted(self, "encoder_")
        rows = self.schema_.rows(as_input(OWNER, X), owner=OWNER)
        return embed(self.encoder_, self.schema_.features(rows)).numpy()

    @property
    def _n_features_out(self) -> int:
        return embedding_dim(self.encoder_, self.schema_.shape)
