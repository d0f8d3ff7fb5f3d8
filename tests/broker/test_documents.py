"""The OpenAPI and AsyncAPI documents are valid, complete, and true to the types."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openapi_spec_validator import validate

import matchwood.broker
from matchwood.broker.asyncapi import asyncapi
from matchwood.broker.openapi import openapi
from matchwood.broker.route_table import ROUTES


def references(document: Any) -> list[str]:
    if isinstance(document, dict):
        own = [document["$ref"]] if "$ref" in document else []
        return own + [found for value in document.values() for found in references(value)]
    return [found for value in document for found in references(value)] if isinstance(document, list) else []


def resolve(document: Any, reference: str) -> Any:
    for part in reference.removeprefix("#/").split("/"):
        document = document[part]
    return document


def test_the_openapi_document_is_valid() -> None:
    validate(json.loads(json.dumps(openapi())))


@pytest.mark.parametrize("made", [openapi, asyncapi])
def test_every_reference_of_a_document_leads_somewhere(made: Any) -> None:
    document = json.loads(json.dumps(made()))
    found = references(document)
    assert len(found) > 5
    assert all(resolve(document, reference) for reference in found)


def test_operations_have_different_names() -> None:
    assert len({route.operation for route in ROUTES}) == len(ROUTES)


def test_links_name_operations_and_their_parameters() -> None:
    operations = {route.operation: {param.name for param in route.params} for route in ROUTES}
    answers = [operation["responses"] for methods in openapi()["paths"].values() for operation in methods.values()]
    links = [
        link for responses in answers for answer in responses.values() for link in answer.get("links", {}).values()
    ]
    assert len(links) > 5
    assert all(set(link["parameters"]) <= operations[link["operationId"]] for link in links)


def test_every_parameter_of_a_path_is_declared() -> None:
    for route in ROUTES:
        named = {param.name for param in route.params if param.place == "path"}
        assert named == {part[1:-1] for part in route.path.split("/") if part.startswith("{")}, route.path


def test_the_table_has_the_routes_that_the_package_documents() -> None:
    text = matchwood.broker.__doc__ or ""
    documented = set()
    for line in text.splitlines():
        words = line.split()
        if len(words) > 2 and words[0] in {"GET", "POST", "PUT", "PATCH", "DELETE"} and words[1].startswith("/v1/"):
            path = "/".join(part if not part.isupper() else "{}" for part in words[1].split("/"))
            documented.add((words[0], path, words[2]))
    table = set()
    for route in ROUTES:
        if route.scope is not None:
            path = "/".join("{}" if part.startswith("{") else part for part in route.path.split("/"))
            table.add((route.method, path, route.scope.value))
    assert documented - table == set()
    assert table - documented <= {("POST", "/v1/keys/{}/rotate", "admin")}


def test_unknown_fields_of_requests_are_refused_by_the_schemas_too() -> None:
    assert openapi()["components"]["schemas"]["NewSubscription"]["additionalProperties"] is False


def test_problems_answer_every_route_and_probes_need_no_key() -> None:
    for path, methods in openapi()["paths"].items():
        for operation in methods.values():
            assert operation["responses"]["4XX"] == {"$ref": "#/components/responses/Problem"}
            assert (operation.get("security") == []) == (not path.startswith("/v1/"))
