"""The OpenAPI document and the page /api."""

import json
import re

import pytest

pytest.importorskip("starlette", reason="needs relatent[serve]")
from relatent.web.endpoints import ENDPOINTS


def test_the_document_describes_every_endpoint_and_parameter(client):
    document = client.get("/api/openapi.json").json()
    assert document["openapi"] == "3.1.0"
    assert set(document["paths"]) == {endpoint.path for endpoint in ENDPOINTS}
    page = client.get("/api").text
    for endpoint in ENDPOINTS:
        (method, operation), *others = document["paths"][endpoint.path].items()
        assert not others
        assert method.upper() == endpoint.method
        described = [parameter["name"] for parameter in operation["parameters"]]
        assert described == [parameter.name for parameter in endpoint.parameters]
        assert endpoint.path in page
    for name in re.findall(r"#/components/schemas/(\w+)", json.dumps(document)):
        assert name in document["components"]["schemas"]
