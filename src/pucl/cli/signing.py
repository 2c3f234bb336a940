"""Errors in the words of the command line: signed by the verb, about its options."""

import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, get_args, get_type_hints

import typer
from typer.core import TyperCommand

from pucl.errors import CALLED, InputError, RunError, bad_argument

# Arguments of library functions, and the parameters of verbs that they come from.
PARAMETERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "source": ("data",),
        "folder": ("model", "out"),
        "max_rows": ("rows",),
        "text_columns": ("text",),
        "n": ("rows",),
        "n_labelled": ("labelled",),
        "jsonl": ("log",),
        "path": ("onnx", "out"),
        "every": ("checkpoint_every",),
        "device": ("device",),
    }
)
PLAIN: Mapping[str, str] = MappingProxyType({"s": "the labels", "x": "the rows", "X": "the rows", "z": "the rows"})


class Verb(TyperCommand):
    """A verb that signs the errors of what it calls, with our own error for a value that is not a number."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words of the command line."""
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            _say_number(error, self, given, command_of(ctx))
            raise
        except Exception as error:  # some usage errors do not know which command they are about
            if getattr(error, "ctx", ctx) is None:
                error.ctx = ctx  # type: ignore[attr-defined]
            raise

    def invoke(self, ctx: Any) -> Any:
        """Run the verb."""
        try:
            with _warnings_in_words_of(_spellings(ctx)):
                return super().invoke(ctx)
        except InputError as error:
            _sign(error, ctx)
            raise
        except RunError as error:
            reason = CALLED.sub("", str(error), count=1).removeprefix(": ")
            error.args = (f"{command_of(ctx)}: {respell(reason, _spellings(ctx))}",)
            raise


def command_of(context: typer.Context) -> str:
    """The command as the user types it, ``pucl bench run``, however the program was started."""
    words: list[str] = []
    above: Any = context
    while above.parent is not None:
        words.insert(0, str(above.info_name))
        above = above.parent
    return " ".join(("pucl", *words))


def number_or_text(hint: Any) -> str:
    """What an option of this type takes, in words: ``int | None`` takes a whole number."""
    kinds = [kind for kind in get_args(hint) or (hint,) if kind is not type(None)]
    return {int: "a whole number", float: "a number", bool: "true or false"}.get(kinds[0], "text")


def _say_number(error: Any, verb: Verb, given: list[str], command: str) -> None:
    """Raise our own error for a value that is not a number; typer explains other mistakes well."""
    param = error.param
    hint = get_type_hints(verb.callback).get(param.name) if param is not None else None
    allowed = number_or_text(hint)
    for word, after in reversed(list(zip(given, [*given[1:], ""], strict=False))):  # the last one counts
        option, equals, value = word.partition("=")
        if allowed in ("a whole number", "a number") and option in param.opts:
            raise bad_argument(command, option, allowed, value if equals else after) from None


def _sign(error: InputError, context: Any) -> None:
    spelled = _spellings(context)
    argument = error.argument
    if error.unknown and not argument:
        argument = _giver(error.unknown, context.params, spelled)
    elif CALLED.match(error.owner):
        argument = " and ".join(_spell(part, spelled) for part in argument.split(" and "))
    error.sign(command_of(context), argument=argument, problem=respell(error.problem, spelled))


def _spellings(context: Any) -> dict[str, str]:
    """What the user types for every parameter of a verb."""
    return {
        param.name: max(param.opts, key=len) if param.param_type_name == "option" else param.name.upper()
        for param in context.command.params
    }


@contextmanager
def _warnings_in_words_of(spelled: Mapping[str, str]) -> Iterator[None]:
    """Warnings raised inside name options."""
    before = warnings.showwarning

    def show(message: Warning | str, *where: Any, **more: Any) -> None:
        before(respell(str(message), spelled), *where, **more)

    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = before


def _spell(argument: str, spelled: Mapping[str, str]) -> str:
    """An argument as the option it is: ``batch_size`` as ``--batch-size``, ``folder x`` as ``--out x``."""
    name, *rest = argument.split(" ", 1)
    options = (spelled[parameter] for parameter in PARAMETERS.get(name, (name,)) if parameter in spelled)
    return " ".join((next(options, PLAIN.get(name, name) if not rest else name), *rest))


def respell(text: str, spelled: Mapping[str, str]) -> str:
    """A text with ``size=``, ``resume=True`` or ``tune='all'`` written as options: ``--tune all``."""

    def option(match: re.Match[str]) -> str:
        known = (spelled[name] for name in PARAMETERS.get(match[1], (match[1],)) if name in spelled)
        flag = next(known, None)
        return match[0] if flag is None else f"{flag} {match[2]}" if match[2] else flag

    return re.sub(r"(?<![-\w])([a-z]\w*)=(?:True|None|'([^']*)')?(?![\w'\"(\[{])", option, text)


def _giver(name: str, given: Mapping[str, Any], spelled: Mapping[str, str]) -> str:
    """The only option whose value is `name` or a list with it; empty if there are several or none."""
    options = [spelled[option] for option, value in given.items() if option in spelled and name in _parts(value)]
    return options[0] if len(options) == 1 else ""


def _parts(value: Any) -> list[str]:
    values = value if isinstance(value, list | tuple) else [value]
    texts = [text for text in values if isinstance(text, str)]
    return [part.strip() for text in texts for part in (text, *text.split(","))]
