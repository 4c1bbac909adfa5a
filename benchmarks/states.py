"""Ten thousand generated incident states, everything that is said of each, in every language: does Slack take it?

Run: python benchmarks/states.py [--states N] [--from SEED] [--processes N]

Each message and form is checked twice: by the product's own validator, and by the stand-in's table of Slack's limits, which
was written apart from it. Text of one message: at most 10,000 characters. A seed that is printed shows its state again.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bot.blocks.elements import Block, Message
from bot.blocks.limits import MESSAGE_CHARS, view_violations, violations
from bot.blocks.texts import LANGUAGES, translator
from bot.sandbox.standin.blockcheck import check_message_blocks, check_view, text_sum
from bot.sandbox.standin.refusal import RefusedError
from bot.sandbox.standin.table import Table, load_table
from tests.support.incident_states import Dice, record, said_of


@cache
def _table() -> Table:
    return load_table()


def broken_of(seed: int) -> list[str]:
    """Return what is wrong with anything that is said of one state; empty when Slack takes it all."""
    return _judged(seed)[1]


def _judged(seed: int) -> tuple[int, list[str]]:
    """Return how much was said of one state, and what is wrong with it."""
    said, broken = 0, []
    for language in LANGUAGES:
        dice = Dice(seed)
        try:
            for name, made in said_of(dice, record(dice), translator(language)):
                said += 1
                broken += [f"seed {seed}, {language}, {name}: {why}" for why in _wrong(made)]
        except Exception as error:  # noqa: BLE001 - a state that cannot be said at all is what is looked for
            place = traceback.extract_tb(error.__traceback__)[-1]
            broken.append(
                f"seed {seed}, {language}: {type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
            )
    return said, broken


def _wrong(made: Message | Block) -> list[str]:
    if isinstance(made, Message):
        own = violations(made)
        blocks = json.loads(json.dumps(list(made.blocks)))
        if (whole := text_sum(blocks)) > MESSAGE_CHARS:
            own.append(f"{whole} characters of text")
        own += [] if made.text.strip() else ["no text alone"]
        return own + _refused(lambda: check_message_blocks(_table(), blocks))
    view = json.loads(json.dumps(made))
    return view_violations(view) + _refused(lambda: check_view(_table(), view))


def _refused(check: Callable[[], None]) -> list[str]:
    try:
        check()
    except RefusedError as error:
        return [f"the stand-in refuses: {error.error} {str(error.extra.get('errors', ''))[:300]}"]
    return []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--states", type=int, default=10_000)
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    begun, said, broken = time.perf_counter(), 0, []
    seeds = range(options.first, options.first + options.states)
    with ProcessPoolExecutor(options.processes) as pool:
        for count, wrong in pool.map(_judged, seeds, chunksize=20):
            said += count
            broken += wrong
    for line in broken[:40]:
        print(line)
    print(
        f"{options.states} states, {said} messages and forms in {len(LANGUAGES)} languages: {len(broken)} violations, "
        f"{time.perf_counter() - begun:.0f} s"
    )
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
