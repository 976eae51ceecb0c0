"""A worker is killed: the others say so and end, and any number of workers goes on from the checkpoint."""

import signal
import warnings

import numpy as np
import pytest

pytest.importorskip("torch", reason="several workers need torch (make test-torch)")

import cases
import launcher

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(("name", "rank"), [("als", 1), ("als", 0), ("logit", 2), ("sampled", 1)])
def test_when_a_worker_is_killed_the_others_end_and_others_go_on(name, rank, tmp_path):
    ended = launcher.run(3, launcher.HERE / "cases.py", "killed", tmp_path, name, rank, 5)
    assert ended[rank][0] == -signal.SIGKILL
    for other, (code, out, err) in enumerate(ended):
        if other != rank:
            assert code == 1, err
            [line] = out.splitlines()
            assert line.startswith(f"LostWorkerError: worker {other} of 3 has lost the connection to another worker (")
            assert (
                "start the fit again with any number of workers; with a checkpoint it resumes where it stopped" in line
            )
    kept = (tmp_path / "state").read_bytes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole, alone = (cases.model(name)[0] for _ in range(2))
        facts = cases.model(name)[1]
        whole.fit(facts)
        steps = []
        alone.fit(facts, checkpoint=tmp_path / "state", progress=lambda done, *_: steps.append(done))
    assert steps[0] == 5, "four steps are not done again"
    np.testing.assert_allclose(alone.trace_.objective, whole.trace_.objective, rtol=1e-6)
    np.testing.assert_allclose(alone.factors_.A, whole.factors_.A, atol=1e-3)
    (tmp_path / "state").write_bytes(kept)
    for code, _, err in launcher.run(2, launcher.HERE / "cases.py", "resumed", tmp_path, name):
        assert code == 0, err
    first, second = (np.load(tmp_path / f"{worker}.npz") for worker in range(2))
    assert first["steps"][0] == 5
    np.testing.assert_allclose(first["objective"], whole.trace_.objective, rtol=1e-6)
    np.testing.assert_allclose(first["A"], whole.factors_.A, atol=1e-3)
    np.testing.assert_array_equal(first["A"], second["A"])


def test_a_worker_that_falls_silent_is_taken_for_lost_after_the_timeout(tmp_path):
    workers = launcher.start(2, launcher.HERE / "cases.py", "killed", tmp_path, "als", 1, 5, "SIGSTOP")
    try:
        out, err = workers[0].communicate(timeout=launcher.PATIENCE)
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()
    assert workers[0].returncode == 1, err
    [line] = out.splitlines()
    assert line.startswith("LostWorkerError: worker 0 of 2 has lost the connection to another worker (")
    assert (tmp_path / "state").exists()
