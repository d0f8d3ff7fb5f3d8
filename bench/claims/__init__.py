"""The claims of the papers and our targets, by chapter; `bench.performance` looks up our figures."""

from bench.claims import (
    auto,
    bestar,
    broker,
    cold,
    covering,
    frontdoor,
    language,
    motree,
    postings,
    ranked,
    scan,
    spark,
    vcr,
)

CHAPTERS = (
    auto.CHAPTER,
    postings.CHAPTER,
    language.CHAPTER,
    scan.CHAPTER,
    bestar.CHAPTER,
    ranked.CHAPTER,
    vcr.CHAPTER,
    motree.CHAPTER,
    covering.CHAPTER,
    cold.CHAPTER,
    frontdoor.CHAPTER,
    broker.CHAPTER,
    spark.CHAPTER,
)
