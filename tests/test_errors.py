from relatent.errors import one_line


def test_a_message_is_put_on_one_line_and_cut_to_a_length():
    assert one_line(ValueError("first\n  second\tthird ")) == "first second third"
    assert one_line("abcdef", 3) == "abc…"
    assert one_line("abc", 3) == "abc"
    assert len(one_line(SyntaxError("x" * 10_000_000))) < 1000


def test_an_error_without_a_message_is_named_by_its_class():
    assert one_line(TimeoutError()) == "TimeoutError"
