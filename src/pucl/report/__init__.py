"""The report: one HTML file that shows a fitted model to people, works offline and stays under 5 MB."""

from pucl.report.render import render

__all__ = ["render"]
