"""What the lines of `tables.py` say: ranks, gaps, errors and coverage of π̂, promises, time; by role of the table."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
from table_methods import KNOWS, OURS, Line

CELL = ["table", "share", "seed"]
ROLES = ("development", "held back")


def frame_of(lines: Sequence[Line]) -> pd.DataFrame:
    """One row per finished fit."""
    done = [line for line in lines if "error" not in line.get("metrics", {"error": ""})]
    return pd.DataFrame([{"role": line["role"], **line["config"], **line["metrics"]} for line in done])


def compared(part: pd.DataFrame, methods: Sequence[str] | None) -> list[str]:
    """The methods asked for, or those that ran on at least half as many cells as the one that ran on most."""
    counts = part["method"].value_counts()
    if methods:
        return [method for method in methods if method in counts]
    return sorted(counts[counts >= counts.max() / 2].index)


def ranks(part: pd.DataFrame, methods: Sequence[str]) -> pd.DataFrame:
    """One row per method, over the cells on which all of them ran.

    Ranks (1 is best) and gaps are among methods that know nothing of the truth. A gap is the AUC of the best other
    method less the own, on the table where that is largest, means over shares and seeds.
    """
    part = part[part["method"].isin(methods)]
    wide = part.pivot(index=CELL, columns="method").dropna(subset=[("auc", method) for method in methods])
    fair = [method for method in methods if method not in KNOWS]
    found = pd.DataFrame(index=pd.Index(methods, name="method"))
    for what in ("auc", "f1", "f1_at_share"):
        by_table = wide[what].astype(float).groupby(["table", "share"]).mean()
        found[f"{what} rank"] = by_table[fair].rank(axis=1, ascending=False).mean()
        found[what] = by_table.mean()
    by_table = wide["auc"].astype(float).groupby("table").mean()
    for method in fair:
        if len(fair) > 1:
            gaps = by_table[[other for other in fair if other != method]].max(axis=1) - by_table[method]
            found.loc[method, "worst gap"] = gaps.max()
            found.loc[method, "on"] = gaps.idxmax()
    found["cpu s"] = wide["cpu_seconds"].astype(float).mean()
    found.attrs["cells"], found.attrs["tables"] = len(wide), len(by_table)
    return found.sort_values("auc rank")


def shares(part: pd.DataFrame) -> pd.DataFrame:
    """Error and coverage of every π̂: `covered`: π inside the interval, `bounded`: π at most its upper end."""
    rows = [
        {"method": row["method"], "estimator": name, "bias": prior["value"] - row["pi"], **prior}
        for _, row in part.iterrows()
        if isinstance(row.get("priors"), dict)
        for name, prior in row["priors"].items()
    ]
    if not rows:
        return pd.DataFrame()
    said = pd.DataFrame(rows).reindex(
        columns=["method", "estimator", "error", "bias", "low", "high", "covered", "bounded"]
    )
    said["width"] = said["high"] - said["low"]
    groups = said.astype({"covered": float, "bounded": float}).groupby(["method", "estimator"])
    found = groups[["error", "bias", "covered", "bounded", "width"]].mean()
    found.insert(1, "worst", groups["error"].max())
    found.insert(0, "fits", groups.size())
    return found


def promises(part: pd.DataFrame) -> pd.DataFrame:
    """Promised less true precision and accuracy on U: mean, largest, and the share of fits above 0.1."""
    rows = [
        {"method": row["method"], "what": what, "gap": row["promised"][what] - row["true"][what]}
        for _, row in part.iterrows()
        if isinstance(row.get("promised"), dict)
        for what in row["promised"]
    ]
    if not rows:
        return pd.DataFrame()
    groups = pd.DataFrame(rows).groupby(["method", "what"])["gap"]
    above = groups.apply(lambda gaps: (gaps > 0.1).mean())
    return pd.DataFrame({"fits": groups.size(), "mean": groups.mean(), "largest": groups.max(), "above 0.1": above})


def by_table(part: pd.DataFrame, what: str = "auc") -> pd.DataFrame:
    """Means over shares and seeds, tables as rows."""
    sizes = part.groupby("table")[["rows", "columns", "labelled", "pi"]].mean()
    return sizes.join(part.pivot_table(index="table", columns="method", values=what))


def show(lines: Sequence[Line], methods: Sequence[str] | None = None) -> None:
    frame = frame_of(lines)
    failed = [line for line in lines if "error" in line.get("metrics", {})]
    print(f"{len(frame)} fits, {len(failed)} failed; {', '.join(KNOWS)} know {', '.join(KNOWS.values())}")
    options: dict[str, Any] = {"float_format": lambda value: f"{value:.3f}", "na_rep": ""}
    for role in ROLES if len(frame) else ():
        part = frame[frame["role"] == role]
        if part.empty:
            continue
        listed = compared(part, methods)
        subsets = [listed, [*listed, OURS]] if OURS in set(part["method"]) - set(listed) and not methods else [listed]
        for subset in subsets:
            table = ranks(part, subset)
            print(f"\n== {role}: {table.attrs['tables']} tables, {table.attrs['cells']} cells on which all ran")
            print(table.to_string(**options))
        chosen = part[part["method"].isin(subsets[-1])]
        for title, table in (("π̂", shares(chosen)), ("promised − true, on U", promises(chosen))):
            if len(table):
                print(f"\n{title}, {role}\n{table.to_string(**options)}")
        print(f"\nAUC by table, {role}\n{by_table(chosen).to_string(**options)}")
