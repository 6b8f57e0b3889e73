"""Tests, in the same rooms as the package."""

import os

# Threads that meet in every small sum spin while they wait: on a busy machine tests took many times longer.
for _library in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_library, "1")
