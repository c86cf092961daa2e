"""Decision models of the textbooks at any size. A margin makes a contest of one, see bench/finite/contests.py."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from mdcontest import Contest, Margin
from mdcontest.arrays import Array, Ints
from mdcontest.errors import InputError

RESTART = 0.001
"""The probability of starting over at each step, where a model has no other reason to be unichain."""


@dataclass(frozen=True, eq=False)
class Model:
    """An environment with its own reward, before a margin is chosen."""

    name: str
    transitions: sp.csr_array
    """P₀(s'|s, a) without restarts, shape [S·A, S]."""
    start: Array
    """μ, shape [S]."""
    reward: Array
    """r(s, a), shape [S, A]; costs are negative."""
    restart: float | None = None
    """ε of P = (1 − ε) P₀ + ε 1 μᵀ; None where the chain is unichain by itself."""

    @property
    def num_pairs(self) -> int:
        return int(self.reward.size)

    def contest(self, margin: Margin) -> Contest:
        """The model with a margin over its pairs."""
        contest = Contest(self.transitions, self.start, margin, name=self.name)
        return contest if self.restart is None else contest.with_restart(self.restart)


def garnet(states: int, actions: int = 4, successors: int = 5, seed: int = 0) -> Model:
    """A random sparse chain: successors drawn without replacement, probabilities from uniform cuts of [0, 1].

    "Generic average reward non-stationary environment test bench": T. W. Archibald, K. I. M. McKinnon, L. C. Thomas
    (1995), On the generation of Markov decision processes; the name from S. Bhatnagar, R. Sutton, M. Ghavamzadeh,
    M. Lee (2009), Natural actor-critic algorithms. Rewards are standard normal; restarts go anywhere.
    """
    if not 1 <= successors <= states:
        raise InputError(f"{successors} successors among {states} states; take between 1 and {states}")
    rng, n = np.random.default_rng(seed), states * actions
    later = _distinct(rng, states, (n, successors))
    cuts = np.sort(rng.uniform(size=(n, successors - 1)), axis=1)
    P = np.diff(cuts, axis=1, prepend=0.0, append=1.0)
    reward = rng.standard_normal((states, actions))
    return Model("Garnet", _rows(P, later, states), np.full(states, 1 / states), reward, RESTART)


def grid(side: int) -> Model:
    """A slippery floor of four rooms, A = 5: a move goes as meant with 0.8 and to either side with 0.1; staying stays.

    The slips are those of the 4×3 world of S. Russell, P. Norvig (Artificial Intelligence, ch. "Making complex
    decisions"), with its −0.04 a move and +1 in the goal; the rooms those of R. Sutton, D. Precup, S. Singh (1999),
    Between MDPs and semi-MDPs. Walls run between cells, with a door a tenth as wide as the floor in the middle of each,
    so that every cell is a state. Restarts go to the room opposite the goal.
    """
    if side < 2:
        raise InputError(f"a floor of {side} cells a side has no four rooms; take at least 2")
    arrives = np.stack([_step(side, direction) for direction in range(4)], axis=1)
    stay = np.arange(side**2)
    later = np.stack(
        [np.stack([arrives[:, a], arrives[:, (a + 1) % 4], arrives[:, (a + 3) % 4]], axis=1) for a in range(4)]
        + [np.stack([stay, stay, stay], axis=1)],
        axis=1,
    ).reshape(-1, 3)
    P = np.broadcast_to([0.8, 0.1, 0.1], later.shape)
    reward = np.tile([-0.04, -0.04, -0.04, -0.04, 0.0], (side**2, 1))
    reward[-1] += 1.0
    row, column = np.divmod(stay, side)
    first_room = (row < (side + 1) // 2) & (column < (side + 1) // 2)
    return Model("slippery grid", _rows(P, later, side**2), first_room / first_room.sum(), reward, RESTART)


def _step(side: int, direction: int) -> Ints:
    """Where each cell's neighbour up, right, down or left is, or the cell itself behind a wall. Shape [side²]."""
    row, column = np.divmod(np.arange(side**2), side)
    down, right = ((-1, 0), (0, 1), (1, 0), (0, -1))[direction]
    to_row, to_column = row + down, column + right
    inside = (to_row >= 0) & (to_row < side) & (to_column >= 0) & (to_column < side)
    half = (side + 1) // 2
    between_rooms = ((row < half) != (to_row < half)) | ((column < half) != (to_column < half))
    along = column if down else row  # a wall runs across the move; its two doors lie in the middle of its halves
    door = max(1, side // 10)
    in_door = (np.abs(along - side // 4) < (door + 1) / 2) | (np.abs(along - (3 * side) // 4) < (door + 1) / 2)
    open_way = inside & (~between_rooms | in_door)
    return np.where(open_way, to_row * side + to_column, np.arange(side**2))


def queue(capacity: int, arrival: float = 0.5, services: tuple[float, float] = (0.4, 0.8)) -> Model:
    """The M/M/1/K queue with admission and two service rates, uniformised; A = 4, S = K + 1.

    L. Sennott (1999), Stochastic Dynamic Programming and the Control of Queueing Systems. The action is 2·admit + fast.
    A step costs the queue's length as a share of K, 0.3 if the server is fast (and busy), and 1 for a customer turned
    away. The queue empties under every policy, so every policy's chain is unichain.
    """
    if capacity < 1:
        raise InputError(f"a queue needs room for at least one customer, got {capacity}")
    length = np.repeat(np.arange(capacity + 1), 4)
    admit, fast = np.tile([0, 0, 1, 1], capacity + 1), np.tile([0, 1, 0, 1], capacity + 1)
    total = arrival + max(services)
    served = np.where(length > 0, np.array(services)[fast], 0.0) / total
    joins = np.where((admit == 1) & (length < capacity), arrival / total, 0.0)
    P = np.stack([served, 1 - served - joins, joins], axis=1)
    later = np.clip(length[:, None] + np.array([-1, 0, 1]), 0, capacity)
    lost = arrival / total - joins
    cost = length / capacity + 0.3 * fast * (length > 0) + lost
    return Model("queue", _rows(P, later, capacity + 1), _first(capacity + 1), -cost.reshape(-1, 4))


def routing(room: int, arrival: float = 0.9, services: tuple[float, float] = (0.6, 0.4)) -> Model:
    """Two queues of `room` places with their own servers, an arrival is sent to either or away; A = 3, S = (room + 1)².

    Routing to parallel queues: W. Winston (1977), Optimality of the shortest line discipline; here with unequal
    servers, uniformised. A step costs the customers present as a share of all places, and 1 for one who is sent away
    or finds the queue full. Both queues empty under every policy, so every policy's chain is unichain.
    """
    if room < 1:
        raise InputError(f"a queue needs room for at least one customer, got {room}")
    states, total = (room + 1) ** 2, arrival + sum(services)
    first, second = np.divmod(np.repeat(np.arange(states), 3), room + 1)
    choice = np.tile(np.arange(3), states)
    joins_first = (choice == 0) & (first < room)
    joins_second = (choice == 1) & (second < room)
    joins = np.where(joins_first | joins_second, arrival / total, 0.0)
    one, two = (np.where(q > 0, rate / total, 0.0) for q, rate in zip((first, second), services, strict=True))
    P = np.stack([one, two, joins, 1 - one - two - joins], axis=1)
    here = first * (room + 1) + second
    after = here + np.where(joins_first, room + 1, np.where(joins_second, 1, 0))
    later = np.stack([np.where(first > 0, here - room - 1, here), np.where(second > 0, here - 1, here), after, here], 1)
    cost = (first + second) / (2 * room) + (arrival / total - joins)
    return Model("routing", _rows(P, later, states), _first(states), -cost.reshape(-1, 3))


def inventory(capacity: int, demand: float = 8.0) -> Model:
    """A stock of 0 … capacity with Poisson demand and lost sales; orders of 0, 1, 2 or 3 times the mean demand, A = 4.

    The stochastic inventory of M. Puterman (2014), Markov Decision Processes, sec. 3.2: a step earns 8 a unit sold and
    pays 4 for ordering at all, 2 a unit ordered and 1 a unit held, the last as a share of the capacity. What the store
    cannot hold is not delivered. Demand is cut off where its tail falls below 1e-12, beyond the largest order, so that
    the stock can run out under every policy, and every policy's chain is unichain.
    """
    if capacity < 1:
        raise InputError(f"a store needs room for at least one unit, got {capacity}")
    wanted, probability = _poisson(demand)
    stock = np.repeat(np.arange(capacity + 1), 4)
    order = np.minimum(np.tile(np.arange(4) * int(demand), capacity + 1), capacity - stock)
    ready = stock + order
    later = np.maximum(ready[:, None] - wanted, 0)
    sold = np.minimum(ready[:, None], wanted) @ probability
    reward = 8 * sold - 4 * (order > 0) - 2 * order - ready / capacity
    P = np.broadcast_to(probability, later.shape)
    return Model("inventory", _rows(P, later, capacity + 1), _first(capacity + 1), reward.reshape(-1, 4))


def _poisson(mean: float) -> tuple[Ints, Array]:
    """Demands and their probabilities; the tail beyond the last is part of it."""
    from scipy.stats import poisson

    last = int(poisson.isf(1e-12, mean))
    if last <= 3 * mean:
        raise InputError(f"a mean demand of {mean:g} rarely exceeds three times itself; take one below 20")
    wanted = np.arange(last + 1)
    probability = np.asarray(poisson.pmf(wanted, mean))
    probability[-1] += poisson.sf(last, mean)
    return wanted, probability / probability.sum()


def _first(states: int) -> Array:
    """Start in the first state."""
    return np.eye(1, states)[0]


def _rows(P: Array, later: Ints, states: int) -> sp.csr_array:
    """One row a pair from probabilities and successors, both [n, k]; equal successors are added up."""
    n, k = later.shape
    matrix = sp.csr_array((np.ravel(P).astype(float), np.ravel(later), np.arange(0, n * k + 1, k)), shape=(n, states))
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix


def _distinct(rng: np.random.Generator, states: int, shape: tuple[int, int]) -> Ints:
    """Rows of distinct states: rows with a repetition are drawn again, or permuted where that would take long."""
    n, k = shape
    if k * k > states:
        return rng.permuted(np.broadcast_to(np.arange(states), (n, states)), axis=1)[:, :k]
    drawn = rng.integers(states, size=shape)
    while True:
        ordered = np.sort(drawn, axis=1)
        again = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
        if not again.any():
            return drawn
        drawn[again] = rng.integers(states, size=(int(again.sum()), k))
