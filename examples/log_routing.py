"""Log routing: rules and records as tables, in bulk; rules that are covered by others need not be sent to the collectors.

Tables are encoded as a whole, and a batch of records is matched by one call. `reduce` returns the rules that no other rule
covers: a collector that has only these forwards every record that matches any rule.

Prints:

    5 rules, 1 rejected: row 5, 'level >='
    a collector needs 3 of them; covered: 1 by 0, 4 by 2
    record 0 -> rules [0, 3]
    record 1 -> rules [0, 1, 3]
    record 2 -> rules []
    record 3 -> rules [2, 4]
"""

import pyarrow as pa

from matchwood import Engine
from matchwood.encode.event_tables import encode_event_table
from matchwood.encode.subscription_tables import encode_subscription_table

RULES = [
    "service = 'pay' AND level >= 3",
    "service = 'pay' AND level >= 5 AND region = 'eu'",
    "latency_ms > 500",
    "level BETWEEN 3 AND 9 AND region IN ('eu', 'us')",
    "latency_ms > 2000 AND service IN ('web', 'api')",
    "level >=",
]
RECORDS = pa.table(
    {
        "service": ["pay", "pay", "web", "api"],
        "level": [3, 6, 1, 2],
        "region": ["us", "eu", "eu", None],
        "latency_ms": [80.0, 120.5, 95.0, 2750.0],
    }
)


def main() -> None:
    engine = Engine()
    rules = encode_subscription_table(pa.table({"id": range(6), "expression": RULES}), engine.schema)
    engine.subscribe_rows(rules.rows)
    (bad,) = rules.rejects
    print(f"{len(engine)} rules, 1 rejected: {bad.where}, {bad.reason.splitlines()[-2].strip()!r}")
    kept, cover = engine.reduce()
    covered = ", ".join(f"{rule} by {by}" for rule, by in sorted(cover.items()))
    print(f"a collector needs {len(kept)} of them; covered: {covered}")
    records = encode_event_table(RECORDS, engine.schema).events
    matches = engine.match_many(records)
    for record in range(records.size):
        print(f"record {record} -> rules {sorted(matches.of(record)[0].tolist())}")


if __name__ == "__main__":
    main()
