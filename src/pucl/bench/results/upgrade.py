"""Lines of results as older versions wrote them, in the form of today: `bench add` takes files of any age.

Version 0.1 called a readout `top`, kept its parts next to those of the encoder, had other names for some options and a
hash of source files (`code`) in place of revisions. Its lines were made with the first revision of everything.

Until the default of users and of grids became one, grids called the labeller kernel_cvir `auto`: such lines are taken
under the name of what was run, with their numbers.
"""

from collections.abc import Mapping

from pucl.bench.grid import renames
from pucl.bench.grid.cells import cell_from
from pucl.bench.grid.decode import Option, Options, as_table
from pucl.bench.grid.identity import key_of
from pucl.bench.results.revisions import revisions_of
from pucl.pseudo_labels.labellers import RENAMED_OPTIONS
from pucl.registry import current_name

OWNER = "a result"
PLACE = ("task", "setting", "n_labelled", "seed")
ENCODER = ("encoder", "objective", "recipe_name", "recipe", "encoder_prior")


def in_todays_form(line: Options) -> Options:
    """A line of any age in the form of today; one whose key does not match its configuration is refused."""
    line = upgraded(line) if is_old(line) else line
    config = line.get("config")
    named = _with_named_readouts(config) if isinstance(config, Mapping) else config
    if named == config:
        return line
    if key_of(as_table(OWNER, "its configuration", config)) != line.get("key"):
        raise ValueError("a configuration that does not match its key")
    return {**line, "config": named, "key": key_of(as_table(OWNER, "its configuration", named))}


def is_old(line: Options) -> bool:
    """Whether a line is of version 0.1."""
    return "code" in line and "revisions" not in line


def upgraded(line: Options) -> dict[str, Option]:
    """A line of version 0.1 in the form of today; one whose key does not match its configuration is refused."""
    config = as_table(OWNER, "its configuration", line.get("config"))
    if key_of(config) != line.get("key"):
        raise ValueError("a configuration that does not match its key")
    table = _configuration(config)
    cell = cell_from(table)
    metrics = renames.renamed(as_table(OWNER, "metrics", line.get("metrics")), renames.METRICS)
    rest = {name: value for name, value in line.items() if name != "code"}
    revisions = dict.fromkeys(revisions_of(cell), 1)
    return {**rest, "key": cell.key, "config": table, "metrics": metrics, "revisions": revisions}


def _configuration(old: Options) -> dict[str, Option]:
    place = {name: old.get(name) for name in PLACE}
    if "method" in old:
        settings = renames.renamed(as_table(OWNER, "settings", old.get("settings")), renames.SETTINGS)
        return {**place, **{name: old.get(name) for name in ("encoder", "prior", "method")}, "settings": settings}
    return {**place, **_pipeline(old)}


def _pipeline(old: Options) -> dict[str, Option]:
    """A pipeline without its place."""
    readout: dict[str, Option] = {
        "name": old.get("top"),
        "labeller": _labeller(old.get("labeller")),
        "labeller_options": _options(old.get("labeller_options", {})),
        "head": old.get("head"),
        "head_options": _options(old.get("head_options", {})),
        "prior": old.get("top_prior"),
    }
    if "teacher" in old:
        readout["teacher"] = _pipeline(as_table(OWNER, "teacher", old["teacher"]))
    return {**{name: old.get(name) for name in ENCODER}, "readout": readout}


def _labeller(name: Option) -> Option:
    return current_name("rankers", name) if isinstance(name, str) else name


def _options(options: Option) -> Option:
    return renames.renamed(options, RENAMED_OPTIONS) if isinstance(options, Mapping) else options


def _with_named_readouts(config: Options) -> Options:
    """A configuration whose readouts, those of teachers too, have the names of what was run."""
    readout = config.get("readout")
    if not isinstance(readout, Mapping):
        return config
    name, labeller, teacher = (readout.get(key) for key in ("name", "labeller", "teacher"))
    own = {**readout, "name": renames.READOUTS.get((str(name), str(labeller)), name)}
    if isinstance(teacher, Mapping):
        own["teacher"] = _with_named_readouts(teacher)
    return {**config, "readout": own}
