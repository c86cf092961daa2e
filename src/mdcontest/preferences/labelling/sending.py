"""Answers on their way from the database into the dataset's comparisons.

Each answer keeps its id there, so sending it twice adds nothing. That it is being sent is noted first: if the process
dies in between and the answer is then taken back, the dataset is asked whether it has it.
"""

from __future__ import annotations

from collections.abc import Callable

from mdcontest.errors import InputError, preview
from mdcontest.preferences.dataset import Dataset
from mdcontest.preferences.labelling.database import RETRACTED, SENDING, SENT, Database
from mdcontest.preferences.labelling.pairs import Given
from mdcontest.preferences.references import Comparison

SOURCE = "page"
"""The source of comparisons that people made on the page."""


class LostError(InputError):
    """Some answers are about what the dataset has lost; all others were sent."""


def send(database: Database, dataset: Dataset, find: Callable[[str], Given | None], now: float) -> int:
    """Bring the dataset up to date; how many answers and retractions were sent."""
    pending = database.answers(unsent=True)
    new = [answer for answer in pending if answer.withdrawn is None]
    gone = [answer for answer in pending if answer.withdrawn is not None]
    comparisons, lost, known = [], [], dataset.index()
    for answer in new:
        given = find(answer.given)
        if given is not None:
            said = (given.left, given.right, answer.label, given.annotator, SOURCE, answer.time, answer.id)
            comparisons.append(Comparison(*said))
            lost += [side.trajectory for side in (given.left, given.right) if side.trajectory not in known]
    comparisons = [c for c in comparisons if c.first.trajectory in known and c.second.trajectory in known]
    if comparisons:
        ids = [comparison.id for comparison in comparisons]
        database.mark(ids, SENDING).result()
        dataset.add_comparisons(comparisons)
        database.mark(ids, SENT).result()
    if gone:
        held = {entry.id for entry in dataset.entries()}
        if back := [answer.id for answer in gone if answer.id in held]:
            dataset.withdraw(back, now)
        database.mark([answer.id for answer in gone], RETRACTED).result()
    if lost:
        raise LostError(
            f"there are answers about the trajectories {preview(sorted(set(lost)))}, which are no longer in "
            f"{dataset.path}; they stay in {database.path} until these are there again"
        )
    return len(comparisons) + len(gone)
