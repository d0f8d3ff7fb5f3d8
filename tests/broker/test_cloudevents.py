"""CloudEvents: the three modes give one plain event, the reference library agrees, and what is wrong is refused with a reason."""

from __future__ import annotations

import base64
import json
from contextlib import suppress
from typing import Any

import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_http_event, to_binary_event, to_structured_event
from cloudevents.core.v1.event import CloudEvent as Reference
from hypothesis import given
from hypothesis import strategies as st

from matchwood import Engine
from matchwood.broker.cloudevents import (
    BATCH,
    STRUCTURED,
    CloudEvent,
    PlainEvent,
    is_cloud_event,
    read,
    to_cloud,
    to_plain,
    write_batch,
    write_binary,
    write_structured,
)
from matchwood.errors import MediaTypeError, RequestError, TooLargeError

DOCUMENT = {"specversion": "1.0", "id": "7", "source": "/shop", "type": "shop.offer", "data": {"price": 250}}
PLAIN = PlainEvent({"price": 250, "ce": {"id": "7", "source": "/shop", "type": "shop.offer"}}, id="/shop#7")


def structured(document: object) -> Any:
    return read({"content-type": STRUCTURED}, json.dumps(document).encode())


def batch(documents: object, **options: Any) -> Any:
    return read({"content-type": BATCH}, json.dumps(documents).encode(), **options)


def binary(**changes: str) -> Any:
    headers = {"ce-specversion": "1.0", "ce-id": "7", "ce-source": "/shop", "ce-type": "shop.offer"}
    headers |= {"content-type": "application/json"} | {name.replace("_", "-"): value for name, value in changes.items()}
    return read(headers, b'{"price": 250}')


def test_the_three_modes_give_the_same_event() -> None:
    assert structured(DOCUMENT) == binary() == PLAIN
    assert batch([DOCUMENT, DOCUMENT]) == [PLAIN, PLAIN]


def test_which_requests_are_cloud_events() -> None:
    assert is_cloud_event({"content-type": f"{STRUCTURED}; charset=utf-8"})
    assert is_cloud_event({"content-type": BATCH})
    assert is_cloud_event({"content-type": "application/json", "ce-specversion": "1.0"})
    assert not is_cloud_event({"content-type": "application/json"})
    assert not is_cloud_event({})


def test_subscriptions_see_data_and_context() -> None:
    engine = Engine()
    engine.subscribe("price < 300 AND ce.type = 'shop.offer'")
    engine.subscribe("price < 300 AND ce.type = 'shop.order'")
    assert [match.id for match in engine.match(structured(DOCUMENT).data)] == [0]


def test_until_and_trace_go_with_the_event_and_not_into_it() -> None:
    event = structured(
        {**DOCUMENT, "until": "2026-05-01T12:00:00Z", "traceparent": "00-ab-cd-01", "shard": 4, "test": True}
    )
    assert event.until == "2026-05-01T12:00:00Z"
    assert event.traceparent == "00-ab-cd-01"
    assert event.data["ce"] == {"id": "7", "source": "/shop", "type": "shop.offer", "shard": 4, "test": True}


def test_data_may_be_absent_or_base64() -> None:
    bare = {name: value for name, value in DOCUMENT.items() if name != "data"}
    assert structured(bare).data == {"ce": PLAIN.data["ce"]}
    encoded = base64.b64encode(b'{"price": 250}').decode()
    assert structured({**bare, "data_base64": encoded}) == PLAIN
    headers = {"ce-specversion": "1.0", "ce-id": "7", "ce-source": "/shop", "ce-type": "x"}
    assert read(headers, b"").data == {"ce": {"id": "7", "source": "/shop", "type": "x"}}  # type: ignore[union-attr]


def test_headers_are_percent_encoded_and_may_be_quoted() -> None:
    assert binary(ce_subject="caf%C3%A9%20%22x%22").data["ce"]["subject"] == 'café "x"'
    assert binary(ce_subject='"say \\"hi\\""').data["ce"]["subject"] == 'say "hi"'


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"specversion": "0.3"}, "'0.3' of CloudEvents is not supported"),
        ({"specversion": None}, "'specversion' is needed"),
        ({"id": ""}, "'id' is needed"),
        ({"id": 7}, "'id' is needed, a string that is not empty; got 7"),
        ({"source": None}, "'source' is needed"),
        ({"type": None}, "'type' is needed"),
        ({"data": [1]}, "must be a JSON object .*, got an array"),
        ({"data": "x"}, "got a string"),
        ({"data": 5}, "got a number"),
        ({"data": {"ce": 1}}, "attribute 'ce', which holds the context"),
        ({"data_base64": "eA=="}, "either data or data_base64"),
        ({"data": None, "data_base64": "!"}, "is not base64"),
        ({"data": None, "data_base64": 5}, "is not base64"),
        ({"data": None, "data_base64": "eA=="}, "the body is not JSON"),
        ({"datacontenttype": "text/xml"}, "must be JSON, got 'text/xml'"),
        ({"time": "yesterday"}, "'time' must be a time such as"),
        ({"time": "2026-05-01T12:00:00"}, "'time' must be a time such as"),
        ({"Shard": "x"}, "lower-case letters and digits only"),
        ({"my_ext": "x"}, "lower-case letters and digits only"),
        ({"shard": 1.5}, "must be a string, an integer or a boolean, got a number"),
        ({"shard": {}}, "got an object"),
        ({"shard": 2**31}, "integers have 32 bits"),
        ({"subject": "a\nb"}, "control characters"),
    ],
)
def test_what_is_wrong_is_refused_with_the_reason(changes: dict[str, object], says: str) -> None:
    document = {**DOCUMENT, **changes}
    with pytest.raises(RequestError, match=says):
        structured(document)
    good, bad = batch([DOCUMENT, document])
    assert good == PLAIN
    assert isinstance(bad, RequestError)


def test_bodies_that_are_no_events_are_refused() -> None:
    with pytest.raises(RequestError, match="a CloudEvent is a JSON object, got an array"):
        structured([DOCUMENT])
    with pytest.raises(RequestError, match="a batch of CloudEvents is a JSON array, got an object"):
        batch(DOCUMENT)
    with pytest.raises(RequestError, match="the body is not JSON"):
        read({"content-type": STRUCTURED}, b"\xff{")
    with pytest.raises(TooLargeError, match="the batch has 3 events; at most 2"):
        batch([DOCUMENT] * 3, max_events=2)
    with pytest.raises(MediaTypeError, match=r"'application/cloudevents\+xml' is not supported"):
        read({"content-type": "application/cloudevents+xml"}, b"<x/>")
    with pytest.raises(MediaTypeError, match="must be JSON, got 'text/plain'"):
        binary(content_type="text/plain")
    with pytest.raises(RequestError, match="is the header Content-Type"):
        binary(ce_datacontenttype="application/json")
    with pytest.raises(RequestError, match="'ce-subject' is not UTF-8"):
        binary(ce_subject="%FF")
    assert binary(content_type="application/vnd.shop+json; charset=utf-8") == PLAIN


NAMES = st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True).filter(
    lambda name: name not in {"data", "id", "source", "type", "specversion", "time", "until", "traceparent", "ce"}
)
TEXTS = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=12)
CONTEXTS = st.builds(
    lambda required, time, more: {
        **more,
        **dict(zip(("id", "source", "type"), required, strict=True)),
        **({} if time is None else {"time": time.isoformat()}),
    },
    st.tuples(TEXTS, TEXTS, TEXTS),
    st.none() | st.datetimes(timezones=st.timezones()),
    st.dictionaries(NAMES, TEXTS, max_size=3),
)
VALUES = st.dictionaries(
    TEXTS.filter(lambda name: name != "ce"), st.integers(-(2**53), 2**53) | TEXTS | st.booleans(), max_size=4
)


@given(CONTEXTS, VALUES)
def test_what_is_written_is_read_again_in_each_mode(context: dict[str, Any], data: dict[str, Any]) -> None:
    event = CloudEvent({"specversion": "1.0", **context}, data)
    try:
        plain = to_plain(event)
    except RequestError:
        return
    cloud = to_cloud(plain, source="unused", type="unused")
    media, body = write_structured(cloud)
    assert read({"content-type": media}, body) == plain
    media, body = write_batch([cloud, cloud])
    assert read({"content-type": media}, body) == [plain, plain]
    headers, body = write_binary(cloud)
    assert all(value.isascii() and value.isprintable() for value in headers.values())
    stripped = {**context, **{name: value.strip() for name, value in context.items() if isinstance(value, str)}}
    if stripped == context:
        assert read(headers, body) == plain


def test_the_reference_library_reads_what_we_write_and_we_what_it_writes() -> None:
    attributes = {"id": "7", "source": "/shop", "type": "shop.offer", "subject": "café 5%", "specversion": "1.0"}
    data = {"price": 250, "item": "téléphone"}
    theirs = Reference({**attributes, "datacontenttype": "application/json"}, data)
    ours = to_plain(CloudEvent(attributes, data))
    for message in (to_binary_event(theirs), to_structured_event(theirs)):
        event = read({name.lower(): value for name, value in message.headers.items()}, message.body)
        assert isinstance(event, PlainEvent)
        del event.data["ce"]["time"]  # the library adds it
        assert event == ours
    cloud = to_cloud(ours, source="", type="")
    media, body = write_structured(cloud)
    headers, content = write_binary(cloud)
    for message in (HTTPMessage({"content-type": media}, body), HTTPMessage(headers, content)):
        read_by_them = from_http_event(message)
        assert read_by_them.get_data() == data
        assert {name: read_by_them.get_attributes()[name] for name in attributes} == attributes


def test_a_plain_event_becomes_a_cloud_event_of_the_broker() -> None:
    event = to_cloud(
        PlainEvent({"price": 1, "ce": "mine"}, until="2026-05-01T12:00:00Z"), source="/broker", type="event", id="12"
    )
    assert event.context["id"] == "12"
    assert event.context["until"] == "2026-05-01T12:00:00Z"
    assert event.data == {"price": 1, "ce": "mine"}
    with pytest.raises(RequestError, match="'id' is needed"):
        to_cloud(PlainEvent({}), source="/broker", type="event")


@given(
    st.binary(max_size=80) | st.text(max_size=60).map(str.encode),
    st.sampled_from([STRUCTURED, BATCH, "application/json"]),
)
def test_no_body_raises_anything_but_a_refusal(body: bytes, media: str) -> None:
    headers = {"content-type": media, "ce-specversion": "1.0", "ce-id": "1", "ce-source": "s", "ce-type": "t"}
    with suppress(RequestError):
        read(headers, body)
