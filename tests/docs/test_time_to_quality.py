"""The comparison with peers: what is chosen, and that exported matrices score as the peer does."""

from pathlib import Path

import numpy as np
import pytest

import relatent

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _paths(monkeypatch):
    for folder in ("benchmarks", "tools"):
        monkeypatch.syspath_prepend(str(ROOT / folder))


def test_settings_are_chosen_on_validation_facts():
    pytest.importorskip("matplotlib")
    import time_plot

    def run(valid, test):
        return {"competitor": "peer", "points": [{"seconds": 1.0, "valid_mrr": valid, "test_mrr": test}]}

    better_on_test, better_on_validation = run(0.3, 0.9), run(0.4, 0.1)
    chosen, others = time_plot.best_runs([better_on_test, better_on_validation])["peer"]
    assert chosen is better_on_validation
    assert others == [better_on_test]


def test_every_peer_has_several_settings_on_every_data_set():
    from time_to_quality_settings import BUDGETS, SETTINGS

    counts = {len(by_data[name]) for peer, by_data in SETTINGS.items() if "relatent" not in peer for name in BUDGETS}
    assert counts <= {2, 3}


def test_runs_that_are_done_are_kept_and_not_repeated(monkeypatch):
    import time_to_quality
    from time_to_quality_settings import BUDGETS, SETTINGS

    started = []

    def side_by_side(tasks, pairs, deadline):
        started.extend(tasks)
        return []

    monkeypatch.setattr(time_to_quality, "_side_by_side", side_by_side)
    first, *others = SETTINGS["plain ComplEx"]["codex-s"]
    done = {"competitor": "plain ComplEx", "data": "codex-s", "settings": first, "seed": 0, "points": []}
    done |= {"budget": BUDGETS["codex-s"], "commit": "of another day"}
    report = time_to_quality.time_to_quality(0, ["codex-s"], ["plain ComplEx"], done=[done])
    assert [task["settings"] for task in started] == others
    assert report["runs"] == [done]


@pytest.mark.parametrize("candidates", [None, 30])
def test_plain_loop_learns_and_is_ranked_by_both_matrices_of_a_relation(candidates):
    pytest.importorskip("torch")
    import peer_models
    import time_to_quality

    train, test = relatent.split(relatent.load_dataset("kinships"), test_size=0.1)
    found = []

    class DoneError(Exception):
        pass

    def moment(sides):
        found.append(sides())
        if len(found) == 150:
            raise DoneError

    settings = {"rank": 20, "lr": 0.1, "batch_size": 200, "n3": 0.001, "relation_weight": 0.1, "candidates": candidates}
    with pytest.raises(DoneError):
        peer_models.train_plain(train, settings, 0, moment)
    first, last = (time_to_quality.mrr(sides, test, [train]) for sides in (found[0], found[-1]))
    assert last > first + 0.2
    of_objects, of_subjects = found[-1]
    assert not np.allclose(of_objects.R, of_subjects.R)
    one_matrix = time_to_quality.mrr((of_objects, of_objects), test, [train])
    assert last != one_matrix


def test_scores_of_the_plain_loop_are_those_of_the_exported_factors():
    torch = pytest.importorskip("torch")
    import peer_models

    facts = relatent.load_dataset("kinships")
    rng = np.random.default_rng(0)
    A = rng.normal(size=(facts.n_entities, 6)).astype(np.float32)
    R = rng.normal(size=(2 * facts.n_relations, 6)).astype(np.float32)
    k = facts.n_relations
    of_objects, of_subjects = peer_models.sides_of(facts, "complex", A, R[:k], R[k:])
    E, P = torch.from_numpy(A), torch.from_numpy(R)
    forward = peer_models._product(E[3:4], P[2:3], 3) @ E.T
    backward = peer_models._product(E[5:6], P[k + 2 : k + 3], 3) @ E.T
    everyone = np.arange(facts.n_entities)
    assert np.allclose(of_objects.score(3, 2, everyone), forward[0], atol=1e-5)
    assert np.allclose(of_subjects.score(everyone, 2, 5), backward[0], atol=1e-5)
