"""Peers of `time_to_quality`: PyKEEN's models, and a plain ComplEx in PyTorch in the manner of kbc and LibKGE.

Every peer hands over the entity vectors and relation matrices it has learned, so that one evaluator ranks them all.
A peer with reciprocal relations has two matrices per relation: one for (s, k, ?), one for (?, k, o).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy, embedding

from relatent import Factors, Facts
from relatent.backend.compact_matrices import transposed
from relatent.model.relation_matrices import RelationMatrices
from relatent.model.structure import resolve

Sides = tuple[Factors, Factors]  # for questions (s, k, ?) and (?, k, o)
Moment = Callable[[Callable[[], Sides]], None]  # called after each batch; evaluates if it is time, ends the training


# --- a plain loop


def train_plain(train: Facts, settings: dict[str, Any], seed: int, moment: Moment) -> None:
    """ComplEx with reciprocal relations and N3, by Adagrad on the softmax over all entities, or over some drawn ones.

    A batch has some distinct questions (s, k, ?) with all their answers, so that scores of equal questions are computed
    once; the sum is that over facts. `relation_weight` adds the softmax over relations of Chen et al. (2021).
    """
    generator = torch.Generator().manual_seed(seed)
    n, k, half = train.n_entities, train.n_relations, settings["rank"] // 2
    s, r, o = (torch.from_numpy(column.astype(np.int64)) for column in train.triples.T)
    given, relation, answer = torch.cat([s, o]), torch.cat([r, r + k]), torch.cat([o, s])
    _, question = torch.unique(relation * n + given, return_inverse=True)
    order = torch.argsort(question, stable=True)
    given, relation, answer = given[order], relation[order], answer[order]
    starts = torch.searchsorted(question[order], torch.arange(int(question.max()) + 2))
    E, R = (torch.randn(rows, 2 * half, generator=generator).mul_(1e-3).requires_grad_() for rows in (n, 2 * k))
    optimiser = torch.optim.Adagrad([E, R], lr=settings["lr"])
    torch.sparse.check_sparse_tensor_invariants.disable()  # the default, said aloud: otherwise Adagrad warns
    vectors = partial(embedding, weight=E, sparse=settings.get("candidates") is not None)  # updates only what it used
    while True:
        for batch in torch.randperm(len(starts) - 1, generator=generator).split(settings["batch_size"]):
            counts = starts[batch + 1] - starts[batch]
            row = torch.repeat_interleave(torch.arange(len(batch)), counts)
            first = torch.cumsum(counts, 0) - counts
            fact = torch.arange(len(row)) - first[row] + starts[batch][row]
            columns, offset, place = _candidates(answer[fact], n, settings.get("candidates"), generator)
            left, rel = vectors(given[starts[batch]]), embedding(relation[starts[batch]], R)
            scores = _product(left, rel, half) @ (E if columns is None else vectors(columns)).T + offset
            loss = (counts * torch.logsumexp(scores, 1)).sum() - scores[row, place].sum()
            own, times = torch.unique(answer[fact], return_counts=True)
            penalty = (counts * (_cubes(left, half) + _cubes(rel, half))).sum()
            penalty = penalty + (times * _cubes(vectors(own), half)).sum()
            if settings["relation_weight"]:
                by_relation = _product(_conjugate(left, half)[row], vectors(answer[fact]), half) @ R.T
                loss = loss + settings["relation_weight"] * cross_entropy(by_relation, relation[fact], reduction="sum")
            optimiser.zero_grad(set_to_none=True)
            ((loss + settings["n3"] * penalty) / len(row)).backward()
            optimiser.step()
            moment(partial(_plain_sides, train, E, R))


def _plain_sides(train: Facts, E: torch.Tensor, R: torch.Tensor) -> Sides:
    A, both = E.detach().numpy(), R.detach().numpy()
    return sides_of(train, "complex", A, both[: train.n_relations], both[train.n_relations :])


def _candidates(
    answers: torch.Tensor, n: int, drawn: int | None, generator: torch.Generator
) -> tuple[torch.Tensor | None, torch.Tensor | float, torch.Tensor]:
    """Columns of the scores, what is added to each, and the column of each answer.

    Without a draw these are all entities. With one, they are the answers of the batch, which count once, and entities
    drawn at random from all, each of which stands for several.
    """
    if drawn is None:
        return None, 0.0, answers
    own, place = torch.unique(answers, return_inverse=True)
    others = torch.randint(n, (drawn,), generator=generator)
    others = others[~torch.isin(others, own)]
    offset = torch.zeros(len(own) + len(others))
    offset[len(own) :] = float(np.log(max(n - len(own), 1) / max(len(others), 1)))
    return torch.cat([own, others]), offset, place


def _product(a: torch.Tensor, b: torch.Tensor, half: int) -> torch.Tensor:
    """Of complex vectors, real parts first; ⟨product(a_s, p_k), a_o⟩ is θ."""
    ar, ai, br, bi = a[:, :half], a[:, half:], b[:, :half], b[:, half:]
    return torch.cat([ar * br - ai * bi, ar * bi + ai * br], 1)


def _conjugate(a: torch.Tensor, half: int) -> torch.Tensor:
    return torch.cat([a[:, :half], -a[:, half:]], 1)


def _cubes(a: torch.Tensor, half: int) -> torch.Tensor:
    """Σ |a|³ over complex components, per row."""
    squares = a[:, :half].square() + a[:, half:].square() + 1e-12
    return (squares * squares.sqrt()).sum(1)


# --- PyKEEN


def train_pykeen(train: Facts, settings: dict[str, Any], seed: int, moment: Moment) -> None:
    """A model of PyKEEN with reciprocal relations ("inverse triples") and cross-entropy.

    An answer competes with all entities (1-N scoring), or with a number of `negatives` of its own.
    """
    from pykeen.losses import CrossEntropyLoss
    from pykeen.models import ERModel
    from pykeen.training import LCWATrainingLoop, SLCWATrainingLoop
    from pykeen.training.callbacks import TrainingCallback
    from pykeen.triples import CoreTriplesFactory

    torch.manual_seed(seed)
    triples = torch.from_numpy(train.triples.astype(np.int64))
    factory = CoreTriplesFactory(triples, train.n_entities, train.n_relations, create_inverse_triples=True)
    name, size = settings["model"], settings["rank"]
    number = {"dtype": torch.cfloat} if name == "ComplEx" else {}
    size = size // 2 if name == "ComplEx" else size
    regulariser = {"regularizer": "powersum", "regularizer_kwargs": {"p": 3.0, "weight": settings["n3"]}}
    shared = number | (regulariser if settings["n3"] else {})
    shared |= {"initializer": "normal", "initializer_kwargs": {"std": settings["std"]}}
    model = ERModel(
        triples_factory=factory,
        interaction=name,
        loss=CrossEntropyLoss(),
        random_seed=seed,
        entity_representations_kwargs={"shape": size, "dropout": settings["dropout"][0], **shared},
        relation_representations_kwargs={
            "shape": (size, size) if name == "RESCAL" else size,
            "dropout": settings["dropout"][1],
            **shared,
        },
    )
    optimiser = getattr(torch.optim, settings["optimiser"])(model.parameters(), lr=settings["lr"])

    class AfterBatch(TrainingCallback):  # type: ignore[misc]
        def post_batch(self, epoch: int, batch: Any, **kwargs: Any) -> None:
            moment(lambda: _pykeen_sides(train, self.model, name))

    common = {"model": model, "triples_factory": factory, "optimizer": optimiser}
    if settings["negatives"]:
        loop = SLCWATrainingLoop(**common, negative_sampler_kwargs={"num_negs_per_pos": settings["negatives"]})
    else:
        loop = LCWATrainingLoop(**common)
    loop.train(
        factory,
        num_epochs=100_000,
        batch_size=settings["batch_size"],
        label_smoothing=settings["label_smoothing"],
        callbacks=AfterBatch(),
        use_tqdm=False,
        pin_memory=False,
    )


def _pykeen_sides(train: Facts, model: Any, name: str) -> Sides:
    """Relation k has the number 2 k there, its inverse 2 k + 1; dropout is left out."""
    was_training = model.training
    model.eval()
    with torch.no_grad():
        parts = (model.entity_representations[0], model.relation_representations[0])
        A, R = (part(indices=None).cpu().numpy() for part in parts)
    model.train(was_training)
    if name == "ComplEx":
        A, R = (np.concatenate([part.real, part.imag], 1) for part in (A, R))
    structure = {"ComplEx": "complex", "DistMult": "diagonal", "RESCAL": "full"}[name]
    R = R[:, :, None, None] if name == "DistMult" else R
    return sides_of(train, structure, A, R[0::2], R[1::2])


# --- factors


def sides_of(train: Facts, structure: str, A: Any, R: Any, inverse: Any) -> Sides:
    """Factors for (s, k, ?), and for (?, k, o) from the matrices of the inverse relations."""
    k, r = train.n_relations, A.shape[1]

    def factors(parameters: Any) -> Factors:
        matrices = RelationMatrices.of_parameters(resolve(structure, k, r), np.array(parameters), k, r)
        return Factors(np.array(A), matrices, np.zeros(k), train.entities, train.relations)

    return factors(R), factors(transposed(inverse))
