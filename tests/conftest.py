"""pytest puts this folder on the path of imports, so that tests can say `import worlds`."""

import pytest

from relatent.threads import one_blas_thread


@pytest.fixture
def single_blas():
    """As a fit runs: the tiles are the threads."""
    with one_blas_thread():
        yield
