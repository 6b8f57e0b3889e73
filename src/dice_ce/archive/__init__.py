"""Many exams, on one machine or on Ray: each ends in exactly one state, and no work is done twice.

    ARCHIVE/archive.json        says that this folder is an archive, and which
    ARCHIVE/manifest.sqlite     a row per exam: place, content, recipe, state, reason, timings; only the driver writes
    ARCHIVE/receipts/ab/….json  published last by whoever has finished an exam, named by content and recipe
    ARCHIVE/results/<exam>/     what `dice-ce summarize` writes, byte for byte
    ARCHIVE/exams.parquet findings.parquet frames/*.parquet     the same for DuckDB and pandas, always whole files
    ARCHIVE/cache/              features of exams and segments, content-addressed

An exam is known by the SHA-256 of its content, not by its path. A receipt is created once and never replaced, so that a
worker that was taken for dead and its replacement cannot both count.
"""
