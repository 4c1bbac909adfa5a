"""The code of the evidence page does what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.bundle_sample import GOOD

PAGE = Path("docs/evidence.md").read_text(encoding="utf-8")


def test_a_bundle_is_verified_by_hand_as_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(code) == 1
    (tmp_path / "INC-0042.zip").write_bytes(GOOD)
    monkeypatch.chdir(tmp_path)
    exec(code[0], {})  # noqa: S102 - the page's own code
    assert "the chain holds" in capsys.readouterr().out
