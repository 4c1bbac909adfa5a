"""Facts to verdicts: first failure, boundary, baseline, consistency, stability. Pure functions over values."""
