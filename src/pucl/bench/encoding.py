"""The encoder of a pipeline: trained once, kept in a folder, taken from there by all tops that stand on it."""

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from pucl.bench.cells import PLAIN, canonical, key_of
from pucl.bench.fingerprint import Sources
from pucl.bench.problem import Exam, Problem
from pucl.bench.recipes import TEMPERATURE, WITHHELD, train_config, view_of
from pucl.embeddings import embed
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
        words = (about[key] for key in ("task", "objective", "encoder", "n_labelled", "seed"))
        place = self.folder / f"{'-'.join(str(word) for word in words)}-{key_of(about)[:8]}"
        with _alone(place.with_suffix(".lock")):
            return (None if self.anew else self._stored(place, about)) or self._train(place, about, problem, exam)

    def _stored(self, place: Path, about: Mapping[str, Any]) -> Trained | None:
        try:
            kept = json.loads((place / ABOUT).read_text(encoding="utf-8"))["extra"]
            same = canonical(kept["config"]) == canonical(about) and kept["code"] == self.sources.encoder_code_of(about)
            encoder = load_encoder(place, self.device) if same else None
        except (OSError, ValueError, KeyError, InputError):  # not there, or damaged
            return None
        return Trained(encoder, kept["loss"], kept["seconds"], kept["told"]) if encoder is not None else None

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
