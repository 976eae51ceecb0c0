"""`make demo`: cross-validation and predictions on the embedded data, in a minute or two."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from rich.console import Console

from relatent import (
    Factors,
    Facts,
    HeldOut,
    RescalALS,
    RescalLogit,
    Top,
    cross_validate,
    load,
    load_dataset,
    presidents_folds,
)
from relatent.cli import tables
from relatent.evaluation.table1 import PAPER
from relatent.progress import bar

# Settings that the searches of `relatent table1` choose most often.
KINSHIPS = {
    "als": RescalALS(rank=100, l2_entities=5, l2_relations=5),
    "logit": RescalLogit(rank=50, l2_entities=1, l2_relations=1),
}
PRESIDENTS = {
    "als": RescalALS(rank=5, l2_entities=0.1, l2_relations=0.1),
    "logit": RescalLogit(rank=10, l2_entities=2, l2_relations=2, bias=False),
}
NOTES = (
    "AUC-PR: area under the precision-recall curve on held-out facts, mean ± standard deviation over 10 folds.",
    "Constant score: the AUC-PR if every cell had the same score.",
    "Protocol of the authors' example: held-out cells are fitted as zeros, and on Kinships the scores of a pair of",
    "persons are divided by their norm over all relations. Presidents: the party of the 39 presidents who had a vice",
    "president. `relatent table1` runs all experiments of the paper, with settings chosen inside the training folds.",
    "",
)


def main() -> None:
    """Cross-validate two models on two data sets, print the results beside the paper's, and predict facts by name."""
    out = tables.console()
    kinships, presidents = load_dataset("kinships"), load_dataset("presidents")
    out.print(f"Kinships: {_size(kinships)}\nPresidents: {_size(presidents)}\n", highlight=False)
    rows = []
    for name, estimator in KINSHIPS.items():
        rows.append(_row("kinships", name, estimator, kinships, 10, "pair-normalised"))
    for name, estimator in PRESIDENTS.items():
        rows.append(_row("presidents", name, estimator, presidents, presidents_folds(presidents), "raw"))
    columns = (
        "data",
        "model",
        "AUC-PR",
        "AUC-PR in the paper",
        "constant score",
        "average precision",
        "fit time (sum)",
    )
    out.print(tables.table("Predicting held-out facts", columns, rows, numbers=(2, 3, 4, 5, 6)))
    for line in NOTES:
        out.print(line, highlight=False)
    _predict_kin(out, kinships)
    _predict_party(out, presidents)


def _row(
    data: str, name: str, estimator: RescalALS | RescalLogit, facts: Facts, folds: int | list[HeldOut], scores: str
) -> tuple[str, ...]:
    with bar(f"cross-validating {name} on {data}") as progress:
        report = cross_validate(estimator, facts, folds=folds, heldout="zero", scores=scores, progress=progress)
    return (
        data,
        f"RESCAL-{name.upper() if name == 'als' else name.title()}",
        f"{tables.figure(report.auc_pr)} ± {tables.figure(report.auc_pr_std)}",
        tables.figure(PAPER[data, name]),
        tables.figure(report.baselines["base rate"]["auc_pr"]),
        tables.figure(report.average_precision),
        f"{report.seconds:.1f} s",
    )


def _predict_kin(out: Console, facts: Facts) -> None:
    """Hold out all cells of five pairs, save and load the model, and predict the kinship term of each pair."""
    cells = facts.triples[:: len(facts) // 6][1:6]
    heldout = [[s, k, o] for s, _, o in cells.tolist() for k in range(facts.n_relations)]
    with bar("fitting kinships") as progress:
        estimator = KINSHIPS["logit"].fit(facts.hold_out(np.array(heldout), masked=True), progress=progress)
    factors = _saved_and_loaded(estimator.factors_)
    rows = []
    for subject, relation, other in facts.named(cells):
        rows.append((subject, other, _two_best(factors.top(subject=subject, object=other, k=2)), relation))
    columns = ("person", "calls", "predicted terms (probability)", "true term, held out")
    out.print(tables.table("Kinships: what does one person call another?", columns, rows))


def _predict_party(out: Console, facts: Facts) -> None:
    """Hold out all party facts of four presidents; the parties of their vice presidents predict them."""
    persons = ["John F. Kennedy", "Ronald Reagan", "Abraham Lincoln", "Barack Obama"]
    parties = sorted({o for _, k, o in facts.named() if k == "party"})
    cells = np.array(
        [[facts.entities.id(s), facts.relations.id("party"), facts.entities.id(p)] for s in persons for p in parties]
    )
    factors = RescalLogit().fit(facts.hold_out(cells, masked=True)).factors_
    rows = []
    for person in persons:
        predicted = _two_best(factors.top(subject=person, relation="party", k=2))
        mates = ", ".join(o for s, k, o in facts.named() if s == person and k == "vicePresident")
        truth = ", ".join(o for s, k, o in facts.named() if s == person and k == "party")
        rows.append((person, mates, predicted, truth))
    columns = ("president", "vice presidents", "predicted parties (probability)", "true parties, held out")
    out.print(tables.table("Presidents: which party, given the vice presidents?", columns, rows))


def _two_best(best: Top) -> str:
    return ", ".join(f"{name} ({p:.2f})" for name, p in zip(best.names, best.probabilities, strict=True))


def _size(facts: Facts) -> str:
    return f"{len(facts):,} facts, {facts.n_entities} entities, {facts.n_relations} relations"


def _saved_and_loaded(factors: Factors) -> Factors:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kinships.relatent"
        factors.save(path)
        return load(path)


if __name__ == "__main__":
    main()
