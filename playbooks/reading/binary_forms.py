"""Files that are no text, told by their first bytes, so that they are named instead of judged."""

from __future__ import annotations

LOOKED_AT = 512
"""Bytes of the head that are needed."""
_FORMS = (
    (b"\x89PNG\r\n\x1a\n", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF8", "a GIF picture"),
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a zip archive"),
    (b"\x1f\x8b", "a gzip file"),
    (b"\x28\xb5\x2f\xfd", "a zstd file"),
    (b"BZh", "a bzip2 file"),
    (b"\xfd7zXZ\x00", "an xz file"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"\x7fELF", "a program"),
    (b"SQLite format 3\x00", "a SQLite database"),
)
_TAR_AT, _TAR = 257, b"ustar"
_TEXT_MARKS = (b"\xff\xfe", b"\xfe\xff")
_CONTROL = frozenset(range(32)) - {7, 8, 9, 10, 12, 13, 27}


def binary_form(head: bytes) -> str | None:
    """Name what a file is by its first bytes, None for text of any encoding (UTF-16 included)."""
    for magic, name in _FORMS:
        if head.startswith(magic):
            return name
    if head[_TAR_AT : _TAR_AT + len(_TAR)] == _TAR:
        return "a tar archive"
    sample = head[:LOOKED_AT]
    if not sample or sample.startswith(_TEXT_MARKS) or _is_wide(sample):
        return None
    control = sum(byte in _CONTROL for byte in sample)
    return "binary data" if control > len(sample) // 20 else None


def _is_wide(sample: bytes) -> bool:
    """Whether it looks like UTF-16 without a mark: every other byte is zero."""
    even, odd = sample[0::2].count(0), sample[1::2].count(0)
    return max(even, odd) > len(sample) // 4 and min(even, odd) == 0
