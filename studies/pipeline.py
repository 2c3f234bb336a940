"""From trained encoders to classifiers: labellers with a linear head, fine-tuning, and their ceilings.

    python studies/pipeline.py ENCODERS --out results/pipeline.jsonl

Every folder under ENCODERS is one that studies/representation.py saved. No prior is given to any method but "nnpu",
whose line says so. A line per method: configuration, test accuracy, pseudo-labels that are right, π̂, time, versions,
hardware and commit; lines that are there already are left out. ``--fine-tune`` is JSON, options of `pucl.fine_tune` and
`pucl.self_train` with views as [name, options]; several may be given. ``--held-out`` keeps a share of P and U from them
and reports scores of each from P and U alone, to choose among them without the truth.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pucl.bench.grid.cells import FINE_TUNE
from pucl.bench.grid.tune_options import tune, tuning_defaults
from pucl.bench.run.probes import linear_probe_accuracy
from pucl.bench.run.provenance import provenance
from pucl.data import load
from pucl.data.observe import observe
from pucl.encoders.embedding import embed
from pucl.encoders.saved import ABOUT, load_encoder
from pucl.heads import fit_head
from pucl.heads.tuned import FineTuned
from pucl.pseudo_labels import PseudoLabels, pseudo_label
from pucl.selection import hold_out, pu_scores
from pucl.views import make_view

# What is not given, so that a line says how it was made when defaults change.
DEFAULTS = {name: value for name, value in tuning_defaults(FINE_TUNE).items() if name not in ("seed", "device")}


@dataclass(frozen=True)
class Setting:
    """What one encoder was trained on, and what it makes of it; everything on the device."""

    encoder: nn.Module
    x: Tensor
    s: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor
    z: Tensor
    z_test: Tensor
    prior: float
    seed: int


def set_up(folder: Path, device: str) -> tuple[dict[str, Any], Setting]:
    cell = json.loads((folder / ABOUT).read_text(encoding="utf-8"))["extra"]
    data = load(cell["task"], seed=cell["seed"])
    seen = observe(data, cell["n_labelled"], seed=cell["seed"])
    encoder = load_encoder(folder).to(device)
    x, x_test = torch.as_tensor(seen.x).to(device), torch.as_tensor(data.x_test).to(device)
    y = torch.as_tensor(data.y_train[seen.sample.rows]).bool().to(device)
    s, y_test = torch.as_tensor(seen.s).to(device), torch.as_tensor(data.y_test).bool().to(device)
    z, z_test = (embed(encoder, rows).to(device) for rows in (x, x_test))
    prior = float(y[~s].float().mean())
    return cell, Setting(encoder, x, s, y, x_test, y_test, z, z_test, prior, cell["seed"])


def labels_of(at: Setting, method: str) -> PseudoLabels:
    return pseudo_label(at.z, at.s.cpu(), method=method, seed=at.seed)


def true_labels(at: Setting) -> PseudoLabels:
    return PseudoLabels(at.y, at.y.float(), torch.ones_like(at.y, dtype=torch.float32), at.prior)


def right(at: Setting, pseudo: PseudoLabels) -> float:
    """How many of the unlabelled rows have the right pseudo-label, in per cent."""
    return percent((pseudo.labels == at.y)[~at.s])


def percent(hits: Tensor) -> float:
    return round(100 * float(hits.float().mean()), 2)


@torch.no_grad()
def logits_of(model: FineTuned, x: Tensor) -> Tensor:
    return model.score(embed(model.encoder, x, normalise=False).to(x.device))


def frozen(at: Setting) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """Every labeller with a linear head, nnPU with the true prior, and the ceiling."""

    def linear(method: str) -> dict[str, Any]:
        pseudo = labels_of(at, method)
        predicted = fit_head(at.z, at.s.cpu(), pseudo)(at.z_test) > 0
        return {"accuracy": percent(predicted == at.y_test), "labels": right(at, pseudo), "prior": pseudo.prior}

    for method in ("pupl", "prototypes", "cvir", "kernel_cvir"):
        yield f"{method} + linear", lambda method=method: linear(method)  # type: ignore[misc]

    def nnpu() -> dict[str, Any]:
        head = fit_head(at.z, at.s.cpu(), true_labels(at), method="nnpu", prior=at.prior)
        return {"accuracy": percent((head(at.z_test) > 0) == at.y_test), "given_prior": at.prior}

    yield "nnpu, true prior", nnpu
    ceiling = linear_probe_accuracy
    yield "ceiling, linear", lambda: {"accuracy": round(100 * ceiling(at.z, at.y, at.z_test, at.y_test), 2)}


def tuned(
    at: Setting, options: dict[str, Any], held_out: float, truth: bool, device: str
) -> tuple[str, Callable[[], dict[str, Any]]]:
    tuning = dict(options)
    if "view" in tuning:
        name, settings = tuning["view"]
        ready: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in settings.items()}
        tuning["view"] = make_view(name, **ready)

    def fit() -> dict[str, Any]:
        held = torch.as_tensor(hold_out(at.s.cpu(), held_out, at.seed)) if held_out else torch.zeros(len(at.s)).bool()
        kept = (~held).nonzero().flatten().to(at.x.device)
        part = Setting(at.encoder, at.x[kept], at.s[kept], at.y[kept], at.x_test, at.y_test, at.z[kept], at.z_test,
                       at.prior, at.seed)  # fmt: skip
        pseudo = true_labels(part) if truth else labels_of(part, "auto")
        changes = {"renew": False} if truth else {}
        chosen = {**tuning, **changes, "seed": at.seed}
        model = tune(FINE_TUNE, part.x, part.s.cpu(), pseudo, at.encoder, chosen, device=device)
        metrics: dict[str, Any] = {"accuracy": percent((logits_of(model, at.x_test) > 0) == at.y_test)}
        if not truth:
            metrics |= {"labels": right(part, pseudo), "prior": pseudo.prior}
        if held_out:
            rows = held.to(at.x.device)
            logits = logits_of(model, at.x[rows])
            scores = pu_scores(logits.cpu(), at.s[rows].cpu().numpy(), prior=pseudo.prior)
            metrics |= {"pu_auc": scores.pu_auc.value, "proxy_accuracy": scores.proxy_accuracy.value}
        return metrics

    return "ceiling, fine-tuned" if truth else "auto + fine-tuned", fit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("encoders", type=Path, nargs="+")
    parser.add_argument("--frozen", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--fine-tune", type=json.loads, action="append", default=[])
    parser.add_argument("--held-out", type=float, default=0.0)
    parser.add_argument("--ceiling", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--commit", default=None, help="what to write down where there is no git")
    parser.add_argument("--out", type=Path, default=Path("results/pipeline.jsonl"))
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    where = vars(provenance(options.device, options.commit))
    done = options.out.read_text(encoding="utf-8").splitlines() if options.out.exists() else []
    known = [json.loads(line)["config"] for line in done]
    folders = [folder for group in options.encoders for folder in sorted(group.glob(f"**/{ABOUT}"))]
    for folder in (path.parent for path in folders):
        cell, at = set_up(folder, options.device)
        work: list[tuple[str, dict[str, Any], Callable[[], dict[str, Any]]]] = []
        if options.frozen:
            work += [(name, {}, run) for name, run in frozen(at)]
        for tuning in options.fine_tune:
            for truth in (False, True) if options.ceiling else (False,):
                name, run = tuned(at, tuning, options.held_out, truth, options.device)
                work.append((name, {"fine_tune": {**DEFAULTS, **tuning}, "held_out": options.held_out}, run))
        for name, extra, run in work:
            config = {**cell, "method": name, **extra}
            if config in known:
                continue
            began = time.perf_counter()
            metrics = run()
            line = {"config": config, "metrics": metrics, "seconds": round(time.perf_counter() - began, 1), **where}
            with options.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            print(folder.name, name, json.dumps({**extra, **metrics}), line["seconds"], flush=True)


if __name__ == "__main__":
    main()
