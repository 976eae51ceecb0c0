"""Commands that ask a model about its entities and facts: similar, groups, explain, duplicates."""

from __future__ import annotations

from pathlib import Path

import click

from .output import print_result
from .reading_options import reading_options
from .shared_options import OUTPUT, further_known_option, json_option, model_argument, seed_option, top_option
from .table_file import FORMATS, STANDARD_OUTPUT, check_table_target, write_table

MERGES: dict[str, type] = {"name": str, "into": str, "probability": float, "facts": int}


@click.command()
@model_argument
@click.argument("entity")
@top_option(10, "entities")
@json_option
def similar(model: Path, entity: str, k: int, as_json: bool) -> None:
    """List the entities whose scores are most similar to those of ENTITY.

    Example: relatent similar kinships.relatent person0
    """
    from ..analysis.similarity import similar as find
    from ..data.result_labels import add_labels, shown
    from ..json_values import to_json
    from ..model.factors import load
    from . import tables

    factors = load(model)
    found = find(factors, entity, k)
    document = add_labels(to_json({"entity": entity, "similar": found}), factors)
    print_result(as_json, document, lambda: [tables.similar(entity, shown(found, factors))])


@click.command()
@model_argument
@click.option(
    "--method",
    type=click.Choice(["auto", "roles", "k-means", "hierarchical", "hdbscan"]),
    default="auto",
    show_default=True,
    help="Clustering method: roles finds types, the others groups of similar entities; auto takes types if there are "
    "any.",
)
@click.option("--groups", "n_groups", type=click.IntRange(min=1), help="Number of groups.  [default: found]")
@top_option(5, "typical facts per group")
@seed_option
@json_option
def groups(model: Path, method: str, n_groups: int | None, k: int, seed: int, as_json: bool) -> None:
    """Cluster the entities and list the facts typical of each group.

    Example: relatent groups kinships.relatent --groups 4
    """
    from ..analysis.groups import groups as find
    from ..data.result_labels import add_labels, shown
    from ..json_values import to_json
    from ..model.factors import load
    from . import tables

    factors = load(model)
    found = find(factors, method, n_groups, k=k, random_state=seed)
    n_left = len(factors.entities) - sum(len(group.names) for group in found)
    document = add_labels(to_json({"method": method, "groups": found, "n_without_group": n_left}), factors)
    print_result(as_json, document, lambda: [tables.groups(shown(found, factors), n_left)])


@click.command()
@model_argument
@click.option("--subject", "-s", required=True, help="Subject of the fact.")
@click.option("--relation", "-r", required=True, help="Relation of the fact.")
@click.option("--object", "-t", "object_", required=True, help="Object of the fact.")
@further_known_option
@top_option(5, "reasons")
@reading_options("--edge-relation")
@json_option
def explain(
    model: Path, subject: str, relation: str, object_: str, known: tuple[str, ...], k: int, as_json: bool
) -> None:
    """Explain the probability of a fact: what is seen of the pair, the facts that influence it most, latent components.

    Example: relatent explain presidents.relatent -s "Al Gore" -r party -t Democratic
    """
    from ..analysis.explain import explain as find
    from ..data.result_labels import add_labels, shown
    from ..model.factors import load
    from . import tables
    from .data_argument import open_facts

    factors = load(model)
    further = [open_facts(source, split="train") for source in known]
    found = find(factors, subject, relation, object_, k=k, known=further)
    print_result(as_json, add_labels(found.to_dict(), factors), lambda: tables.explanation(shown(found, factors)))


@click.command()
@model_argument
@further_known_option
@click.option("--entity", help="List duplicates of this entity.  [default: of all entities]")
@top_option(20, "pairs")
@click.option(
    "--threshold",
    default=0.5,
    show_default=True,
    type=click.FloatRange(0, 1, min_open=True),
    help="Probability from which entities are merged.",
)
@click.option(
    "--prior",
    default=0.1,
    show_default=True,
    type=click.FloatRange(0, 1, min_open=True),
    help="Prior share of entities that have a duplicate.",
)
@click.option(
    "--shared",
    type=click.FloatRange(0, 1),
    help="Share of its facts that an entity has in common with its duplicate; 0 if the facts were divided between "
    "them.  [default: not known]",
)
@click.option("--names/--no-names", default=True, show_default=True, help="Compare names as well as facts.")
@click.option(
    "-o",
    "--output",
    type=OUTPUT,
    help=f"File to write the proposed merges to, in the format of its extension ({', '.join(FORMATS)}); - writes CSV "
    "to standard output.",
)
@reading_options()
@seed_option
@json_option
def duplicates(
    model: Path,
    known: tuple[str, ...],
    entity: str | None,
    k: int,
    threshold: float,
    prior: float,
    shared: float | None,
    names: bool,
    output: Path | None,
    seed: int,
    as_json: bool,
) -> None:
    """List pairs of entities that may be the same, with probabilities, and propose merges.

    Example: relatent duplicates people.relatent --threshold 0.8 -o merges.tsv
    """
    from ..analysis.duplicates import duplicates as find
    from ..data.result_labels import add_labels, shown
    from ..model.factors import load
    from ..progress import bar
    from . import tables
    from .data_argument import open_facts

    if output is not None:
        check_table_target(output)
    factors = load(model)
    further = [open_facts(source, split="train") for source in known]
    with bar("duplicates", note="comparing entities") as progress:
        found = find(
            factors,
            entity,
            known=further,
            k=k,
            threshold=threshold,
            prior=prior,
            shared=shared,
            names=names,
            random_state=seed,
            progress=progress,
        )
    if output is not None:
        write_table(output, MERGES, [merge._asdict() for merge in found.merges], factors)
    settings = {"threshold": threshold, "prior": prior, "shared": shared, "names": names}
    document = {**add_labels(found.to_dict(), factors), **settings}
    if str(output) != STANDARD_OUTPUT or as_json:
        print_result(as_json, document, lambda: tables.duplicates(shown(found, factors)))
