"""Pseudo-labels: a ranking, or an embedding with s, to a label, a probability and a reliability for every row."""

from pucl.pseudo_labels.labellers import find_labeller, labellers
from pucl.pseudo_labels.labelling import pseudo_label
from pucl.pseudo_labels.outcome import PseudoLabels

__all__ = ["PseudoLabels", "find_labeller", "labellers", "pseudo_label"]
