"""`make demo`: the main job on the embedded data, in a minute or two."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console

from ..data.catalog import load_dataset
from ..data.split import presidents_folds
from ..evaluation.cross_validation import cross_validate
from ..evaluation.table1 import PAPER
from ..fit.estimators.als import RescalALS
from ..fit.estimators.rescal import RescalLogit
from ..model.factors import Factors, load
from ..progress import bar
from . import tables as show

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
    "10 folds, held-out cells set to zero, as in the authors' example; Kinships' scores divided by their norm over",
    "a pair's relations. Presidents: the party of the 39 presidents who had a vice president. `relatent table1`",
    "chooses the settings inside the training folds and shows every protocol.\n",
)


def main() -> None:
    """Fit, cross-validate beside the paper's figures, and predict by name."""
    out = show.console()
    kinships, presidents = load_dataset("kinships"), load_dataset("presidents")
    out.print(f"Kinships: {kinships}\nPresidents: {presidents}\n", highlight=False)
    rows = []
    for name, estimator in KINSHIPS.items():
        rows.append(_row("kinships", name, estimator, kinships, 10, "pair-normalised"))
    for name, estimator in PRESIDENTS.items():
        rows.append(_row("presidents", name, estimator, presidents, presidents_folds(presidents), "raw"))
    columns = ("data", "model", "paper", "ours: AUC-PR", "avg. precision", "a constant scores", "fits, added up")
    out.print(show.table("Predicting held-out facts", columns, rows, numbers=(2, 3, 4, 5, 6)))
    for line in NOTES:
        out.print(line, highlight=False)
    _predict_kin(out, kinships)
    _predict_party(out, presidents)


def _row(data: str, name: str, estimator: Any, facts: Any, folds: Any, scores: str) -> tuple[str, ...]:
    with bar(f"cross-validating {name} on {data}") as progress:
        report = cross_validate(estimator, facts, folds=folds, heldout="zero", scores=scores, progress=progress)
    return (
        data,
        f"RESCAL-{name.upper() if name == 'als' else name.title()}",
        show.figure(PAPER[data, name]),
        f"{show.figure(report.auc_pr)} ± {show.figure(report.auc_pr_std)}",
        show.figure(report.average_precision),
        show.figure(report.baselines["base rate"]["auc_pr"]),
        f"{report.seconds:.1f} s",
    )


def _predict_kin(out: Console, facts: Any) -> None:
    """Hide ten pairs from the fit, save and load the model, and ask what they call each other."""
    cells = facts.triples[:: len(facts) // 6][1:6]
    hidden = [[s, k, o] for s, _, o in cells.tolist() for k in range(facts.n_relations)]
    with bar("fitting kinships") as progress:
        estimator = KINSHIPS["logit"].fit(facts.hold_out(_array(hidden), masked=True), progress=progress)
    factors = _through_a_file(estimator.factors_)
    rows = []
    for subject, relation, other in facts.named(cells):
        names, _, p = factors.top(subject=subject, object=other, k=2)
        rows.append((subject, other, f"{names[0]} ({p[0]:.2f}), {names[1]} ({p[1]:.2f})", relation))
    columns = ("person", "calls", "predicted term (probability)", "truth, hidden from the fit")
    out.print(show.table("What do they call each other?", columns, rows))


def _predict_party(out: Console, facts: Any) -> None:
    """Hide all party facts of some presidents: their vice presidents give them away."""
    persons = ["John F. Kennedy", "Ronald Reagan", "Abraham Lincoln", "Barack Obama"]
    parties = sorted({o for _, k, o in facts.named() if k == "party"})
    cells = _array(
        [[facts.entities.id(s), facts.relations.id("party"), facts.entities.id(p)] for s in persons for p in parties]
    )
    factors = RescalLogit(rank=5, bias=False).fit(facts.hold_out(cells, masked=True)).factors_
    rows = []
    for person in persons:
        names, _, p = factors.top(subject=person, relation="party", k=1)
        mates = ", ".join(o for s, k, o in facts.named() if s == person and k == "vicePresident")
        truth = ", ".join(o for s, k, o in facts.named() if s == person and k == "party")
        rows.append((person, mates, f"{names[0]} ({p[0]:.2f})", truth))
    columns = ("president, party unknown", "vice presidents", "predicted party", "truth")
    out.print(show.table("Learnt through the vice presidents", columns, rows))


def _array(rows: list[list[int]]) -> Any:
    import numpy as np

    return np.array(rows)


def _through_a_file(factors: Factors) -> Factors:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kinships.relatent"
        factors.save(path)
        return load(path)


if __name__ == "__main__":
    main()
