"""How much Hypothesis tries: few and the same examples in an ordinary run, more and new ones in a long one (benchmarks/fuzz.py)."""

from __future__ import annotations

import os

MORE_EXAMPLES = max(1, int(os.environ.get("BASELINE_TEST_EXAMPLES") or 1))
