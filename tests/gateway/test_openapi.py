"""The OpenAPI document, and calls made up from it."""

from __future__ import annotations

import httpx
import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode, checks
from tests.gateway.conftest import Town

from busload.gateway.application import describe
from busload.gateway.settings import GatewaySettings

EXAMPLES = 30
"""Calls for each operation, as many of those that are wrong again: few enough for each run of the tests."""

DOCUMENT = describe(GatewaySettings()).openapi()
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)
OPERATIONS = sorted((path, method) for path, methods in DOCUMENT["paths"].items() for method in methods)
CHECKS = [
    checks.not_a_server_error,
    checks.response_schema_conformance,
    checks.status_code_conformance,
    checks.content_type_conformance,
]


def can_be_wrong(path: str, method: str) -> bool:
    operation = DOCUMENT["paths"][path][method]
    return bool(operation.get("parameters") or operation.get("requestBody"))


CALLS = [
    (path, method, mode)
    for path, method in OPERATIONS
    for mode in GenerationMode
    if mode is GenerationMode.POSITIVE or can_be_wrong(path, method)
]


@pytest.mark.parametrize(("path", "method", "mode"), CALLS)
def test_made_up_calls_are_answered_as_the_document_says(
    path: str, method: str, mode: GenerationMode, town: Town
) -> None:
    operation = SCHEMA[path][method.upper()]

    @given(data=st.data())
    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def calls(data: st.DataObject) -> None:
        case = data.draw(operation.as_strategy(generation_mode=mode))
        response = case.call(base_url=town.url, timeout=30)
        case.validate_response(response, checks=CHECKS)

    calls()


def test_every_operation_tells_its_errors_in_openais_form() -> None:
    for path, method in OPERATIONS:
        if path.startswith("/health"):
            continue
        responses = DOCUMENT["paths"][path][method]["responses"]
        assert {"400", "401", "404", "429", "500", "503"} <= set(responses), path
        for status in ("400", "429", "default"):
            schema = responses[status]["content"]["application/json"]["schema"]
            assert schema == {"$ref": "#/components/schemas/ErrorBody"}, path
        assert "422" not in responses
        assert DOCUMENT["paths"][path][method]["description"], path


def test_the_document_has_titles_and_examples() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    for name in ("ChatBody", "CompletionBody", "BatchBody"):
        assert schemas[name]["examples"]
    assert isinstance(describe(GatewaySettings()), FastAPI)


def test_unknown_paths_and_methods_have_openais_form_too(http: httpx.Client) -> None:
    assert http.get("/v1/nothing").json()["error"]["code"] == "not_found"
    wrong = http.get("/v1/completions")
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (405, "method_not_allowed")
    assert http.get("/openapi.json").json()["info"]["title"] == "Busload gateway"


def test_a_body_that_is_too_large_is_refused_before_it_is_read(http: httpx.Client) -> None:
    for path in ("/v1/completions", "/v1/batches"):
        told = http.post(path, content=b" " * 2_000_000)
        assert (told.status_code, told.json()["error"]["code"]) == (413, "body_too_large")


def test_no_other_origin_may_call_unless_it_is_named(http: httpx.Client) -> None:
    told = http.options("/v1/completions", headers={"Origin": "http://a", "Access-Control-Request-Method": "POST"})
    assert "access-control-allow-origin" not in told.headers
