"""Reviewed facts: what is written is read again, the last decision counts, and odd files are refused."""

import subprocess
import sys
import threading

import pytest

from relatent.data.facts import Facts
from relatent.data.review import Review, ReviewFile, read_review
from relatent.errors import DataError, DataWarning, InputError
from relatent.file_lock import locked


def test_decisions_are_read_as_they_were_written(tmp_path):
    path = tmp_path / "reviewed.csv"
    review = ReviewFile(path)
    review.decide(("Ann, the elder", "likes", 'B "Bo" b'), "accepted")
    review.decide(("Bob", "likes", "Cid"), "accepted")
    review.decide(("Bob", "likes", "Cid"), "rejected")
    review.decide(("Cid", "likes", "Ann"), "accepted")
    review.decide(("Cid", "likes", "Ann"), None)
    found = read_review(path)
    assert found.accepted.named() == [("Ann, the elder", "likes", 'B "Bo" b')]
    assert found.rejected.named() == [("Bob", "likes", "Cid")]
    assert ReviewFile(path).verdicts == review.verdicts


def test_decisions_of_several_threads_are_all_kept(tmp_path):
    review = ReviewFile(tmp_path / "reviewed.csv")
    threads = [threading.Thread(target=review.decide, args=((f"e{i}", "r", "o"), "accepted")) for i in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read_review(review.path).accepted) == 20


DECIDES = """
import sys
from relatent.data.review import ReviewFile
review = ReviewFile(sys.argv[1])
for i in range(40):
    review.decide((f"{sys.argv[2]}{i}", "r", "o"), "accepted")
"""


def test_decisions_of_two_servers_are_all_kept(tmp_path):
    path = tmp_path / "reviewed.csv"
    processes = [subprocess.Popen([sys.executable, "-c", DECIDES, str(path), name]) for name in "ab"]
    assert [process.wait() for process in processes] == [0, 0]
    assert len(read_review(path).accepted) == 80
    assert [each.name for each in tmp_path.iterdir()] == ["reviewed.csv"]


def test_a_file_that_another_server_keeps_is_said_to_be_in_use(tmp_path, monkeypatch):
    monkeypatch.setattr("relatent.data.review.WAIT_SECONDS", 0.05)
    review = ReviewFile(tmp_path / "reviewed.csv")
    with (
        locked(review.path),
        pytest.raises(InputError, match="could not be written: is in use by another"),
    ):
        review.decide(("a", "r", "b"), "accepted")


def test_decisions_that_contradict_others_are_counted(tmp_path):
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    one.write_text("subject,relation,object,verdict\na,r,b,accepted\na,r,b,rejected\nc,r,d,accepted\n")
    two.write_text("subject,relation,object,verdict\nc,r,d,rejected\na,r,b,rejected\n")
    with pytest.warns(DataWarning, match=r"(one|two).csv: 1 decisions contradict one before them; the last") as warned:
        assert len(read_review([one, two]).rejected) == 2
    assert len(warned) == 2


def test_no_files_are_an_empty_review():
    assert [len(facts) for facts in read_review([])] == [0, 0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("subject,relation,object\na,r,b\n", "has no column 'verdict'"),
        (
            "subject,relation,object,verdict\na,r,b,maybe\n",
            "reviewed.csv:2: expected a fact and accepted or rejected, got 'a,r,b,maybe'",
        ),
        ("subject,relation,object,verdict\na,r,accepted\n", "reviewed.csv:2: "),
        ("subject,relation,object,verdict\n,r,b,accepted\n", "reviewed.csv:2: "),
        ("", "contains no rows"),
        (
            'subject,relation,object,verdict,note\na,r,b,accepted,"x\nc,r,d,accepted,y\n',
            "a quote opens in this line",
        ),
        ('subject,relation,object,verdict,note\na,r,b,accepted,"x"y\n', "has text after a closing quote"),
    ],
)
def test_odd_files_are_refused_with_the_line(tmp_path, text, message):
    path = tmp_path / "reviewed.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        read_review(path)
    with pytest.raises(DataError):
        ReviewFile(path)


def test_what_others_write_into_the_file_is_kept(tmp_path):
    path = tmp_path / "reviewed.csv"
    review, other = ReviewFile(path), ReviewFile(path)
    review.decide(("a", "r", "b"), "accepted")
    other.decide(("a", "r", "c"), "rejected")
    review.decide(("a", "r", "d"), "accepted")
    assert read_review(path).accepted.named() == [("a", "r", "b"), ("a", "r", "d")]
    assert read_review(path).rejected.named() == [("a", "r", "c")]
    path.write_text("subject,relation,object,verdict,note\na,r,b,accepted,mine\n")
    assert len(read_review(path).accepted) == 1
    with pytest.raises(DataError, match="has a column 'note', which would be lost"):
        review.decide(("a", "r", "d"), "accepted")
    assert "mine" in path.read_text()


def test_a_decision_that_cannot_be_written_is_one_line(tmp_path, monkeypatch):
    review = ReviewFile(tmp_path / "reviewed.csv")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(InputError, match=r"reviewed.csv could not be written: No space left on device; try again"):
        review.decide(("a", "r", "b"), "accepted")
    assert review.verdicts == {}


def test_a_file_that_cannot_be_written_is_refused_at_once(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        ReviewFile(tmp_path / "none" / "reviewed.csv")


def test_accepted_rows_join_the_facts_and_rejected_ones_are_false():
    names = {"entity_names": ["a", "b", "c"], "relation_names": ["r"]}
    facts = Facts.from_arrays([0, 1], [0, 0], [1, 2], unobserved=[(2, 0, 0), (2, 0, 1)], **names)
    review = Review.of({("a", "r", "c"): "accepted", ("b", "r", "c"): "rejected", ("c", "r", "a"): "rejected"})
    found = review.apply(facts)
    assert found.named() == [("a", "r", "b"), ("a", "r", "c")]
    assert found.named(found.unobserved) == [("c", "r", "b")]
