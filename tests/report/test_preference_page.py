"""The page about a learned margin: its numbers are those of the fit, its pictures are drawn, in a real browser."""

import re

import numpy as np
import pytest

from mdcontest.arrays import Ints
from mdcontest.preferences import FitSettings, Segments, fit_margin
from mdcontest.preferences.dataset import Dataset
from mdcontest.preferences.fit import _Fit
from mdcontest.preferences.learned import margin_of
from mdcontest.preferences.references import Comparison, Segment
from mdcontest.report.preference_distance import FAR_OUTCOMES, distance_view
from mdcontest.report.preference_page import write_margin_page
from mdcontest.report.preference_views import MapView, cycle_view, make_view, map_view, own_view, some_rows
from played import played_dataset

QUICK = {"updates": 150, "penalty": 0.003, "members": 2, "hidden": (16,), "rank": 4}
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
FIGURES = "[...document.querySelectorAll('figure svg')]"
KINDS = ("Reacher-NT", "RPSCorridor", "InvertedPendulum-v5")
"""Tasks with positions, with classes, and with neither."""


def in_circles(dataset: Dataset, pairs: int) -> None:
    """Comparisons by who is ahead of whom around the circle of the first and the last observation."""
    rng, index = np.random.default_rng(0), dataset.index()
    outcomes, first = dataset.table()
    places = [(id, step) for id, info in index.items() for step in range(info.length)]
    angle = np.arctan2(*(outcomes.obs[:, k] / outcomes.obs[:, k].std() for k in (1, 3)))
    drawn: Ints = rng.integers(0, len(places), (pairs, 2))
    said = []
    for a, b in drawn:
        one, other = (Segment(*places[i], 1) for i in (a, b))
        ahead = np.sin(angle[first[one.trajectory] + one.start] - angle[first[other.trajectory] + other.start])
        if one != other:
            said.append(Comparison(one, other, "first" if ahead > 0 else "second", "<script>alert(1)</script>"))
    dataset.add_comparisons(said)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """By task: the dataset, the margin fitted to it, and the page."""
    found, folder = {}, tmp_path_factory.mktemp("pages")
    for name in KINDS:
        by_hand = name == "InvertedPendulum-v5"
        dataset = played_dataset(folder / name, name, pairs=0 if by_hand else 300)
        if by_hand:
            in_circles(dataset, 300)
        margin = fit_margin(dataset, **QUICK)
        write_margin_page(folder / f"{name}.html", margin, dataset)
        found[name] = dataset, margin, folder / f"{name}.html"
    return found


# --- numbers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KINDS)
def test_what_was_held_out_is_found_again(made, name):
    dataset, margin, _ = made[name]
    view = make_view(margin, dataset)
    fit = _Fit(dataset.comparisons(), FitSettings(**QUICK), seed=0)
    held_out = np.concatenate([side.rows().reshape(-1) for side in (fit.held_out.first, fit.held_out.second)])
    assert view.held_out_known
    assert set(view.rows) == set(held_out[held_out >= 0])


@pytest.mark.parametrize("name", KINDS)
def test_matrix_is_sorted_and_its_remainder_has_no_reward_left(made, name):
    dataset, margin, _ = made[name]
    found = cycle_view(make_view(margin, dataset))
    assert (np.diff(found.g) <= 1e-12).all()
    assert np.allclose(found.M, -found.M.T)
    assert np.allclose(found.remainder.mean(axis=1), 0, atol=1e-9 * np.abs(found.M).max())
    assert found.cycles
    assert all(min(found.M[i, j], found.M[j, k], found.M[k, i]) > 0 for i, j, k in found.cycles)
    assert 0 <= found.really_cyclic() <= len(found.cycles)


def test_rock_paper_scissors_is_seen_as_such(made):
    dataset, margin, path = made["RPSCorridor"]
    view = make_view(margin, dataset)
    assert cycle_view(view).really_cyclic() == len(cycle_view(view).cycles)
    own = own_view(view)
    assert own.same_sign > 0.9
    assert own.correlation > 0.7
    text = path.read_text()
    names = re.search(r'aria-label="Cycles of three outcomes by their classes: ([^"]+)"', text).group(1)
    for cycle in names.split("; "):
        assert set(cycle.split(" over ")) == {"rock", "paper", "scissors"}
        assert cycle in "paper over rock over scissors over paper over rock over scissors"


def test_map_of_a_margin_that_is_the_tasks_own_correlates_fully(made):
    dataset, margin, _ = made["Reacher-NT"]
    found = map_view(make_view(margin, dataset))
    reach = np.hypot(*found.positions.T)
    assert reach.max() <= found.reach + 1e-6
    same = MapView(found.positions, found.own, found.own, found.marked, found.reach)
    assert [round(same.correlation(which), 12) for which in (0, 1)] == [1, 1]
    flat = MapView(found.positions, [np.zeros(len(reach))] * 2, found.own, found.marked, found.reach)
    assert flat.correlation(0) is None
    assert map_view(make_view(*reversed(made["RPSCorridor"][:2]))) is None


def test_disagreement_near_the_data_is_the_margins_own(made):
    dataset, margin, _ = made["Reacher-NT"]
    view = make_view(margin, dataset)
    found = distance_view(view)
    rows = some_rows(view.rows, FAR_OUTCOMES, seed=4)
    i, j = np.divmod(np.arange(len(rows) * 40), 40)
    expected = margin.disagreement(view.data.outcomes, Segments.of_single(rows[i]), Segments.of_single(rows[j]))
    assert np.allclose(found.disagreement[0], expected.reshape(len(rows), 40).mean(axis=1), atol=1e-6)
    medians = [np.median(distance) for distance in found.distance]
    assert medians == sorted(medians)
    assert medians[0] < medians[-1]


# --- texts ------------------------------------------------------------------------------------------------


def test_page_says_what_fit_said(made):
    _, margin, path = made["RPSCorridor"]
    text, report = path.read_text(), margin.report
    for key in ("log_likelihood", "log_likelihood_fitted"):
        assert f"{report[key]:.3f}".replace("-", "−") in text
    assert f"{report['calibration']['error']:.3f} away" in text
    assert "no pictures of outcomes" not in text


def test_same_margin_gives_the_same_bytes(made, tmp_path):
    dataset, margin, path = made["RPSCorridor"]
    write_margin_page(tmp_path / "again.html", margin, dataset)
    assert (tmp_path / "again.html").read_bytes() == path.read_bytes()


def test_models_stand_side_by_side(made, tmp_path):
    _, margin, _ = made["RPSCorridor"]
    one = {"accuracy": 0.5, "log_likelihood": -0.7, "calibration_error": 0.1, "cyclic_share": 0.0, "penalty": 0.0}
    models = [{"model": model, **one} for model in ("reward", "skew", "general")]
    write_margin_page(tmp_path / "p.html", margin_of(margin.ensemble, {**margin.report, "models": models}))
    text = (tmp_path / "p.html").read_text()
    cells = re.findall(r"<tr><td>(reward|skew, this one|general)</td><td[^>]*>50 %</td><td[^>]*>−0.700</td>", text)
    assert cells == ["reward", "skew, this one", "general"]
    assert "no pictures of outcomes" in text  # no dataset was given


def test_a_dataset_that_has_grown_is_noted(made, tmp_path):
    _, margin, _ = made["RPSCorridor"]
    other = played_dataset(tmp_path / "d", "RPSCorridor", episodes=5, pairs=40)
    write_margin_page(tmp_path / "p.html", margin, other)
    assert "no longer, the one it was fitted to" in (tmp_path / "p.html").read_text()
    assert not make_view(margin, other).held_out_known


@pytest.mark.parametrize("model", ["general", "reward"])
def test_other_models_and_a_single_member_have_pages(made, tmp_path, model):
    dataset, _, _ = made["RPSCorridor"]
    margin = fit_margin(dataset, **QUICK | {"model": model, "members": 1, "updates": 25})
    write_margin_page(tmp_path / "p.html", margin, dataset)
    text = (tmp_path / "p.html").read_text()
    assert "Where it knows" not in text  # nobody to disagree with
    assert ("a reward cannot be cyclic" in text) == (model == "reward")


# --- in a browser -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "figures"), [("Reacher-NT", 6), ("RPSCorridor", 4), ("InvertedPendulum-v5", 3)])
def test_page_is_drawn_and_asks_for_nothing(browser, made, name, figures):
    page = browser.page(1200, 900)
    page.open(made[name][2])
    sizes = page.evaluate(f"{FIGURES}.map(f => [f.getBoundingClientRect().width, f.getBBox().height])")
    assert len(sizes) == figures
    assert all(width > 200 and height > 50 for width, height in sizes)
    assert all(page.evaluate(f"{FIGURES}.map(f => f.getAttribute('aria-label'))"))
    links = page.evaluate("[...document.querySelectorAll('nav a')].map(a => a.getAttribute('href'))")
    assert all(page.evaluate(f"document.querySelector('{link}').tagName") == "SECTION" for link in links)
    if name == "InvertedPendulum-v5":
        cells = page.evaluate("[...document.querySelectorAll('td')].map(cell => cell.textContent)")
        assert "<script>alert(1)</script>" in cells  # a name is text, whatever is in it
        assert [sum(cell.startswith(f"{name} (") for cell in cells) for name in "ABC"] == [3, 3, 3]  # three cycles
    assert page.console == []
    assert page.leaves_machine() == []
    assert [url for url in page.requests if not url.startswith("data:")] == [page.evaluate("location.href")]
    page.close()


@pytest.mark.parametrize("name", KINDS)
def test_page_fits_a_telephone(browser, made, name):
    page = browser.page(375, 800, True)
    page.open(made[name][2])
    assert page.evaluate(OVERFLOW) <= 0
    assert page.evaluate(f"Math.max(...{FIGURES}.map(f => f.getBoundingClientRect().right))") <= 375
    prose = page.evaluate("(t => [t.scrollWidth - t.parentNode.clientWidth])(document.querySelector('.prose'))")
    assert prose[0] <= 1  # sentences are broken, not scrolled
    page.close()
