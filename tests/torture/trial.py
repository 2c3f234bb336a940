"""One trial: a run with a fault, what it leaves, and the same run again."""

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from torture.events import watch
from torture.faults import Fault, Figures, Kind
from torture.inputs import write_inputs
from torture.processes import HUNG, Sandbox, Step, end, left_behind, memory_of_this_process, start
from torture.verbs import PASSING, Items, Verb

# What an unfinished run may show besides its results.
UNFINISHED = re.compile(
    r".*\.tmp|(^|.*/)(\.fit|\.new|\.ready|checkpoints)(/|$).*|.*\.part(/.*)?|.*\.lock|.*-journal|cache/embeddings.sqlite|data/packed.tar"
    r"|.*/(encoder\.(json|safetensors)|table\.json|log\.jsonl|manifest\.json)|r\.jsonl"
)
MODEL = ("fit", "people.csv", "--label", "known", "--id-column", "id", "--encoder", "raw", "--labeller", "pupl",
         "--head", "linear", "--prior", "0.3", "--device", "cpu", "--out", "model")  # fmt: skip


@dataclass(frozen=True)
class Reference:
    """An undisturbed run of a verb.

    Attributes:
        items: its results.
        files: all files and folders that are there after it.
        figures: what it took.
        old: another result in the same place, and its files.
    """

    items: Items
    files: frozenset[str]
    figures: Figures
    old: Items = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """What came of a trial: the problems, none if it was survived, and how the disturbed run ended."""

    verb: str
    fault: str
    moment: str
    problems: tuple[str, ...]
    code: int
    seconds: float
    left_in_tmp: int

    def line(self) -> str:
        """For people."""
        result = "not survived" if self.problems else "survived"
        return f"{self.verb}: {self.fault} {self.moment}: ended with {self.code}, {result}, {self.seconds:.1f} s"


class Bench:
    """Inputs, undisturbed runs and trials, in folders below one.

    Args:
        root: for all of it.
        offer: is called in every run first.
    """

    def __init__(self, root: Path, offer: Step) -> None:
        self.root, self.offer = root, offer
        self.inputs = root / "inputs"
        self.inputs.mkdir()
        write_inputs(self.inputs)
        self.references: dict[str, Reference] = {}
        place = self._sandbox("fitted", with_model=False)
        self._undisturbed(place, MODEL, _main)
        shutil.copytree(place.work / "model", root / "model")

    def reference(self, verb: Verb) -> Reference:
        """The undisturbed run of a verb, made once."""
        if verb.name not in self.references:
            place = self._sandbox(f"reference-{len(self.references)}", with_model=verb.needs_model)
            old: Items = {}
            if verb.old:
                other = self._sandbox(f"old-{len(self.references)}", with_model=verb.needs_model)
                self._undisturbed(other, verb.old, verb.step())
                old = verb.result(other.work)
            before = _sizes(place.work)
            counted = place.root / "calls.json"
            seconds = self._undisturbed(place, verb.words, _counting(verb.step(), place.work, counted))
            calls, memory = json.loads(counted.read_text(encoding="utf-8"))
            written = [size for path, size in _sizes(place.work).items() if before.get(path) != size]
            if left := [name for name in _tree(place.work) if name.endswith((".tmp", ".lock", ".part"))]:
                raise RuntimeError(f"{verb.name} leaves {left} without a fault")
            figures = Figures(seconds, tuple(calls), max(written, default=1), sum(written), memory)
            self.references[verb.name] = Reference(verb.result(place.work), _tree(place.work), figures, old)
        return self.references[verb.name]

    def trial(self, verb: Verb, kind: Kind, number: int, rng: Random) -> Outcome:
        """One fault, and the run after it."""
        reference, began = self.reference(verb), time.perf_counter()
        fault = kind.draw(rng, reference.figures)
        with self._trial_sandbox(f"trial-{number}", verb, with_old=bool(verb.old) and rng.random() < 0.5) as place:
            before = verb.result(place.work)
            words = (*verb.words, *(verb.again if before and verb.again else ()))
            if fault.prepare is not None:
                fault.prepare(place)
            codes, problems = self._disturbed(place, verb, words, fault)
            if fault.lift is not None:
                fault.lift(place)
            problems += self._visible(place, verb, reference, before)
            left = sum(not _is_of_torch(path) for path in place.tmp.iterdir())
            problems += self._again(place, verb, reference)
        moment = fault.moment + (", over another result" if before else "")
        seconds = time.perf_counter() - began
        return Outcome(verb.name, kind.name, moment, tuple(problems), codes[0], seconds, left)

    def _disturbed(
        self, place: Sandbox, verb: Verb, words: tuple[str, ...], fault: Fault
    ) -> tuple[list[int], list[str]]:
        """Run with the fault; the exit codes and the problems."""

        def before() -> None:
            self.offer()
            if fault.inside is not None:
                fault.inside(place.work)

        numbers = [start(verb.step(), place, words, before)]
        if fault.outside is not None:
            fault.outside(numbers[0])
        if fault.twice is not None:
            time.sleep(fault.twice)
            numbers.append(start(verb.step(), place, words, before))
        codes = [end(number) for number in numbers]
        problems = ["it hangs"] if HUNG in codes else []
        if any(left_behind(number) for number in numbers):
            problems.append("a process is left behind")
        said = place.said.read_text(encoding="utf-8", errors="replace")
        if "Traceback" in said:
            problems.append(f"a traceback: {_end_of(said)}")
        if fault.twice is not None and 0 not in codes:
            problems.append(f"neither run succeeds: {codes}: {_end_of(said)}")
        return codes, problems

    def _visible(self, place: Sandbox, verb: Verb, reference: Reference, before: Items) -> list[str]:
        """What of it is neither as before nor as after an undisturbed run."""
        try:
            found = verb.result(place.work)
        except Exception as error:
            return [f"what is there cannot be read: {type(error).__name__}: {error}"]
        final = {name: value for name, value in found.items() if not name.startswith(PASSING)}
        wrong = [name for name, value in final.items() if value not in (before.get(name), reference.items.get(name))]
        wrong += [f"{name} is gone" for name in before if name not in found]
        strange = [name for name in _tree(place.work) - reference.files if not _is_unfinished(name)]
        return [f"partly done: {name}" for name in wrong] + [f"a strange file: {name}" for name in strange]

    def _again(self, place: Sandbox, verb: Verb, reference: Reference) -> list[str]:
        """What is wrong after the same run, without a fault."""
        place.said.unlink()
        shutil.rmtree(place.tmp)
        place.tmp.mkdir()
        number = start(verb.step(), place, (*verb.words, *verb.again), self.offer)
        code = end(number)
        problems = ["run again, a process is left behind"] if left_behind(number) else []
        said = place.said.read_text(encoding="utf-8", errors="replace")
        if code:
            return [*problems, f"run again, it {'hangs' if code == HUNG else f'ends with {code}'}: {_end_of(said)}"]
        found, there = verb.result(place.work), _tree(place.work)
        odd = sorted(name for name in {*found, *reference.items} if found.get(name) != reference.items.get(name))
        problems += [f"run again, it differs: {name}" for name in odd]
        problems += [f"run again, litter is left: {name}" for name in sorted(there - reference.files)]
        problems += [f"run again, it is missing: {name}" for name in sorted(reference.files - there)]
        litter = [path.name for path in place.tmp.iterdir() if not _is_of_torch(path)]
        return problems + [f"run again, litter in TMPDIR: {name}" for name in litter]

    def _undisturbed(self, place: Sandbox, words: tuple[str, ...], action: Step) -> float:
        began = time.perf_counter()
        code = end(start(action, place, words, self.offer))
        if code:
            raise RuntimeError(f"{' '.join(words)} ends with {code} without a fault: {place.said.read_text()}")
        return time.perf_counter() - began

    def _sandbox(self, name: str, *, with_model: bool) -> Sandbox:
        place = Sandbox(self.root / name)
        place.tmp.mkdir(parents=True)
        place.said.touch()
        shutil.copytree(self.inputs, place.work)
        (place.work / "data").mkdir()
        if with_model:
            shutil.copytree(self.root / "model", place.work / "model")
        return place

    @contextmanager
    def _trial_sandbox(self, name: str, verb: Verb, *, with_old: bool) -> Iterator[Sandbox]:
        place = self._sandbox(name, with_model=verb.needs_model)
        try:
            if with_old:
                self._undisturbed(place, verb.old, verb.step())
            yield place
        finally:
            if place.work.is_mount():
                subprocess.run(["umount", str(place.work)], check=True)
            shutil.rmtree(place.root)


def _main() -> None:
    from pucl.cli.app import main

    main()


def _counting(action: Step, work: Path, out: Path) -> Step:
    """The action, which writes by which calls it changed files and how much memory it took."""

    def counted() -> None:
        calls: list[str] = []
        began = memory_of_this_process("VmSize")
        watch(work, calls.append, lambda _: None)
        try:
            action()
        finally:
            known = list(calls)
            out.write_text(json.dumps([known, memory_of_this_process("VmPeak") - began]), encoding="utf-8")

    return counted


def _tree(folder: Path) -> frozenset[str]:
    return frozenset(str(path.relative_to(folder)) for path in folder.rglob("*"))


def _sizes(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_size for path in folder.rglob("*") if path.is_file()}


def _is_of_torch(path: Path) -> bool:
    """Whether a file for temporary use is the cache that torch makes when its compiler is loaded."""
    return path.name.startswith("torchinductor_")


def _is_unfinished(name: str) -> bool:
    return UNFINISHED.fullmatch(name) is not None


def _end_of(said: str) -> str:
    return " | ".join(said.strip().splitlines()[-3:])[-400:]
