"""The broker: durable, ranked publish/subscribe over HTTP (`matchwood serve`). Needs the extra `broker`.

    request -> app, routes: keys, limits -> Tenant.submit -> Worker (one thread a tenant, in groups)
                                                               1. apply the group to the engine (clock = the group's time)
                                                               2. one SQLite transaction: records, matches, outbox
                                                               3. acknowledge, then hand the matches to the streams
    outbox -> consumers (pull, acknowledge) | webhooks | Kafka                    log -> SSE | WebSocket, by position

A tenant has its own engine, journal, schema and quotas, in a folder of its own:

    DIR/keys.json                     hashed keys and tenants' limits, replaced as a whole
    DIR/tenants/NAME/journal.db       SQLite: the tables of `matchwood.engine.journal`, and those of `broker.tables`
    DIR/tenants/NAME/snapshots/SEQ/   engines as `Engine.save` writes them, each with the number of its last record

**Numbers.** Every record (a change of subscriptions, an event, a digest) of a tenant has the next `seq`. The position of a
stream is the `seq` of the last record that it has seen. A delivery has the stable id `SUBSCRIPTION@SEQ`.

**Routes.** Bodies are JSON, of the types named here (`broker.types`); errors are `application/problem+json`. The key goes into
the header `Authorization: Bearer mw_...`; its tenant is the tenant of the request.

    route                               scope      request            answer
    POST   /v1/subscriptions            subscribe  NewSubscription    201 SubscriptionView, ETag; 409 if the id exists
    POST   /v1/subscriptions            subscribe  NDJSON of these    200 BulkAnswer; all usable lines are kept
    GET    /v1/subscriptions            subscribe  ?after=ID&limit=   SubscriptionPage
    GET    /v1/subscriptions/ID         subscribe                     SubscriptionView, ETag
    PUT    /v1/subscriptions/ID         subscribe  NewSubscription    200 or 201; If-Match: REVISION, If-None-Match: *
    PATCH  /v1/subscriptions/ID         subscribe  SubscriptionPatch  SubscriptionView; If-Match: REVISION
    DELETE /v1/subscriptions/ID         subscribe                     204; If-Match: REVISION
    GET    /v1/subscriptions/ID/live    subscribe  ?k=                LiveAnswer: live events that match, best first
    GET    /v1/subscriptions/ID/inside  subscribe  ?limit=            InsideAnswer: the objects inside, the longest first
    POST   /v1/events                   publish    event; see below   202 Published, PublishedMany
    GET    /v1/events                   publish    ?after=SEQ&limit=  EventPage: retained events, with the matches of each
    DELETE /v1/events/SEQ               publish                       204: a live event ends before its `until`
    POST   /v1/match                    publish    MatchQuestion      MatchAnswer; nothing is published
    POST   /v1/explain                  subscribe  ExplainQuestion    ExplainAnswer
    POST   /v1/replay                   subscribe  ReplayQuestion     ReplayAnswer: what would have matched since
    GET    /v1/stream                   subscribe  ?subscription=ID   server-sent events or a WebSocket; see below
    GET    /v1/consumers                subscribe                     ConsumerPage
    POST   /v1/consumers/NAME/pull      subscribe  PullQuestion       Deliveries
    POST   /v1/consumers/NAME/ack       subscribe  Acks               AckAnswer
    POST   /v1/consumers/NAME/nack      subscribe  Nacks              AckAnswer
    GET    /v1/dead                     manage     ?consumer=&after=  DeadPage
    POST   /v1/dead/replay              manage     DeadChoice         DeadAnswer: delivered again
    POST   /v1/dead/discard             manage     DeadChoice         DeadAnswer
    GET    /v1/hooks                    manage                        HookPage
    PUT    /v1/hooks/NAME               manage     NewHook            HookView; with the secret if the hook is new
    POST   /v1/hooks/NAME/rotate        manage                        HookView with the new secret; both sign for a day
    DELETE /v1/hooks/NAME               manage                        204
    GET    /v1/schema                   publish                       SchemaView
    PUT    /v1/schema                   manage     SchemaView         SchemaView: attributes are added, never changed
    GET    /v1/status                   manage                        StatusView
    POST   /v1/snapshot                 admin                         SnapshotAnswer
    GET    /v1/keys                     admin                         KeyPage, without secrets
    POST   /v1/keys                     admin      NewKey             201 KeyView with the key, once
    DELETE /v1/keys/ID                  admin                         204
    GET    /v1/tenants                  admin                         TenantPage
    PUT    /v1/tenants/NAME             admin      TenantSettings     TenantView; 409 if the scoring changes with subscriptions
    GET    /healthz, /readyz, /metrics, /openapi.json, /asyncapi.json: no key

**Events** are one JSON object (attributes; with `?id=` an id), NDJSON lines of objects (`application/x-ndjson`; with `?id=X` line
n has the id `X#n`, so that a batch whose answer was lost can be sent again), or CloudEvents (binary, structured, batch).
`?k=` delivers to the k best subscriptions only, `?wait=matched` returns the ranking,
`?until=INSTANT` (or the CloudEvents extension `until`) keeps the event alive for later subscriptions. An event whose id was
published within the retention is not published again: the answer names the first `seq` and says `duplicate`.

**Streams** (`Accept: text/event-stream`, or an upgrade to WebSocket) take `?subscription=ID` (several times) or `?all=1`, and
`?from=SEQ` or `Last-Event-ID`. Messages of a stream are `StreamMessage`s: `event: match` with a `Delivery`, `event: gap` if
the position is older than what is retained, `event: shed` if matches of the lowest scores were left out (`?shed=1`),
`event: position` now and then. With `?consumer=NAME` a WebSocket carries the deliveries of a durable consumer, and the client
answers `{"ack": [ID, ...]}` or `{"nack": [ID, ...]}`.
"""
