import pytest

from relatent import groups
from relatent.analysis import groups as groups_module
from relatent.analysis.groups import METHODS
from relatent.errors import InputError


@pytest.mark.parametrize("method", METHODS)
def test_camps_are_found_with_their_typical_facts(two_camps, method):
    found = groups(two_camps[1], method)
    assert sorted(sorted(group.names) for group in found) == [
        sorted(f"p{i}" for i in range(camp, 20, 2)) for camp in (0, 1)
    ]
    for group in found:
        for typical in group.typical:
            assert typical.relation == "likes"
            assert typical.neighbour in group.names
            assert typical.probability > typical.elsewhere + 0.2


def test_the_requested_number_of_groups_comes_largest_first(two_camps):
    found = groups(two_camps[1], "hierarchical", 5)
    assert [group.number for group in found] == [0, 1, 2, 3, 4]
    sizes = [len(group.names) for group in found]
    assert sizes == sorted(sizes, reverse=True)
    assert sum(sizes) == 20


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"method": "magic"}, "method must be one of k-means, hierarchical, hdbscan, got 'magic'"),
        ({"n_groups": 0}, "n_groups must be between 1 and 20, the number of entities, got 0"),
        ({"method": "hdbscan", "n_groups": 3}, "method='hdbscan' finds the number of groups itself"),
    ],
)
def test_impossible_options_are_refused_with_a_remedy(two_camps, options, text):
    with pytest.raises(InputError, match=text):
        groups(two_camps[1], **options)


def test_hierarchical_clustering_refuses_too_many_entities(two_camps, monkeypatch):
    monkeypatch.setattr(groups_module, "MAX_ENTITIES_HIERARCHICAL", 10)
    with pytest.raises(InputError, match="takes at most 10 entities, got 20; use method='k-means'"):
        groups(two_camps[1], "hierarchical")


def test_k_limits_the_typical_facts_and_its_old_name_warns(two_camps):
    found = groups(two_camps[1], n_groups=2, k=1)
    assert [len(group.typical) for group in found] == [1, 1]
    with pytest.warns(DeprecationWarning, match=r"groups\(typical=…\) is now called k="):
        assert groups(two_camps[1], n_groups=2, typical=1) == found


def test_a_group_is_plain_data(two_camps):
    found = groups(two_camps[1], n_groups=2, k=1)[0]
    assert found.to_dict() == {"number": 0, "names": found.names, "typical": [found.typical[0]._asdict()]}
