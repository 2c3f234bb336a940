"""The encoder of a pipeline: trained once, kept in a folder, taken from there by all tops that stand on it."""

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from pucl.bench.grid.cells import PLAIN, Config, canonical, key_of
from pucl.bench.grid.recipes import TEMPERATURE, WITHHELD, train_config, view_of
from pucl.bench.run.fingerprint import Sources
from pucl.bench.run.problem import Exam, Problem
from pucl.encoders.embedding import embed
from pucl.encoders.inputs import Encoder
from pucl.encoders.saved import ABOUT, load_encoder, save_encoder
from pucl.errors import InputError
from pucl.training.pretraining import pretrain


@dataclass(frozen=True)
class Trained:
    """An encoder and how it was made.

    Attributes:
        encoder: raw rows → embeddings, on the device.
        loss: of the last epoch.
        seconds: of its training.
        told: π, if the objective was told it.
    """

    encoder: Encoder
    loss: float
    seconds: float
    told: float | None


@dataclass(frozen=True)
class Kept:
    """Where encoders are kept and how they are made: folder, device, code, and whether to train them in any case."""

    folder: Path
    device: str
    sources: Sources
    anew: bool = False

    def encoder(self, about: Mapping[str, Any], problem: Problem, exam: Exam) -> Trained:
        """The encoder of a configuration (see `cells.encoder_of`), from its folder or trained now.

        An encoder that was trained by other code, or for another configuration, is trained again. Of several processes
        that want the same one, the first trains it and the others wait.
        """
        with self.place(about) as place:
            found = self.stored(place, about, self.sources.encoder_code_of(about))
            if found is None:
                return self._train(place, about, problem, exam)
            encoder, kept = found
            return Trained(encoder, kept["loss"], kept["seconds"], kept["told"])

    @contextlib.contextmanager
    def place(self, about: Mapping[str, Any]) -> Iterator[Path]:
        """The folder of a configuration; while this lasts no other process is inside."""
        words = (about[key] for key in ("task", "objective", "encoder", "n_labelled", "seed"))
        place = self.folder / f"{'-'.join(str(word) for word in words)}-{key_of(about)[:8]}"
        with _alone(place.with_suffix(".lock")):
            yield place

    def stored(self, place: Path, about: Mapping[str, Any], code: str) -> tuple[Encoder, Config] | None:
        """The encoder in a folder and what is written down with it, if it is of this configuration and this code."""
        if self.anew:
            return None
        try:
            kept = json.loads((place / ABOUT).read_text(encoding="utf-8"))["extra"]
            same = canonical(kept["config"]) == canonical(about) and kept["code"] == code
            return (load_encoder(place, self.device), kept) if same else None
        except (OSError, ValueError, KeyError, InputError):  # not there, or damaged
            return None

    def _train(self, place: Path, about: Mapping[str, Any], problem: Problem, exam: Exam) -> Trained:
        told = exam.prior(about["prior"], self._embedded_without(about, problem, exam), problem.seed)
        began = time.perf_counter()
        found = pretrain(
            problem.x,
            problem.told(about["recipe"].get(WITHHELD, 0)),
            objective=about["objective"],
            encoder=about["encoder"],
            view=view_of(about["recipe"]),
            temperature=about["recipe"][TEMPERATURE],
            prior=told,
            config=train_config(about["recipe"], seed=problem.seed),
            device=self.device,
        )
        made = Trained(found.encoder, found.history[-1].loss, round(time.perf_counter() - began, 1), told)
        code = self.sources.encoder_code_of(about)
        extra = {"config": about, "code": code, "loss": made.loss, "seconds": made.seconds, "told": told}
        shape = problem.x.shape[1:]
        save_encoder(place, made.encoder, name=about["encoder"], input_shape=shape, options={}, extra=extra)
        return made

    def _embedded_without(
        self, about: Mapping[str, Any], problem: Problem, exam: Exam
    ) -> Callable[[], tuple[Tensor, Any]]:
        """To estimate a prior on: embeddings of the same encoder trained by ssCL, which needs no prior and no label."""

        def embeddings() -> tuple[Tensor, Any]:
            recipe = {name: value for name, value in about["recipe"].items() if name != WITHHELD}
            plain = {**about, "objective": PLAIN, "prior": None, "recipe": recipe}
            return embed(replace(self, anew=False).encoder(plain, problem, exam).encoder, problem.x), problem.s

        return embeddings


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """While this lasts no other process is inside with the same path; one that is killed leaves at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ImportError:  # Windows: one job at a time
        yield
        return
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
