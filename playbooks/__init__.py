"""The judgement: pure rules and the data they read.

Reads texts into facts, facts into verdicts, verdicts into what is open and what follows.
No clock, no randomness, no vendor library and no IO but in `catalog` (package data) and `cli`.
"""
