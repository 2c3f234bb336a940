"""A worker process of the suite of tables: splits come in with their cells, outcomes go out one by one.

Importing this file loads no other part of the package, so that the number of threads is set before torch is loaded.
"""

from multiprocessing.connection import Connection

from pucl.bench.run.worker import prepare


def work_on_tables(commit: str | None, connection: Connection) -> None:
    """Answer every unit, the cells of one split, by as many outcomes, until there are no more."""
    prepare(threads=1)
    from pucl.bench.tables.suite import origin_of, run_unit

    origin = origin_of(commit)
    while True:
        for outcome in run_unit(connection.recv(), origin):
            connection.send(outcome)
