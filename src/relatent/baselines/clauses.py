"""Clauses of up to three atoms over binary relations: their text, their counts, and which ones are worth adding.

A Markov logic network gives a world the probability ∝ exp(Σ_c w_c n_c), where n_c is the number of groundings in which
clause c holds (Richardson & Domingos 2006). Given all other atoms, the log-odds of one atom is Σ_c w_c Δ_c, Δ_c being
the change of n_c when the atom turns from false to true. One weight acts on every atom of its clause:

    k1(x,y) ⇒ k(x,y)              head k(x,y): X_k1            body k1(x,y): −(1 − X_k)
    k1(x,z) ∧ k2(z,y) ⇒ k(x,y)    head k(x,y): [C > 0]         body k1(x,z): −Σ_y (1 − X_k)_xy X_k2,zy [no other z leads
                                                               from x to y], and likewise for k2(z,y)

C = X_k1 X_k2 counts the z. A chain is grounded once for each (x, y), its body read as ∃z: the same formula in logic as
one grounding for each z, but a second and third z add no evidence. With `each_z` there is one grounding for each z: C
takes the place of [C > 0], and other z do not matter to the body. The variables of a clause stand for different
entities, so that no atom occurs twice in a grounding; only k(x,y) also covers x = y, and k(x,x) covers nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from itertools import permutations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from ..arrays import Ids, Matrix, Slices, Vector
from ..data.names import Names
from ..model.step_graph import Body


class Shape(IntEnum):
    """How the variables connect the atoms of a clause; the head is k(x,y), except in k(x,x)."""

    UNIT = 0  # k(x,y)
    REFLEXIVE = 1  # k(x,x)
    SAME = 2  # k1(x,y) ⇒ k(x,y)
    INVERSE = 3  # k1(y,x) ⇒ k(x,y)
    FORWARD = 4  # k1(x,z) ∧ k2(z,y) ⇒ k(x,y)
    SAME_OBJECT = 5  # k1(x,z) ∧ k2(y,z) ⇒ k(x,y)
    SAME_SUBJECT = 6  # k1(z,x) ∧ k2(z,y) ⇒ k(x,y)
    BACKWARD = 7  # k1(z,x) ∧ k2(y,z) ⇒ k(x,y)


BODIES: dict[Shape, tuple[str, ...]] = {
    Shape.UNIT: (),
    Shape.REFLEXIVE: (),
    Shape.SAME: ("xy",),
    Shape.INVERSE: ("yx",),
    Shape.FORWARD: ("xz", "zy"),
    Shape.SAME_OBJECT: ("xz", "yz"),
    Shape.SAME_SUBJECT: ("zx", "zy"),
    Shape.BACKWARD: ("zx", "yz"),
}
CHAINS = tuple(shape for shape, body in BODIES.items() if len(body) == 2)
MIRRORED = {  # k1 ∧ k2 with x and y exchanged is k2 ∧ k1 of this shape
    Shape.FORWARD: Shape.BACKWARD,
    Shape.SAME_OBJECT: Shape.SAME_OBJECT,
    Shape.SAME_SUBJECT: Shape.SAME_SUBJECT,
}

Codes = NDArray[np.int64]  # (n, 4): shape, k1, k2, head; −1 where the clause has no such relation


class Atom(NamedTuple):
    """A relation between two variables."""

    relation: str
    subject: str
    object: str

    def __str__(self) -> str:
        return f"{self.relation}({self.subject},{self.object})"


class Clause(NamedTuple):
    """A weighted clause: the atoms of the body imply the head. A negative weight is evidence against the implication.

    >>> print(Clause((Atom("parent", "x", "z"), Atom("parent", "z", "y")), Atom("grandparent", "x", "y"), 2.314))
    parent(x,z) ∧ parent(z,y) ⇒ grandparent(x,y)  2.31
    """

    body: tuple[Atom, ...]
    head: Atom
    weight: float

    @classmethod
    def of(cls, code: Ids, weight: float, relations: Names) -> Clause:
        """The clause that a row of numbers stands for."""
        shape = Shape(int(code[0]))
        body = tuple(
            Atom(relations[int(k)], *variables) for k, variables in zip(code[1:3], BODIES[shape], strict=False)
        )
        head = Atom(relations[int(code[3])], "x", "x" if shape == Shape.REFLEXIVE else "y")
        return cls(body, head, float(weight))

    @property
    def text(self) -> str:
        """The clause without its weight."""
        return " ⇒ ".join(filter(None, (" ∧ ".join(map(str, self.body)), str(self.head))))

    def __str__(self) -> str:
        return f"{self.text}  {self.weight:.2f}"


class Evidence:
    """The truth x in [0, 1] of every atom, and the counts of clauses in it.

    For unobserved atoms, where x is between 0 and 1, [C > 0] becomes min(C, 1) and the body's Δ is the mean over x.
    """

    def __init__(self, X: Slices, *, each_z: bool = False):
        n = X.shape[1]
        self.each_z = each_z
        self.off_diagonal = 1 - np.eye(n, dtype=X.dtype)
        self.true = X * self.off_diagonal  # (K, N, N)
        self.false = (1 - X) * self.off_diagonal

    def deltas(self, code: Ids) -> dict[int, Matrix]:
        """Δ of every atom of the relations in the clause, (N, N) each."""
        shape, k1, k2, k = Shape(int(code[0])), int(code[1]), int(code[2]), int(code[3])
        if shape == Shape.UNIT:
            return {k: np.ones_like(self.off_diagonal)}
        if shape == Shape.REFLEXIVE:
            return {k: 1 - self.off_diagonal}
        if shape in CHAINS:
            return _sum_by_relation(self._chain_deltas(shape, k1, k2, k))
        turned = shape == Shape.INVERSE
        head, body = _turned(self.true[k1], turned), -_turned(self.false[k], turned)
        return _sum_by_relation([(k, head), (k1, body)])

    def _chain_deltas(self, shape: Shape, k1: int, k2: int, k: int) -> list[tuple[int, Matrix]]:
        first, second = _turns(shape)
        B1, B2 = _turned(self.true[k1], first), _turned(self.true[k2], second)
        holds, when_false, when_true = self.steps((B1 @ B2) * self.off_diagonal)
        gained, kept = self.false[k] * when_false, self.false[k] * when_true
        D1 = ((B1 - 1) * (gained @ B2.T) - B1 * (kept @ B2.T)) * self.off_diagonal  # over (x, z)
        D2 = ((B2 - 1) * (B1.T @ gained) - B2 * (B1.T @ kept)) * self.off_diagonal  # over (z, y)
        return [(k, holds), (k1, _turned(D1, first)), (k2, _turned(D2, second))]

    def steps(self, C: Matrix) -> tuple[Matrix, Matrix, Matrix]:
        """The number of groundings with a true body if C of the z have one; its changes by one z more and one less."""
        if self.each_z:
            return C, np.ones_like(C), np.ones_like(C)
        holds = np.minimum(C, 1)
        return holds, 1 - holds, holds - np.clip(C - 1, 0, 1)

    def scores(self, codes: Codes, weights: Vector) -> Slices:
        """Σ_c w_c Δ_c of every atom: its log-odds given all others, (K, N, N)."""
        theta = np.zeros_like(self.true)
        for code, weight in zip(codes, weights.astype(theta.dtype), strict=True):
            for k, delta in self.deltas(code).items():
                theta[k] += weight * delta
        return theta


def _turns(shape: Shape) -> tuple[bool, bool]:
    """Which atoms of a chain's body point against x → z → y."""
    first, second = BODIES[shape]
    return first == "zx", second == "yz"


def _turned(M: Matrix, turn: bool) -> Matrix:
    return M.T if turn else M


def _sum_by_relation(parts: list[tuple[int, Matrix]]) -> dict[int, Matrix]:
    """Sum Δ by relation: a relation may occur several times in a clause."""
    total: dict[int, Matrix] = {}
    for k, delta in parts:
        total[k] = total[k] + delta if k in total else delta
    return total


# --- which clauses to add


class ClauseCandidates(NamedTuple):
    """Clauses and the estimated gain of log-likelihood by each."""

    codes: Codes  # (n, 4)
    worth: Vector  # (n,)

    def take(self, rows: Ids) -> ClauseCandidates:
        """The candidates of these rows, in this order."""
        return ClauseCandidates(self.codes[rows], self.worth[rows])

    def joined_with(self, others: ClauseCandidates) -> ClauseCandidates:
        """These candidates and others."""
        return ClauseCandidates(np.concatenate([self.codes, others.codes]), np.concatenate([self.worth, others.worth]))


def short_clauses(
    evidence: Evidence,
    residual: Slices,
    variance: Slices,
    l1: float,
    *,
    pairs: bool,
    undirected: frozenset[int] = frozenset(),
) -> ClauseCandidates:
    """Clauses k(x,x), and with `pairs` those of two atoms, whose gradient is above the penalty l1.

    An undirected relation does not imply itself: k(y,x) is the same fact as k(x,y).

    `residual` is w (x − p) of each atom and `variance` w p (1 − p), (K, N, N) both. Given the unit clauses, k1 ⇒ k and
    k ⇒ k1 are the same model; the implication from the rarer relation reads better.
    """
    K = len(residual)
    G = np.einsum("kii->k", residual)
    codes = [_codes(Shape.REFLEXIVE, -1, -1, np.arange(K))]
    worth = [gain(G, G, np.einsum("kii->k", variance), l1)]
    D, V = _flat(residual), _flat(variance)
    rarer = np.lexsort((np.arange(K), evidence.true.sum(axis=(1, 2)))).argsort()
    for shape in (Shape.SAME, Shape.INVERSE) if pairs else ():
        turn = shape == Shape.INVERSE
        true, false = (_flat(_transposed(part) if turn else part) for part in (evidence.true, evidence.false))
        together = true @ D.T + D @ true.T  # (K, K): k1, head; the gradient of k1 ∧ k, the implication less k1 alone
        value = gain(true @ D.T - D @ false.T, together, true @ V.T + V @ true.T, l1)
        value[sorted(undirected), sorted(undirected)] = 0
        k1, k = np.nonzero(np.less_equal.outer(rarer, rarer) if turn else np.less.outer(rarer, rarer))
        codes.append(_codes(shape, k1, -1, k))
        worth.append(value[k1, k])
    found = ClauseCandidates(np.concatenate(codes), np.concatenate(worth))
    return affordable(found, len(found.codes))


def best_chains(evidence: Evidence, residual: Slices, variance: Slices, l1: float, *, each: int) -> ClauseCandidates:
    """Of all 4 K³ chains whose gradient is above the penalty l1, the most promising ones for each head."""
    K = len(residual)
    codes, worth = [], []
    for shape, k1, k2, G, G_head, H in _chain_gradients(evidence, residual, variance):
        value = gain(G, G_head, H, l1)  # (bodies, K)
        body, head = np.nonzero(value > 0)
        codes.append(_codes(shape, k1[body], k2[body], head))
        worth.append(value[body, head])
    best = best_of_each_head(ClauseCandidates(np.concatenate(codes), np.concatenate(worth)), each)
    return affordable(best, len(CHAINS) * K**3)


def unlike(found: ClauseCandidates, codes: Codes) -> ClauseCandidates:
    """Candidates that repeat neither a clause of the model nor a better candidate.

    Chains through the same three atoms, another one of them being the head, are nearly the same: together
    they would share one weight.
    """
    present = {_atoms(code) for code in codes}
    fresh = []
    for row in np.argsort(-found.worth, kind="stable"):
        atoms = _atoms(found.codes[row])
        if atoms not in present:
            present.add(atoms)
            fresh.append(row)
    return found.take(np.array(fresh, np.int64))


def _atoms(code: Ids) -> tuple[tuple[int, str, str], ...]:
    """The atoms of a clause, whatever the names of its variables and whichever is the head."""
    shape = Shape(int(code[0]))
    body = zip(code[1:3].tolist(), BODIES[shape], strict=False)
    atoms = [*body, (int(code[3]), "xx" if shape == Shape.REFLEXIVE else "xy")]
    renamings = (dict(zip("xyz", names, strict=True)) for names in permutations("xyz"))
    return min(tuple(sorted((k, name[pair[0]], name[pair[1]]) for k, pair in atoms)) for name in renamings)


def affordable(found: ClauseCandidates, out_of: int) -> ClauseCandidates:
    """Those worth more than the log(n / r) nats it takes to name the r-th best of n candidates, best first."""
    order = np.argsort(-found.worth, kind="stable")
    return found.take(order[found.worth[order] > np.log(out_of / np.arange(1, len(order) + 1))])


def best_of_each_head(found: ClauseCandidates, each: int) -> ClauseCandidates:
    """The most promising clauses of each head, best first."""
    order = np.argsort(-found.worth, kind="stable")
    head = found.codes[order, 3]
    by_head = np.argsort(head, kind="stable")
    starts = np.searchsorted(head[by_head], head[by_head])
    place = np.empty(len(head), np.int64)
    place[by_head] = np.arange(len(head)) - starts
    return found.take(order[place < each])


def _chain_gradients(
    evidence: Evidence, residual: Slices, variance: Slices
) -> Iterator[tuple[Shape, Ids, Ids, Matrix, Matrix, Matrix]]:
    """For some bodies (k1, k2): d log-likelihood / d w, its part from the heads, and Σ variance · Δ² over the heads.

    Each is (bodies, K). Σ D ∘ Δ over the body's atoms is a sum over (x, y) of (1 − X_k) times something that does not
    depend on the head k: so one product for each body serves all heads. With x and y exchanged it serves a second
    shape, or the body (k2, k1).
    """
    K, n = residual.shape[:2]
    off = evidence.off_diagonal
    D = residual * off
    heads = _both_ways(D, variance * off)  # (N², 4 K)
    open_heads = _both_ways(evidence.false)  # (N², 2 K)
    turned = {False: (evidence.true, D), True: (_transposed(evidence.true), _transposed(D))}
    for shape, mirrored in MIRRORED.items():
        (B1, D1), (B2, D2) = (turned[turn] for turn in _turns(shape))
        left = np.concatenate([B1, D1 * (1 - B1), D1 * B1], axis=1)  # (K, 3 N, N)
        right = np.concatenate([D2 * (1 - B2), D2 * B2], axis=2)  # (K, N, 2 N)
        for k in range(K):
            k2 = np.arange(k if shape == mirrored else 0, K)
            k1 = np.full_like(k2, k)
            P, Q = np.matmul(left[k], B2[k2]), np.matmul(B1[k], right[k2])  # (bodies, 3 N, N), (bodies, N, 2 N)
            holds, when_false, when_true = evidence.steps(P[:, :n] * off)
            lost = when_false * (P[:, n : 2 * n] + Q[:, :, :n]) + when_true * (P[:, 2 * n :] + Q[:, :, n:])
            G, G_turned, H, H_turned = np.hsplit(_flat(holds) @ heads, 4)
            L, L_turned = np.hsplit(_flat(lost) @ open_heads, 2)
            yield shape, k1, k2, G - L, G, H
            new = slice(1 if shape == mirrored else 0, None)  # (k, k) is its own mirror image
            yield mirrored, k2[new], k1[new], (G_turned - L_turned)[new], G_turned[new], H_turned[new]


def _both_ways(*arrays: Slices) -> Matrix:
    """Each array and its transpose as columns, one for each relation."""
    return np.concatenate([_flat(way) for array in arrays for way in (array, _transposed(array))]).T.copy()


def _transposed(array: Slices) -> Slices:
    return np.ascontiguousarray(array.transpose(0, 2, 1))


def _flat(array: Slices) -> Matrix:
    return array.reshape(len(array), -1)


def gain(gradient: Matrix, from_heads: Matrix, expected: Matrix, l1: float) -> Matrix:
    """About how much the penalised log-likelihood gains by a new weight, 0 where the penalty forbids it.

    The part of the gradient that comes from the heads must say the same as the whole: otherwise "k1 and k2 never meet"
    would come in as k1 ∧ k2 ⇒ k, once for each k.
    """
    agreed = np.where(np.sign(gradient) == np.sign(from_heads), _poisson_gain(from_heads, expected, l1), 0)
    least: Matrix = np.minimum(_poisson_gain(gradient, expected, l1), agreed)
    return least


def _poisson_gain(gradient: Matrix, expected: Matrix, l1: float) -> Matrix:
    """The gain of a Poisson count that is |gradient| − l1 away from the expected one.

    Its curvature grows with the weight: a Newton step would overrate clauses that fire on a handful of rare atoms.
    """
    beyond = np.maximum(np.abs(gradient) - l1, 0).astype(np.float64)
    mean = np.maximum(expected.astype(np.float64), 1e-6)
    count = np.maximum(mean + np.sign(gradient) * beyond, 0)
    gained: Matrix = np.where(beyond > 0, xlogy(count, count / mean) - (count - mean), 0.0)
    return gained


def unit_clauses(n_relations: int) -> Codes:
    """One clause k(x,y) for each relation."""
    return _codes(Shape.UNIT, -1, -1, np.arange(n_relations))


def _codes(shape: Shape, k1: Ids | int, k2: Ids | int, k: Ids) -> Codes:
    columns = np.broadcast_arrays(np.int64(shape), k1, k2, k)
    return np.stack(columns, axis=1).astype(np.int64)


def body_codes(bodies: Sequence[Body], head: int) -> Codes:
    """The clauses with these bodies of steps (`model.step_graph`) and one head; () is the body of k(x,x)."""
    rows = []
    for body in bodies:
        way = tuple(("xz", "zx")[step % 2] if i == 0 else ("zy", "yz")[step % 2] for i, step in enumerate(body))
        way = {1: ("xy" if body[:1] and body[0] % 2 == 0 else "yx",)}.get(len(body), way)
        shape = next(shape for shape, atoms in BODIES.items() if atoms == way and shape != Shape.UNIT)
        rows.append((shape, *(step // 2 for step in body), *(-1,) * (2 - len(body)), head))
    return np.array(rows, np.int64).reshape(-1, 4)


def body_of(code: Ids) -> Body:
    """The steps of a clause's body."""
    forwards = ("xy", "xz", "zy")
    return tuple(
        2 * int(k) + (way not in forwards) for k, way in zip(code[1:3], BODIES[Shape(int(code[0]))], strict=False)
    )
