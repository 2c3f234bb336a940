"""Messages about a faulty battery among other mail: a list of texts, 60 messages labelled, no negatives."""

import tempfile
from pathlib import Path

import numpy as np
from sklearn.metrics import accuracy_score, f1_score
from sklearn.model_selection import train_test_split

import pucl

TARGET = 0.85  # accuracy on messages that were held out

BATTERY = ("battery", "hot", "smoke", "charger", "swollen", "heat", "smell", "burn", "plug", "cable", "dead", "warm")
ORDERS = ("parcel", "late", "invoice", "refund", "courier", "address", "price", "box", "return", "voucher", "paid")
SHARED = ("hello", "please", "phone", "model", "bought", "week", "order", "help", "new", "since", "still", "thanks")
rng = np.random.default_rng(0)


def message(about_battery: bool) -> str:
    """24 words: half of them are neutral; of the others one in five comes from the other topic."""
    own, other = (BATTERY, ORDERS) if about_battery else (ORDERS, BATTERY)
    pools = rng.choice(3, size=24, p=[0.5, 0.4, 0.1])
    return " ".join(str(rng.choice((SHARED, own, other)[pool])) for pool in pools)


# Three in ten of 1,400 messages are about the battery. 86 of those have been read and marked; the rest is unread.
battery = rng.random(1400) < 0.3
texts = np.array([message(bool(about_battery)) for about_battery in battery])
s = np.zeros(len(texts), dtype=int)
s[rng.choice(np.flatnonzero(battery), size=86, replace=False)] = 1
x, x_test, s, s_test, y, y_test = train_test_split(texts, s, battery, test_size=0.3, random_state=0, stratify=s)

# Texts go in as they are. Words become numbers by n-grams that are learnt from these texts, without their labels.
classifier = pucl.PUClassifier(random_state=0).fit(x, s)
print(classifier.summary())
print("\nwithout negatives:", classifier.score_report(x_test, s_test))
print("\nthe likeliest of the held-out messages:")
for row in classifier.top(x_test, 3):
    print(" ", x_test[row])

# Keep the model as a folder without pickles, and use it again.
with tempfile.TemporaryDirectory() as folder:
    saved = classifier.save(Path(folder) / "model")
    again = pucl.PUClassifier.load(saved)
    print("\nkept as", ", ".join(sorted(file.name for file in saved.iterdir())))

# Only now the truth.
predicted = again.predict(x_test)
accuracy = accuracy_score(y_test, predicted)
print(
    f"with the truth: accuracy {accuracy:.3f}, F1 {f1_score(y_test, predicted):.3f} on {len(x_test)} held-out messages"
)
share = f"{'at most' if classifier.prior_is_bound_ else 'about'} {classifier.prior_:.3f}"
print(f"about the battery, of the unread: {share}, {y[s == 0].mean():.3f} in truth")
if accuracy < TARGET:
    raise SystemExit(f"accuracy {accuracy:.3f} is below the target {TARGET}")
