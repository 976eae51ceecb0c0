"""Groups of entities against what is known of them: sections of the Alyawarra, blocs of nations."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import normalize

import relatent
from relatent.analysis.groups import METHODS, cluster, group_labels
from relatent.analysis.similarity import profiles as profiles_of
from relatent.data.names import Names

# The section (1 to 4) of person0 to person103: `atts` of alyawarradata.mat, beside the kin terms (Denham 1973; Kemp et
# al. 2006, who set their clusters beside sections, age and gender as well).
SECTIONS = "11242131211324422241213443431243432441323331412321211431211241423311313112133213212212214423343314234214"

# Bloc membership in 1950 to 1965, attributes `blocmembership0`, `1` and `2` of dnations.mat (Rummel's Dimensionality of
# Nations, as used by Kemp et al. 2006). Fits see no attributes, but commonbloc0, 1 and 2 and blockpositionindex are
# among the 56 relations and tell of the blocs: so Nations stands there without them as well.
BLOCS = {
    "Communist": ("China", "Cuba", "Poland", "USSR"),
    "neutral": ("Burma", "Egypt", "India", "Indonesia", "Jordan"),
    "Western": ("Brazil", "Israel", "Netherlands", "UK", "USA"),
}
MODELS = {
    "kinships": {
        "logit": relatent.RescalLogit(50, calibrate=False),
        "als": relatent.RescalALS(100, 3, 3, calibrate=False),
        "categorical": relatent.Rescal(40, "categorical", 0.5, 0.5, calibrate=False),
    },
    "nations": {
        "logit": relatent.RescalLogit(14, 3, 3, calibrate=False),
        "als": relatent.RescalALS(14, 2, 2, calibrate=False),
    },
}
SEEDS = 3


def groups(seed: int) -> dict[str, Any]:
    """Adjusted Rand index of every method: as many groups as it chooses, and as many as there are in truth.

    Mean over seeds of the fit (calibrate=False) and the grouping; beside it k-means on the plain vectors of A, and
    IRM's clusters.
    """
    found = {data: _on(data, relatent.load_dataset(data).without_attributes(), seed) for data in MODELS}
    nations = _without_blocs(relatent.load_dataset("nations").without_attributes())
    return found | {"nations without blocs": _on("nations", nations, seed)}


def _without_blocs(facts: relatent.Facts) -> relatent.Facts:
    """The relations that do not name the blocs."""
    kept = [name for name in facts.relations if "bloc" not in name]
    return facts.over(facts.entities, Names(kept, what="relation"))


def _on(data: str, facts: relatent.Facts, seed: int) -> dict[str, Any]:
    truth = _truth(data, facts)
    number = len(set(truth))
    seeds = range(seed, seed + SEEDS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", relatent.ConvergenceWarning)
        found: dict[str, Any] = {"entities": len(truth), "groups_in_truth": number}
        for name, estimator in MODELS[data].items():
            fits = [estimator.set_params(random_state=one).fit(facts).factors_ for one in seeds]
            found[name] = _grouped(fits, truth, number)
        clusters = [relatent.IRM(random_state=one).fit(facts).clusters_ for one in seeds]
    found["irm"] = _told(truth, clusters)
    return found


def _truth(data: str, facts: relatent.Facts) -> list[str]:
    if data == "kinships":
        return [SECTIONS[int(name.removeprefix("person"))] for name in facts.entities]
    bloc = {nation: name for name, nations in BLOCS.items() for nation in nations}
    return [bloc[name] for name in facts.entities]


def _grouped(fits: list[relatent.Factors], truth: list[str], number: int) -> dict[str, Any]:
    profiles = [profiles_of(factors) for factors in fits]
    plain = [normalize(factors.A.astype(np.float64)) for factors in fits]
    found = {}
    for method in METHODS:
        for title, given in (("", None), (" given their number", number)):
            if method in ("auto", "roles", "hdbscan") and given is not None:
                continue
            labels = [
                group_labels(f, B, method, given, one) for one, (f, B) in enumerate(zip(fits, profiles, strict=True))
            ]
            found[method + title] = _told(truth, labels)
    for title, given in (("", None), (" given their number", number)):
        labels = [cluster(B, "k-means", given, one) for one, B in enumerate(plain)]
        found["k-means on A" + title] = _told(truth, labels)
    return found


def _told(truth: list[str], labels: list[Any]) -> dict[str, Any]:
    index = [adjusted_rand_score(truth, one) for one in labels]
    return {
        "adjusted_rand": float(np.mean(index)),
        "spread": float(np.std(index)),
        "groups": [len(set(one[one >= 0].tolist())) for one in map(np.asarray, labels)],
    }
