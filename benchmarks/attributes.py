"""What attributes add: customers and products whose facts depend on age, income, interests and price."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from timing import bar

import relatent
from attribute_graphs import AttributeGraph, customers
from relatent import Facts

GRAPH_SEEDS = (4, 5, 6)  # the weight of attributes was chosen on graphs 0 to 3
SHARE_WITHHELD, SHARE_NEWCOMERS = 0.1, 1 / 12  # of the facts; of the customers, whose facts are all withheld
ESTIMATORS = {"logit": relatent.RescalLogit, "als": relatent.RescalALS}
NONE, OWN, OTHERS = "without attributes", "with attributes", "with attributes of other entities"


def attributes(seed: int) -> dict[str, Any]:
    """MRR of withheld facts, and of all facts of customers without training facts, without options."""
    warnings.simplefilter("ignore", relatent.RelatentWarning)
    found: dict[str, Any] = {}
    for name, estimator in ESTIMATORS.items():
        runs = [_of_graph(estimator, graph_seed, seed) for graph_seed in GRAPH_SEEDS]
        found[name] = {
            how: {what: float(np.mean([run[how][what] for run in runs])) for what in runs[0][how]} for how in runs[0]
        }
    bars = {}
    for name, row in found.items():
        bars[f"{name}, gain by attributes"] = bar(row[OWN]["mrr"] / row[NONE]["mrr"], least=1.0)
        bars[f"{name}, left by wrong ones"] = bar(row[OTHERS]["mrr"] / row[NONE]["mrr"], least=0.95)
    return {**found, "bars": bars}


def _of_graph(estimator: Any, graph_seed: int, seed: int) -> dict[str, dict[str, float]]:
    graph, wrong = customers(graph_seed), customers(graph_seed, informative=False)
    train, test, of_newcomers = _divided(graph, seed)
    tables = {NONE: None, OWN: graph.table, OTHERS: wrong.table}
    return {how: _quality(estimator, train, test, of_newcomers, table) for how, table in tables.items()}


def _quality(estimator: Any, train: Facts, test: Facts, of_newcomers: Facts, table: Any) -> dict[str, float]:
    facts = relatent.read(train, attributes=table)
    model = estimator().fit(facts).factors_
    return {
        "mrr": relatent.evaluate(model, test, known=of_newcomers).mrr,
        "mrr of customers without training facts": relatent.evaluate(model, of_newcomers, known=test).mrr,
    }


def _divided(graph: AttributeGraph, seed: int) -> tuple[Facts, Facts, Facts]:
    """Training facts, withheld facts, and all facts of some customers, over one vocabulary."""
    facts, rng = graph.facts, np.random.default_rng(seed)
    users = np.array([i for i, name in enumerate(facts.entities) if name.startswith("user_")])
    newcomers = rng.choice(users, int(SHARE_NEWCOMERS * len(users)), replace=False)
    of_newcomers = np.isin(facts.subjects, newcomers)
    train, test = relatent.split(facts.subset(~of_newcomers), test_size=SHARE_WITHHELD, random_state=seed)
    return train, test, facts.subset(of_newcomers)
