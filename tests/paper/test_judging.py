"""How verdicts on tasks become one on a claim, and what policies of the nontransitive tasks do."""

import itertools
from types import SimpleNamespace

import behaviour
import judging
import numpy as np
import pytest
from evidence import NOT_RUN, SAME, SETTLED, Evidence
from judging import FAILS, HOLDS, UNKNOWN
from recorded_results import paper_settings, record_runs
from selections import NT, STEPS

from mdcontest import tasks
from mdcontest.experiments.stored import Gap
from mdcontest.gap.bracket import GapBracket, Measured
from mdcontest.report.statistics import HIGHER, LOWER, OVERLAPS, TOO_FEW, Interval
from report.stores import CLASSES, write_run, write_shares

# --- from tasks to claims ---------------------------------------------------------------------------------

DOUBTFUL = "task0-v5"
"""The task on which an overlap may turn out to be strictly lower, for the judges that ask."""
JUDGES = {
    **{
        f"every task is {word}": (lambda v, w=word: judging.every_task_is(v, w), lambda found, w=word: {*found} <= {w})
        for word in (HIGHER, OVERLAPS, LOWER)
    },
    **{
        f"lower at most {most}": (
            lambda v, most=most: judging.rarely_lower(v, most=most),
            lambda found, most=most: found.count(LOWER) <= most,
        )
        for most in (0, 1, 2)
    },
    "lower at most 1, in doubt": (
        lambda v: judging.rarely_lower(v, [DOUBTFUL] if v.get(DOUBTFUL) == OVERLAPS else []),
        lambda found: found.count(LOWER) <= 1,
    ),
    **{
        f"better on {n}": (
            lambda v, n=n: judging.better_on(v, n),
            lambda found, n=n: found.count(HIGHER) >= n and found.count(LOWER) <= 1,
        )
        for n in (1, 2, 3)
    },
}
"""Each way to judge, and what it says where every task is known."""


def may_become(name, i, word):
    """What a verdict may turn out to be with more seeds, as far as the judge cares: strict orders stay."""
    known, given = (HIGHER, OVERLAPS, LOWER), word
    if word in judging.OPEN:
        return known
    if word == SETTLED:  # it overlaps, whatever more seeds say
        return (OVERLAPS,)
    if word == SAME:  # an overlap too, but one that refutes no order
        word = OVERLAPS
    if word != OVERLAPS or name == f"every task is {OVERLAPS}":
        return (word,)
    if name.startswith("every task is "):
        return word, name.removeprefix("every task is ")
    if name.startswith("better on"):
        return word, HIGHER
    return (word, LOWER) if "doubt" in name and i == 0 and given != SAME else (word,)


@pytest.mark.parametrize("name", JUDGES)
def test_a_verdict_stands_whatever_the_open_tasks_turn_out_to_be(name):
    """It holds if it does in all completions, not if it does in none, and cannot be told only if there are both."""
    judge, holds = JUDGES[name]
    words_known = (HIGHER, OVERLAPS, LOWER, SETTLED, SAME, TOO_FEW, NOT_RUN)
    for words in (w for n in range(5) for w in itertools.product(words_known, repeat=n)):
        choices = [may_become(name, i, word) for i, word in enumerate(words)]
        completions = {holds(found) for found in itertools.product(*choices)}
        expected = UNKNOWN if len(completions) == 2 else HOLDS if True in completions else FAILS
        finding = judge({f"task{i}-v5": word for i, word in enumerate(words)})
        assert finding.verdict == expected, words
        assert ("fewer than 5 seeds" in finding.numbers) == (TOO_FEW in words)
        assert ("not run on" in finding.numbers) == (NOT_RUN in words)


@pytest.mark.parametrize(
    ("words", "verdict"),
    [
        ([HIGHER] * 5, HOLDS),  # 1/32 by chance
        ([HIGHER] * 4, UNKNOWN),  # 1/16
        ([HIGHER] * 7 + [LOWER], HOLDS),  # 9/256
        ([HIGHER] * 6 + [LOWER], UNKNOWN),  # 8/128, and so the paper's own count for HPI on the suite
        ([HIGHER] * 7 + [OVERLAPS], HOLDS),
        ([HIGHER] * 6 + [OVERLAPS], UNKNOWN),  # it may turn out to be lower
        ([HIGHER] * 6 + [SETTLED, SAME], HOLDS),
        ([HIGHER] * 6 + [NOT_RUN], UNKNOWN),
        ([HIGHER, LOWER, SETTLED], FAILS),
        ([HIGHER, LOWER, TOO_FEW], UNKNOWN),
        ([LOWER, LOWER, OVERLAPS], FAILS),
        ([], FAILS),
    ],
)
def test_more_often_higher_by_a_sign_test(words, verdict):
    """Probabilities are those of tossing a fair coin as often as tasks are told apart."""
    assert judging.more_often_higher({f"task{i}-v5": word for i, word in enumerate(words)}).verdict == verdict


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([HIGHER] * 6 + [OVERLAPS], judging.BY_SEEDS),  # 7 of 7 would pass
        ([HIGHER] * 4, judging.BY_TEST),
        ([HIGHER] * 6 + [LOWER] * 5 + [OVERLAPS] * 2, judging.BY_TEST),  # 8 of 13: 0.29
        ([HIGHER] * 8 + [LOWER] * 2 + [OVERLAPS, SETTLED], judging.BY_SEEDS),  # 9 of 11: 0.033
        ([HIGHER] * 8 + [LOWER] * 2 + [SETTLED] * 2, judging.BY_TEST),  # 8 of 10: 0.055
    ],
)
def test_more_seeds_tell_only_what_they_could_make_pass(words, why):
    finding = judging.more_often_higher({f"task{i}-v5": word for i, word in enumerate(words)})
    assert (finding.verdict, finding.why) == (UNKNOWN, why)


def interval(low, high, n):
    return Interval((low + high) / 2, low, high, n, "made up", 0.95)


def test_above_a_threshold():
    """Only an interval that lies on one side of it says something, and only with five seeds."""
    assert judging.above(interval(0.91, 0.99, 5), 0.9) is True
    assert judging.above(interval(0.81, 0.89, 5), 0.9) is False
    assert judging.above(interval(0.89, 0.99, 5), 0.9) is None
    assert judging.above(interval(0.91, 0.99, 4), 0.9) is None


def test_what_could_not_be_computed_is_not_known():
    assert judging.known(float("nan"), False) is judging.known(float("inf"), True) is None
    assert judging.known(1.0, True) is True


# --- what policies do -------------------------------------------------------------------------------------


def ring(radius, count=360):
    angle = 2 * np.pi * np.arange(count) / count
    return radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def test_roundness_and_unevenness_of_what_one_can_work_out():
    assert behaviour.roundness(ring(0.2), 0.2) == pytest.approx((1, 1))
    assert behaviour.roundness([(0.03, 0.04)] * 7, 0.2) == pytest.approx((0.25, 0))
    assert behaviour.roundness([(0.1, 0), (-0.1, 0)], 0.2) == pytest.approx((0.5, 0)), "opposites are no circle"
    assert behaviour.unevenness([1 / 3] * 3) == pytest.approx(0)
    assert behaviour.unevenness([0, 1, 0]) == pytest.approx(2 / 3)
    assert behaviour.unevenness([0.5, 0.5, 0]) == pytest.approx(1 / 3)


END = 9
"""Steps of runs that are made up."""


def table_at(step, points=(), shares=()):
    rows = [("position", x, y, None) for x, y in points] + [("class", None, None, share) for share in shares]
    columns = dict(zip(("kind", "x", "y", "share"), zip(*rows, strict=True), strict=True))
    return {"step": [step] * len(rows), "returned": ["mixture"] * len(rows)} | columns


def gap_at(step, value):
    return Gap(step, "mixture", GapBracket(Measured(value, value, value), None, 0.95))


def made_up(runs):
    """Evidence of runs given as task, algorithm, tables and gaps."""
    alike = {"settings": {"returned": "mixture"}, "target": END}
    found = [
        SimpleNamespace(task=task, algorithm=algorithm, seed=seed, behaviour=about, gaps=gaps, **alike)
        for seed, (task, algorithm, about, gaps) in enumerate(runs)
    ]
    return SimpleNamespace(store=lambda name: SimpleNamespace(runs=found))


def test_circle():
    """Both learners must end well with five seeds; a bad one settles it, and one that was not run leaves it open."""
    reach = tasks.make("Reacher-NT").reach
    good, bad = ({"points": ring(reach * share)} for share in (0.95, 0.5))

    def verdict(last=END, **seeds):
        runs = []
        for algorithm, ends in seeds.items():
            name = algorithm.replace("_", "-")
            runs += [(NT[0], name, [table_at(last, **end), table_at(1, **bad)], []) for end in ends]
        return behaviour.circle(made_up(runs)).verdict

    assert verdict(hpi_clip=[good] * 5, hpi=[good] * 5) == HOLDS
    assert verdict(hpi_clip=[good] * 5, hpi=[bad] * 5) == FAILS
    assert verdict(hpi=[bad] * 5) == FAILS
    assert verdict(hpi_clip=[good] * 5, hpi=[good] * 4) == UNKNOWN
    assert verdict(hpi_clip=[good] * 5, hpi=[good, good, good, bad, bad]) == UNKNOWN, "an interval across the threshold"
    assert verdict(last=END - 1, hpi_clip=[good] * 5, hpi=[good] * 5) == UNKNOWN, "not the end of training"
    assert verdict(hpi_clip=[good] * 5) == verdict(sppo=[good] * 5) == verdict() == UNKNOWN
    by_last = {**table_at(END, good["points"]), "returned": ["last"] * len(good["points"])}
    runs = [(NT[0], "sppo", [table_at(END, **bad), by_last], [])] * 3
    assert "SPPO: 0 of 3 runs, by the last policy 3 of 3; " in behaviour.circle(made_up(runs)).numbers


def test_more_even():
    """From uneven shares to even ones, the other way round, and both."""
    even, uneven = (0.3, 0.36, 0.34), (0.9, 0.1, 0.0)

    def verdict(*ends, seeds=5):
        runs = []
        for name, pair in zip(behaviour.LEARNERS, ends, strict=False):
            about = [table_at(step, shares=shares) for step, shares in zip((1, END), pair, strict=True)]
            runs += [(NT[1], name, about, [])] * seeds
        return behaviour.more_even(made_up(runs)).verdict

    nearer, farther = (uneven, even), (even, uneven)
    assert verdict(nearer, nearer) == HOLDS
    assert verdict(nearer, farther) == verdict(farther) == FAILS
    assert verdict(nearer) == verdict(nearer, nearer, seeds=4) == verdict() == UNKNOWN


def test_trends():
    """Gaps that fall with the distance from the solution along each run, that rise, and that do not change."""
    shares = [(0.9, 0.1, 0.0), (0.6, 0.3, 0.1), (0.4, 0.3, 0.3), (1 / 3, 1 / 3, 1 / 3)]
    reach = tasks.make("Reacher-NT").reach
    about = {
        "Reacher-NT": [table_at(s, points=ring(reach * r)) for s, r in enumerate((0.2, 0.5, 0.7, 0.9), start=1)],
        "Walker2d-NT": [table_at(s, shares=share) for s, share in enumerate(shares, start=1)],
    }
    falling, rising, level = ((0.9, 0.4, 0.2, 0.1), (0.1, 0.2, 0.4, 0.9), (0.5,) * 4)

    def verdict(*values, seeds=5, learners=behaviour.LEARNERS):
        gaps = [[gap_at(step, value) for step, value in enumerate(one, start=1)] for one in values]
        found = list(zip(about, gaps, strict=False))
        return behaviour.trends(
            made_up([(task, name, about[task], g) for name in learners for task, g in found] * seeds)
        )

    assert verdict(falling, falling).verdict == HOLDS
    assert verdict(falling, falling, seeds=4).verdict == verdict(rising, seeds=4).verdict == UNKNOWN
    assert verdict(falling, falling, learners=("hpi", "sppo")).verdict == UNKNOWN, "SPPO's seeds are not HPI-Clip's"
    assert "Reacher-NT, HPI: 1.000 [1.000, 1.000], n = 5" in verdict(falling).numbers
    assert verdict(falling, rising).verdict == verdict(rising, falling).verdict == verdict(rising).verdict == FAILS
    assert {verdict(*some).verdict for some in ((), (falling,), (falling, level), (falling, ()))} == {UNKNOWN}


def test_shares_come_through_the_tables(tmp_path):
    """Runs as the paper sets them are judged by the mixture of their iterates, whatever they return."""
    for algorithm, seed in itertools.product(behaviour.LEARNERS, range(5)):
        settings = paper_settings(NT[1], algorithm)
        run = write_run(tmp_path / "runs", NT[1], algorithm, seed, target=STEPS, **settings)
        for step, shares in ((STEPS // 2, (0.6, 0.2, 0.2)), (STEPS, (0.5, 0.3, 0.2))):
            write_shares(run, step, dict(zip(CLASSES, shares, strict=True)))
    record_runs(tmp_path / "runs", tmp_path / "results")
    finding = behaviour.more_even(Evidence(tmp_path / "results"))
    assert finding.numbers.count("0.1667 [0.1667, 0.1667], n = 5 at the end") == 2
    assert finding.verdict == HOLDS
