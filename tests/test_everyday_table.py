"""A table as people have it, from the frame to ONNX."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model_examples import needs_export
from pucl import PUClassifier
from pucl.models.export import export_onnx

pd = pytest.importorskip("pandas")
N = 200


def people(seed: int = 0, *, new: bool = False) -> tuple[Any, Any]:
    """Customers, and which of them churn: the older ones with the dear plan; `new` ones also live elsewhere."""
    r = np.random.default_rng(seed)
    churns = r.random(N) < 0.35
    towns = [f"town {i}" for i in range(30)] + ["Elsewhere"] * (10 if new else 0)
    frame = pd.DataFrame(
        {
            "age": r.normal(35, 6, N) + 18 * churns,
            "visits": r.poisson(3, N),
            "plan": np.where(r.random(N) < 0.15 + 0.7 * churns, "dear", r.choice(["cheap", "free"], N)),
            "town": r.choice(towns, N),
            "joined": pd.Timestamp("2020-01-01") + pd.to_timedelta(r.integers(0, 1500, N), unit="D"),
            "phone": r.random(N) < 0.5,
            "country": "DE",
        }
    )
    for name in ("age", "visits", "plan", "town", "joined", "phone"):
        frame[name] = frame[name].astype(object if name == "phone" else frame[name].dtype).mask(r.random(N) < 0.08)
    frame["phone"] = frame["phone"].astype("boolean")
    return frame, churns


def onnx_inputs(frame: Any, about: dict[str, str]) -> dict[str, Any]:
    """The frame as an exported model takes it: dates as days, booleans as 0 and 1, text that is missing as empty."""
    numbers = frame[json.loads(about["numbers"])].copy()
    numbers["joined"] = (numbers["joined"] - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1)
    texts = frame[json.loads(about["categories"])]
    return {
        "numbers": numbers.astype("Float64").to_numpy(dtype=np.float64, na_value=np.nan),
        "categories": texts.astype(object).where(texts.notna(), "").to_numpy(dtype=object),
    }


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:column 'town'")
def test_an_everyday_table(tmp_path: Path) -> None:
    frame, churns = people()
    s = (churns & (np.arange(N) % 2 == 0)).astype(int)
    with pytest.warns(UserWarning, match="constant columns are dropped: 'country'"):
        model = PUClassifier(random_state=0).fit(frame, s)
    assert list(model.feature_names_in_) == list(frame.columns)
    assert "\nVerdict: useful: a hidden positive ranks above " in model.summary()
    assert model.choices_["head"] == "blend" and 0 < model.prior_ < 0.6

    new, truth = people(1, new=True)
    new.loc[:9, "age"], new.loc[:9, "joined"] = np.nan, pd.NaT
    with pytest.warns(UserWarning, match="column 'town': .*'Elsewhere'"):
        score = model.decision_function(new)
    assert np.isfinite(score).all() and (model.predict(new) == truth).mean() > 0.85
    model.save(tmp_path / "model")
    loaded = PUClassifier.load(tmp_path / "model")
    assert np.array_equal(loaded.decision_function(new), score) and loaded.verdict_ == model.verdict_
    assert np.array_equal(loaded.decision_function(new[new.columns[::-1]]), score), "columns are known by their names"
    pieces = [model.decision_function(new[i : i + 50]) for i in range(0, N, 50)]
    assert np.concatenate(pieces) == pytest.approx(score, abs=1e-6)

    needs_export()
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(export_onnx(loaded.model_, tmp_path / "model.onnx").read_bytes())
    (found,) = session.run(None, onnx_inputs(new, session.get_modelmeta().custom_metadata_map))
    assert found == pytest.approx(model.predict_proba(new)[:, 1], abs=1e-4)
