"""Results as tables for a person to read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..errors import printable

if TYPE_CHECKING:
    from ..analysis.doubt import DoubtfulFacts
    from ..analysis.duplicates import Duplicates
    from ..analysis.explain import Explanation
    from ..analysis.groups import EntityGroup
    from ..analysis.missing import MissingFacts
    from ..analysis.rules import Rule, RulePath
    from ..analysis.similarity import SimilarEntity
    from ..evaluation.ranking import Ranking
    from ..evaluation.report import Report
    from ..evaluation.table1 import Table1Row
    from ..evaluation.truth_test import TruthTest

WIDTH_WITHOUT_TERMINAL = 120
MAX_MEMBERS = 12  # shown per group
MAX_CLAUSES = 25  # shown of a Markov logic network; the model file has all
MAX_ITEMS = 12  # shown of a nested value
MAX_RELATIONS = 20  # shown of a report
RULE_FIGURES = ("support", "confidence")


def console() -> Console:
    """Standard output, with a fixed width if it is not a terminal."""
    out = Console()
    return out if out.is_terminal else Console(width=WIDTH_WITHOUT_TERMINAL)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Sequence[int] = ()) -> Table:
    """A table; the columns in `numbers` are right-aligned."""
    made = Table(title=_text(title), title_justify="left", title_style="bold")
    for position, column in enumerate(columns):
        made.add_column(column, justify="right" if position in numbers else "left", overflow="fold")
    for row in rows:
        made.add_row(*map(_text, row))
    return made


def _text(content: str) -> Text:
    """A cell as it is to be shown: a name like [Fe] is not markup, and none controls the terminal."""
    return Text(printable(content))


def figure(value: float | None, digits: int = 3) -> str:
    """A number with a fixed number of digits; a dash for None and NaN."""
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
    """Answers by rank, with probability and lift, or with the score alone if there are no probabilities."""
    has_probabilities = any(row["probability"] is not None for row in found)
    columns = (
        "rank",
        "subject",
        "relation",
        "object",
        *(("probability", "lift") if has_probabilities else ()),
        "score",
    )
    rows = []
    for row in found:
        rank = "known" if row["rank"] is None else f"{row['rank']:,}"
        lift = "–" if row["lift"] is None else f"{row['lift']:.3g}"
        chances = (f"{row['probability']:.4f}", lift) if has_probabilities else ()
        rows.append((rank, row["subject"], row["relation"], row["object"], *chances, f"{row['score']:.3f}"))
    return table("", columns, rows, numbers=(0, 4, 5, 6))


def missing(found: MissingFacts) -> list[str | Table]:
    """The likeliest absent facts, with the known fact that supports each if it was asked for."""
    rows = [fact._asdict() for fact in found.missing]
    reasons = [f"{fact.rank}. because {' '.join(fact.reason[:3])}" for fact in found.missing if fact.reason is not None]
    return [predictions(rows), *reasons]


def doubtful(found: DoubtfulFacts) -> Table:
    """Known facts that the rest contradicts, with the likeliest other object."""
    columns = ("subject", "relation", "object", "doubt", "score", "if left out", "or rather")
    rows = [
        (
            *fact[:3],
            "–" if fact.doubt is None else f"{fact.doubt:.3f}",
            f"{fact.score:.2f}",
            f"{fact.left_out_score:.2f}",
            fact.alternative or "–",
        )
        for fact in found.doubtful
    ]
    return table(f"{len(rows)} of {found.n_facts:,} facts", columns, rows, numbers=(3, 4, 5))


def similar(entity: str, found: Sequence[SimilarEntity]) -> Table:
    """Similar entities, the most similar first."""
    rows = [(name, f"{similarity:.3f}") for name, similarity in found]
    return table(f"similar to {entity}", ("entity", "similarity"), rows, numbers=(1,))


def report(title: str, found: Report) -> list[Any]:
    """Metrics of a cross-validation, of its baselines and of its relations, and the protocol."""
    names = ("average_precision", "auc_pr", "auc_roc", "brier", "log_loss")
    columns = ("", "average precision", "AUC-PR (trapezoid)", "AUC-ROC", "Brier", "log loss", "calibration error")
    own = {name: figure(getattr(found, name)) for name in names}
    own["auc_pr"] += f" ± {figure(found.auc_pr_std)}"
    rows = [("model", *own.values(), figure(found.ece))]
    rows += [(name, *(figure(figures[key]) for key in names), "") for name, figures in found.baselines.items()]
    by_relation = [
        (name, f"{m.n_true:,}", f"{m.n_cells:,}", figure(m.average_precision), figure(m.auc_pr), figure(m.log_loss))
        for name, m in sorted(found.per_relation.items(), key=lambda item: -item[1].n_true)[:MAX_RELATIONS]
    ]
    shown = f"Relations ({len(by_relation)} of {len(found.per_relation)}, most facts first)"
    relations = table(
        shown,
        ("relation", "true", "cells", "average precision", "AUC-PR", "log loss"),
        by_relation,
        numbers=(1, 2, 3, 4, 5),
    )
    note = "calibration error: mean difference between probability and share of true cells, over cells with p > 0.05"
    if "base rate" in found.baselines:
        note += (
            "\nbase rate: one score for all cells; compare it by average precision, as the trapezoid rule gives it "
            "(1 + share of true cells) / 2"
        )
    return [table(title, columns, rows, numbers=(1, 2, 3, 4, 5, 6)), relations, found.protocol, note]


def ranking(title: str, found: Ranking, name_of: Callable[[str], str] = str) -> list[Any]:
    """Filtered ranks per side and for both sides together, beside the frequency baseline, and per relation."""
    shown = [("for the object", found.by_side["object"]), ("for the subject", found.by_side["subject"])]
    shown.append(("both", found.overall))
    if found.baseline is not None:
        shown.append(("both, frequency baseline", found.baseline.overall))
    rows = [
        (name, f"{row.n:,}", figure(row.mrr), *(figure(row.hits[k]) for k in sorted(row.hits)), f"{row.mean_rank:,.1f}")
        for name, row in shown
    ]
    hits = [f"hits@{k}" for k in sorted(found.hits)]
    filtered = "filtered" if found.n_known else "filtered by the test facts only"
    note = f"{filtered}; ties get their mean rank (MRR {found.mrr_pessimistic:.3f} to {found.mrr_optimistic:.3f})"
    if found.n_unseen:
        note += f"; names that the model does not know are answered at random: {found.n_unseen}"
    if found.n_trained_on is None:
        note += "; the model holds no facts, so some test facts may be training facts"
    if found.n_wrong_type:
        note += f"; {found.n_wrong_type:,} right answers of a wrong type come after all others"
    note += "; " + ("all entities are candidates" if found.protocol == "benchmark" else "candidates as in `predict`")
    baseline = "no frequency baseline: it counts answers in known facts beside the test facts, and there are none"
    if found.baseline is not None:
        baseline = "frequency baseline: answers ranked by how often they occur in that place among the known facts"
    ranks = table(title, ("question", "n", "MRR", *hits, "mean rank"), rows, numbers=range(1, 4 + len(hits)))
    return [ranks, _ranking_by_relation(found, name_of), note, baseline]


def _ranking_by_relation(found: Ranking, name_of: Callable[[str], str]) -> Table:
    most = max(found.hits)
    baseline = {} if found.baseline is None else found.baseline.by_relation
    rows = [
        (name_of(name), f"{row.n // 2:,}", figure(row.mrr), figure(row.hits[most]))
        + ((figure(baseline[name].mrr), figure(baseline[name].hits[most])) if baseline else ())
        for name, row in list(found.by_relation.items())[:MAX_RELATIONS]
    ]
    columns = ["relation", "facts", "MRR", f"hits@{most}"]
    columns += ["frequency MRR", f"frequency hits@{most}"] if baseline else []
    title = f"Relations ({len(rows)} of {len(found.by_relation)}, most facts first)"
    return table(title, columns, rows, numbers=range(1, len(columns)))


def truth_test(title: str, found: TruthTest) -> list[Any]:
    """Accuracy against verified negatives, for all statements and per relation, and where the thresholds come from."""
    shown = [
        ("thresholds per relation", found.overall),
        ("model's own probability, 1/2", found.uncalibrated),
        ("share of true statements per relation", found.baseline),
    ]
    names, columns = ("accuracy", "f1", "auc_roc", "ece"), ("accuracy", "F1", "ROC AUC", "calibration error")
    rows = [(name, f"{row.n:,}", *(figure(getattr(row, key)) for key in names)) for name, row in shown if row]
    by_relation = [
        (name, f"{row.n:,}", *(figure(getattr(row, key)) for key in names))
        for name, row in list(found.by_relation.items())[:MAX_RELATIONS]
    ]
    relations = f"Truth by relation ({len(by_relation)} of {len(found.by_relation)}, most statements first)"
    note = f"{found.protocol}; {int(found.truth.sum()):,} statements are true"
    if found.n_validation:
        note += f"; {found.n_validation:,} validation statements"
    return [
        table(title, ("", "statements", *columns), rows, numbers=range(1, 6)),
        table(relations, ("relation", "statements", *columns), by_relation, numbers=range(1, 6)),
        note,
    ]


def table1(rows: Iterable[Table1Row]) -> Table:
    """The results beside those of the paper."""
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


def learned(found: Mapping[str, Any]) -> list[Any]:
    """What a person can read of a model, as a model file has it: clauses, patterns, groups of entities."""
    shown: list[Any] = []
    if clauses := found.get("clauses"):
        implications = [clause for clause in clauses if "⇒" in clause["clause"]] or clauses
        heaviest = sorted(implications, key=lambda clause: -abs(clause["weight"]))[:MAX_CLAUSES]
        rows = [(clause["clause"], f"{clause['weight']:.2f}") for clause in heaviest]
        title = f"Clauses ({len(rows)} of {len(clauses)})"
        shown.append(table(title, ("clause", "weight"), rows, numbers=(1,)))
    if patterns := found.get("patterns"):
        strongest = [(row["relation"], row["pattern"], f"{row['weight']:+.2f}") for row in patterns["strongest"]]
        title = f"Observed patterns ({len(strongest)} of {patterns['count']:,})"
        shown.append(table(title, ("relation", "pattern", "log-odds per deviation"), strongest, numbers=(2,)))
    if groups := found.get("groups"):
        members = [(str(number), str(len(names)), ", ".join(names)) for number, names in enumerate(groups)]
        shown.append(table(f"Groups ({len(groups)})", ("group", "size", "members"), members, numbers=(0, 1)))
    return shown


def groups(found: Sequence[EntityGroup], n_without_group: int = 0) -> Table:
    """Groups with their members and the facts typical of each."""
    rows = []
    for group in found:
        separator = "; " if any("," in name for name in group.names[:MAX_MEMBERS]) else ", "
        members = separator.join(group.names[:MAX_MEMBERS]) + (" …" if len(group.names) > MAX_MEMBERS else "")
        typical = [
            f"{'' if fact.role == 'subject' else 'is object of '}{fact.relation} {fact.neighbour}"
            f" ({fact.probability:.2f}, elsewhere {fact.elsewhere:.2f})"
            for fact in group.typical
        ]
        rows.append(
            (str(group.number), f"{len(group.names):,}", members, "\n".join([*map(str, group.roles), *typical]))
        )
    title = f"Groups ({len(found)}), most central members first"
    if n_without_group:
        title += f"; {n_without_group:,} of {n_without_group + sum(len(group.names) for group in found):,} in no group"
    return table(title, ("group", "size", "members", "roles and typical facts (probability)"), rows, numbers=(0, 1))


def duplicates(found: Duplicates) -> list[Any]:
    """Pairs of entities that may be the same, and the proposed merges."""
    notes = ["not merged: a fact links them" if pair.joined else "" for pair in found.pairs]
    further = {"names": [pair.name_match for pair in found.pairs], "note": notes}
    further = {title: column for title, column in further.items() if any(column)}
    pairs = [
        (
            pair.name,
            pair.other,
            f"{pair.probability:.3f}",
            str(pair.shared),
            *(column[row] for column in further.values()),
        )
        for row, pair in enumerate(found.pairs)
    ]
    columns = ("entity", "other", "probability", "shared facts", *further)
    parts: list[Any] = [table("Possible duplicates", columns, pairs, numbers=(2, 3))]
    if not found.merges:
        return [*parts, "nothing to merge"]
    merges = [(merge.name, merge.into, f"{merge.probability:.3f}", str(merge.facts)) for merge in found.merges]
    return [*parts, table("Proposed merges", ("entity", "into", "probability", "facts"), merges, numbers=(2, 3))]


def explanation(found: Explanation) -> list[Any]:
    """The probability, a sentence, what patterns add, the most influential facts and the latent components."""
    fact = f"{found.subject} {found.relation} {found.object}"
    parts = [("relation", found.bias), ("patterns", found.by_patterns), ("factors", found.by_factors)]
    parts += [("calibration", found.by_calibration)] if found.by_calibration else []
    total = ", ".join(f"{what} {value:+.3f}" for what, value in parts if value or what == "relation")
    said = {reason.rule.body for reason in found.patterns if reason.rule is not None}
    columns = ("pattern", "adds to the score", *(("by", *RULE_FIGURES) if said else ()))
    patterns = [
        (reason.text, f"{reason.added:+.3f}", ", ".join(reason.examples[:3]), *_figures(reason.rule))[: len(columns)]
        for reason in found.patterns
    ]
    reasons = [
        (f"{reason.subject} {reason.relation} {reason.object}", f"{reason.influence:+.3f}") for reason in found.reasons
    ]
    components = [
        (f"{component.contribution:+.3f}", ", ".join(component.subjects), ", ".join(component.objects))
        for component in found.components
    ]
    paths = [
        (f"{path.body} ⇒ {path.head}", ", ".join(path.via[:3]), *_figures(path))
        for path in found.paths
        if path.body not in said
    ]
    tables = (
        ("Observed patterns", columns, patterns, (1, 3, 4)[: len(columns) - 1]),
        ("Most influential facts", ("fact", "influence on the score"), reasons, (1,)),
        (f"{'Further rules' if said else 'Rules'} that predict it", ("rule", "z", *RULE_FIGURES), paths, (2, 3)),
        (
            "Latent components",
            ("contribution", "subjects with large values", "objects with large values"),
            components,
            (0,),
        ),
    )
    chance = "" if found.probability is None else f"probability {found.probability:.4f}, "
    return [
        f"{fact}: {chance}score {found.score:.3f} ({total})",
        found.sentence,
        *(table(title, columns, rows, numbers=numbers) for title, columns, rows, numbers in tables if rows),
    ]


def _figures(rule: RulePath | None) -> tuple[str, str]:
    """Support and confidence of a rule."""
    return ("", "") if rule is None else (f"{rule.support:,}", f"{rule.confidence:.2f}")


def rules(found: Sequence[Rule]) -> Table:
    """Rules with support and confidence."""
    rows = [(rule.text, f"{rule.support:,}", f"{rule.confidence:.3f}") for rule in found]
    return table("Rules", ("rule", *RULE_FIGURES), rows, numbers=(1, 2))


def reading(found: Mapping[str, Any]) -> list[Any]:
    """How a file was understood."""
    if not found:
        return []
    rows = [" | ".join(map(str, row)) for row in found.get("first_rows", [])]
    pairs = [(name.replace("_", " "), text) for name, text in found.items() if name not in ("first_rows", "notes")]
    pairs += [("first rows" if not number else "", row) for number, row in enumerate(rows)]
    pairs += [("note", note) for note in found["notes"]]
    return [values("read as", pairs)]


def values(title: str, pairs: Iterable[tuple[str, Any]]) -> Table:
    """Names and values, one per line."""
    made = Table(title=_text(title), title_justify="left", title_style="bold", show_header=False)
    made.add_column(style="dim")
    made.add_column(overflow="fold")
    for name, value in pairs:
        made.add_row(_text(name), _text(str(value)))
    return made


def details(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Names and values as text; values nested deeper than one level get lines of their own."""
    lines = []
    for name, value in found.items():
        if isinstance(value, dict) and any(inner and isinstance(inner, dict) for inner in value.values()):
            prefix = "" if name == "about" else f"{name.replace('_', ' ')} "
            lines += [(prefix + inner, text) for inner, text in details(value)]
        else:
            lines.append((name.replace("_", " "), _short(value)))
    return lines


def _short(value: Any) -> str:
    if isinstance(value, dict):
        shown = ", ".join(f"{key} {_short(item)}" for key, item in list(value.items())[:MAX_ITEMS] if item != {})
        return shown + (f", … ({len(value)} in all)" if len(value) > MAX_ITEMS else "")
    if isinstance(value, list):
        return f"({len(value):,} values)"
    if isinstance(value, float):
        return f"{value:,.6g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
