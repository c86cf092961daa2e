"""Contests that ship with the package: small, each with a point, and a solution one can reason out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mdcontest.contest import Contest
from mdcontest.errors import InputError
from mdcontest.margins import Aggregated, BestTwoOfThree, Classes

ROCK_PAPER_SCISSORS = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])
"""K[i, j]: how much class i (rock, paper, scissors) beats class j."""


def corridor(length: int = 7, slip: float = 0.1) -> Contest:
    """A corridor with rock at one end, paper in the middle and scissors at the other end.

    The floor between them loses to all three. One moves left, stays or moves right; a move slips to staying with
    probability `slip`. One can stay anywhere for ever, so this contest is not unichain: give it a restart, a discount
    or a horizon.
    """
    if length < 5 or length % 2 == 0:
        raise InputError(f"the corridor needs an odd length of at least 5, got {length}")
    P = np.zeros((length, 3, length))
    for s in range(length):
        for a, move in enumerate((-1, 0, 1)):
            P[s, a, min(max(s + move, 0), length - 1)] += 1 - slip
            P[s, a, s] += slip
    floor, middle = 3, length // 2
    classes, names = np.full(length, floor), [f"floor {s}" for s in range(length)]
    for kind, cell in enumerate((0, middle, length - 1)):
        classes[cell], names[cell] = kind, ("rock", "paper", "scissors")[kind]
    K = np.zeros((4, 4))
    K[:3, :3], K[:3, floor], K[floor, :3] = ROCK_PAPER_SCISSORS, 1, -1
    return Contest(
        P,
        np.eye(length)[middle],
        Classes(np.repeat(classes, 3), K),
        name="corridor",
        state_names=names,
        action_names=["left", "stay", "right"],
    )


def rock_paper_scissors_corridor() -> Contest:
    """Rock-paper-scissors spread over a corridor: walking between the three costs time.

    Staying in one place is beaten by whoever stays where that is beaten, and walking loses to everyone meanwhile. With
    probability 0.02 a step one is put back into the middle.
    """
    return corridor().with_restart(0.02)


def rock_paper_scissors() -> Contest:
    """The game itself: one state, three actions. The only solution plays each a third of the time."""
    return Contest(
        np.ones((1, 3, 1)),
        np.ones(1),
        Classes(np.arange(3), ROCK_PAPER_SCISSORS),
        name="rock-paper-scissors",
        state_names=["table"],
        action_names=["rock", "paper", "scissors"],
    )


def marriage() -> Contest:
    """May's 1954 experiment as a contest: suitors judged by intelligence, looks and wealth, best two out of three.

    x is very intelligent, plain, well off; y intelligent, very good looking, poor; z fairly intelligent, good
    looking, rich. x beats y, y beats z, z beats x. Each month one calls on a suitor, who is at home with probability
    0.8, 0.6 or 0.4; otherwise one is alone with probability 0.1, which is how one starts and which loses to everyone,
    or in the same company as before.
    """
    looks, at_home = np.array([[0, 0, 0], [3, 1, 2], [2, 3, 1], [1, 2, 3]]), (0.8, 0.6, 0.4)
    P = np.zeros((4, 3, 4))
    for s in range(4):
        for a in range(3):
            P[s, a, a + 1] += at_home[a]
            P[s, a, 0] += 0.1
            P[s, a, s] += 0.9 - at_home[a]
    return Contest(
        P,
        np.array([1.0, 0, 0, 0]),
        BestTwoOfThree(np.repeat(looks, 3, axis=0)),
        name="May's marriage example",
        state_names=["alone", "x", "y", "z"],
        action_names=["call on x", "call on y", "call on z"],
    )


def condorcet() -> Contest:
    """Three voters rank three town plans in a circle: each majority prefers another plan to the one in force.

    The state is the plan in force; the council may keep it or put another to work, which takes effect with
    probability 0.5. With probability 0.1 an election leaves any of the four in force. Plan D is everybody's last
    choice.
    """
    ranks = np.array([[3, 1, 2], [2, 3, 1], [1, 2, 3], [0, 0, 0]])
    P = np.zeros((4, 4, 4))
    for s in range(4):
        for a in range(4):
            P[s, a, a] += 0.5
            P[s, a, s] += 0.5
    return Contest(
        P,
        np.full(4, 0.25),
        Aggregated(np.repeat(ranks, 4, axis=0)),
        name="Condorcet voters",
        state_names=["plan A", "plan B", "plan C", "plan D"],
        action_names=["to A", "to B", "to C", "to D"],
    ).with_restart(0.1)


def machine_repair() -> Contest:
    """A Markov decision process as a contest: run a machine that wears out, or repair it at a cost.

    Wear 0 … 4 earns 10, 8, 5, 2, 0 a day while running and grows by one with probability 0.4; at wear 4 that means it
    breaks and a new one comes. A repair costs 4 and makes the machine as new. The margin is the difference of
    rewards, so a solution is an optimal policy of the process.
    """
    wear, earns, cost = 5, np.array([10.0, 8, 5, 2, 0]), 4.0
    P = np.zeros((wear, 2, wear))
    for s in range(wear):
        P[s, 0, (s + 1) % wear] += 0.4
        P[s, 0, s] += 0.6
        P[s, 1, 0] = 1.0
    reward = np.stack([earns, np.full(wear, -cost)], axis=1)
    return Contest.from_mdp(
        P,
        np.eye(wear)[0],
        reward,
        name="machine repair",
        state_names=[f"wear {s}" for s in range(wear)],
        action_names=["run", "repair"],
    )


def discounted_corridor() -> Contest:
    """The corridor when the near future counts most: discount 0.9 instead of a long-run average."""
    return corridor(length=5, slip=0.0).discounted(0.9)


def six_step_corridor() -> Contest:
    """The corridor for exactly six steps: a policy that depends on the time left."""
    return corridor(length=5, slip=0.0).finite_horizon(6)


EXAMPLES: dict[str, Callable[[], Contest]] = {
    "rock-paper-scissors": rock_paper_scissors,
    "corridor": rock_paper_scissors_corridor,
    "marriage": marriage,
    "condorcet": condorcet,
    "machine-repair": machine_repair,
    "discounted": discounted_corridor,
    "finite-horizon": six_step_corridor,
}
"""The shipped contests by name."""


def make(name: str) -> Contest:
    """The shipped contest of that name."""
    name = name.lower().replace("_", "-").replace(" ", "-")
    if name not in EXAMPLES:
        raise InputError(f"there is no example {name!r}; the examples are {', '.join(EXAMPLES)}")
    return EXAMPLES[name]()


def about(name: str) -> str:
    """One line on what the example shows."""
    return (EXAMPLES[name].__doc__ or name).splitlines()[0]  # python -OO strips docstrings
