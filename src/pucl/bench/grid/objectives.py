"""Options of objectives in grids: a value, or a list of values to run each of."""

from collections.abc import Iterable, Mapping
from itertools import product

from pucl.bench.grid.cells import OPTIONS, UNTRAINED
from pucl.bench.grid.decode import Option, Options, as_table, keywords
from pucl.errors import bad_argument, blamed_on, check_known
from pucl.losses import make_objective
from pucl.registry import check_options, entries, get

ELSEWHERE = frozenset({"temperature", "prior"})  # where grids say these
SOME = 0.5  # in place of a prior that is known once the data are loaded


def option_sets(owner: str, objectives: Iterable[str], given: Option) -> dict[str, list[Options]]:
    """For every objective the sets of its options to run, by name; one empty set where none are given.

    `given` is a table of tables by objective. A list stands for each of its values; several lists for their product.
    Values that are the defaults are left out of a set, so that they change no cell.
    """
    tables = as_table(owner, OPTIONS, given)
    check_known(f"{owner}: {OPTIONS}", "losses", tables, entries("losses"))
    return {name: _sets(owner, name, tables.get(name, {})) for name in objectives}


def _sets(owner: str, objective: str, given: Option) -> list[Options]:
    if objective == UNTRAINED:
        return [{}]
    with blamed_on(f"{owner}: objectives"):
        entry = get("losses", objective)
    table = as_table(f"{owner}: {OPTIONS}", objective, given)
    lists = [value if isinstance(value, list) else [value] for value in table.values()]
    sets = [dict(zip(table, values, strict=True)) for values in product(*lists)]
    defaults = keywords(entry.function)
    for options in sets:
        with blamed_on(f"{owner}: {OPTIONS}"):
            for name in ELSEWHERE & options.keys():
                raise bad_argument(objective, name, "given with the recipe or the block, not here", options[name])
            check_options(entry, options)
            make_objective(objective, prior=SOME if entry.needs_prior else None, **options)
    return [_changed(options, defaults) for options in sets]


def _changed(options: Mapping[str, Option], defaults: Options) -> Options:
    return {name: value for name, value in options.items() if name not in defaults or value != defaults[name]}
