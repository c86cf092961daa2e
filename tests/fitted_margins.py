"""What the tests of learned margins share: margins with random parameters, and comparisons whose answer is known."""

import numpy as np

from mdcontest.preferences import Comparisons
from mdcontest.preferences.ensemble import Ensemble
from mdcontest.preferences.inputs import Field, InputReader
from mdcontest.preferences.learned import margin_of
from mdcontest.preferences.networks import MODELS, init

MODELS = tuple(MODELS)
FEATURES = (Field("features", 3),)
STEP = (Field("obs", 1), Field("action", 1))
"""What a step of RPSContinuous has."""
BEATS = np.array([[0.0, -1, 1], [1, 0, -1], [-1, 1, 0]])
"""Rock, paper, scissors."""
REPORT = {"accuracy": 0.75, "seed": 3, "note": "é", "accuracy_members": [None, 1 / 3]}
"""What might be said of a fit."""
QUICK = {"members": 1, "penalty": 1e-3, "updates": 300}
"""Settings of a short fit."""


def random_reader(rng, fields=FEATURES):
    width = sum(field.width for field in fields)
    mean, deviation = rng.normal(size=width), rng.uniform(0.5, 2, width)
    quantiles = np.sort(rng.normal(mean, deviation, (5, width)), axis=0) if rng.random() < 0.5 else None
    return InputReader(tuple(fields), mean, deviation, mean - 2 * deviation, mean + 2 * deviation, quantiles)


def random_margin(model, seed=0, members=2, ended=True, fields=FEATURES, report=None):
    """A learned margin that nobody fitted: nothing in it is zero."""
    rng = np.random.default_rng(seed)
    reader, found = random_reader(rng, fields), []
    for _ in range(members):
        params = init(rng, model, reader.size, (8, 5), 4)
        noise = {name: rng.normal(0, 0.3, value.shape) for name, value in params.items()}
        found.append({name: (value + noise[name]).astype(np.float32) for name, value in params.items()})
    scales = rng.uniform(0.5, 3, members)
    return margin_of(Ensemble(model, reader, tuple(found), scales, 0.1, ended), report or {})


def extended_matrix(margin, z):
    """M between all rows of z and ⊥, which comes last, shape [B + 1, B + 1]."""
    size = len(z)
    M = np.zeros((size + 1, size + 1))
    M[:size, :size] = margin.matrix(z, z)
    M[:size, size] = margin.over_ended(z)
    M[size, :size] = -M[:size, size]
    return M


def members_file(folder):
    (file,) = folder.glob("members-*.safetensors")
    return file


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def by_reward(r, count, seed, dimensions=10, flipped=0.0):
    """Comparisons of random outcomes whose labels are drawn with probability σ(r − r'), some turned round."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(2, count, dimensions))
    label = np.where(rng.random(count) < sigmoid(r(x) - r(y)), 1.0, -1.0)
    label[rng.random(count) < flipped] *= -1
    return Comparisons(x, y, label)


def by_class(count, seed, dimensions=10):
    """Comparisons by rock, paper, scissors: the class is a third of the circle in the first two dimensions."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(2, count, dimensions))
    return Comparisons(x, y, BEATS[class_of(x), class_of(y)])


def class_of(x):
    return np.minimum(((np.arctan2(x[:, 1], x[:, 0]) / (2 * np.pi)) % 1.0 * 3).astype(int), 2)
