"""Domain values to Block Kit: pure functions, no IO but the text catalogues of this package.

Every text is English source text looked up through `texts.Translate`, which escapes what it inserts; every message
passes `limits`. What to say is decided in the core and the flows, how it reads is decided here.
"""
