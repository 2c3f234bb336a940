"""People in the MRI slices: told by the names of the files, and kept apart by `alzheimer_grouped`."""

from pathlib import Path

import numpy as np
import pytest

from dataset_examples import write_images
from pucl.baselines import settings_of
from pucl.data import load
from pucl.data.alzheimer import NAMES, SLICES, people_of
from pucl.data.readers.image_folder import list_images
from pucl.data.sources import VARIABLE
from pucl.errors import InputError


def names(n_people: int) -> list[tuple[int, int, str]]:
    """Slice, person and original file name of every image of a class."""
    pairs = [(k, person) for k in range(1, SLICES + 1) for person in range(1, n_people + 1)]
    return [(k, person, f"{k} ({person}).jpg" if person > 1 else f"{k}.jpg") for k, person in pairs]


def published(n_people: int, last: int) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """Person and file name of the training and the test images, split after some people of slice 26."""
    in_training = [
        (k, name, person) for k, person, name in names(n_people) if k < 26 or (k == 26 and 1 < person <= last)
    ]
    test = [(person, name) for k, person, name in names(n_people) if k > 26 or (k == 26 and not 1 < person <= last)]
    train = [(person, f"dem{i}.jpg") for i, (*_, person) in enumerate(sorted(in_training))]
    return train, test


@pytest.mark.parametrize("n_people", [2, 11, 28])
def test_the_person_on_every_image(n_people: int) -> None:
    parts = published(n_people, last=n_people // 2)
    files = [[Path(name) for _, name in reversed(part)] for part in parts]
    found = people_of(*files)
    for part, people in zip(parts, found, strict=True):
        assert people.tolist() == [person for person, _ in reversed(part)]
    assert np.bincount(np.concatenate(found))[1:].tolist() == [SLICES] * n_people


def test_other_files_are_refused() -> None:
    train, test = ([Path(name) for _, name in part] for part in published(5, last=2))
    for wrong in ((train[:-1], test), (train, test[:-1]), ([*train[:-1], Path("scan.jpg")], test), ([], [])):
        with pytest.raises(InputError, match="alzheimer_grouped: .* are not those of the published split"):
            people_of(*wrong)


@pytest.fixture
def slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six people a class, each of one grey of their own."""
    for number, kind in enumerate(NAMES):
        for part, images in zip(("train", "test"), published(6, last=3), strict=True):
            folder = tmp_path / "alzheimer-mri" / part / kind
            write_images(folder, *[np.full((8, 8), 40 * number + 5 * person, np.uint8) for person, _ in images])
            for path, (_, name) in zip(list_images(folder), images, strict=True):
                path.rename(folder / name.replace(".jpg", "_.png"))
            for path in list_images(folder):
                path.rename(folder / path.name.replace("_", ""))
    monkeypatch.setenv(VARIABLE, str(tmp_path))


@pytest.mark.usefixtures("slices")
def test_nobody_is_in_both_parts() -> None:
    draws = []
    for seed in range(3):
        data = load("alzheimer_grouped", size=8, seed=seed)
        people, people_test = (np.unique(x.reshape(len(x), -1), axis=0)[:, 0] for x in (data.x_train, data.x_test))
        assert not set(people) & set(people_test) and len(people) + len(people_test) == 24
        assert len(data.x_test) == 4 * SLICES and data.y_test.sum() == 3 * SLICES  # one person of every class
        np.testing.assert_array_equal(data.y_test, data.x_test[:, 0, 0, 0] < 120)
        draws.append(frozenset(people_test))
    assert len(set(draws)) > 1
    again = load("alzheimer_grouped", size=8, seed=2)
    assert frozenset(again.x_test.flatten()) == draws[2]
    plain = load("alzheimer", size=8)
    assert set(plain.x_test.flatten()) == set(plain.x_train.flatten())  # the published split: everybody is in both


def test_baselines_have_the_settings_of_the_published_split() -> None:
    assert settings_of("nnpu", "alzheimer_grouped") == settings_of("nnpu", "alzheimer") != settings_of("nnpu")
