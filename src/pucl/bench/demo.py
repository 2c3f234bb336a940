"""The demo: odd against even handwritten digits, 100 labelled positives, no negatives, no class prior."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import pucl
from pucl.baselines import fit_baseline
from pucl.bench.pages.figures import embedding_picture
from pucl.bench.run.supervised import fit_supervised
from pucl.data import Dataset, load
from pucl.data.pu_split import PUSample, make_pu
from pucl.encoders.embedding import embed
from pucl.encoders.inputs import Encoder, Standardise
from pucl.errors import InputError
from pucl.fitting.modes import FIXED
from pucl.fitting.tune import fine_tuned
from pucl.heads import fit_head
from pucl.metrics import Evaluation, evaluate
from pucl.pseudo_labels import PseudoLabels, pseudo_label
from pucl.training import TrainConfig, pretrain
from pucl.training.reporting import Epoch

N_LABELLED = 100
EPOCHS = 60


@dataclass(frozen=True)
class Demo:
    """Results of the demo.

    Attributes:
        sample: which rows were labelled and which were not.
        scores: accuracy, F1 and AUC on held-out digits, by method.
        prior: π̂, the estimated share of odd digits among the unlabelled ones.
        images: the ten unlabelled digits most surely odd, (10, 8, 8) uint8, surest first.
        probabilities: of those ten.
        picture: where the map of the embedding was saved, or None without matplotlib.
        report: where everything was saved as JSON.
    """

    sample: PUSample
    scores: dict[str, Evaluation]
    prior: float
    images: Any
    probabilities: list[float]
    picture: Path | None
    report: Path


def run_demo(
    *, seed: int = 0, out: Path = Path("pucl-demo"), epochs: int = EPOCHS, on_step: Callable[[str, float], None]
) -> Demo:
    """Run every method of the demo and save its picture and numbers into `out`.

    `on_step` is called with the current step in words and the share of the work that is done, from 0 to 1.
    """
    folder = _writable(out)
    data = load("digits", seed=seed)
    sample = make_pu(data.y_train, N_LABELLED, seed=seed)
    x, x_test = torch.as_tensor(data.x_train[sample.rows]), torch.as_tensor(data.x_test)
    config = TrainConfig(epochs=epochs, batch_size=256, learning_rate=4.0, seed=seed)

    on_step("simple methods on raw pixels", 0.0)
    scores = _on_pixels(x, x_test, sample, data, seed)

    def after_epoch(epoch: Epoch) -> None:
        on_step(f"puCL, epoch {epoch.number} of {epoch.of}, loss {epoch.loss:.3f}", 0.05 + 0.5 * epoch.number / epochs)

    encoder = pretrain(x, sample.s, objective="pucl", config=config, on_epoch=after_epoch).encoder
    z, z_test = embed(encoder, x), embed(encoder, x_test)
    on_step("pseudo-labels", 0.6)
    for name, method in (("puCL + puPL (the paper's labeller)", "pupl"), ("puCL + stacked (default)", "auto")):
        pseudo = pseudo_label(z, sample.s, method=method, seed=seed)
        scores[name] = evaluate(data.y_test, fit_head(z, sample.s, pseudo)(z_test))
    scores["puCL + stacked, fine-tuned"] = _fine_tuned(x, x_test, sample, pseudo, encoder, data, seed)

    on_step("fully supervised ceiling", 0.65)
    ceiling = fit_supervised(x, data.y_train[sample.rows], encoder="small_cnn", view="small_image", config=config)
    with torch.no_grad():
        scores["fully supervised (every label known)"] = evaluate(data.y_test, ceiling(x_test))

    on_step("picture", 0.9)
    picture = _picture(z, sample, data, folder, seed)
    surest = _surest(pseudo, torch.from_numpy(sample.s))
    probabilities = [round(float(p), 4) for p in pseudo.probability[surest]]
    report = _save(folder, seed, config, sample, scores, pseudo.prior)
    on_step("done", 1.0)
    return Demo(sample, scores, pseudo.prior, x[surest, 0].numpy(), probabilities, picture, report)


def _on_pixels(x: Tensor, x_test: Tensor, sample: PUSample, data: Dataset, seed: int) -> dict[str, Evaluation]:
    pixels = Encoder(Standardise.of(x), nn.Flatten())
    z, z_test = embed(pixels, x), embed(pixels, x_test)
    head = fit_head(z, sample.s, pseudo_label(z, sample.s, seed=seed))
    names = ("naive", "labelled_centroid")
    simple = {name: fit_baseline(name, x, sample.s, encoder="raw", device="cpu") for name in names}
    return {
        "naive (unlabelled as negative)": evaluate(data.y_test, simple["naive"](x_test)),
        "nearest labelled centroid": evaluate(data.y_test, simple["labelled_centroid"](x_test)),
        "raw pixels + stacked": evaluate(data.y_test, head(z_test)),
    }


def _fine_tuned(
    x: Tensor, x_test: Tensor, sample: PUSample, pseudo: PseudoLabels, encoder: Encoder, data: Dataset, seed: int
) -> Evaluation:
    """Encoder and head trained together on the pseudo-labels, as ``PUClassifier(fine_tune="fixed")`` does."""
    labelled, device = torch.from_numpy(sample.s), torch.device("cpu")
    own, head = fine_tuned(x, labelled, pseudo, encoder, FIXED, seed=seed, device=device)
    return evaluate(data.y_test, head(embed(own, x_test)))


def _surest(pseudo: PseudoLabels, labelled: Tensor, n: int = 10) -> Tensor:
    """The unlabelled rows with the highest probability of being positive, surest first."""
    return pseudo.probability.masked_fill(labelled, -1).topk(n).indices


def _picture(z: Tensor, sample: PUSample, data: Dataset, folder: Path, seed: int) -> Path | None:
    title = f"puCL embedding of {len(z):,} digits: odd is positive, {N_LABELLED} are labelled"
    try:
        y = data.y_train[sample.rows]
        return embedding_picture(z.numpy(), sample.s, y, folder / "embedding.png", title=title, seed=seed)
    except InputError:  # no matplotlib: the demo is worth seeing without its picture
        return None


def _save(
    folder: Path, seed: int, config: TrainConfig, sample: PUSample, scores: dict[str, Evaluation], prior: float
) -> Path:
    content = {
        "task": {"data": "digits", "n_labelled": N_LABELLED, "setting": sample.setting, "true_prior": sample.prior},
        "seed": seed,
        "config": asdict(config),
        "estimated_prior": prior,
        "test": {name: asdict(score) for name, score in scores.items()},
        "versions": {"pucl": pucl.__version__, "torch": str(torch.__version__), "numpy": np.__version__},
    }
    path = folder / "results.json"
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def _writable(out: Path) -> Path:
    """The folder, made if it is missing; one that cannot be written to is an error before any work is done."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        probe = out / ".pucl-write-test"
        probe.touch()
        probe.unlink()
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(
            f"--out must be a folder that can be written to; '{out}': {reason}", owner="pucl demo"
        ) from None
    return out
