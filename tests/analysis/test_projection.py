import numpy as np
import pytest
from sklearn.manifold import TSNE
from threadpoolctl import threadpool_info

from relatent.analysis import projection
from relatent.analysis.projection import plane
from relatent.errors import InputError


def clouds(n=60):
    """Three clouds far apart, of unit rows."""
    rng = np.random.default_rng(0)
    rows = np.eye(8)[np.arange(n) % 3] + 0.05 * rng.normal(size=(n, 8))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("method", ["pca", "tsne"])
def test_what_is_alike_stands_together_within_the_square(method):
    points, group = plane(clouds(), method), np.arange(60) % 3
    assert points.shape == (60, 2)
    assert points.dtype == np.float32
    assert np.abs(points).max() <= 1 + 1e-6
    middle = np.stack([points[group == g].mean(axis=0) for g in range(3)])
    nearest = np.linalg.norm(points[:, None] - middle, axis=2).argmin(axis=1)
    assert (nearest == group).all()


@pytest.mark.parametrize("method", ["pca", "tsne"])
def test_the_same_rows_give_the_same_map(method):
    np.testing.assert_array_equal(plane(clouds(), method), plane(clouds(), method))


@pytest.mark.parametrize("rows", [np.ones((1, 3)), np.ones((5, 1)), np.zeros((4, 2)), np.ones((2, 4))])
@pytest.mark.parametrize("method", ["pca", "tsne"])
def test_worlds_too_small_for_a_map_have_one_all_the_same(rows, method):
    assert np.isfinite(plane(rows, method)).all()


def test_a_map_that_cannot_be_drawn_is_refused(monkeypatch):
    with pytest.raises(InputError, match="one of pca, tsne, got 'umap'"):
        plane(clouds(), "umap")
    monkeypatch.setattr(projection, "MOST_TSNE", 10)
    with pytest.raises(InputError, match="at most 10 entities, there are 60; take method='pca'"):
        plane(clouds(), "tsne")


def test_the_time_that_a_map_takes_is_told_beforehand():
    assert projection.tsne_told(2034) == "arranging neighbours of 2,034 entities (t-SNE), about 12 s"
    assert projection.tsne_told(5).endswith("about 1 s")


def test_neighbours_are_arranged_on_one_thread(monkeypatch):
    threads = []

    class Watched(TSNE):
        def fit_transform(self, X):
            threads.extend(one["num_threads"] for one in threadpool_info())
            return X[:, :2]

    monkeypatch.setattr("sklearn.manifold.TSNE", Watched)
    plane(clouds(), "tsne")
    assert set(threads) == {1}
