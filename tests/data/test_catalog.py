import hashlib
import io
import tarfile
from pathlib import Path

import numpy as np
import pytest

from relatent.data import catalog
from relatent.data.catalog import datasets, load_dataset, load_negatives, load_splits
from relatent.errors import DataError, DownloadError, UnknownNameError

MIRROR = Path(__file__).resolve().parents[3] / "shared" / "mirror"
needs_mirror = pytest.mark.skipif(not MIRROR.is_dir(), reason="needs the downloaded data sets in ../shared/mirror")


@pytest.fixture
def mirror(monkeypatch):
    monkeypatch.setenv("RELATENT_DATA_HOME", str(MIRROR))


@pytest.fixture
def home(monkeypatch, tmp_path):
    monkeypatch.setenv("RELATENT_DATA_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def offline(monkeypatch):
    def refuse(*_, **__):
        raise ConnectionError("the network is unreachable")

    monkeypatch.setattr("requests.get", refuse)


EMBEDDED = [each.name for each in datasets() if each.embedded]
REMOTE = [each.name for each in datasets() if not each.embedded]
WITH_SPLITS = [each.name for each in datasets() if each.splits]


def sizes(facts):
    return facts.n_entities, facts.n_relations, len(facts)


def announced(name):
    entry = next(each for each in datasets() if each.name == name)
    return entry.n_entities, entry.n_relations, entry.n_facts


# --- embedded


@pytest.mark.parametrize("name", EMBEDDED)
def test_an_embedded_data_set_needs_no_network_and_has_the_announced_size(home, offline, name):
    assert sizes(load_dataset(name)) == announced(name)


def test_presidents_relate_persons_and_parties_as_their_offices_say():
    facts = load_dataset("presidents")
    party, president, vice_president = (facts.triples[facts.triples[:, 1] == k] for k in range(3))
    np.testing.assert_array_equal(
        np.unique(president[:, ::-1], axis=0)[:, [0, 2]], np.unique(vice_president, axis=0)[:, [0, 2]]
    )
    lines = catalog._table("presidents-entities.tsv").decode().splitlines()
    kind, was_president, was_vice = np.array([line.split("\t")[1:] for line in lines]).T
    assert (was_president[vice_president[:, 0]] == "1").all()
    assert (was_vice[vice_president[:, 2]] == "1").all()
    assert (kind[party[:, 0]] == "person").all()
    assert (kind[party[:, 2]] == "party").all()
    assert ("Barack Obama", "vicePresident", "Joe Biden") in facts.named()


def test_each_pair_of_kinships_has_at_most_one_term_and_everyone_calls_oneself_term23():
    facts = load_dataset("kinships")
    pairs = facts.subjects.astype(int) * 104 + facts.objects
    assert len(np.unique(pairs)) == len(facts)
    own = facts.triples[facts.triples[:, 1] == facts.relations.id("term23")]
    np.testing.assert_array_equal(own[:, 0], np.arange(104))
    np.testing.assert_array_equal(own[:, 2], np.arange(104))


@needs_mirror
def test_kinships_equals_the_published_tensor():
    from scipy.io import loadmat

    tensor = loadmat(MIRROR / "kinships" / "alyawarradata.mat")["Rs"]
    facts = load_dataset("kinships")
    for k in range(26):
        np.testing.assert_array_equal(facts.matrix(k).toarray(), tensor[:, :, k])
    assert facts.entities[7] == "person7"
    assert facts.relations[7] == "term7"


def test_protein_interactions_go_both_ways_and_keep_the_name_nan():
    facts = load_dataset("ecoli-ppi")
    assert facts.symmetric.all()
    assert ("CDC42", "interacts", "nan") in facts.named()
    assert ("nan", "interacts", "CDC42") in facts.named()


def test_three_facts_of_the_people_are_missing_on_purpose():
    facts = [row for row in load_dataset("people").named() if row[1] != "knows"]
    subjects = [row[0] for row in facts]
    fewer = {name for name in subjects if subjects.count(name) != 3}
    assert fewer == {"Hugo", "Ida", "Marco"}
    assert {tuple(row[1:]) for row in facts if row[0] == "Ida"} == {("born in", "Oslo"), ("speaks", "Norwegian")}


# --- downloaded


@needs_mirror
@pytest.mark.parametrize("name", REMOTE)
def test_a_downloaded_data_set_has_the_announced_size(mirror, offline, name):
    assert sizes(load_dataset(name)) == announced(name)


@needs_mirror
@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("fb15k-237", (272_115, 17_535, 20_466)),
        ("wn18rr", (86_835, 3_034, 3_134)),
        ("codex-s", (32_888, 1_827, 1_828)),
    ],
)
def test_splits_share_one_vocabulary_and_do_not_overlap(mirror, name, counts):
    parts = load_splits(name)
    assert tuple(len(part) for part in parts) == counts
    assert all(part.entities is parts[0].entities and part.relations is parts[0].relations for part in parts)
    assert not parts[0].contains(parts[1].triples).any()
    assert len(load_dataset(name)) == sum(counts)


@needs_mirror
def test_nations_has_names_attributes_and_unobserved_cells(mirror):
    facts = load_dataset("nations")
    assert facts.entities[:3] == ("Brazil", "Burma", "China")
    assert facts.relations[0] == "economicaid"
    assert len(facts.unobserved) == 1219
    assert facts.attributes.shape == (14, 111)
    assert np.isnan(facts.attributes).sum() == 120


@needs_mirror
def test_the_first_fact_of_a_benchmark_file_is_found_by_name(mirror):
    train, _, _ = load_splits("codex-s")
    assert ("Q7604", "P1412", "Q188") in train.named()


@needs_mirror
def test_negatives_are_statements_about_the_same_names_that_no_split_has(mirror):
    parts, negatives = load_splits("codex-s"), load_negatives("codex-s")
    assert tuple(len(part) for part in negatives) == (1_827, 1_828)
    for part in negatives:
        assert part.entities == parts[0].entities
        assert not any(facts.contains(part.triples).any() for facts in parts)


# --- names


def test_negatives_of_a_data_set_without_any_are_an_error():
    with pytest.raises(DataError, match=r"^wn18rr has no negatives; codex-s has, or read a file of false statements"):
        load_negatives("wn18rr")


def test_an_unknown_data_set_gets_suggestions():
    with pytest.raises(UnknownNameError, match=r"^unknown data set 'kinship'; did you mean 'kinships'\?$"):
        load_dataset("kinship")
    with pytest.raises(UnknownNameError, match=r"^unknown data set 'fb15k'; did you mean 'fb15k-237'\?$"):
        load_splits("FB15k")
    with pytest.raises(UnknownNameError, match=r"^unknown data set 'zebra'; there are presidents, kinships, "):
        load_dataset("zebra")


@pytest.mark.parametrize("name", sorted({each.name for each in datasets()} - set(WITH_SPLITS)))
def test_splits_of_a_data_set_without_any_are_an_error(name):
    with pytest.raises(
        DataError,
        match=rf"^{name} has no splits of its own; fb15k-237, wn18rr, codex-s do, or make a split with relatent.split",
    ):
        load_splits(name)


def test_the_catalog_lists_names_sources_and_licences():
    assert [each.name for each in datasets()][:4] == ["presidents", "kinships", "ecoli-ppi", "people"]
    assert all(each.title and each.source and each.licence for each in datasets())


# --- when things go wrong


def test_offline_the_message_says_what_to_put_where(home, offline):
    with pytest.raises(DownloadError) as caught:
        load_dataset("nations")
    message = str(caught.value)
    assert message.startswith("could not download https://raw.githubusercontent.com/dongwookim-ml/almc/")
    assert f"put the file at {home / 'nations' / 'dnations.mat'}" in message
    assert "RELATENT_DATA_HOME" in message
    assert "\n" not in message
    assert not [path for path in home.rglob("*") if path.is_file()]


def answer(content):
    class Response:
        headers = {"content-length": str(len(content))}  # noqa: RUF012

        def raise_for_status(self):
            pass

        def iter_content(self, chunk_size):
            yield content

    return lambda *_, **__: Response()


def test_a_download_with_the_wrong_checksum_is_not_kept(home, monkeypatch):
    monkeypatch.setattr("requests.get", answer(b"something else"))
    with pytest.raises(DownloadError, match=r"could not download .*dnations.mat"):
        load_dataset("nations")
    assert not [path for path in home.rglob("*") if path.is_file()]


@needs_mirror
@pytest.mark.parametrize("progress", [False, True])
def test_a_download_is_kept_and_not_repeated(home, monkeypatch, progress, capsys):
    monkeypatch.setattr("requests.get", answer((MIRROR / "nations" / "dnations.mat").read_bytes()))
    assert len(load_dataset("nations", progress=progress)) == 2024
    monkeypatch.setattr("requests.get", None)
    assert len(load_dataset("nations")) == 2024
    printed = capsys.readouterr()
    assert printed.out == ""
    assert progress or printed.err == ""


def test_a_tampered_file_is_refused_and_left_alone(home, monkeypatch):
    path = home / "nations" / "dnations.mat"
    path.parent.mkdir()
    path.write_bytes(b"tampered")
    monkeypatch.setattr("requests.get", None)
    found = hashlib.sha256(b"tampered").hexdigest()
    expected = rf"dnations.mat: sha256 is {found}, expected c8317e39bdf8.*; delete the file to download it again$"
    with pytest.raises(DownloadError, match=expected):
        load_dataset("nations")
    assert path.read_bytes() == b"tampered"


@needs_mirror
def test_a_home_that_cannot_be_written_to_is_fine_if_the_file_is_there(tmp_path, monkeypatch, offline):
    folder = tmp_path / "nations"
    folder.mkdir()
    (folder / "dnations.mat").write_bytes((MIRROR / "nations" / "dnations.mat").read_bytes())
    for path in (folder / "dnations.mat", folder, tmp_path):
        path.chmod(0o555)
    monkeypatch.setenv("RELATENT_DATA_HOME", str(tmp_path))
    assert len(load_dataset("nations")) == 2024
    for path in (tmp_path, folder):
        path.chmod(0o755)


def archive(**members):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(f"{name}.txt")
            if content is None:
                info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
                tar.addfile(info)
            else:
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return packed.getvalue()


def test_an_archive_is_read_only_as_plain_files_of_limited_size(monkeypatch):
    assert catalog._members(archive(train=b"a", valid=b"b", test=b"c"), "x.tar.gz") == [b"a", b"b", b"c"]
    with pytest.raises(DownloadError, match=r"^x.tar.gz: train.txt is not a plain file of at most"):
        catalog._members(archive(train=None, valid=b"b", test=b"c"), "x.tar.gz")
    with pytest.raises(DownloadError, match=r"^x.tar.gz: contains no file test.txt$"):
        catalog._members(archive(train=b"a", valid=b"b"), "x.tar.gz")
    monkeypatch.setattr(catalog, "_MAX_MEMBER_BYTES", 10)
    with pytest.raises(DownloadError, match=r"valid.txt is not a plain file"):
        catalog._members(archive(train=b"a", valid=b"b" * 11, test=b"c"), "x.tar.gz")


def test_a_part_of_a_benchmark_is_told_where_to_find():
    with pytest.raises(
        UnknownNameError, match=r"unknown data set 'codex-s:train'; load_splits\('codex-s'\) returns the three splits"
    ):
        load_dataset("codex-s:train")


def test_a_download_reports_its_bytes_to_a_callback(home, monkeypatch):
    monkeypatch.setattr("requests.get", answer(b"something else"))
    reports = []
    with pytest.raises(DownloadError):
        load_dataset("nations", progress=lambda *report: reports.append(report))
    assert reports
    assert set(reports) == {(14, 14, "dnations.mat")}
