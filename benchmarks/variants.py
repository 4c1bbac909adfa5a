"""Every variant of every labelled log: how many keep the verdict. `python benchmarks/variants.py [VARIANT …] [--show]`."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from playbooks.catalog import load_catalogue
from playbooks.judging.first_failure import analyse_text
from tests.support.labels import labels
from tests.support.variants import ALL, varied

FLOOR = 0.98


def main() -> int:
    show = "--show" in sys.argv
    names = [name for name in sys.argv[1:] if name != "--show"] or list(ALL)
    asked: Counter[str] = Counter()
    kept: Counter[str] = Counter()
    for label in labels("real-vllm", "public"):
        for name in names:
            made = varied(label, name)
            if made is None:
                continue
            data, moved = made
            wrong = moved.wrong(analyse_text(data, load_catalogue()))
            asked[name] += 1
            kept[name] += not wrong
            if wrong and show:
                print(f"{name}: {label.path.name}: {'; '.join(wrong)}")
    for name in names:
        print(f"{name:34} {kept[name]:4} of {asked[name]:4}")
    share = kept.total() / asked.total()
    print(f"{'all':34} {kept.total():4} of {asked.total():4} = {100 * share:.2f} %")
    return 0 if share >= FLOOR else 1


if __name__ == "__main__":
    raise SystemExit(main())
