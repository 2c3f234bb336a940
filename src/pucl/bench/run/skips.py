"""Why a cell cannot be run here, as far as can be told without loading any data; a reason, not an error."""

from collections.abc import Mapping
from typing import Any

from pucl.bench.grid.cells import is_baseline, registered
from pucl.data import Kind
from pucl.data.sources import SOURCES
from pucl.registry import get

SOME = 0.5  # in place of a prior that is known once the data are loaded
NO_PRIOR = "needs a prior, 'oracle' or the name of an estimator, and the grid gives none"


def why_not_run(config: Mapping[str, Any]) -> str | None:
    """The reason, or None if the cell can be tried."""
    kinds = get("datasets", config["task"]).inputs
    for source in SOURCES:
        if config["task"] in source.tasks and (missing := source.missing()):
            return str(source.absent(source.folder / missing[0]))
    return _of_baseline(config, kinds) if is_baseline(config) else _of_pipeline(config, kinds)


def _of_baseline(config: Mapping[str, Any], kinds: tuple[str, ...]) -> str | None:
    from pucl.baselines import why_not

    method = registered(config["method"])
    if get("baselines", method).needs_prior and config["prior"] is None:
        return f"{config['method']}: {NO_PRIOR}"
    kind: Any = kinds[0]
    typed: Kind = kind
    reason = why_not(method, typed, SOME)
    return None if reason is None else f"{config['method']}: {reason}"


def _of_pipeline(config: Mapping[str, Any], kinds: tuple[str, ...]) -> str | None:
    if get("losses", config["objective"]).needs_prior and config["encoder_prior"] is None:
        return f"{config['objective']}: {NO_PRIOR}"
    for family, name in (("encoders", config["encoder"]), ("views", config["recipe"]["view"])):
        takes = get(family, name).inputs
        if not set(takes) & set(kinds):
            return f"{name}: takes {' or '.join(takes)} data; {config['task']} has {kinds[0]} data"
    if config["head"] in ("nnpu", "upu") and config["top_prior"] is None and config["labeller"] is None:
        return f"{config['top']}: {NO_PRIOR}"
    return None
