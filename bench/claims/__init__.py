"""The claims of the papers and our targets, by chapter; `bench.performance` looks up our figures."""

from bench.claims import auto, bestar, cold, covering, frontdoor, motree, postings, ranked, scan, spark, vcr

CHAPTERS = (
    auto.CHAPTER,
    postings.CHAPTER,
    scan.CHAPTER,
    bestar.CHAPTER,
    ranked.CHAPTER,
    vcr.CHAPTER,
    motree.CHAPTER,
    covering.CHAPTER,
    cold.CHAPTER,
    frontdoor.CHAPTER,
    spark.CHAPTER,
)
