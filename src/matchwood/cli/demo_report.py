"""The demo's report: one HTML page that needs nothing else. A map, ranked tables with reasons, timings, rejects."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from matchwood.workloads import City

if TYPE_CHECKING:
    from matchwood.spark.showcase import Ranked

_WEIGHT = re.compile(r" \^([0-9.e-]+)")
_NOBODY = "#9aa5b1"
MAP_SPOTS = 1_500
MAP_WIDTH, MAP_HEIGHT = 620.0, 620.0


def page(city: City, facts: dict[str, Any], seconds: dict[str, float]) -> str:
    """The whole page."""
    verdict = facts["evaluation"]
    outcome = "no fault" if verdict.passed else f"{len(verdict.faults)} faults"
    index = facts["index"]
    rate = facts["events"] / max(next(s for name, s in seconds.items() if name.startswith("match")), 1e-9)
    tiles = (
        (f"{facts['subscriptions']:,.0f}", "saved searches"),
        (f"{facts['events']:,}", "offers of one day"),
        (f"{facts['matches']:,}", f"matches, best {facts['k']} of each offer"),
        (f"{facts['matched'] / max(facts['events'], 1):.0%}", "of the offers have a match"),
        (f"{rate:,.0f}/s", "offers matched, job start included"),
        (outcome, f"oracle, {verdict.judged:,} judgements"),
    )
    body = "".join(
        f'<div class="tile"><b>{_text(value)}</b><span>{_text(label)}</span></div>' for value, label in tiles
    )
    sections = (
        f'<div class="tiles">{body}</div>',
        '<div class="columns"><section><h2>The city</h2>' + _map(city, facts["dots"]) + "</section>",
        "<section><h2>Stages</h2>" + _stages(seconds) + _index(index, verdict) + "</section></div>",
        "<h2>Offers and who hears of them first</h2>" + "".join(_offer(ranked) for ranked in facts["ranked"]),
        "<h2>What was rejected, and why</h2>" + _rejects(facts["rejects"]),
        "<h2>What searches ask for and offers say</h2>" + _attributes(facts["attributes"]),
    )
    return _PAGE.replace("{{body}}", "\n".join(sections)).replace("{{style}}", _STYLE)


def _map(city: City, dots: Any) -> str:
    spots = city.hotspots()
    top = np.argsort(spots.pickups)[::-1][:MAP_SPOTS]
    lon, lat = (dots.column(name).to_numpy(zero_copy_only=False).astype(float) for name in ("lon", "lat"))
    best = np.nan_to_num(dots.column("best").to_numpy(zero_copy_only=False).astype(float), nan=-np.inf)
    west, east = np.quantile(np.concatenate([lon, spots.lon[top]]), [0.005, 0.995])
    south, north = np.quantile(np.concatenate([lat, spots.lat[top]]), [0.005, 0.995])
    scale = min(MAP_WIDTH / ((east - west) * np.cos(np.radians((south + north) / 2))), MAP_HEIGHT / (north - south))

    def at(x: float, y: float) -> tuple[float, float]:
        across = (x - (west + east) / 2) * np.cos(np.radians((south + north) / 2)) * scale + MAP_WIDTH / 2
        return round(float(across), 1), round(float(MAP_HEIGHT / 2 - (y - (south + north) / 2) * scale), 1)

    drawn = []
    for s in top:
        x, y = at(spots.lon[s], spots.lat[s])
        r = 2.0 + 7.0 * float(np.sqrt(spots.pickups[s] / spots.pickups[top[0]]))
        drawn.append(f'<circle cx="{x}" cy="{y}" r="{r:.1f}" class="spot"/>')
    found = best[np.isfinite(best)]
    low, high = np.quantile(found, [0.02, 0.98]) if len(found) else (0.0, 1.0)
    for i in np.argsort(best):
        x, y = at(lon[i], lat[i])
        if 0 <= x <= MAP_WIDTH and 0 <= y <= MAP_HEIGHT:
            r, colour = (
                (2.2, _colour((best[i] - low) / max(high - low, 1e-9))) if np.isfinite(best[i]) else (1.4, _NOBODY)
            )
            drawn.append(f'<circle cx="{x}" cy="{y}" r="{r}" fill="{colour}"/>')
    legend = (
        f'<p class="legend"><i class="spot"></i>hot spot <i style="background:{_NOBODY}"></i>offer without a match '
        f'<i style="background:{_colour(0.0)}"></i>best score {low:.2f} <i style="background:{_colour(1.0)}"></i>{high:.2f}</p>'
    )
    return f'<svg viewBox="0 0 {MAP_WIDTH:.0f} {MAP_HEIGHT:.0f}" role="img" aria-label="map">{"".join(drawn)}</svg>{legend}'


def _colour(share: float) -> str:
    """From yellow to a dark red."""
    at = float(np.clip(share, 0.0, 1.0))
    return f"hsl({48 - 48 * at:.0f} 92% {60 - 26 * at:.0f}%)"


def _stages(seconds: dict[str, float]) -> str:
    longest = max(seconds.values())
    rows = "".join(
        f"<tr><td>{_text(name)}</td><td class=n>{s:.1f} s</td>"
        f'<td class="bar"><div style="width:{100 * s / longest:.1f}%"></div></td></tr>'
        for name, s in seconds.items()
    )
    total = f"<tr><td><b>all</b></td><td class=n><b>{sum(seconds.values()):.1f} s</b></td><td></td></tr>"
    return f'<table class="stages">{rows}{total}</table>'


def _index(index: Any, verdict: Any) -> str:
    figures = (
        (
            "index",
            f"{index.index}, version {index.version}, {len(index.shards)} shard(s), {index.bytes / 1e6:,.1f} MB mapped",
        ),
        ("rows", f"{index.counts['rows']:,.0f} of {index.counts['subscriptions']:,.0f} subscriptions"),
        ("matches an offer", f"{verdict.matches_per_event:.2f}"),
        ("rows verified an offer", f"{verdict.candidates_per_event:,.0f}"),
    )
    return (
        "<table>" + "".join(f"<tr><td>{name}</td><td>{_text(value)}</td></tr>" for name, value in figures) + "</table>"
    )


def _offer(ranked: Ranked) -> str:
    rows = "".join(
        f"<tr><td class=n>{rank}</td><td class=n>{id_}</td><td class=n>{score:.4f}</td><td><details>"
        f"<summary>{_text(_WEIGHT.sub('', search))}</summary><pre>{_text(_WEIGHT.sub(_short, why))}</pre></details></td></tr>"
        for rank, id_, score, search, why in ranked.hits
    )
    head = "<tr><th>rank</th><th>search</th><th>score</th><th>saved search (open it for the explanation)</th></tr>"
    why = (
        f"<h4>Explanation of the first match</h4><pre>{_text(_WEIGHT.sub(_short, ranked.hits[0][4]))}</pre>"
        if ranked.hits
        else ""
    )
    return f"<h3>Offer {ranked.id}</h3><p>{_text(ranked.facts)}</p><table>{head}{rows}</table>{why}"


def _rejects(rejects: list[Any]) -> str:
    rows = "".join(
        f"<tr><td>{_text(row['source'])}</td><td><pre>{_text(row['reason'])}</pre></td><td><code>{_text(row['content'][:200])}</code></td></tr>"
        for row in rejects
    )
    return f"<table><tr><th>file</th><th>reason</th><th>record</th></tr>{rows}</table>"


def _attributes(attributes: list[dict[str, Any]]) -> str:
    rows = "".join(
        f"<tr><td>{_text(a['attribute'])}</td><td>{_text(a['type'] or '')}</td><td class=n>{a['subscriptions']:,}</td>"
        f"<td class=n>{a['events']:,}</td><td class=n>{a['nulls']:,}</td><td class=n>{a['distinct_values']:,.0f}</td>"
        f"<td class=n>{'' if a['selectivity'] is None else format(a['selectivity'], '.3f')}</td></tr>"
        for a in attributes
    )
    names = (
        "attribute",
        "type",
        "searches that name it",
        "offers that have it",
        "offers that lack it",
        "distinct values",
        "selectivity",
    )
    return "<table><tr>" + "".join(f"<th>{name}</th>" for name in names) + f"</tr>{rows}</table>"


def _short(weight: re.Match[str]) -> str:
    return f" ^{float(weight[1]):.3g}"


def _text(value: object) -> str:
    return html.escape(str(value))


_STYLE = """
:root{font:15px/1.45 system-ui,sans-serif;color:#1f2933;background:#f7f8fa}
body{max-width:1240px;margin:0 auto;padding:1.5rem}
h1{font-size:1.6rem;margin:0}
h2{font-size:1.15rem;margin:1.6rem 0 .6rem}h3{margin:1.2rem 0 .2rem;font-size:1rem}h4{margin:.6rem 0 .2rem}
.tiles{display:flex;flex-wrap:wrap;gap:.7rem;margin:1rem 0}
.tile{background:#fff;border:1px solid #e1e5ea;border-radius:8px;padding:.6rem .9rem;flex:1 1 150px}
.tile b{display:block;font-size:1.35rem}.tile span{color:#616e7c;font-size:.85rem}
.columns{display:grid;grid-template-columns:minmax(0,1.1fr) minmax(0,1fr);gap:1.2rem}
@media(max-width:900px){.columns{grid-template-columns:1fr}}
svg{width:100%;background:#fff;border:1px solid #e1e5ea;border-radius:8px}
.spot{fill:#cbd8ea;background:#cbd8ea}circle.spot{opacity:.55}
.legend i{display:inline-block;width:.75em;height:.75em;border-radius:50%;margin:0 .3em 0 .9em}
table{border-collapse:collapse;background:#fff;width:100%;margin:.3rem 0;font-size:.88rem}
td,th{border:1px solid #e1e5ea;padding:.25rem .5rem;text-align:left;vertical-align:top;overflow-wrap:anywhere}
th{background:#eef1f5;white-space:nowrap}.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.stages td{border:0}.bar{width:55%}.bar div{background:#4c78a8;height:.9em;border-radius:2px}
pre{margin:.2rem 0;white-space:pre-wrap;font-size:.82rem}code{font-size:.82rem}summary{cursor:pointer}
footer{margin-top:2rem;color:#616e7c;font-size:.85rem}
"""
_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Matchwood: a day in a seeded city</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>{{style}}</style></head><body>
<h1>Matchwood: a day in a seeded city</h1>
<p>People have saved searches with weights; offers come in at hot spots. Every offer was matched with every search, exactly,
and the best are told first.</p>
{{body}}
<footer>Made by <code>matchwood demo</code> on Spark; the city is generated from a seed.</footer></body></html>
"""
