"""Results as tables a person reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:  # printing must not wait for what it does not need
    from ..analysis.duplicates import Duplicates
    from ..analysis.explain import Explanation
    from ..analysis.groups import EntityGroup
    from ..evaluation.ranking import Ranking
    from ..evaluation.report import Report
    from ..evaluation.table1 import Table1Row

WIDTH_WITHOUT_TERMINAL = 120
MEMBERS = 12  # shown of a group
CLAUSES = 25  # shown of a Markov logic network; the model file has them all


def console() -> Console:
    """Standard output; wide enough for the tables where it is not a terminal."""
    out = Console()
    return out if out.is_terminal else Console(width=WIDTH_WITHOUT_TERMINAL)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Sequence[int] = ()) -> Table:
    """A table whose columns named in `numbers` stand right."""
    made = Table(title=Text(title), title_justify="left", title_style="bold")
    for position, column in enumerate(columns):
        made.add_column(column, justify="right" if position in numbers else "left", overflow="fold")
    for row in rows:
        made.add_row(*(Text(cell) for cell in row))  # as Text: a name like [Fe] is no markup
    return made


def figure(value: float | None, digits: int = 3) -> str:
    """A figure between 0 and 1 as papers print it."""
    if value is None or value != value:
        return "–"
    return f"{value:.{digits}f}"


def datasets(entries: Iterable[Any]) -> Table:
    """The catalog."""
    rows = [
        (
            entry.name,
            f"{entry.n_entities:,}",
            f"{entry.n_relations:,}",
            f"{entry.n_facts:,}",
            "in the package" if entry.embedded else "downloaded on demand",
            entry.title,
        )
        for entry in entries
    ]
    return table("Data sets", ("name", "entities", "relations", "facts", "where", "what"), rows, numbers=(1, 2, 3))


def predictions(found: Sequence[dict[str, Any]]) -> Table:
    """Facts with their probabilities, best first."""
    rows = [
        (one["subject"], one["relation"], one["object"], f"{one['probability']:.4f}", f"{one['score']:.3f}")
        for one in found
    ]
    return table("", ("subject", "relation", "object", "probability", "score"), rows, numbers=(3, 4))


def report(title: str, found: Report) -> list[Any]:
    """Figures of a cross-validation with its baselines, its relations and its protocol."""
    names = ("auc_pr", "average_precision", "auc_roc", "brier", "log_loss")
    columns = ("", "AUC-PR (trapezoid)", "average precision", "AUC-ROC", "Brier", "log loss", "calibration error")
    model = [f"{figure(found.auc_pr)} ± {figure(found.auc_pr_std)}"]
    rows = [("model", *model, *(figure(getattr(found, name)) for name in names[1:]), figure(found.ece))]
    rows += [(name, *(figure(figures[key]) for key in names), "") for name, figures in found.baselines.items()]
    by_relation = [
        (name, f"{m.n_true:,}", f"{m.n_cells:,}", figure(m.auc_pr), figure(m.average_precision), figure(m.log_loss))
        for name, m in sorted(found.per_relation.items(), key=lambda item: -item[1].n_true)[:20]
    ]
    shown = f"Relations ({len(by_relation)} of {len(found.per_relation)}, most facts first)"
    relations = table(
        shown,
        ("relation", "true", "cells", "AUC-PR", "average precision", "log loss"),
        by_relation,
        numbers=(1, 2, 3, 4, 5),
    )
    note = "calibration error: mean gap between probability and share of true cells, over cells with p > 0.05"
    return [table(title, columns, rows, numbers=(1, 2, 3, 4, 5, 6)), relations, found.protocol, note]


def ranking(title: str, found: Ranking) -> list[Any]:
    """Filtered ranks, both sides and together."""
    sides = [("object asked", found.by_side["object"]), ("subject asked", found.by_side["subject"])]
    rows = [
        (name, f"{q.n:,}", figure(q.mrr), *(figure(q.hits[k]) for k in sorted(q.hits)), f"{q.mean_rank:,.1f}")
        for name, q in [*sides, ("both", found.overall)]
    ]
    hits = [f"hits@{k}" for k in sorted(found.hits)]
    note = f"filtered, ties at their mean rank (MRR {found.mrr_pessimistic:.3f} to {found.mrr_optimistic:.3f})"
    if found.n_unseen:
        note += f"; {found.n_unseen} names the model has not seen were ranked by a zero vector"
    return [table(title, ("question", "n", "MRR", *hits, "mean rank"), rows, numbers=range(1, 4 + len(hits))), note]


def table1(rows: Iterable[Table1Row]) -> Table:
    """The paper's table, ours beside it."""
    lines = []
    for row in rows:
        e = row.experiment
        best = max((figures["auc_pr"] for figures in row.baselines.values()), default=None)
        best_ap = max((figures["average_precision"] for figures in row.baselines.values()), default=None)
        lines.append(
            (
                e.dataset + ("" if e.task == "all cells" else f": {e.task}"),
                e.model,
                f"{e.heldout}, {e.scores}" + (" *" if e.as_published else ""),
                figure(e.paper),
                f"{figure(row.auc_pr)} ± {figure(row.auc_pr_std)}",
                figure(row.average_precision),
                figure(row.log_loss),
                f"{figure(best)} / {figure(best_ap)}",
                f"{row.seconds:.0f} s",
            )
        )
    columns = ("data", "model", "held-out, scores", "paper", "AUC-PR", "avg. prec.", "log loss", "best trivial", "time")
    return table("Table 1", columns, lines, numbers=(3, 4, 5, 6, 7, 8))


def learned(about: Mapping[str, Any]) -> list[Any]:
    """What a model found that a person can read: clauses with their weights, groups of entities."""
    found = about.get("learned", {})
    shown: list[Any] = []
    if clauses := found.get("clauses"):
        heaviest = sorted(clauses, key=lambda one: -abs(one["weight"]))[:CLAUSES]
        rows = [(one["clause"], f"{one['weight']:.2f}") for one in heaviest]
        title = f"Clauses ({len(rows)} of {len(clauses)})"
        shown.append(table(title, ("clause", "weight"), rows, numbers=(1,)))
    if groups := found.get("groups"):
        members = [(str(number), str(len(names)), ", ".join(names)) for number, names in enumerate(groups)]
        shown.append(table(f"Groups ({len(groups)})", ("group", "size", "members"), members, numbers=(0, 1)))
    return shown


def groups(found: Sequence[EntityGroup]) -> Table:
    """Groups with their members and what sets each apart."""
    rows = []
    for group in found:
        members = ", ".join(group.names[:MEMBERS]) + (" …" if len(group.names) > MEMBERS else "")
        typical = [
            f"{'' if one.role == 'subject' else 'is object of '}{one.relation} {one.neighbour}"
            f" ({one.probability:.2f}, elsewhere {one.elsewhere:.2f})"
            for one in group.typical[:3]
        ]
        rows.append((str(group.number), f"{len(group.names):,}", members, "\n".join(typical)))
    title = f"Groups ({len(found)}), those in the middle of each first"
    return table(title, ("group", "size", "members", "typical"), rows, numbers=(0, 1))


def duplicates(found: Duplicates) -> list[Any]:
    """Pairs that may be one entity, and what to merge."""
    pairs = [
        (one.name, one.other, f"{one.probability:.3f}", str(one.shared), "joined by a fact: not merged" * one.joined)
        for one in found.pairs
    ]
    merges = [(one.name, one.into, f"{one.probability:.3f}", str(one.facts)) for one in found.merges]
    parts = [table("may be the same", ("entity", "and", "probability", "facts shared", ""), pairs, numbers=(2, 3))]
    if not merges:
        return [*parts, "nothing to merge"]
    return [*parts, table("to merge", ("entity", "into", "probability", "facts"), merges, numbers=(2, 3))]


def explanation(found: Explanation) -> list[Any]:
    """A sentence, the facts that carry a score, and its components."""
    cell = f"{found.subject} {found.relation} {found.object}"
    reasons = [(" ".join(one[:3]), f"{one.influence:+.3f}") for one in found.reasons]
    components = [
        (f"{one.contribution:+.3f}", ", ".join(one.subjects), ", ".join(one.objects)) for one in found.components
    ]
    return [
        f"{cell}: probability {found.probability:.4f}, score {found.score:.3f} (the relation's bias: {found.bias:.3f})",
        found.sentence,
        table("Facts that carry it", ("fact", "influence on the score"), reasons, numbers=(1,)),
        table("Latent components", ("adds", "other such subjects", "other such objects"), components, numbers=(0,)),
    ]


def values(title: str, pairs: Iterable[tuple[str, Any]]) -> Table:
    """Names and values, one a line."""
    made = Table(title=Text(title), title_justify="left", title_style="bold", show_header=False)
    made.add_column(style="dim")
    made.add_column(overflow="fold")
    for name, value in pairs:
        made.add_row(Text(name), Text(str(value)))
    return made


def details(found: dict[str, Any]) -> list[tuple[str, str]]:
    """Names and values, one a line; what is nested deeper than one level gets lines of its own."""
    lines = []
    for name, value in found.items():
        if isinstance(value, dict) and any(inner and isinstance(inner, dict) for inner in value.values()):
            lines += details(value)
        else:
            lines.append((name.replace("_", " "), _short(value)))
    return lines


def _short(value: Any) -> str:
    if isinstance(value, dict):
        shown = ", ".join(f"{key} {_short(item)}" for key, item in list(value.items())[:12] if item != {})
        return shown + (f", … ({len(value)} in all)" if len(value) > 12 else "")
    if isinstance(value, list):
        return f"({len(value):,} values)"
    if isinstance(value, float):
        return f"{value:,.6g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
