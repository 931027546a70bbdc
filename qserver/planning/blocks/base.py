"""The best base for a set of requirements: alphas of blocks of least total cost.

    minimise sum_l cost_l alpha_l  subject to  sum_j e_wj / lambda_j(alpha) <= tau_w, alpha >= floor

Under Laplace noise it is not convex: sum_j e / lambda is convex in alpha^2 and the cost concave in
it. Each start ends in a local optimum, so callers try several and never rely on one. Under Gaussian
noise alpha is rho, in which lambda is linear: the problem is convex, and any start ends at the
least price.

At an optimum under Laplace noise with multipliers mu_w, a block above its floor has

    cost_l = alpha_l * sum_j reach_lj / lambda_j^2 * sum_w mu_w e_wj / tau_w   (times a constant)

and under Gaussian noise the same without the factor alpha_l. Both sides are iterated
multiplicatively: blocks by the ratio of the two sides, multipliers by how far each variance is over
its target. Useless blocks vanish geometrically.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from qserver.errors import InputError
from qserver.inference.arrays import FloatArray
from qserver.inference.tables.blocks.pattern import BlockKey, Lattice
from qserver.planning.constants import PLANNER
from qserver.planning.effort import Effort, work_of_steps
from qserver.records.privacy.noise_law import LAPLACE, NoiseLaw


@dataclass(frozen=True)
class Target:
    """A query and the variance that it may have.

    Args:
        energies: mean square of each of its components.
        variance: tau, in records^2, > 0.
    """

    energies: dict[BlockKey, float]
    variance: float

    def __post_init__(self) -> None:
        if not self.variance > 0.0:
            raise InputError("variance", "be > 0")


@dataclass(frozen=True, eq=False)
class BaseProblem:
    """The problem as arrays.

    Args:
        blocks: candidate blocks, B of them.
        reach: what a block's information, alpha_l^2 under Laplace noise, adds to lambda_j, shape
            (B, C).
        energies: e_wj / tau_w, shape (W, C).
        costs: cost per unit of alpha, shape (B,).
        floors: alphas paid already, shape (B,).
        law: of the noise.
    """

    blocks: tuple[BlockKey, ...]
    reach: FloatArray
    energies: FloatArray
    costs: FloatArray
    floors: FloatArray
    law: NoiseLaw = LAPLACE

    @classmethod
    def of(
        cls,
        lattice: Lattice,
        targets: Sequence[Target],
        *,
        blocks: Sequence[BlockKey],
        costs: Sequence[float],
        floors: Sequence[float],
        law: NoiseLaw = LAPLACE,
    ) -> BaseProblem:
        """Set up the problem of these targets over these blocks."""
        components = list(dict.fromkeys(j for t in targets for j in t.energies))
        at = {j: i for i, j in enumerate(components)}
        energies = np.zeros((len(targets), len(components)))
        for row, target in enumerate(targets):
            for j, energy in target.energies.items():
                energies[row, at[j]] = energy / target.variance
        cells = np.array([2.0 * lattice.n_cells(b) for b in blocks])
        reach = _within(components, blocks) / cells[:, None]
        found = np.array(costs, dtype=float), np.array(floors, float)
        return cls(tuple(blocks), reach, energies, *found, law)

    def excess(self, alphas: FloatArray) -> float:
        """The greatest variance over its target; at most 1 where all are met."""
        return float(self.uses(alphas).max(initial=0.0))

    def uses(self, alphas: FloatArray) -> FloatArray:
        """Each variance over its target, shape (W,)."""
        return np.asarray(self.energies @ self._inverse(alphas))

    def shares(self, alphas: FloatArray) -> FloatArray:
        """Share of each block in lowering the first variance, shape (B,), of sum 1."""
        inverse = np.square(self._inverse(alphas))
        pull = self.law.information(alphas) * (self.reach @ (inverse * self.energies[0]))
        return np.asarray(pull / max(float(pull.sum()), PLANNER.tiny))

    @property
    def work(self) -> float:
        """The work of one solution."""
        targets, components = self.energies.shape
        return work_of_steps(
            PLANNER.base_steps, blocks=len(self.blocks), components=components, targets=targets
        )

    def price(self, alphas: FloatArray) -> float:
        """Total cost of these alphas."""
        return float(self.costs @ alphas)

    def least_price(self, enough: float) -> float:
        """Lower bound of the price of alphas that meet every target; rough above `enough`.

        Under Laplace noise let a_l = cost_l alpha_l, f_l be its floor, q_lj = sqrt(reach_lj) /
        cost_l, and E_j the sum
        of energies weighted by any w_i >= 0 of sum 1. Alphas that meet every target have

            1 >= sum_j E_j / lambda_j >= sum_j E_j / u_j^2,   u_j = sum_l q_lj a_l >= sqrt(lambda_j)

        and 1 / u^2 >= 3 / s^2 - 2 u / s^3 for any s > 0. With z_j = E_j / s_j^3, g_l = sum_j q_lj
        z_j and G = max_l g_l, the price P has sum_l g_l a_l <= G P - sum_l (G - g_l) f_l. So, with
        the best scale of s,

            P >= sum_l f_l (1 - g_l / G) + (sum_j E_j / s_j^2)^1.5 / G.

        Under Gaussian noise lambda_j = sum_l q_lj a_l with q_lj = 4 reach_lj / cost_l, and 1 / u >=
        2 / s - u / s^2. With z_j = E_j / s_j^2 the last term is (sum_j E_j / s_j)^2 / G.
        """
        growth = self.law.growth
        # What costs nothing reaches some components at no price.
        is_free = self.costs < PLANNER.rounding
        energies = self.energies * ~(self.reach[is_free] > 0.0).any(axis=0)
        q = self.law.times(self.reach * self.law.information(np.ones(1))) / self.costs[:, None]
        floors = self.floors * self.costs
        spent, weights = np.ones(len(floors)), np.full(len(energies), 1.0 / len(energies))
        best = 0.0
        for _ in range(PLANNER.watched_steps):
            inverse = (1.0 / np.maximum(spent @ q, PLANNER.tiny)) ** growth
            uses = energies @ inverse
            worst = max(float(uses.max()), PLANNER.tiny)
            if worst > PLANNER.unmet:
                return inf
            mixed = weights @ energies
            pull = q @ (mixed * inverse ** (1.0 + 1.0 / growth))
            most = max(float(pull.max()), PLANNER.tiny)
            bound = float(floors @ (1.0 - pull / most))
            bound += float(mixed @ inverse) ** (1.0 + 1.0 / growth) / most
            best = max(best, bound)
            if best > enough:
                break
            weights = weights * (uses / worst) ** PLANNER.target_power
            weights /= weights.sum()
            mean = max(float(spent @ pull / spent.sum()), PLANNER.tiny)
            moved = spent * np.clip(pull / mean, 0.05, 4.0) ** PLANNER.block_power
            spent = np.maximum(moved * self.law.times(np.array(worst)), floors)
        return best

    def scaled(self, alphas: FloatArray) -> FloatArray:
        """max(floor, s * alphas) for the least s that meets every target, to 1e-6."""
        if self.excess(self.floors) <= 1.0:
            return self.floors
        high = float(self.law.times(np.array(self.excess(alphas))))
        if high > PLANNER.unmet:
            return np.full_like(alphas, np.inf)
        if not self.floors.any():
            return alphas * high
        low = 0.0
        while high - low > 1e-6 * high:
            middle = 0.5 * (low + high)
            if self.excess(np.maximum(self.floors, middle * alphas)) <= 1.0:
                high = middle
            else:
                low = middle
        return np.maximum(self.floors, high * alphas)

    def revived(self, alphas: FloatArray) -> FloatArray:
        """Add a little of every block to the alphas: a block at zero would stay there."""
        largest = float((alphas - self.floors).max(initial=0.0))
        return np.maximum(alphas, PLANNER.small_part * largest)

    def solve(
        self, start: FloatArray, *, steps: int = PLANNER.base_steps, annealed: bool = False
    ) -> FloatArray:
        """Find a feasible local optimum from `start`; drop small blocks if that costs no more.

        Args:
            annealed: begin with the cost sum c alpha^2, with which the problem is convex, and
                lower the exponent to 1 over the first half of the steps.
        """
        (found,) = self.solve_all([start], steps=steps, n_annealed=int(annealed))
        return found

    def solve_all(
        self, starts: Sequence[FloatArray], *, steps: int = PLANNER.base_steps, n_annealed: int = 0
    ) -> list[FloatArray]:
        """Find a local optimum from each start at once, about as `solve` does but in less time.

        The searches end when none gets cheaper, or after all steps.

        Args:
            n_annealed: number of starts that are annealed: the first ones.
        """
        if not starts:
            return []
        alphas = np.maximum(np.stack(starts), self.floors)
        state = _Iteration.of(self, alphas, np.arange(len(starts)) < n_annealed)
        annealing = steps // 2 if n_annealed else 0
        for first in range(0, steps, PLANNER.watched_steps):
            before = state.prices
            for step in range(first, min(first + PLANNER.watched_steps, steps)):
                state.advance(step / steps)
            if first >= annealing and state.is_still(before):
                break
        return [
            self._pruned(self.scaled(best)) if met else np.full_like(best, np.inf)
            for best, met in zip(state.best, state.is_met, strict=True)
        ]

    def _pruned(self, alphas: FloatArray) -> FloatArray:
        """Drop blocks of negligible information if the price does not rise."""
        raises = alphas - self.floors
        small = (raises > 0.0) & (raises < PLANNER.small_part * raises.sum())
        fewer = self.scaled(np.where(small, self.floors, alphas))
        return fewer if self.price(fewer) <= self.price(alphas) * 1.001 else alphas

    def _inverse(self, alphas: FloatArray) -> FloatArray:
        """1 / lambda_j, shape (..., C), for alphas of shape (..., B)."""
        # 1e-100 in place of 0 avoids zero times infinity.
        information = self.law.information(alphas) @ self.reach
        return np.asarray(1.0 / np.maximum(information, PLANNER.tiny))


@dataclass(eq=False)
class _Iteration:
    """Several searches side by side, S of them.

    Args:
        alphas: where each is, shape (S, B).
        annealed: whether a search begins with the cost sum c alpha^2, shape (S, 1).
        best: cheapest scaled alphas of each search so far, shape (S, B), at `prices`, shape (S,).
        shares: multipliers of the targets, shape (S, W), of sum 1.
        is_met: whether each search still has finite alphas that can be scaled, shape (S,).
    """

    problem: BaseProblem
    alphas: FloatArray
    annealed: NDArray[np.bool_]
    best: FloatArray
    prices: FloatArray
    shares: FloatArray
    is_met: NDArray[np.bool_]

    @classmethod
    def of(
        cls, problem: BaseProblem, alphas: FloatArray, annealed: NDArray[np.bool_]
    ) -> _Iteration:
        """The searches that begin here."""
        n = len(alphas)
        is_met = np.asarray(np.isfinite(alphas).all(axis=1, keepdims=True))
        alphas, shares = np.where(is_met, alphas, 1.0), np.ones((n, len(problem.energies)))
        unknown = np.full(n, np.inf)
        return cls(problem, alphas, annealed[:, None], alphas, unknown, shares, is_met.ravel())

    def advance(self, part: float) -> None:
        """Take one step, after this part of all steps."""
        problem, alphas = self.problem, self.alphas
        inverse = problem._inverse(alphas)
        variances = inverse @ problem.energies.T
        worst = variances.max(axis=1)
        self.is_met &= worst <= PLANNER.unmet
        # Scaling up by this much meets every target, with floors or without.
        prices = (alphas @ problem.costs) * problem.law.times(np.maximum(worst, 1e-3))
        better = prices < self.prices
        self.best = np.where(better[:, None], alphas, self.best)
        self.prices = np.where(better, prices, self.prices)
        power = PLANNER.target_power * (1.0 - 0.8 * part)
        shares = self.shares * (variances / worst[:, None]) ** power
        self.shares = shares / shares.sum(axis=1, keepdims=True)
        pull = (np.square(inverse) * (self.shares @ problem.energies)) @ problem.reach.T
        if problem.law.is_additive:
            pull /= problem.costs
        else:
            bent = alphas ** min(1.0, 2.0 * part) if self.annealed.any() else alphas
            pull *= np.where(self.annealed, bent, alphas) / problem.costs
        spent = problem.costs * alphas
        # Without a block nothing is spent.
        mean = (spent * pull).sum(axis=1) / np.maximum(spent.sum(axis=1), PLANNER.tiny)
        pull /= np.maximum(mean, PLANNER.tiny)[:, None]
        moved = alphas * np.minimum(np.maximum(pull, 0.05), 4.0) ** PLANNER.block_power
        moved = np.maximum(moved * worst[:, None] ** 0.25, problem.floors)
        # Alphas that cannot be scaled stay as they are.
        self.alphas = np.where(self.is_met[:, None], moved, alphas)

    def is_still(self, before: FloatArray) -> bool:
        """Whether no search is noticeably cheaper than these prices."""
        return bool(np.all(self.prices >= before * (1.0 - PLANNER.noticeable)))


def _within(components: Sequence[BlockKey], blocks: Sequence[BlockKey]) -> FloatArray:
    """Whether each block is at least as fine as each component on every axis, shape (B, C)."""
    axes = sorted({a for key in (*components, *blocks) for a, _ in key})
    fine, coarse = _levels(blocks, axes), _levels(components, axes)
    found = np.ones((len(blocks), len(components)), dtype=bool)
    for i in range(len(axes)):
        found &= fine[:, None, i] >= coarse[None, :, i]
    return found.astype(np.float64)


def _levels(keys: Sequence[BlockKey], axes: Sequence[int]) -> FloatArray:
    at = {axis: i for i, axis in enumerate(axes)}
    levels = np.zeros((len(keys), len(axes)))
    for row, key in enumerate(keys):
        for axis, level in key:
            levels[row, at[axis]] = level
    return levels


def best_base(
    problem: BaseProblem,
    starts: Sequence[FloatArray],
    *,
    effort: Effort,
    n_drawn: int = PLANNER.tries,
) -> FloatArray:
    """Alphas of the cheapest local optimum from these starts and some more, shape (B,).

    The further starts follow from the problem's shape; nothing is random.

    Args:
        n_drawn: further starts, drawn by a fixed seed.
        effort: counts the work. The first start is always tried, others where the work allows it.
    """
    unit = problem.scaled(np.ones(len(problem.blocks)))
    begun, more = [unit], list[FloatArray]()
    effort.add(problem.work)
    if problem.law.is_additive:
        return min(problem.solve_all([unit, *starts]), key=problem.price)
    for start in (unit, *starts):
        if not effort.allows(problem.work):
            break
        begun.append(start)
        effort.add(problem.work)
    generator = np.random.default_rng(len(unit))
    for _ in range(n_drawn):
        if not effort.allows(problem.work / 2.0):
            break
        spread = np.exp(generator.normal(0.0, 1.5, len(unit)))
        more.append(problem.scaled(spread))
        effort.add(problem.work / 2.0)
    found = problem.solve_all(begun, n_annealed=1)
    found += problem.solve_all(more, steps=PLANNER.base_steps // 2)
    best = min(found, key=problem.price)
    if not effort.allows(problem.work):
        return best
    effort.add(problem.work)
    return min(best, problem.solve(problem.revived(best)), key=problem.price)
