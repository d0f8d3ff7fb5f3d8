"""The OpenAPI 3.1 document of the service, made from the table of routes and the types of `broker.types`.

GET /openapi.json
"""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

import msgspec

from matchwood import __version__
from matchwood.broker import types as t
from matchwood.broker.problems import CONTENT_TYPE
from matchwood.broker.route_table import JSON, ROUTES, Param, Route, Text

REFERENCE = "#/components/schemas/{name}"
ABOUT = (
    "Ranked content-based publish/subscribe: subscriptions are conditions, events are matched with them, best first. "
    "An answer of 2xx to a change means that it is on disk. Errors are problem documents (RFC 9457)."
)
_WEBHOOK_HEADERS = {
    "webhook-id": "SUBSCRIPTION@SEQ, the same for each attempt",
    "webhook-timestamp": "when this attempt was signed, in seconds since 1970",
    "webhook-signature": "`v1,SIGNATURE`, one for each secret (Standard Webhooks)",
}
_LINKS: dict[str, dict[str, dict[str, str]]] = {
    "post_v1_subscriptions": {
        name: {"id": "$response.body#/id"}
        for name in (
            "get_v1_subscriptions_id",
            "put_v1_subscriptions_id",
            "patch_v1_subscriptions_id",
            "delete_v1_subscriptions_id",
            "get_v1_subscriptions_id_live",
        )
    },
    "put_v1_hooks_name": {
        name: {"name": "$response.body#/name"} for name in ("post_v1_hooks_name_rotate", "delete_v1_hooks_name")
    },
    "post_v1_events": {"delete_v1_events_seq": {"seq": "$response.body#/seq"}},
}
"""What can be done with what an operation answers: the parameters of others, by the place in its answer."""


@cache
def openapi() -> dict[str, Any]:
    """The document. It is made once; do not change it.

    >>> openapi()["paths"]["/v1/match"]["post"]["operationId"]
    'post_v1_match'
    """
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Matchwood broker", "version": __version__, "description": ABOUT},
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "paths": paths,
        "webhooks": {"match": {"post": _webhook()}},
        "components": {
            "schemas": schemas([type_ for route in ROUTES for type_ in _types(route)] + [t.Delivery, t.Problem]),
            "responses": {"Problem": {"description": "Why not.", "content": {CONTENT_TYPE: _schema(t.Problem)}}},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "bearerFormat": "mw_<id>_<secret>"}},
        },
        "security": [{"key": []}],
    }


def schemas(types: list[Any]) -> dict[str, Any]:
    """The schemas of these types and of those within, by name."""
    _, found = msgspec.json.schema_components(types, ref_template=REFERENCE)
    for schema in found.values():
        if "description" in schema:
            schema["description"] = inspect.cleandoc(schema["description"])
    return found


def schema(type_: Any) -> dict[str, Any]:
    """The schema of a type, with a reference to the components if it has a name."""
    (made,), _ = msgspec.json.schema_components([type_], ref_template=REFERENCE)
    return made


def _operation(route: Route) -> dict[str, Any]:
    problem = {"$ref": "#/components/responses/Problem"}
    made: dict[str, Any] = {
        "operationId": route.operation,
        "summary": route.about,
        "responses": {
            **{str(status): _answer(type_, _LINKS.get(route.operation, {})) for status, type_ in route.answers.items()},
            "4XX": problem,
            "5XX": problem,
        },
    }
    if route.scope is None:
        made["security"] = []
    else:
        made["description"] = f"Needs the scope `{route.scope.value}`."
    if route.params:
        made["parameters"] = [_parameter(param) for param in route.params]
    if route.request:
        content = {media: _body(type_) for media, type_ in route.request.items()}
        made["requestBody"] = {"required": True, "content": content}
    return made


def _parameter(param: Param) -> dict[str, Any]:
    inner = schema(list[param.type] if param.many else param.type)  # type: ignore[name-defined]
    return {
        "name": param.name,
        "in": param.place,
        "required": param.place == "path",
        "description": param.about,
        "schema": inner,
    }


def _answer(type_: Any, links: dict[str, dict[str, str]]) -> dict[str, Any]:
    if type_ is None:
        return {"description": "Done."}
    if isinstance(type_, Text):
        return {"description": "Text.", "content": {type_.content_type: _body(type_)}}
    name = " or ".join(getattr(one, "__name__", "JSON") for one in _several(type_))
    made: dict[str, Any] = {"description": name, "content": {JSON: _body(type_)}}
    if links:
        made["links"] = {to: {"operationId": to, "parameters": parameters} for to, parameters in links.items()}
    return made


def _body(type_: Any) -> dict[str, Any]:
    if isinstance(type_, Text):
        return {"schema": {"type": "string"}}
    several = _several(type_)
    if len(several) > 1:
        return {"schema": {"anyOf": [schema(one) for one in several]}}
    return _schema(type_)


def _schema(type_: Any) -> dict[str, Any]:
    return {"schema": schema(type_)}


def _several(type_: Any) -> tuple[Any, ...]:
    return type_ if isinstance(type_, tuple) else (type_,)


def _types(route: Route) -> list[Any]:
    given = [*route.request.values(), *route.answers.values()]
    return [one for type_ in given if type_ is not None and not isinstance(type_, Text) for one in _several(type_)]


def _webhook() -> dict[str, Any]:
    return {
        "operationId": "webhook_match",
        "summary": "What a webhook receives: one match, signed. Answer 2xx within 15 s; 410 ends it; anything else is repeated.",
        "security": [],
        "parameters": [
            {"name": name, "in": "header", "required": True, "description": about, "schema": {"type": "string"}}
            for name, about in _WEBHOOK_HEADERS.items()
        ],
        "requestBody": {"required": True, "content": {JSON: _schema(t.Delivery)}},
        "responses": {
            "2XX": {"description": "Received: it is not sent again."},
            "410": {"description": "Gone: the webhook is disabled."},
        },
    }
