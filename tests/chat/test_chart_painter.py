"""Pictures: of one size, the same every time, without texts on top of each other, whatever is drawn."""

from __future__ import annotations

import io
import subprocess
import sys
from itertools import combinations

import pytest
from PIL import Image

from bot.adapters.charts import PillowCharts, bars, curve
from bot.adapters.charts.axis import ticks
from bot.adapters.charts.sheet import TEXT, WIDTH, Sheet, fitted
from bot.errors import ChartNotDrawn
from playbooks.guiding import charts
from playbooks.guiding.chart_forms import Bars, Chart, Curve, Shape, Unit
from playbooks.vocabulary import Outcome
from tests.support.charts import a_ladder, a_probe, an_attempt, samples, some_attempts

LONG = "a_name_that_no_version_of_today_has_" * 9
HUGE = (1 << 61) - 1


def some_charts() -> dict[str, Chart | None]:
    ready = an_attempt(7, (4000, 9000, 900_000, 5_000_000, 40_000), Outcome.READY, finding={})
    many = [an_attempt(number, (4000, 9000, 200_000 + number * 777)) for number in range(1, 201)]
    odd = [{"stage": LONG, "started_ms": 5, "ended_ms": 9}, {"stage": "日志", "started_ms": 9, "ended_ms": None}]
    rows = [
        {"round": LONG, "name": LONG, "tokens": HUGE, "expected": HUGE, "counted": 1, "cached": HUGE, "ttft_ms": HUGE}
    ]
    return {
        "outcomes": charts.timeline(some_attempts()),
        "one attempt": charts.timeline(some_attempts()[:1]),
        "no time": charts.timeline([an_attempt(1, (0, 0, 0))]),
        "two hundred attempts": charts.timeline(many),
        "long and unknown names": charts.timeline(
            [an_attempt(1 << 40, stages=odd, finding={"stage": LONG, "error_class": LONG})]
        ),
        "one gpu": charts.memory(ready, [("all GPUs", samples(207))]),
        "sixteen gpus, three hours": charts.memory(
            ready, [(f"GPU {number}", samples(10_800, gib=60 + number)) for number in range(16)]
        ),
        "no memory used": charts.memory(ready, [("GPU 0", ((0, 0), (0, 0)))]),
        "stages in one moment": charts.memory(an_attempt(1, (0, 0, 0, 0, 1)), [(LONG, samples(9000))]),
        "probe": charts.cache_table(a_probe()),
        "probe of nothing": charts.cache_table(a_probe(rows=[{}])),
        "probe of huge numbers": charts.cache_table(a_probe(rows=rows)),
        "ladder": charts.ladder(a_ladder()),
        "ladder that failed at once": charts.ladder(a_ladder(rows=[{"question": LONG}], failed=0)),
    }


CHARTS = {name: chart for name, chart in some_charts().items() if chart is not None}


def laid_out(chart: Chart) -> Sheet:
    return bars.laid_out(chart) if isinstance(chart, Bars) else curve.laid_out(chart)


def test_each_of_them_is_a_chart() -> None:
    assert CHARTS.keys() == some_charts().keys()


@pytest.mark.parametrize("name", CHARTS)
def test_no_text_lies_on_another_or_sticks_out(name: str) -> None:
    sheet = laid_out(CHARTS[name])
    assert sheet.texts
    for text in sheet.texts:
        left, top, right, bottom = text.box
        assert left >= 0, text
        assert top >= 0, text
        assert right <= WIDTH, text
        assert bottom <= sheet.height, text
    for one, other in combinations(sheet.texts, 2):
        assert not overlap(one.box, other.box), (one.text, other.text)


@pytest.mark.parametrize("name", CHARTS)
def test_no_mark_of_an_end_lies_on_a_text(name: str) -> None:
    sheet = laid_out(CHARTS[name])
    for mark in sheet.marks:
        half = mark.size // 2
        box = (mark.at[0] - half, mark.at[1] - half, mark.at[0] + half, mark.at[1] + half)
        assert box[0] >= 0
        assert box[2] <= WIDTH
        if mark.shape is not Shape.LINE:
            assert not [text.text for text in sheet.texts if overlap(box, text.box)]


def overlap(one: tuple[int, int, int, int], other: tuple[int, int, int, int]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


@pytest.mark.parametrize("name", CHARTS)
def test_a_picture_is_one_png_of_a_phones_text_size(name: str) -> None:
    data = PillowCharts().paint(CHARTS[name])
    with Image.open(io.BytesIO(data)) as picture:
        assert (picture.format, picture.width) == ("PNG", WIDTH)
        assert picture.height < 5000
        assert picture.info.keys() <= {"gamma"}, "expected no metadata"
    assert len(data) < 300_000
    assert TEXT * 360 / WIDTH >= 11, "expected text of 11 px where a phone shows it 360 px wide"


@pytest.mark.parametrize("name", CHARTS)
def test_the_same_chart_gives_the_same_bytes(name: str) -> None:
    assert PillowCharts().paint(CHARTS[name]) == PillowCharts().paint(some_charts()[name] or CHARTS[name])


def test_the_same_chart_gives_the_same_bytes_in_another_process() -> None:
    program = (
        "import hashlib; from tests.chat.test_chart_painter import *; "
        "print(hashlib.sha256(PillowCharts().paint(CHARTS['outcomes'])).hexdigest())"
    )
    runs = {
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout for _ in "ab"
    }
    assert len(runs) == 1


def test_the_ground_is_light_so_that_no_theme_shines_through() -> None:
    with Image.open(io.BytesIO(PillowCharts().paint(CHARTS["outcomes"]))) as picture:
        whole = picture.convert("RGB")
    assert "transparency" not in picture.info
    assert min(whole.getpixel((12, 12))) >= 240  # type: ignore[arg-type]


def test_a_bar_keeps_its_place_when_its_time_is_too_short_to_be_seen() -> None:
    chart = CHARTS["outcomes"]
    assert isinstance(chart, Bars)
    widths = [area.box[2] - area.box[0] for area in laid_out(chart).areas if not area.framed]
    assert min(widths) >= 2


def test_stages_that_begin_together_share_one_number() -> None:
    chart = CHARTS["sixteen gpus, three hours"]
    assert isinstance(chart, Curve)
    assert {"1-3", "4", "5"} <= {text.text for text in laid_out(chart).texts}


@pytest.mark.parametrize(
    ("longest", "unit", "numbers"),
    [
        (1, Unit.MILLISECONDS, ["0", "1"]),
        (860_000, Unit.MILLISECONDS, ["0", "5", "10"]),
        (4100, Unit.TOKENS, ["0", "1,000", "2,000", "3,000", "4,000"]),
        (3, Unit.TOKENS, ["0", "1", "2", "3"]),
        (40 * 3_600_000, Unit.MILLISECONDS, ["0", "10", "20", "30", "40"]),
    ],
)
def test_an_axis_has_few_round_numbers(longest: int, unit: Unit, numbers: list[str]) -> None:
    assert [number for _, number in ticks(longest, unit).places] == numbers


def test_a_text_that_is_too_long_is_cut_and_other_letters_are_told() -> None:
    assert fitted("weight_loading", 1000) == "weight_loading"
    assert fitted(LONG, 200).endswith("...")
    assert fitted("日志 a", 1000) == "?? a"
    assert fitted("anything", 3) == "..."


def test_what_cannot_be_drawn_is_said() -> None:
    with pytest.raises(ChartNotDrawn, match="AttributeError"):
        PillowCharts().paint(None)  # type: ignore[arg-type]


def test_without_pillow_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("bot.adapters.charts.bars", "bot.adapters.charts.curve", "bot.adapters.charts.sheet"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    for name in ("bars", "curve", "sheet"):
        monkeypatch.delattr(f"bot.adapters.charts.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ChartNotDrawn, match="ModuleNotFoundError: import of PIL"):
        PillowCharts().paint(CHARTS["probe"])


def test_the_bot_starts_without_loading_pillow() -> None:
    program = "import sys, bot.app; print('PIL' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
