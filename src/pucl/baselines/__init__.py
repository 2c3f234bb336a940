"""Baselines: published and simple methods under one signature, from rows and PU labels to a scorer of raw rows.

A method is a function ``(problem, settings) → nn.Module``; a scorer maps raw rows to logits (n,), positive above 0. The
docstring of the function says what it computes, where it comes from, how faithful it is and where it differs from the
author's code. What all of them share, and where all of them differ from the originals:

- P and U are disjoint, as `pucl.make_pu` draws them; most authors leave the labelled rows in U too. π is the share of
  positives inside U.
- Inputs are standardised by channel or feature; networks have one logit, where some authors have a softmax of two.
- On a GPU networks compute in bfloat16, with weights, losses and optimisers in float32.
- No run chooses by test labels: the last epoch counts, or the epoch with the best *PU* validation value where the
  method says so. Some defaults and presets were set with test accuracies in view; the head of LOG.md lists them.
"""

import inspect
import sys
from collections.abc import Mapping
from dataclasses import fields, replace
from types import MappingProxyType
from typing import Any

import torch
from torch import nn

from pucl.baselines.shared.network import Network
from pucl.baselines.shared.training_problem import PUProblem
from pucl.baselines.shared.training_settings import Settings, preset_of
from pucl.data import Kind
from pucl.deprecation import with_new_names
from pucl.device import pick_device
from pucl.encoders.inputs import Standardise, as_rows
from pucl.errors import Described, InputError, RunError, bad_argument, check_count, check_share, unknown_name
from pucl.labels import check_labels
from pucl.registry import get
from pucl.risks import SETTINGS, Setting
from pucl.training.batches import fits
from pucl.training.pretraining import default_encoder

__all__ = ["Settings", "fit_baseline", "renamed_settings", "settings_of", "why_not"]

RENAMED: Mapping[str, str] = MappingProxyType({"most": "max_rows"})  # former and present names of settings


@torch.enable_grad()
def fit_baseline(
    name: str,
    x: Any,
    s: Any,
    *,
    prior: float | None = None,
    setting: Setting = "case-control",
    encoder: str | nn.Module | None = None,
    settings: Settings | Mapping[str, Any] | None = None,
    seed: int = 0,
    device: str | torch.device | None = None,
) -> nn.Module:
    """Train a baseline and return its scorer: raw rows → logits (n,), positive above 0.

    Args:
        name: a registered baseline.
        x: images (n, c, h, w) or rows (n, d), as for `pucl.pretrain`.
        s: PU labels, 1 for labelled positives and 0 for unlabelled rows.
        prior: π, the share of positives inside the unlabelled rows, for methods that need it.
        setting: ``"case-control"``, P was drawn apart from U, a sample of the population; or ``"single-set"``, P was
            labelled out of one set: uPU, nnPU, Dist-PU and vPU then take means over the population from P ∪ U, and
            its share of positives (n_P + π n_U) / (n_P + n_U). To other methods it makes no difference.
        encoder: a registered encoder or a module from rows to vectors; that of the settings, or by the shape of the
            rows, when not given.
        settings: how to train, such as `settings_of(name, task)`; or some of its fields, to change in the defaults.
        seed: of everything that is drawn.
        device: where to train; a GPU if there is one.
    """
    entry, owner = get("baselines", name), f"baseline {name!r}"
    rows = as_rows(x, owner=owner)
    labelled = torch.from_numpy(check_labels(s, n_rows=len(rows), owner=owner))
    given = None if prior is None else check_share(owner, "prior", prior)
    reason = why_not(name, "image" if rows.ndim == 4 else "vector", given)
    if reason is not None:
        raise InputError(f"{reason}", owner=owner)
    if setting not in SETTINGS:
        raise unknown_name(f"setting of {owner}", setting, SETTINGS)
    chosen = _settings(name, settings)
    place = pick_device(device)
    if not fits(rows, place, None):
        size = rows.numel() * rows.element_size() / 2**30
        raise RunError(f"{owner}: x has {size:.1f} GiB and does not fit on {place}; use device='cpu'")
    problem = PUProblem(
        owner=owner,
        x=rows.to(place),
        labelled=labelled.to(place),
        prior=given,
        encoder=encoder or chosen.encoder or default_encoder(tuple(rows.shape[1:])),
        standardise=Standardise.of(rows).to(place),
        seed=check_count(owner, "seed", seed, low=0),
        setting=setting,
    )
    scorer: nn.Module = entry.function(problem, chosen)
    for module in scorer.modules():
        if isinstance(module, Network):
            module.low = False  # what is reported is computed in float32
    return scorer.eval().requires_grad_(False)


def settings_of(name: str, task: str | None = None, **changes: Any) -> Settings:
    """The author's settings for a task where there are any, else the method's defaults; with some fields changed."""
    entry = get("baselines", name)
    settings: Settings = inspect.signature(entry.function).parameters["settings"].default
    if task is not None:
        presets = getattr(sys.modules[entry.function.__module__], "PRESETS", {})
        settings = preset_of(presets, task) or settings
    known = [field.name for field in fields(settings)]
    changes = renamed_settings(f"baseline {name!r}", settings, changes)
    for field in changes:
        if field not in known:
            raise unknown_name(f"setting of baseline {name!r}", field, known)
    return replace(settings, **changes)


def renamed_settings(owner: str, settings: Settings, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Changes of settings under the names they have now; one under its old name is taken, with a warning."""
    known = {field.name for field in fields(settings)}
    names = {old: new for old, new in RENAMED.items() if new in known}
    return with_new_names(owner, changes, names, known=known, stacklevel=5)


def why_not(name: str, kind: Kind, prior: float | None) -> str | None:
    """Why a method cannot be run on such data, or None if it can."""
    entry = get("baselines", name)
    if kind not in entry.inputs and not (kind == "vector" and "table" in entry.inputs):
        return f"x must be {' or '.join(entry.inputs)} data; got {kind} data"
    if entry.needs_prior and prior is None:
        return "prior must be a number strictly between 0 and 1 for this method; got None"
    return None


def _settings(name: str, given: Settings | Mapping[str, Any] | None) -> Settings:
    if not isinstance(given, Settings):
        return settings_of(name, **dict(given or {}))
    kind = type(settings_of(name))
    if not isinstance(given, kind):
        got = Described(f"a {type(given).__name__}")
        raise bad_argument(f"baseline {name!r}", "settings", f"a {kind.__name__} or some of its fields", got)
    return given
