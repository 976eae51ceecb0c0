"""Random requests, valid and invalid, generated from the OpenAPI document: `make test-fuzz`."""

import os

import pytest

import relatent
import small_graphs

pytest.importorskip("schemathesis", reason="needs schemathesis: make test-fuzz")
pytest.importorskip("starlette", reason="needs relatent[serve]")
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from relatent.web.app import create_app
from relatent.web.explorer import Explorer

pytestmark = [
    pytest.mark.fuzz,
    pytest.mark.filterwarnings("ignore"),  # of third-party packages
]
CASES = int(os.environ.get("RELATENT_FUZZ_CASES", "1500")) // 10  # of each endpoint


def application():
    factors = relatent.RescalLogit(8, 0.1, 0.1).fit(small_graphs.politics()).factors_
    return create_app(Explorer(factors), hosts=None)


schema = schemathesis.openapi.from_asgi("/api/openapi.json", application())


@schema.parametrize()
@settings(max_examples=CASES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_every_response_matches_the_document(case):
    response, excluded = case.call(), []
    if case.path in ("/api/ask", "/api/group"):  # OpenAPI cannot express "two of these three"
        excluded.append(positive_data_acceptance)
    if response.status_code == 413:  # refused before the body is validated
        excluded.append(negative_data_rejection)
    case.validate_response(response, excluded_checks=excluded)
