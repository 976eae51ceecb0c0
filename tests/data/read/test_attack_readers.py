"""A few hostile files of every format; `make fuzz` tries many."""

import attack_readers


def test_hostile_files_are_read_or_refused_in_one_line():
    assert attack_readers.main(cases=300, seed=0) == 0
