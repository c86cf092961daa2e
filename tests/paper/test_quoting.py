"""Numbers in texts written by hand come from the tables."""

import pytest
from evidence import NOT_RUN, Evidence
from quoting import QUOTE, quoted
from recorded_results import paper_settings, record_runs
from results_page import HEADLINE
from second_look import NOTES
from selections import STEPS

from mdcontest.errors import InputError
from report.stores import write_run


@pytest.fixture(scope="module")
def evidence(tmp_path_factory):
    """HPI-Clip on Hopper: level curves at 100, 101 and so on; at 200.5 with ends as outcomes."""
    out = tmp_path_factory.mktemp("quoting")
    for changed, height in (({}, 100), ({"termination": "ended"}, 200.5)):
        for seed in range(5):
            curve, settings = ([STEPS], [height + seed]), paper_settings("Hopper-v5", "hpi-clip") | changed
            write_run(out / "runs", "Hopper-v5", "hpi-clip", seed, target=STEPS, episodes=curve, **settings)
    record_runs(out / "runs", out / "results")
    return Evidence(out / "results")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("has {area Hopper hpi-clip} here", "has 102 here"),
        ("{area Hopper\nhpi-clip interval}", "102 [100, 104]"),  # ± 2.776 · √2.5 / √5 = 1.96
        ("{area Hopper hpi-clip termination=ended}", "202"),
        ("{rate Hopper hpi-clip}", "102"),  # episodes of one step
        ("{area Hopper sppo} and {area Walker2d hpi-clip}", f"{NOT_RUN} and {NOT_RUN}"),
        ("{won Reacher-NT hpi cloned}{inverted Reacher-NT hpi}{other Hopper hpi}", NOT_RUN * 3),
        ("{seeds Hopper hpi-clip}{seeds Hopper sppo}", f"5{NOT_RUN}"),
        ("{count higher hpi-clip}, {tasks higher hpi-clip}", "0, none"),  # SPPO is not there
        ("{count higher hpi theirs}, {tasks lower hpi theirs}", "6, Humanoid"),
        ("nothing", "nothing"),
    ],
)
def test_numbers_that_one_can_work_out(evidence, text, said):
    assert quoted(text, evidence) == said


@pytest.mark.parametrize(
    "quote", ["area Hoper hpi-clip", "area Hopper hpiclip", "aria Hopper hpi", "area", "rate Ant", "count most hpi"]
)
def test_a_slip_in_a_quote_is_said(evidence, quote):
    with pytest.raises(InputError, match=f"{{{quote}}}"):
        quoted(f"has {{{quote}}} here", evidence)


@pytest.mark.parametrize(("text", "least"), [(NOTES, 30), (HEADLINE, 10)], ids=["second look", "headline"])
def test_everything_that_is_quoted_is_recorded(text, least):
    recorded, quotes = Evidence(), set(QUOTE.findall(text.read_text(encoding="utf-8")))
    assert len(quotes) > least
    assert not [quote for quote in quotes if NOT_RUN in quoted(f"{{{quote}}}", recorded)]
