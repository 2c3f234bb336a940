"""Malignant tumours in a table: 30 % of them labelled; compared with taking unlabelled rows for negatives."""

import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pucl

TARGET = 0.80  # F1 on rows that were held out

# 569 rows of 30 measurements. Malignant ones are the positives.
data = load_breast_cancer(as_frame=True)
frame, malignant = data.data, data.target == 0
x, x_test, y, y_test = train_test_split(frame, malignant, test_size=0.3, random_state=0, stratify=malignant)

# What is known: about three in ten of the malignant rows carry a label. Everything else is unlabelled.
rng = np.random.default_rng(0)
s = (y & (rng.random(len(y)) < 0.3)).astype(int)
s_test = (y_test & (rng.random(len(y_test)) < 0.3)).astype(int)
print(f"{s.sum()} labelled, {(s == 0).sum()} unlabelled rows to learn from")

# What people often do: take the unlabelled rows for negatives.
naive = make_pipeline(StandardScaler(), LogisticRegression()).fit(x, s)

classifier = pucl.PUClassifier(random_state=0).fit(x, s)
print(classifier.summary())
print("\nwithout negatives:", classifier.score_report(x_test, s_test))

# A report to look at in a browser: one file, with the rows to check first.
with tempfile.TemporaryDirectory() as folder:
    report = classifier.report(Path(folder) / "report.html")
    print(f"report: {report.stat().st_size / 1000:.0f} kB")

# Only now the truth.
predicted = {"unlabelled as negative": naive.predict(x_test), "PUClassifier": classifier.predict(x_test)}
f1 = {name: f1_score(y_test, labels) for name, labels in predicted.items()}
for name, labels in predicted.items():
    print(f"with the truth: {name}: accuracy {accuracy_score(y_test, labels):.3f}, F1 {f1[name]:.3f}")
share = f"{'at most' if classifier.prior_is_bound_ else 'about'} {classifier.prior_:.3f}"
print(f"malignant among the unlabelled: {share}, {y[s == 0].mean():.3f} in truth")
if f1["PUClassifier"] < max(TARGET, f1["unlabelled as negative"]):
    raise SystemExit(f"F1 {f1['PUClassifier']:.3f} is below the target {TARGET} or not above the naive one")
