"""The claims of the papers and our targets, chapter by chapter, as data: `bench.performance` finds our figures for them."""

from bench.claims import auto, bestar, cold, covering, motree, ranked, scan, spark, vcr

CHAPTERS = (
    auto.CHAPTER,
    scan.CHAPTER,
    bestar.CHAPTER,
    ranked.CHAPTER,
    vcr.CHAPTER,
    motree.CHAPTER,
    covering.CHAPTER,
    cold.CHAPTER,
    spark.CHAPTER,
)
