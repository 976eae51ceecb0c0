"""Old names keep working for one release and say what the new ones are."""

import pytest

from relatent.deprecation import renamed_arguments, renamed_method, renamed_property


@renamed_arguments(count="k")
def best(k=3, *, names=()):
    return k, names


class Result:
    best = 7

    def to_dict(self):
        return {"best": self.best}

    as_dict = renamed_method("as_dict", "to_dict")
    chosen = renamed_property("chosen", "best")


def test_an_old_argument_is_passed_on_by_its_new_name():
    with pytest.warns(DeprecationWarning, match=r"best\(count=…\) is now called k="):
        assert best(count=5, names=("a",)) == (5, ("a",))


def test_the_new_argument_does_not_warn():
    assert best(k=5) == best(5) == (5, ())


def test_both_names_at_once_are_an_error():
    with pytest.raises(TypeError, match="both k= and its old name count="):
        best(k=1, count=2)


def test_old_methods_and_properties_give_what_the_new_ones_give():
    with pytest.warns(DeprecationWarning, match=r"Result.as_dict\(\) is now called to_dict\(\)"):
        assert Result().as_dict() == {"best": 7}
    with pytest.warns(DeprecationWarning, match=r"Result.chosen is now called best"):
        assert Result().chosen == 7
