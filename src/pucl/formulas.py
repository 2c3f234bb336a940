"""Texts in CSV files that no spreadsheet runs as a formula, and that come back as they were.

A text that begins with =, or with +, - or @ and calls a function or refers to something outside the sheet, gets an
apostrophe in front. Other texts stay as they are, such as the ids -x7Qa, @name and +49 170: without a call they can do
nothing. A text that had apostrophes in front of such a formula gets one more, so that the change can be undone.
"""

import re

# What is skipped in front, a sign (full-width ones count in some languages), and a call, a command or another sheet.
_FORMULA = re.compile(
    r"'*[\s\ufeff\x00]*(?:[=\uff1d]|[+\-@\uff0b\uff0d\uff20](?=.*(?:[^\W\d]\w*\s*\(|[|!])))", re.DOTALL
)
MARK = "'"


def is_formula(text: str) -> bool:
    """Whether a spreadsheet might run a text, or it is one that was marked."""
    return _FORMULA.match(text) is not None


def marked(text: str) -> str:
    """The text with an apostrophe in front if a spreadsheet might run it."""
    return f"{MARK}{text}" if is_formula(text) else text


def unmarked(text: str) -> str:
    """The text that `marked` was given."""
    return text[1:] if text.startswith(MARK) and is_formula(text[1:]) else text
