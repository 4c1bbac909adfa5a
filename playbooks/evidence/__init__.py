"""Canonical bytes, redaction, hash chain, signatures and bundle. Purely data, no IO."""
