"""Exam -> Features: frozen encoders, extraction on all cores, the cache."""
