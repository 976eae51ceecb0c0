"""Graphs whose entities have attributes that the facts depend on: customers by age, income and interests."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from relatent import Facts

TOPICS = ("garden", "music", "travel", "cooking", "cycling", "chess", "film", "history", "sailing", "knitting")


class AttributeGraph(NamedTuple):
    """Rows (subject, relation, object) and the attributes of each entity by name."""

    rows: list[tuple[str, str, str]]
    table: dict[str, dict[str, str]]  # entity → attribute → value

    @property
    def facts(self) -> Facts:
        """The facts, without the attributes."""
        return Facts.from_arrays(*zip(*self.rows, strict=True))


def customers(seed: int, *, n_users: int = 600, n_products: int = 300, informative: bool = True) -> AttributeGraph:
    """Customers buy products of their interests and age, and live in cities by income.

    Without `informative` each entity has the attributes of a random one of its kind, so that they say nothing.
    """
    rng = np.random.default_rng(seed)
    users, products = ([f"{kind}_{i}" for i in range(n)] for kind, n in (("user", n_users), ("product", n_products)))
    age, income = rng.uniform(18, 80, n_users), rng.lognormal(10, 0.5, n_users)
    interest = np.array([rng.choice(len(TOPICS), 2, replace=False) for _ in users])
    topic, buyers_age = rng.integers(0, len(TOPICS), n_products), rng.uniform(18, 80, n_products)
    popularity = (1.0 + rng.permutation(n_products)) ** -0.5
    rows = []
    for i, user in enumerate(users):
        liking = np.where(np.isin(topic, interest[i]), 1.0, 0.05) * np.exp(-(((age[i] - buyers_age) / 10) ** 2))
        shares = popularity * (liking + 0.01)
        bought = rng.choice(n_products, 1 + rng.poisson(3), replace=False, p=shares / shares.sum())
        rows += [(user, "bought", products[j]) for j in sorted(bought.tolist())]
        city = int(np.searchsorted(np.sort(income), income[i]) * 30 / n_users)
        rows.append((user, "lives_in", f"city_{city if rng.random() < 0.8 else rng.integers(0, 30)}"))
    rows += [(product, "made_by", f"brand_{topic[j] * 4 + rng.integers(0, 4)}") for j, product in enumerate(products)]
    user_at, product_at = (np.arange(n) if informative else rng.permutation(n) for n in (n_users, n_products))
    table = {
        user: {
            "born": f"{2020 - int(age[i])}-{1 + i % 12:02d}-01",
            "income": f"{income[i]:.0f}",
            "about": " ".join(TOPICS[t] for t in interest[i]),
        }
        for user, i in zip(users, user_at.tolist(), strict=True)
    }
    table |= {
        product: {"price": f"{20 + buyers_age[j]:.2f}", "about": f"for {TOPICS[topic[j]]}"}
        for product, j in zip(products, product_at.tolist(), strict=True)
    }
    return AttributeGraph(rows, table)
