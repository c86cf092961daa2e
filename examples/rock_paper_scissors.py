"""Rock-paper-scissors in a corridor: define, solve, certify, compare with Hedged Policy Iteration.

Run: python examples/rock_paper_scissors.py
"""

import numpy as np

import mdcontest as mdc

# A corridor of seven cells: rock, floor, floor, paper, floor, floor, scissors. Moving left, staying, moving right.
cells, moves = 7, (-1, 0, 1)
transitions = np.zeros((cells, len(moves), cells))
for cell in range(cells):
    for action, move in enumerate(moves):
        transitions[cell, action, min(max(cell + move, 0), cells - 1)] = 1.0

# Classes 0 rock, 1 paper, 2 scissors, 3 floor; the floor loses to all three.
classes = np.array([0, 3, 3, 1, 3, 3, 2])
beats = np.array([[0, -1, 1, 1], [1, 0, -1, 1], [-1, 1, 0, 1], [-1, -1, -1, 0]])
margin = mdc.margins.Classes(np.repeat(classes, len(moves)), beats)
contest = mdc.Contest(transitions, start=np.eye(cells)[3], margin=margin)

# One can stay in any cell for ever, so averages depend on the start and the solver refuses:
try:
    mdc.solve(contest)
except mdc.NotUnichainError as error:
    print(f"refused: {error}\n")

# Being put back into the middle once in a while makes it a contest with a solution.
contest = contest.with_restart(0.02)
print(mdc.check_conditions(contest), "\n")

solution = mdc.solve(contest)
print(f"{solution}\n{solution.why}")
for name, cell in (("rock", 0), ("paper", 3), ("scissors", 6)):
    print(f"  {name:8} {solution.occupancy[cell].sum():.3f} of the time")
print(f"certificate over the rationals: {bool(mdc.verify(contest, solution, exact=True))}\n")

hedged = mdc.solve(contest, mdc.solvers.HPI(2000), tol=1e-3)
print(hedged)
for iteration, gap in list(hedged.history)[::25]:
    print(f"  after {iteration:5} iterations: gap {gap:.4f}")
