"""Odd digits among all digits: images, 200 labelled positives, no negatives, no class prior."""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.model_selection import train_test_split

import pucl

TARGET = 0.87  # accuracy on digits that were held out

# 1,797 images of 8 × 8 pixels. The odd ones are the positives; that is used to make labels and to judge in the end.
digits = load_digits()
images = (digits.images * 15).astype(np.uint8)  # (n, 8, 8), from 0 to 240
odd = digits.target % 2 == 1

# What is known: 286 of the odd digits carry a label, and nothing is said of any other digit.
s = np.zeros(len(images), dtype=int)
s[np.random.default_rng(0).choice(np.flatnonzero(odd), size=286, replace=False)] = 1

# 200 of the labels and 70 % of the digits to learn from; the rest is held out.
x, x_test, s, s_test, y, y_test = train_test_split(images, s, odd, test_size=0.3, random_state=0, stratify=s)

# A small network and 15 epochs keep this short. PUClassifier() alone trains longer and tries the raw pixels as well.
classifier = pucl.PUClassifier(encoder="small_cnn", epochs=15, random_state=0).fit(x, s)
print(classifier.summary())

# How good is it? First from the 86 labels held out, without a negative.
print("\nwithout negatives:", classifier.score_report(x_test, s_test))

# The unlabelled digits most likely to be odd: the list to look through by hand.
unlabelled = np.flatnonzero(s == 0)
probability = classifier.predict_proba(x[unlabelled])[:, 1]
top = unlabelled[np.argsort(-probability)[:10]]
print("most likely odd:", ", ".join(str(row) for row in top), "(row numbers)")

# Only now the truth.
accuracy = accuracy_score(y_test, classifier.predict(x_test))
auc = roc_auc_score(y_test, classifier.decision_function(x_test))
print(f"with the truth: accuracy {accuracy:.3f}, AUC {auc:.3f} on {len(x_test)} held-out digits")
share = f"{'at most' if classifier.prior_is_bound_ else 'about'} {classifier.prior_:.3f}"
print(f"odd among the unlabelled: {share}, {y[s == 0].mean():.3f} in truth")
if accuracy < TARGET:
    raise SystemExit(f"accuracy {accuracy:.3f} is below the target {TARGET}")
