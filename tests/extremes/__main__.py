"""`python -m extremes`: every component on every case, and a table of how it ended."""

import argparse
import os
import sys
from collections import Counter

os.environ["OMP_NUM_THREADS"] = "1"

from extremes.cases import CASES, LARGE, frames
from extremes.components import components, tables
from extremes.trial import FAILED, FINITE, REFUSED, Outcome, trial


def run(only: str, case: str, *, large: bool, verbose: bool) -> list[Outcome]:
    """Every component with `only` in its name on every case with `case` in its name, or on those of many rows."""
    outcomes = []
    for name, component in components().items():
        if only not in name:
            continue
        cases = CASES if name not in tables() else {**CASES, **frames()}
        cases = LARGE if large else cases
        if large and name.startswith("loss"):
            continue
        for case_name, make in cases.items():
            if case in case_name:
                outcome = trial(name, component, case_name, make())
                outcomes.append(outcome)
                if outcome.end == FAILED or verbose:
                    print(f"{name} | {case_name} | {outcome.end} | {outcome.why} | {outcome.seconds:.1f}", flush=True)
    return outcomes


def table(outcomes: list[Outcome]) -> str:
    """Of every component, how many cases ended in which way."""
    lines = ["| component | finite | refused | failed |", "|---|---|---|---|"]
    counts: dict[str, Counter[str]] = {}
    for outcome in outcomes:
        counts.setdefault(outcome.component, Counter())[outcome.end] += 1
    for name, count in [*counts.items(), ("all", sum(counts.values(), Counter()))]:
        lines.append(f"| {name} | {count[FINITE]} | {count[REFUSED]} | {count[FAILED]} |")
    return "\n".join(lines)


def main() -> None:
    """Parse, try, print."""
    parser = argparse.ArgumentParser(prog="extremes", description=__doc__)
    parser.add_argument("--only", default="", help="components with this in their name")
    parser.add_argument("--case", default="", help="cases with this in their name")
    parser.add_argument("--large", action="store_true", help="instead, one row repeated 100,000 times")
    parser.add_argument("--verbose", action="store_true", help="print every trial, with what was refused")
    given = parser.parse_args()
    outcomes = run(given.only, given.case, large=given.large, verbose=given.verbose)
    print(f"\n{table(outcomes)}")
    sys.exit(any(outcome.end == FAILED for outcome in outcomes))


if __name__ == "__main__":
    main()
