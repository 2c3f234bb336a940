"""PUClassifier: views, encoder, objective, pseudo-labels and head in one estimator."""

from contextlib import ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from pucl.data import Kind
from pucl.encoders import embedding_dim
from pucl.errors import signed_by
from pucl.estimators.call import call_of
from pucl.estimators.decisions import Decisions, check_width
from pucl.estimators.observed import aligned, as_input, observe, refuse_weights, seed_of, vectors_for
from pucl.fitting.fit import fit
from pucl.fitting.gather import gather
from pucl.fitting.plan import FitOptions
from pucl.fitting.progress import LOGGER, ProgressLines, messages_shown
from pucl.fitting.resuming import Resumable, only_fit, remove_unfinished
from pucl.fitting.text_views import text_views
from pucl.models.describe import describe
from pucl.models.folder import load_model, save_model
from pucl.models.labelling import threshold_for
from pucl.models.model import Model
from pucl.models.record import metrics_to_dict
from pucl.models.scorer import Scorer
from pucl.pseudo_labels import PseudoLabels
from pucl.report import write_report
from pucl.selection import RankingScores, pu_scores, ranking_scores
from pucl.selection.scores import Estimate
from pucl.texts import HASHED
from pucl.training.reporting import Epoch

OWNER = "PUClassifier"


class PUClassifier(Decisions, ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier from labelled positives and unlabelled rows; nothing else needs to be known.

    ``fit(X, s)`` takes images (n, h, w, c), (n, c, h, w) or (n, h, w) as uint8 or float, tables (a frame, or a matrix
    whose missing values are NaN), a list of texts, and embeddings. Tables, texts and embeddings are ranked by trees,
    linear models and support vector machines whose ranks are averaged. On images a contrastive encoder is trained (500
    rows with 20 labels or more) and kept unless the raw pixels rank hidden positives better. On embeddings that the
    fast models do not separate one is trained from 5,000 rows on, and kept only if it ranks hidden positives better.
    Colour images of 32 pixels or more first go through ``"efficientnet_lite0"`` where its weights are installed; if
    that separates the classes nothing is trained, otherwise the better of both is kept. A head is then fitted to the
    pseudo-labels of all rows. `choices_` and `summary()` say what was picked and why.

    Args:
        prior: π, the share of positives among the unlabelled rows: a number, the name of an estimator, or None to
            let the labeller estimate it.
        objective: a registered loss; ``"auto"`` is puCL without a prior and puNCE with one.
        encoder: a registered encoder, your own network, ``"raw"`` for the standardised rows (reduced to 512 principal
            axes if they have more columns), or ``"auto"``. Or one that you already have, on images and vectors:
            ``"efficientnet_lite0"``, ``"timm:NAME"``, ``"torchvision:NAME"``, ``"hf:ORG/NAME"``, ``"onnx:FILE"``, a
            function from rows to vectors, or a fitted scikit-learn transformer. For texts, ``"st:NAME"``.
        view: a registered view, a function ``(x, generator) → x``, or ``"auto"``: chosen by the kind of rows.
        labeller: a registered pseudo-labeller, or ``"auto"``.
        head: ``"linear"``, ``"kernel"``, ``"mlp"``, ``"knn"``, ``"trees"`` or ``"auto"``: linear on a trained
            embedding; on raw rows the average of fast rankers, or another that ranks hidden positives better.
        kind: ``"image"``, ``"table"`` or ``"vector"``; chosen by X when not given: a matrix is a table unless it
            looks like embeddings (128 columns or more, or all rows of the same norm and no whole numbers).
        categorical: columns whose numbers are categories.
        text_columns: columns that hold text. Others are taken for text if their values have four words or more on
            average and more than half of them, or more than 100, differ; `reasons_` names them.
        text_encoder: ``"hashed"`` (n-grams, learnt from X), another registered text encoder, or one that you already
            have: ``"st:NAME"`` of sentence-transformers, ``"hf:ORG/NAME"`` of transformers, or such a folder.
        temperature: τ of the objective.
        epochs: of the encoder's training; these three are chosen by the data when not given. 0 takes an encoder that
            you have as it is, as ``tune="frozen"`` does.
        batch_size: of the encoder's training.
        learning_rate: of the encoder's training.
        fine_tune: at the end train encoder and head together, once on fixed pseudo-labels and once on labels that the
            network renews; keep whichever ranks hidden positives higher, or the frozen encoder if it is clearly better.
            ``"fixed"``, ``"renewed"`` or ``"moving"`` (`pucl.momentum_train`, twice as slow) tries that alone,
            ``"all"`` all three.
        time_limit: seconds that a fit may take, about; rankers and epochs for which there is no time are left out, and
            `reasons_` says so. The fastest ranker is fitted in any case.
        tune: how far an encoder that you already have is tuned: ``"frozen"``, ``"head"`` (a contrastive projection of
            its vectors), ``"all"`` (the network itself, with a small rate), or ``"auto"``: frozen or head, whichever
            ranks hidden positives better. When not given, your own network is trained and all others are frozen. Text
            encoders take ``"frozen"``, ``"head"`` and ``"auto"``, where texts are all there is in X.
        download: whether weights that are not on this machine may be downloaded.
        device: where to train; a GPU if there is one.
        verbose: show the stages of a fit as they go, on stderr, and at its end what was picked, by the logger ``pucl``.
        checkpoint: a folder where a fit saves itself. After an interruption, the same `fit` with the same data goes on
            where it was; after success the folder is removed.
        random_state: an int, a RandomState or None; the same int gives the same model.

    Attributes:
        classes_: the two values `predict` gives; the second means positive.
        prior_: π, given or estimated, or only its upper bound.
        prior_interval_: (low, high), a 90 % interval of the sampling error; wide if labels are few.
        prior_is_bound_: whether the data only say that π is at most `prior_`: it could be far less.
        verdict_: whether the model is worth using, and why: "useful: …", "weak: ranking only: …" or "do not use: …".
        lift_: how many times richer in hidden positives the top 1, 5 and 10 % are than a random pick:
            value and error by share.
        pseudo_labels_: `PseudoLabels` of the training rows.
        history_: the epochs of the encoder's training; empty if none was trained.
        choices_: what was picked.
        reasons_: why.
        scores_: estimated accuracy, AUC, precision, recall … from positives that were hidden, see `pucl.pu_scores`;
            only ``pu_auc``, ``recall`` and ``found``, which need no π, where π is a bound. With confirmed negatives
            also ``specificity`` and ``pn_auc``.
        importance_: of the columns of a table, largest first: an `Estimate` by name, how far `pu_auc` drops when the
            column is shuffled, with its standard error; empty for other rows.
        score_ranges_: (lowest, highest) precision, F1 and accuracy over the plausible π; only where π is a bound.
        model_: the `Model` itself.
    """

    classes_: NDArray[np.int64]
    prior_: float
    prior_interval_: tuple[float, float]
    prior_is_bound_: bool
    verdict_: str
    lift_: dict[float, dict[str, float]]
    pseudo_labels_: PseudoLabels
    history_: list[Epoch]
    choices_: dict[str, str | int | float | None]
    reasons_: list[str]
    scores_: dict[str, dict[str, float]]
    importance_: dict[str, Estimate]
    score_ranges_: dict[str, tuple[float, float]]
    model_: Model

    def __init__(
        self,
        *,
        prior: float | str | None = None,
        objective: str = "auto",
        encoder: Any = "auto",
        view: Any = "auto",
        labeller: str = "auto",
        head: str = "auto",
        kind: Kind | None = None,
        categorical: Any = (),
        text_columns: Any = (),
        text_encoder: str = HASHED,
        temperature: float = 0.5,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        fine_tune: bool | str = False,
        time_limit: float | None = None,
        tune: str | None = None,
        download: bool = False,
        device: Any = None,
        verbose: bool = False,
        checkpoint: str | Path | None = None,
        random_state: Any = None,
    ) -> None:
        self.prior = prior
        self.objective = objective
        self.encoder = encoder
        self.view = view
        self.labeller = labeller
        self.head = head
        self.kind = kind
        self.categorical = categorical
        self.text_columns = text_columns
        self.text_encoder = text_encoder
        self.temperature = temperature
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.fine_tune = fine_tune
        self.time_limit = time_limit
        self.tune = tune
        self.download = download
        self.device = device
        self.verbose = verbose
        self.checkpoint = checkpoint
        self.random_state = random_state

    @signed_by(OWNER)
    def fit(
        self,
        X: Any,  # noqa: N803
        s: Any = None,
        negatives: Any = None,
        answers: Any = None,
        **keywords: Any,
    ) -> Self:
        """Learn from rows X and PU labels s: 1 for labelled positives, 0 for unlabelled rows.

        Args:
            X: rows, or what `pucl.read` returned.
            s: PU labels (n,); left out for data from `pucl.read`.
            negatives: rows known to be negative, a mask (n,) or row numbers; at least two rows must remain unlabelled.
            answers: of reviewers to rows that a model had picked: 1 (positive), 0 (negative) or NaN (no answer), (n,).
                They train the model; π, scores and thresholds take these rows for unlabelled ones.
            keywords: ``sample_weight`` is refused, in one line.
        """
        refuse_weights(OWNER, keywords)
        options = self._options()
        kind = self.kind or vectors_for(options.encoder, options.tune, X)
        seen = observe(
            OWNER, X, s, kind=kind, categorical=self.categorical, text_columns=self.text_columns,
            text_encoder=options.text_encoder, download=options.download, negatives=negatives,
        )  # fmt: skip
        aligned(OWNER, X, answers, argument="answers")
        views = text_views(seen.schema, seen.rows, seen.content, options)
        where = None if self.checkpoint is None else Resumable(Path(self.checkpoint), names={"seed": "random_state"})
        with only_fit(where, OWNER):
            with ExitStack() as shown:
                if self.verbose:
                    shown.enter_context(messages_shown())
                report = shown.enter_context(ProgressLines(OWNER)) if self.verbose else None
                fitted = fit(
                    seen.rows, seen.s, seen.schema, options, negative=seen.negative, answers=answers,
                    device=self.device, on_progress=report, resumable=where, views=views,
                )  # fmt: skip
            evidence = gather(fitted, seen.rows, seen.s, content=seen.content, ids=seen.ids)
            front = None if fitted.model.front is None else fitted.model.front.name
            call = call_of(self, s=s, negatives=negatives, answers=answers, seed=options.seed, encoder=front)
            record = replace(fitted.model.record, command=call)
            self.model_ = replace(fitted.model, evidence=evidence, record=record)
            self.classes_, self.pseudo_labels_, self.history_ = seen.classes, fitted.pseudo, fitted.history
            self._describe(X)
            if where is not None:
                remove_unfinished(where.folder)
        with messages_shown() if self.verbose else nullcontext():
            LOGGER.info("%s", self.summary())
        return self

    def _options(self) -> FitOptions:
        names = (
            "prior", "objective", "encoder", "view", "labeller", "head", "temperature", "epochs", "batch_size",
            "learning_rate", "fine_tune", "time_limit", "tune", "download", "text_encoder",
        )  # fmt: skip
        seed = seed_of(OWNER, self.random_state)
        return FitOptions(**{name: getattr(self, name) for name in names}, seed=seed, owner=OWNER)

    def _describe(self, x: Any = None) -> None:
        """The fitted attributes that follow from the model."""
        record = self.model_.record
        self.prior_, self.prior_interval_ = record.prior.value, (record.prior.low, record.prior.high)
        self.prior_is_bound_ = record.prior.is_bound
        self.choices_, self.reasons_ = record.choices.to_dict(), list(record.reasons)
        self.scores_, self.score_ranges_ = metrics_to_dict(record.metrics), dict(record.score_ranges)
        self.importance_ = dict(record.importance)
        self.verdict_ = str(record.verdict or "")
        self.lift_ = {each.share: {"value": each.value, "error": each.error} for each in record.lift}
        columns = self.model_.schema.given
        if columns or len(self.model_.schema.shape) == 1:
            self.n_features_in_ = len(columns) or self.model_.schema.shape[0]
        if hasattr(x, "columns"):
            self.feature_names_in_ = np.array([str(name) for name in columns], dtype=object)

    def decision_function(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Calibrated logits (n,): positive above 0."""
        rows = self._rows(X)
        return self.model_.logits(rows).double().numpy()

    @signed_by(OWNER)
    def transform(self, X: Any) -> NDArray[np.float32]:  # noqa: N803
        """Embeddings (n, k) of length 1."""
        rows = self._rows(X)
        return self.model_.embed(rows).numpy()

    @signed_by(OWNER)
    def score_report(
        self,
        X: Any,  # noqa: N803
        s: Any,
        *,
        prior: float | None = None,
        negatives: Any = None,
    ) -> RankingScores:
        """Estimate accuracy, AUC, precision and recall on rows that did not train the model; needs no negatives.

        Args:
            X: rows.
            s: their PU labels.
            prior: π among these rows; the low end of that of the fit when not given.
            negatives: those of these rows known to be negative, a mask (n,) or row numbers, for `specificity` and
                `pn_auc`; they are no part of U.

        Returns:
            `PUScores`; without the figures that need π where that is neither given nor more than a bound.
        """
        logits = self.decision_function(X)
        if prior is None and self.prior_is_bound_:
            return ranking_scores(logits, s, negatives=negatives)
        return pu_scores(
            logits, s, prior=self.model_.record.prior.cautious if prior is None else prior, negatives=negatives
        )

    @signed_by(OWNER)
    def threshold_for(self, *, recall: float | None = None, precision: float | None = None) -> float:
        """The threshold of `decision_function` for a wanted recall or precision, from rows held out of the fit.

        Args:
            recall: share of the positives to find; needs no π.
            precision: share of positives among the rows above the threshold; refused where π is only a bound.
        """
        check_is_fitted(self, "model_")
        return threshold_for(self.model_, recall=recall, precision=precision, owner=OWNER)

    def scorer(self, **options: Any) -> Scorer:
        """A function from a batch of rows to their scores, which holds the model and can be sent to other processes.

        Args:
            **options: the other arguments of `pucl.scorer`.
        """
        check_is_fitted(self, "model_")
        return self.model_.scorer(**options)

    def summary(self) -> str:
        """What it was trained on, what it picked and why, and how good it is estimated to be."""
        check_is_fitted(self, "model_")
        return describe(self.model_.record)

    def save(self, folder: str | Path) -> Path:
        """Write the model into a folder of safetensors and JSON."""
        check_is_fitted(self, "model_")
        return save_model(folder, self.model_)

    @classmethod
    def load(cls, folder: str | Path, *, network: Any = None) -> Self:
        """The model in a folder, ready to predict; pseudo-labels and history are not kept there.

        `network` is your own network, function or transformer, if the model was fitted with one.
        """
        classifier = cls()
        classifier.model_, classifier.classes_ = load_model(folder, network=network), np.array([0, 1])
        classifier._describe()
        return classifier

    def report(self, path: str | Path) -> Path:
        """Write a report of the fit as one self-contained HTML file."""
        check_is_fitted(self, "model_")
        return write_report(path, self.model_)

    def _rows(self, x: Any) -> torch.Tensor:
        check_is_fitted(self, "model_")
        x = as_input(OWNER, x)
        check_width(OWNER, x, getattr(self, "n_features_in_", None))
        return self.model_.schema.rows(x, owner=OWNER)

    @property
    def _n_features_out(self) -> int:
        shape = self.model_.schema.shape if self.model_.front is None else self.model_.encoder.standardise.mean.shape
        return embedding_dim(self.model_.encoder, tuple(shape))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_class = False
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags
