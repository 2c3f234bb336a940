"""The encoder of a pipeline: trained once and stored in a folder, from which all its readouts load it."""

import contextlib
import json
import time
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from filelock import FileLock

from pucl.bench.grid.cells import EncoderCell, Pipeline, is_estimated, needs_classes
from pucl.bench.grid.decode import decode, from_json
from pucl.bench.grid.identity import canonical
from pucl.bench.grid.recipes import view_of
from pucl.bench.results.revisions import is_outdated, revisions_of
from pucl.bench.run.exam import Exam, ObservedRows
from pucl.encoders.embedding import embed
from pucl.encoders.inputs import Encoder
from pucl.encoders.saved import ABOUT, load_encoder, save_encoder
from pucl.errors import InputError
from pucl.ranking.prior import estimate_prior
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
        loss: of the last epoch.
        seconds: that it took.
        given_prior: π, if the objective was given it.
        epochs: loss and kNN after epochs that were looked at, by their number; seconds spent on looking do not count.
    """

    loss: float
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


@dataclass(frozen=True)
class EncoderStore:
    """Where encoders are stored and trained: folder, device, and whether to train them even if they are stored."""

    folder: Path
    device: str
    anew: bool = False

    def encoder(
        self, cell: EncoderCell, observed: ObservedRows, exam: Exam, epochs: Collection[int] = ()
    ) -> TrainedEncoder:
        """An encoder, from its folder or trained now; kNN is known after some `epochs` of its training.

        An encoder that is outdated, was trained for another configuration or was not looked at after these epochs is
        trained again. Of several processes that want the same one, the first trains it and the others wait.
        """
        with self.place(cell) as place:
            stored = self.stored(place, cell, Training)
            if stored is None or not {str(epoch) for epoch in epochs} <= stored[1].epochs.keys():
                return self._train(place, cell, observed, exam, epochs)
            return TrainedEncoder(*stored)

    @contextlib.contextmanager
    def place(self, cell: EncoderCell | Pipeline) -> Iterator[Path]:
        """The folder of an encoder or a teacher; locked against other processes."""
        where = cell.place
        words = (where.task, cell.objective, cell.encoder, where.n_labelled, where.seed, cell.key[:8])
        place = self.folder / "-".join(str(word) for word in words)
        self.folder.mkdir(parents=True, exist_ok=True)
        with FileLock(place.with_suffix(".lock")):
            yield place

    def stored(self, place: Path, cell: EncoderCell | Pipeline, kind: type[T]) -> tuple[Encoder, T] | None:
        """The encoder in a folder and its record, if it belongs to this cell and is not outdated."""
        if self.anew:
            return None
        try:
            kept = json.loads((place / ABOUT).read_text(encoding="utf-8"))["extra"]
            made_with = decode(dict[str, int], kept["revisions"], owner=str(place))
            same = canonical(kept["config"]) == canonical(cell.to_dict()) and not is_outdated(made_with, cell)
            return (load_encoder(place, self.device), decode(kind, kept["made"], owner=str(place))) if same else None
        except (OSError, ValueError, KeyError, InputError):  # not there, or damaged
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
        self.save(place, cell, run.encoder, observed, training)
        return TrainedEncoder(run.encoder, training)

    def _prior(self, cell: EncoderCell, observed: ObservedRows, exam: Exam) -> float | None:
        """π as the objective is given it.

        An estimate comes from embeddings of the same encoder trained by ssCL, which needs no prior and no label.
        """
        if not is_estimated(cell.prior):
            return exam.with_prior_error(cell.prior_error).prior(cell.prior)
        plain = replace(self, anew=False).encoder(cell.without_labels(), observed, exam).encoder
        return estimate_prior(embed(plain, observed.x), observed.s, method=cell.prior, seed=observed.seed).value

    def save(
        self,
        place: Path,
        cell: EncoderCell | Pipeline,
        encoder: Encoder,
        observed: ObservedRows,
        made: "DataclassInstance",
    ) -> None:
        """Write an encoder to its folder, with its cell, the revisions of the code, and how it was made."""
        extra = {"config": cell.to_dict(), "revisions": revisions_of(cell), "made": asdict(made)}
        shape = observed.x.shape[1:]
        save_encoder(place, encoder, name=cell.encoder, input_shape=shape, options={}, extra=extra)
