from relatent.backend.blas_threads import _controller, one_blas_thread, one_thread


def threads():
    return [library["num_threads"] for library in _controller().info() if library["user_api"] == "blas"]


def test_overlapping_limits_of_several_threads_leave_the_number_of_threads_as_it_was():
    with _controller().limit(limits=2, user_api="blas"):
        before = threads()
        first, second, third = one_blas_thread(), one_blas_thread(), one_thread()
        for limit in (first, second, third):
            limit.__enter__()
        for limit in (first, third, second):  # as fits in threads end: not in the reverse order of their beginning
            assert set(threads()) == {1}
            limit.__exit__(None, None, None)
        assert threads() == before
