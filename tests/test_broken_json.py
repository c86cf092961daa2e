"""Files of contests and solutions with something wrong in a field: an error that names the file and the field."""

import json

import pytest

import mdcontest as mdc


def changed(contest, **fields):
    return json.loads(contest.to_json()) | fields


@pytest.mark.parametrize("field", ["start", "margin"])
def test_a_field_that_is_there_twice_is_refused(field, tmp_path):
    """Whoever reads the first of them sees another contest than whoever reads the last."""
    text = mdc.examples.make("marriage").to_json()
    path = tmp_path / "contest.json"
    path.write_text(text.replace(f'"{field}":', f'"{field}": [0, 0], "{field}":', 1))
    with pytest.raises(mdc.InputError, match=f"has the field '{field}' twice"):
        mdc.load_contest(path)


BROKEN = {
    "not an object": (lambda c: [1, 2], "no field 'format'"),
    "another format": (lambda c: changed(c, format="mdcontest/solution"), "expected 'mdcontest/contest'"),
    "a later version": (lambda c: changed(c, version=2), "has version 2, this program reads version 1"),
    "no version": (lambda c: {k: v for k, v in changed(c).items() if k != "version"}, "has version None"),
    "no margin": (lambda c: {k: v for k, v in changed(c).items() if k != "margin"}, "'margin' is missing"),
    "unknown field": (lambda c: changed(c, margn=1), "unknown field 'margn'"),
    "unknown margin": (lambda c: changed(c, margin={"kind": "magic"}), "unknown margin 'magic'"),
    "margin is a list": (lambda c: changed(c, margin=[1]), "unknown margin"),
    "margin field": (lambda c: changed(c, margin={"kind": "dense", "N": [[0]]}), "no field 'N'"),
    "margin incomplete": (lambda c: changed(c, margin={"kind": "low_rank", "J": [[0]]}), "incomplete"),
    "states a fraction": (lambda c: changed(c, states=4.5), "states must be a whole number"),
    "states a truth": (lambda c: changed(c, states=True), "states must be a whole number"),
    "other states": (lambda c: changed(c, states=5), "declares 5 states"),
    "names a text": (lambda c: changed(c, state_names="abcd"), "state_names must be a list"),
    "too few names": (lambda c: changed(c, state_names=["a"]), "1 state names for 4 states"),
    "horizon a fraction": (lambda c: changed(c, horizon=2.0), "horizon must be a whole number"),
    "horizon that does not fit": (lambda c: changed(c, horizon=3), "layers of equal size"),
    "transitions a list": (lambda c: changed(c, transitions=[1]), "transitions must be an object"),
    "transitions empty": (lambda c: changed(c, transitions={}), "transitions must have the field 'dense', or 'data'"),
    "misspelt restart": (
        lambda c: changed(c, transitions=changed(c)["transitions"] | {"restarts": [0.1] * 12}),
        "may have 'restart'; these have 'dense', 'restarts'",
    ),
    "transitions in both forms": (
        lambda c: changed(c, transitions=changed(c)["transitions"] | {"data": [1.0], "indices": [0], "indptr": [0]}),
        "these have 'data', 'dense', 'indices', 'indptr'",
    ),
    "name nothing": (lambda c: changed(c, name=None), "name must be a text, got None"),
    "name a list": (lambda c: changed(c, name=["a"]), "name must be a text"),
    "start wrong": (lambda c: changed(c, start=[1, 1, 0, 0]), "start sums to 2"),
    "start words": (lambda c: changed(c, start=["a", "b", "c", "d"]), "array of numbers"),
    "ragged": (lambda c: changed(c, transitions={"dense": [[[1], [1, 2]]]}), "array of numbers"),
    "huge states, sparse": (
        lambda c: changed(c, states=10**12, transitions={"data": [1.0], "indices": [0], "indptr": [0, 1]}),
        "indptr must have",
    ),
    "indptr that wraps around": (
        lambda c: changed(
            c,
            states=1,
            actions=3,
            transitions={"data": [1, 1, 1], "indices": [0, 0, 0], "indptr": [0, 2**63 - 1, -2, 3]},
        ),
        "indptr must lie between 0 and 3",
    ),
    "version a truth": (lambda c: changed(c, version=True), "has version True"),
    "format a list": (lambda c: changed(c, format=[1]), r"is a \[1\] file"),
    "index out of range": (
        lambda c: changed(c, states=1, actions=1, transitions={"data": [1.0], "indices": [7], "indptr": [0, 1]}),
        "do not describe a sparse matrix",
    ),
    "index a fraction": (
        lambda c: changed(c, states=1, actions=1, transitions={"data": [1.0], "indices": [0.5], "indptr": [0, 1]}),
        "whole numbers",
    ),
    "words for data": (
        lambda c: changed(c, states=1, actions=1, transitions={"data": ["a"], "indices": [0], "indptr": [0, 1]}),
        "data must be an array of numbers",
    ),
    "ragged indptr": (
        lambda c: changed(c, states=1, actions=1, transitions={"data": [1], "indices": [0], "indptr": [0, [1]]}),
        "wrong type",
    ),
    "two-dimensional data": (
        lambda c: changed(c, states=1, actions=1, transitions={"data": [[1.0]], "indices": [0], "indptr": [0, 1]}),
        "do not describe",
    ),
    "an integer beyond float": (lambda c: changed(c, start=[10**400, 0, 0, 0]), "array of numbers"),
    "deeply nested": (lambda c: "[" * 100_000, "truncated or not JSON"),
    "NaN": (lambda c: c.to_json().replace("0.8", "NaN"), "number NaN"),
    "infinite": (lambda c: c.to_json().replace("0.8", "-Infinity"), "number -Infinity"),
    "a very long number": (lambda c: c.to_json().replace("0.8", "1" * 5000), "not JSON"),
    "empty": (lambda c: "", "not JSON"),
    "binary": (lambda c: b"\xff\xfe\x00", "neither JSON nor npz"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_json(tmp_path, contest, case):
    make, message = BROKEN[case]
    content = make(contest)
    text = content if isinstance(content, str | bytes) else json.dumps(content)
    path = tmp_path / "contest.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(mdc.InputError, match=message) as caught:
        mdc.load_contest(path)
    assert str(path) in str(caught.value)


def test_a_byte_order_mark_is_no_obstacle(tmp_path, contest):
    path = tmp_path / "contest.json"
    path.write_text(contest.to_json().replace("\n", "\r\n"), encoding="utf-8-sig")
    assert mdc.load_contest(path).to_json() == contest.to_json()


def test_solutions_are_read_with_the_same_care(tmp_path, contest):
    solution = mdc.solve(contest)
    path = tmp_path / "solution.json"
    solution.save(path)
    record = json.loads(path.read_text())
    for change, message in (
        ({"rule": [1, 2]}, "2 dimensions"),
        ({"status": "splendid"}, "wrong type"),
        ({"certificate": None}, "certificate must be an object, got None"),
        ({"gap": "small"}, "wrong type"),
        ({"gap": "0"}, "'0' is no number"),
        ({"why": None}, "None is no text"),
        ({"proof": 1}, "unknown field 'proof'"),
        ({"gap": 10**400}, "wrong type"),
        ({"version": 9}, "version 9"),
    ):
        path.write_text(json.dumps(record | change))
        with pytest.raises(mdc.FileFormatError, match=message):
            mdc.load_solution(path)
    del record["rule"]
    path.write_text(json.dumps(record))
    with pytest.raises(mdc.FileFormatError, match="'rule' is missing"):
        mdc.load_solution(path)
