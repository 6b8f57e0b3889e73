"""Scores what any method selects against clinical reports: the protocol of VideoCAP, with intervals and tests.

match -> metrics, consistency (integers per exam) -> significance -> evaluation (figures) -> scorecard (text, JSON).
"""
