import numpy as np
import pytest
from sklearn.manifold import TSNE
from threadpoolctl import threadpool_info

from relatent.analysis import entity_map
from relatent.analysis.entity_map import project
from relatent.errors import InputError


def clouds(n=60):
    """Three clouds far apart, of unit rows."""
    rng = np.random.default_rng(0)
    rows = np.eye(8)[np.arange(n) % 3] + 0.05 * rng.normal(size=(n, 8))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("method", ["pca", "tsne"])
def test_similar_rows_are_close_within_the_square(method):
    points, group = project(clouds(), method), np.arange(60) % 3
    assert points.shape == (60, 2)
    assert points.dtype == np.float32
    assert np.abs(points).max() <= 1 + 1e-6
    middle = np.stack([points[group == g].mean(axis=0) for g in range(3)])
    nearest = np.linalg.norm(points[:, None] - middle, axis=2).argmin(axis=1)
    assert (nearest == group).all()


@pytest.mark.parametrize("method", ["pca", "tsne"])
def test_the_same_rows_give_the_same_map(method):
    np.testing.assert_array_equal(project(clouds(), method), project(clouds(), method))


@pytest.mark.parametrize("rows", [np.ones((1, 3)), np.ones((5, 1)), np.zeros((4, 2)), np.ones((2, 4))])
@pytest.mark.parametrize("method", ["pca", "tsne"])
def test_tiny_inputs_have_finite_points(rows, method):
    assert np.isfinite(project(rows, method)).all()


def test_unknown_methods_and_too_many_entities_are_refused(monkeypatch):
    with pytest.raises(InputError, match="one of pca, tsne, got 'umap'"):
        project(clouds(), "umap")
    monkeypatch.setattr(entity_map, "MAX_ENTITIES_TSNE", 10)
    with pytest.raises(InputError, match="at most 10 entities, got 60; use method='pca'"):
        project(clouds(), "tsne")


def test_the_note_gives_the_expected_duration():
    assert entity_map.tsne_note(2034) == "computing t-SNE of 2,034 entities, about 6 s"
    assert entity_map.tsne_note(5).endswith("about 1 s")


def test_tsne_runs_on_one_thread(monkeypatch):
    threads = []

    class Watched(TSNE):
        def fit_transform(self, X):
            threads.extend(pool["num_threads"] for pool in threadpool_info())
            return X[:, :2]

    monkeypatch.setattr("sklearn.manifold.TSNE", Watched)
    project(clouds(), "tsne")
    assert set(threads) == {1}


def test_maps_open_on_tsne_while_it_takes_a_few_seconds():
    assert [entity_map.default_method(n) for n in (3, 4, 2500, 2501)] == ["pca", "tsne", "tsne", "pca"]
