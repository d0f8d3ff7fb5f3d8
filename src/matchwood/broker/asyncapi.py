"""The AsyncAPI 3 document of the streams, made from the types of `broker.types`.

GET /asyncapi.json
"""

from __future__ import annotations

from functools import cache
from typing import Any

from matchwood import __version__
from matchwood.broker import types as t
from matchwood.broker.openapi import ABOUT, schema, schemas
from matchwood.broker.route_table import ROUTES

_POSITION = {"type": "object", "properties": {"seq": {"type": "integer"}}, "required": ["seq"]}
_IDS = {"type": "array", "items": {"type": "string"}}


@cache
def asyncapi() -> dict[str, Any]:
    """The document. It is made once; do not change it.

    >>> sorted(asyncapi()["channels"])
    ['consumer', 'stream', 'webhook']
    """
    return {
        "asyncapi": "3.0.0",
        "info": {"title": "Matchwood broker", "version": __version__, "description": ABOUT},
        "defaultContentType": "application/json",
        "channels": {
            "stream": _channel(
                "/v1/stream",
                "Matches of subscriptions. At most once. The id of a server-sent event is the position to resume from; "
                'over a WebSocket a message is {"type": NAME, "position": SEQ or null, "data": PAYLOAD}.',
                ["match", "gap", "shed", "position"],
                bindings={"ws": {"method": "GET", "query": _query()}, "http": {}},
            ),
            "consumer": _channel(
                "/v1/stream",
                "Deliveries of a durable consumer over a WebSocket (`?consumer=NAME`), in the same frames. At least once: what "
                'is not acknowledged, by {"ack": [ID, ...]}, is repeated.',
                ["match", "ack", "nack"],
                bindings={
                    "ws": {"method": "GET", "query": {"type": "object", "properties": {"consumer": schema(t.Name)}}}
                },
            ),
            "webhook": _channel(None, "One match, signed (Standard Webhooks), to the URL of a hook.", ["match"]),
        },
        "operations": {
            "sendMatches": _operation("send", "stream", ["match", "gap", "shed", "position"]),
            "sendDeliveries": _operation("send", "consumer", ["match"]),
            "receiveAcknowledgements": _operation("receive", "consumer", ["ack", "nack"]),
            "sendWebhook": _operation("send", "webhook", ["match"]),
        },
        "components": {
            "messages": {
                "match": _message("A match on its way.", schema(t.Delivery)),
                "gap": _message("Records that can no longer be delivered.", schema(t.Gap)),
                "shed": _message("Matches that were left out.", schema(t.Shed)),
                "position": _message("How far the stream is, if nothing matches for a while.", _POSITION),
                "ack": _message("Deliveries that are done.", {"type": "object", "properties": {"ack": _IDS}}),
                "nack": _message("Deliveries to be repeated.", {"type": "object", "properties": {"nack": _IDS}}),
            },
            "schemas": schemas([t.Delivery, t.Gap, t.Shed]),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _query() -> dict[str, Any]:
    stream = next(route for route in ROUTES if route.path == "/v1/stream")
    return {
        "type": "object",
        "properties": {
            param.name: {**schema(param.type), "description": param.about}
            for param in stream.params
            if param.place == "query"
        },
    }


def _channel(address: str | None, about: str, messages: list[str], **more: Any) -> dict[str, Any]:
    named = {name: {"$ref": f"#/components/messages/{name}"} for name in messages}
    return {"address": address, "description": about, "messages": named, **more}


def _operation(action: str, channel: str, messages: list[str]) -> dict[str, Any]:
    return {
        "action": action,
        "channel": {"$ref": f"#/channels/{channel}"},
        "messages": [{"$ref": f"#/channels/{channel}/messages/{name}"} for name in messages],
    }


def _message(about: str, payload: dict[str, Any]) -> dict[str, Any]:
    return {"summary": about, "payload": payload}
