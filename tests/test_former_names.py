"""Former names of labellers and their options: they work as the present ones do, with a warning."""

import re
import tomllib
from typing import Any

import pytest
import torch

import pucl
from pucl.bench.grid.readouts import resolve_readout
from pucl.errors import InputError
from pucl.pseudo_labels import PseudoLabels, pseudo_label
from ranking_examples import broad

OLD_AND_NEW = (
    ("stacked", "most", "max_rows", 50),
    ("stacked", "even", "whitening", 0.7),
    ("kernel_cvir", "even", "whitening", 0.7),
    ("label_spreading", "neighbours", "n_neighbors", 4),
    ("label_spreading", "on", "alpha", 0.5),
    ("cvir", "most", "max_rows", 50),
)


def same(first: PseudoLabels, second: PseudoLabels) -> bool:
    return torch.equal(first.probability, second.probability) and first.prior == second.prior


@pytest.mark.parametrize(("method", "old", "new", "value"), OLD_AND_NEW)
def test_options(method: str, old: str, new: str, value: Any) -> None:
    z, labelled, _ = broad(120)
    now = pseudo_label(z, labelled, method=method, repeats=1, **{new: value})
    with pytest.warns(FutureWarning, match=f"pucl.pseudo_label: '{old}' is now called '{new}'"):
        before = pseudo_label(z, labelled, method=method, repeats=1, **{old: value})
    assert same(before, now) and not same(now, pseudo_label(z, labelled, method=method, repeats=1))
    with pytest.raises(InputError, match=re.escape(f"{new} must be given once, not as {old!r} too")):
        pseudo_label(z, labelled, method=method, **{old: value, new: value})


def test_arguments_of_pseudo_label() -> None:
    z, labelled, _ = broad(120)
    seen, other = labelled & (torch.arange(120) % 4 == 0), z.flip(1)
    now = pseudo_label(z, labelled, seen_by_encoder=seen, other_embeddings=[other], repeats=1)
    with pytest.warns(FutureWarning) as caught:
        before = pseudo_label(z, labelled, told=seen, beside=[other], repeats=1)
    assert same(before, now)
    said = [str(warning.message) for warning in caught]
    assert len(said) == 2 and all("is now called" in text and "pucl 0.3" in text for text in said)
    assert {warning.filename for warning in caught} == {__file__}, "it points at whoever used the old name"


def test_the_name_of_label_spreading() -> None:
    z, labelled, _ = broad(120)
    now = pseudo_label(z, labelled, method="label_spreading", repeats=1)
    message = "'walks' is now called 'label_spreading'"
    with pytest.warns(FutureWarning, match=message):
        assert same(pseudo_label(z, labelled, method="walks", repeats=1), now)
    x, s = z.numpy(), labelled.numpy()
    with pytest.warns(FutureWarning, match=message):
        labeller = pucl.PseudoLabeller(method="walks", random_state=0).fit(x, s)
    assert labeller.prior_ == pucl.PseudoLabeller(method="label_spreading", random_state=0).fit(x, s).prior_
    with pytest.warns(FutureWarning, match=message):
        model = pucl.PUClassifier(labeller="walks", encoder="raw", random_state=0).fit(x, s)
    assert "label_spreading" in model.summary() and "walks" not in model.summary()


def test_unknown_names_are_answered_with_the_nearest_of_both_families() -> None:
    z, labelled, _ = broad(120)
    for wrong, near in (("stakced", "stacked"), ("prototype", "prototypes"), ("label_spread", "label_spreading")):
        with pytest.raises(InputError, match=f"^pucl.pseudo_label: unknown labeller '{wrong}': did you mean '{near}'"):
            pseudo_label(z, labelled, method=wrong)


def test_names_in_grids() -> None:
    def described(labeller: str, options: str) -> Any:
        return tomllib.loads(f"[x]\nhead = 'linear'\nlabeller = '{labeller}'\nlabeller_options = {{ {options} }}")

    now = resolve_readout("x", described("stacked", "other_embeddings = 'raw', max_rows = 50"))
    with pytest.warns(FutureWarning, match="is now called"):
        before = resolve_readout("x", described("stacked", "beside = 'raw', most = 50"))
    assert before == now
    with pytest.warns(FutureWarning, match="'walks' is now called 'label_spreading'"):
        assert resolve_readout("x", described("walks", "")).labeller == "label_spreading"
