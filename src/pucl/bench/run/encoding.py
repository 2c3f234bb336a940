"""The encoder of a pipeline: trained once and stored in a folder, from which all its readouts load it."""

import contextlib
import json
import math
import time
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import torch

from pucl.bench.grid.cells import EncoderCell, Pipeline, is_estimated, needs_classes, reads_texts
from pucl.bench.grid.decode import decode, from_json
from pucl.bench.grid.identity import canonical
from pucl.bench.grid.recipes import ALL, FROZEN, view_of
from pucl.bench.results.revisions import is_outdated, revisions_of
from pucl.bench.run.exam import Exam, ObservedRows
from pucl.bench.run.pretrained import (
    OWNER,
    BankKey,
    PretrainedEncoder,
    RowBank,
    TextBank,
    VectorBank,
    embed_rows,
    text_projection,
    train_on_vectors,
)
from pucl.encoders.frozen.resolve import resolve
from pucl.encoders.inputs import Encoder, as_rows
from pucl.encoders.plain import plain_encoder
from pucl.encoders.saved import ABOUT, load_encoder, save_encoder
from pucl.errors import Described, InputError, bad_argument
from pucl.files import lock_file
from pucl.fitting.project import PROJECTION
from pucl.ranking.prior import estimate_prior
from pucl.texts import entry_of, identity_of
from pucl.training.pretraining import prepare
from pucl.training.reporting import Epoch, Watch
from pucl.training.run import train_together

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")


@dataclass(frozen=True)
class Training:
    """The stored record of the training of an encoder.

    Attributes:
        loss: of the last epoch; None where nothing was trained.
        seconds: that it took, or the embedding of rows that had not been embedded before.
        given_prior: π, if the objective was given it.
        epochs: loss and kNN after epochs that were looked at, by their number; seconds spent on looking do not count.
    """

    loss: float | None
    seconds: float
    given_prior: float | None
    epochs: dict[str, dict[str, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class TrainedEncoder:
    """Raw rows → embeddings, on the device, and how it was trained."""

    encoder: Encoder
    training: Training


@dataclass(frozen=True)
class KeptTeacher:
    """The stored record of a fine-tuned teacher: the weights of its layer, and the warnings of its training."""

    weight: tuple[float, ...]
    bias: tuple[float, ...]
    warnings: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.weight or len(self.bias) != 1:
            got = Described(f"{len(self.weight)} and {len(self.bias)}")
            raise bad_argument("the stored teacher", "weight and bias", "some numbers and one", got)


@dataclass(frozen=True)
class EncoderStore:
    """Where encoders are stored and trained: folder, device, and whether to train them even if they are stored.

    `banks` and `text_banks` hold the vectors of encoders that are not trained here, see `VectorBank`.
    """

    folder: Path
    device: str
    anew: bool = False
    banks: dict[BankKey, RowBank] = field(default_factory=dict)
    text_banks: dict[str, TextBank] = field(default_factory=dict)

    def encoder(
        self, cell: EncoderCell, observed: ObservedRows, exam: Exam, epochs: Collection[int] = ()
    ) -> TrainedEncoder:
        """An encoder, from its folder or trained now; kNN is known after some `epochs` of its training.

        An encoder that is outdated, was trained for another configuration or was not looked at after these epochs is
        trained again. Of several processes that want the same one, the first trains it and the others wait.
        """
        if cell.recipe.tune == FROZEN:
            return self._frozen(cell, observed)
        with self.place(cell) as place:
            stored = self.stored(place, cell, Training)
            if stored is None or not {str(epoch) for epoch in epochs} <= stored[1].epochs.keys():
                train = self._train if cell.recipe.tune == ALL else self._train_projection
                trained = train(place, cell, observed, exam, epochs)
            else:
                trained = TrainedEncoder(*stored)
        if cell.recipe.tune == ALL:
            return trained
        return replace(trained, encoder=PretrainedEncoder(self._bank(cell, observed), trained.encoder))

    @contextlib.contextmanager
    def place(self, cell: EncoderCell | Pipeline) -> Iterator[Path]:
        """The folder of an encoder or a teacher; locked against other processes."""
        place = self._folder_of(cell)
        self.folder.mkdir(parents=True, exist_ok=True)
        with lock_file(place.with_suffix(".lock"), patience=math.inf):
            yield place

    def _folder_of(self, cell: EncoderCell | Pipeline) -> Path:
        where = cell.place
        words = (where.task, cell.objective, cell.encoder, where.n_labelled, where.seed, cell.key[:8])
        return self.folder / "-".join(str(word) for word in words)

    def has(self, cell: EncoderCell) -> bool:
        """Whether an encoder is stored, though it may turn out to be outdated: for estimates of time."""
        return not self.anew and (self._folder_of(cell) / ABOUT).is_file()

    def stored(self, place: Path, cell: EncoderCell | Pipeline, kind: type[T]) -> tuple[Encoder, T] | None:
        """The encoder in a folder and its record, if it belongs to this cell and is not outdated."""
        if self.anew:
            return None
        try:
            kept = json.loads((place / ABOUT).read_text(encoding="utf-8"))["extra"]
            made_with = decode(dict[str, int], kept["revisions"], owner=str(place))
            same = canonical(kept["config"]) == canonical(cell.to_dict()) and not is_outdated(made_with, cell)
            return (load_encoder(place, self.device), decode(kind, kept["made"], owner=str(place))) if same else None
        except (OSError, ValueError, KeyError, TypeError, RecursionError, InputError):  # not there, or damaged
            return None

    def _train(
        self, place: Path, cell: EncoderCell, observed: ObservedRows, exam: Exam, epochs: Collection[int]
    ) -> TrainedEncoder:
        prior = self._prior(cell, observed, exam)
        classes = exam.classes(cell.objective) if needs_classes(cell.objective) else None
        began, recipe = time.perf_counter(), cell.recipe
        looks: dict[str, dict[str, float]] = {}
        spent = 0.0  # on looking

        def look(epoch: Epoch) -> None:
            nonlocal spent
            if epoch.number in epochs:
                start = time.perf_counter()
                looks[str(epoch.number)] = {"loss": epoch.loss, "knn": exam.knn(prepared.encoder, self.device)}
                spent += time.perf_counter() - start

        prepared = prepare(
            observed.x,
            observed.seen_by_encoder(recipe.withheld),
            objective=cell.objective,
            encoder=cell.encoder,
            view=view_of(recipe.view, recipe.view_options),
            temperature=recipe.temperature,
            prior=prior,
            classes=classes,
            config=replace(recipe.training, seed=observed.seed),
            device=self.device,
            watch=Watch(on_epoch=look),
            **from_json(cell.objective_options),
        )
        train_together([prepared.run])
        run = prepared.result()
        training = Training(run.history[-1].loss, round(time.perf_counter() - began - spent, 1), prior, looks)
        self.save(place, cell, run.encoder, observed.x.shape[1:], training)
        return TrainedEncoder(run.encoder, training)

    def _bank(self, cell: EncoderCell, observed: ObservedRows) -> RowBank:
        rows = as_rows(observed.x, owner=OWNER)
        key = cell.encoder, tuple(rows.shape[1:])
        if key not in self.banks:
            self.banks[key] = RowBank(resolve(cell.encoder, rows, owner=OWNER), self.device)
        return self.banks[key]

    def _frozen(self, cell: EncoderCell, observed: ObservedRows) -> TrainedEncoder:
        """An encoder with published weights as it is, its vectors scaled and reduced as in `PUClassifier`.

        An encoder of texts learns what it learns from the observed rows.
        """
        began = time.perf_counter()
        bank: VectorBank
        if reads_texts(cell.encoder):
            learnt = entry_of(cell.encoder).fit(list(observed.x), seed=observed.seed)
            bank = self.text_banks.setdefault(identity_of(learnt, cell.encoder), TextBank(cell.encoder, learnt))
            projection = text_projection(bank.of(observed.x))
        else:
            bank = self._bank(cell, observed)
            projection = plain_encoder(bank.of(observed.x), seed=observed.seed)[1]
        encoder = PretrainedEncoder(bank, projection)
        return TrainedEncoder(encoder, Training(None, round(time.perf_counter() - began, 1), None))

    def _train_projection(
        self, place: Path, cell: EncoderCell, observed: ObservedRows, exam: Exam, _: Collection[int] = ()
    ) -> TrainedEncoder:
        """The projection of the vectors of an encoder with published weights."""
        prior = self._prior(cell, observed, exam)
        seen = exam.classes(cell.objective) if needs_classes(cell.objective) else None
        labelled = torch.from_numpy(observed.seen_by_encoder(cell.recipe.withheld) if seen is None else seen)
        bank, rows = self._bank(cell, observed), as_rows(observed.x, owner=OWNER)
        bank.of(rows)  # its time is shared by all cells, and not counted
        began, config = time.perf_counter(), replace(cell.recipe.training, seed=observed.seed)
        run = train_on_vectors(cell, bank, rows, labelled, prior, config)
        training = Training(run.history[-1].loss, round(time.perf_counter() - began, 1), prior)
        shape = (run.encoder.standardise.mean.shape[0],)
        self.save(place, cell, run.encoder, shape, training, name=PROJECTION)
        return TrainedEncoder(run.encoder.to(self.device), training)

    def _prior(self, cell: EncoderCell, observed: ObservedRows, exam: Exam) -> float | None:
        """π as the objective is given it.

        An estimate comes from embeddings of the same encoder trained by ssCL, which needs no prior and no label.
        """
        if not is_estimated(cell.prior):
            return exam.with_prior_error(cell.prior_error).prior(cell.prior)
        plain = replace(self, anew=False).encoder(cell.without_labels(), observed, exam).encoder
        return estimate_prior(embed_rows(plain, observed.x), observed.s, method=cell.prior, seed=observed.seed).value

    def save(
        self,
        place: Path,
        cell: EncoderCell | Pipeline,
        encoder: Encoder,
        shape: tuple[int, ...],
        made: "DataclassInstance",
        *,
        name: str | None = None,
    ) -> None:
        """Write an encoder to its folder, with its cell, the revisions of the code, and how it was made.

        `shape` is that of its rows, and `name` that of its network where it is not the encoder of the cell.
        """
        extra = {"config": cell.to_dict(), "revisions": revisions_of(cell), "made": asdict(made)}
        save_encoder(place, encoder, name=name or cell.encoder, input_shape=shape, options={}, extra=extra)
