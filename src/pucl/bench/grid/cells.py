"""Cells: the configuration of one result, its canonical form, its key, its name, and which cells share an encoder.

A cell is a flat JSON object. Cells of either kind have `task`, `setting`, `n_labelled`, `seed`, `prior` and `encoder`.

- A *pipeline* has `objective`, `recipe` (every number), `recipe_name`, `encoder_prior`, and its top: `top`, `labeller`,
  `labeller_options`, `head`, `head_options`, `top_prior`. With the labeller "teacher" it also has `teacher`: all of
  these of the pipeline it learns from, which sees the same rows.
- A *baseline* has `method` and `settings` (every number). The method "supervised" is a reference: the network of
  `naive` trained on the true labels of all rows.

`prior` says what the cell as a whole was told of π: null, "oracle" or the name of an estimator.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from pucl.pseudo_labels.labellers import RENAMED_OPTIONS

Config = dict[str, Any]
ORACLE, TRUTH, TEACHER = "oracle", "truth", "teacher"
SUPERVISED, ITS_BASELINE = "supervised", "naive"  # with s in place of the truth it is naive
PLAIN = "sscl"  # needs no prior and no label: a prior is estimated on an encoder trained by it
FINE_TUNE, KNN = "finetune", "knn_probe"  # heads that are not registered ones
MATCH = "match"  # an option of fine-tuning in grids: ask the teacher about every view
OTHERS, RAW = "other_embeddings", "raw"  # an option of labellers in grids: what else they see, and its only value
# Options of labellers as stored cells have them, by the names they have now: a cell keeps its key.
STORED_OPTIONS: Mapping[str, str] = MappingProxyType({new: old for old, new in RENAMED_OPTIONS.items()})
STORED_SETTINGS: Mapping[str, str] = MappingProxyType({"max_rows": "most"})  # the same for baselines
KNN_OPTIONS: Mapping[str, Any] = MappingProxyType({"k": 200, "temperature": 0.1})  # as in the paper, always
PLACE_KEYS = ("task", "setting", "n_labelled", "seed")
KEYS: Mapping[str, Any] = MappingProxyType(
    {"task": str, "setting": str, "n_labelled": int, "seed": int, "prior": str | None, "encoder": str | None}
)
BASELINE_KEYS: Mapping[str, Any] = MappingProxyType({"method": str, "settings": dict})
PIPELINE_KEYS: Mapping[str, Any] = MappingProxyType(
    {
        "objective": str, "recipe": dict, "recipe_name": str, "encoder_prior": str | None, "top": str,
        "labeller": str | None, "head": str, "head_options": dict,
    }
)  # fmt: skip
ENCODER_KEYS = ("task", "setting", "n_labelled", "seed", "encoder", "objective", "recipe")


def canonical(value: Any) -> str:
    """JSON that is the same text for the same configuration: keys sorted, 1.0 as 1, tuples as lists."""
    return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def key_of(config: Mapping[str, Any]) -> str:
    """The identity of a result: the first 16 hexadecimal digits of the SHA-256 of the canonical configuration."""
    return hashlib.sha256(canonical(config).encode()).hexdigest()[:16]


def is_cell(config: Mapping[str, Any]) -> bool:
    """Whether this is the configuration of a cell, as far as its names and their kinds go."""
    wanted = {**KEYS, **(BASELINE_KEYS if is_baseline(config) else PIPELINE_KEYS)}
    return all(name in config and isinstance(config[name], kind) for name, kind in wanted.items())


def is_baseline(config: Mapping[str, Any]) -> bool:
    """Whether the cell is a baseline and not a pipeline."""
    return "method" in config


def is_reference(config: Mapping[str, Any]) -> bool:
    """Whether the cell is told the truth of the training rows, by a teacher too: ceilings and kNN, not methods."""
    told = config.get("labeller") == TRUTH or config.get("method") == SUPERVISED or config.get("head") == KNN
    return told or (TEACHER in config and is_reference(config[TEACHER]))


def registered(method: str) -> str:
    """The registered baseline whose code, settings and needs a method has."""
    return ITS_BASELINE if method == SUPERVISED else method


def encoder_of(config: Mapping[str, Any]) -> Config:
    """What decides the encoder of a pipeline; `recipe_name` is only a name for numbers that are all in `recipe`."""
    return {**{key: config[key] for key in ENCODER_KEYS}, "prior": config["encoder_prior"]}


def usual_setting(task: str) -> str:
    """The setting in which the paper, and whoever says nothing else, has a task."""
    return "single-set" if task.startswith("stl") else "case-control"


def teacher_of(config: Mapping[str, Any]) -> Config:
    """The configuration of the pipeline that a cell learns from."""
    return {**{key: config[key] for key in PLACE_KEYS}, **config["teacher"]}


def stored_options(options: Mapping[str, Any]) -> Config:
    """Options of a labeller or a head under the names that stored cells have."""
    return {STORED_OPTIONS.get(name, name): value for name, value in options.items()}


def current_options(options: Mapping[str, Any]) -> Config:
    """Options of a labeller or a head in a cell under the names they have now."""
    return {RENAMED_OPTIONS.get(name, name): value for name, value in options.items()}


def stored_settings(settings: Mapping[str, Any]) -> Config:
    """Settings of a baseline under the names that stored cells have."""
    return {STORED_SETTINGS.get(name, name): value for name, value in settings.items()}


def current_settings(settings: Mapping[str, Any]) -> Config:
    """Settings of a baseline in a cell under the names they have now."""
    now = {old: new for new, old in STORED_SETTINGS.items()}
    return {now.get(name, name): value for name, value in settings.items()}


def variant_of(config: Mapping[str, Any]) -> str:
    """The configuration without its seed: what results are averaged over."""
    return canonical({key: value for key, value in config.items() if key != "seed"})


def name_of(config: Mapping[str, Any]) -> str:
    """A cell in one line for people; ``--only`` looks for words in it."""
    where = f"{config['task']} {config['n_labelled']} seed {config['seed']}"
    prior = f", prior {config['prior']}" if config["prior"] else ""
    if is_baseline(config):
        return f"{where} {config['method']} ({config['encoder'] or 'own encoder'}{prior})"
    return f"{where} {config['objective']}+{config['top']} ({config['recipe_name']}, {config['encoder']}{prior})"


def units(cells: Iterable[Config]) -> list[list[Config]]:
    """Cells that share an encoder together, a baseline alone, in the order in which they first occur."""
    found: dict[str, list[Config]] = {}
    for cell in cells:
        group = key_of(cell) if is_baseline(cell) else canonical(encoder_of(cell))
        found.setdefault(group, []).append(cell)
    return list(found.values())


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
