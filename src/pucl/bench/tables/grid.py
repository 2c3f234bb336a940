"""A grid of tables: a TOML file with tables × labelled shares × seeds × methods; what comes out is a list of cells.

```toml
tables = ["development", "held back"]  # or names of tables
shares = [0.1, 0.3, 0.5]               # of the positive training rows, labelled
seeds = [0, 1, 2, 3, 4]
methods = ["pucl", "bag", "elkan_noto"]
```
"""

from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any

from pucl.bench.grid.decode import counts, decode, one_or_more, read_toml
from pucl.bench.grid.grid import LAST_SEED
from pucl.bench.run.matching import matching
from pucl.bench.tables.line import TableCell
from pucl.bench.tables.methods import METHODS
from pucl.bench.tables.sets import ROLES, TABLES, names_of
from pucl.errors import bad_argument, check_known, check_share

KEY = "tables"  # what a grid of tables has and no other grid
WORDS = ("table", "share", "seed", "method")
names = one_or_more()


def _shares(owner: str, key: str, value: Any) -> list[float]:
    values = value if isinstance(value, list) else [value]
    if not values:
        raise bad_argument(owner, key, "a list of numbers strictly between 0 and 1", value)
    return [check_share(owner, key, share) for share in values]


@dataclass(frozen=True)
class TableGrid:
    """The content of a grid file."""

    tables: Annotated[list[str], names]
    shares: Annotated[list[float], _shares]
    seeds: Annotated[list[int], counts(low=0, high=LAST_SEED)]
    methods: Annotated[list[str], names]

    def cells(self) -> list[TableCell]:
        """Every cell once, seed by seed, so that a run that is stopped has seen all tables."""
        tables = [name for given in self.tables for name in names_of(given)]
        found = product(self.seeds, tables, self.shares, self.methods)
        return list(dict.fromkeys(TableCell(table, share, seed, method) for seed, table, share, method in found))


def is_table_grid(path: Path) -> bool:
    """Whether a grid file is one of tables."""
    return KEY in read_toml("pucl bench", "GRID", path)


def read_table_grid(path: Path) -> list[TableCell]:
    """The cells of a grid of tables; whatever is wrong in the file is one error that names it."""
    grid = decode(TableGrid, read_toml("pucl bench", "GRID", path), owner=path.name)
    check_known(path.name, "table", grid.tables, (*ROLES, *TABLES))
    check_known(path.name, "method", grid.methods, METHODS)
    return grid.cells()


def select(cells: list[TableCell], only: list[str]) -> list[TableCell]:
    """The cells that fit all of `only`, see `matching`."""
    return matching(cells, only, WORDS, getattr)
