"""What a probe of the prefix cache proves: sizes, verdicts, and everything that makes it prove less."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playbooks.judging.cache_facts import CacheConfig, CacheProbeFacts, CacheShot, Scrape
from playbooks.judging.prefix_cache import CacheVerdict, Plan, config_of, judge, plan
from playbooks.judging.request_run import RequestRun

AT = datetime(2026, 12, 1, tzinfo=UTC)
DENSE = CacheConfig(enabled=True, block=128, unit=128, max_len=2048)
HIT = {"A1": 0, "A2": 256, "A3": 256, "A4": 256, "N1": 0, "N2": 0}


def shots(cached: dict[str, int], *, number: int = 1, start: int = 0, **changes: Any) -> list[CacheShot]:
    """A round whose counters tell the same as its answers; `changes` by shot name replace fields of it."""
    queries, hits, made = start, 0, []
    for name, value in cached.items():
        before = Scrape(
            queries=queries, hits=hits, preemptions=0, running=0, waiting=0, started_ms=1, computed=queries, engines=1
        )
        queries, hits = queries + 370, hits + value
        after = before.model_copy(update={"queries": queries, "hits": hits, "computed": queries})
        run = RequestRun(
            n=1,
            started_at=AT,
            ended_ms=100,
            complete=True,
            http_status=200,
            prompt_tokens=370,
            cached_tokens=value,
            finish_reason="length",
        )
        salt = "other" if name == "N1" else "own"
        shot = CacheShot(name=name, round=number, tokens=370, salt=salt, run=run, before=before, after=after)
        made.append(shot.model_copy(update=changes.get(name, {})))
    return made


def facts(*rounds: list[CacheShot], **changes: Any) -> CacheProbeFacts:
    base: dict[str, Any] = {
        "target": "attempt 1",
        "config": DENSE,
        "prefix_tokens": 320,
        "tail_tokens": 50,
        "expected_repeat": 256,
        "expected_prefix": 256,
        "token_exact": True,
        "salted": True,
        "shots": tuple(shot for one in rounds for shot in one),
    }
    return CacheProbeFacts(**{**base, **changes})


def without_details(made: list[CacheShot]) -> list[CacheShot]:
    return [shot.model_copy(update={"run": shot.run.model_copy(update={"cached_tokens": None})}) for shot in made]


def without_counters(made: list[CacheShot]) -> list[CacheShot]:
    return [shot.model_copy(update={"before": Scrape(), "after": Scrape()}) for shot in made]


def after(shot_name: str, **changes: Any) -> list[CacheShot]:
    made = shots(HIT)
    return [
        s.model_copy(update={"after": s.after.model_copy(update=changes)}) if s.name == shot_name else s for s in made
    ]


class TestPlan:
    @pytest.mark.parametrize(
        ("config", "expected"),
        [
            pytest.param(DENSE, Plan(320, 50, 256, 256), id="block 128"),
            pytest.param(
                CacheConfig(enabled=True, block=1536, unit=1536, max_len=32768),
                Plan(3840, 50, 3072, 3072),
                id="block and unit 1536",
            ),
            pytest.param(
                CacheConfig(enabled=True, block=1536, unit=128, max_len=32768),
                Plan(3904, 50, 3840, 3840),
                id="block 1536, unit 128",
            ),
            pytest.param(
                CacheConfig(enabled=True, block=640, unit=640, max_len=2048),
                Plan(1600, 50, 1280, 1280),
                id="a hybrid's 640",
            ),
            pytest.param(
                CacheConfig(enabled=True, block=640, unit=640, max_len=1100),
                Plan(960, 50, 640, 640),
                id="room for one block only",
            ),
            pytest.param(
                CacheConfig(enabled=True, block=16, unit=16, max_len=4096), Plan(40, 7, 32, 32), id="block 16"
            ),
            pytest.param(
                CacheConfig(enabled=None, max_len=2048), Plan(1994, 50, None, None), id="nothing is known of the unit"
            ),
        ],
    )
    def test_a_prefix_is_sized_by_block_and_unit(self, config: CacheConfig, expected: Plan) -> None:
        assert plan(config) == expected

    def test_a_model_that_takes_less_than_a_block_can_never_hit(self) -> None:
        assert "nothing can ever hit" in str(plan(CacheConfig(enabled=True, block=640, unit=640, max_len=512)))

    @given(st.integers(2, 4096), st.integers(2, 4096), st.integers(16, 1 << 20))
    def test_no_unit_boundary_falls_into_the_unique_end(self, block: int, unit: int, max_len: int) -> None:
        unit = min(unit, block)
        block -= block % unit
        sized = plan(CacheConfig(enabled=True, block=block, unit=unit, max_len=max_len))
        if isinstance(sized, Plan):
            assert (sized.prefix + sized.tail - 1) // unit == sized.prefix // unit
            assert sized.prefix + sized.tail <= max_len
            assert sized.expected_prefix is not None
            assert sized.expected_prefix > 0


class TestConfig:
    def test_labels_of_a_dense_engine(self) -> None:
        labels = {
            "block_size": "128",
            "enable_prefix_caching": "True",
            "mamba_block_size": "None",
            "mamba_cache_mode": "none",
            "prefix_match_unit": "None",
        }
        assert config_of(labels, max_len=2048) == DENSE

    def test_labels_of_a_hybrid_one_with_a_finer_unit(self) -> None:
        labels = {
            "block_size": "1536",
            "enable_prefix_caching": "True",
            "mamba_block_size": "1536",
            "mamba_cache_mode": "align",
            "prefix_match_unit": "128",
            "prefix_cache_retention_interval": "0",
        }
        found = config_of(labels, max_len=9000)
        assert (found.block, found.unit, found.hybrid, found.retention) == (1536, 128, True, "0")

    def test_the_log_knows_a_larger_block_than_the_labels(self) -> None:
        assert config_of({"block_size": "16", "enable_prefix_caching": "True"}, log_block=640).block == 640

    def test_missing_labels_are_not_known(self) -> None:
        assert config_of({}) == CacheConfig()


class TestVerdict:
    @pytest.mark.parametrize(
        ("cached", "expected"),
        [
            pytest.param(HIT, "hit", id="all four as expected"),
            pytest.param({**HIT, "A3": 0, "A4": 0}, "repeat_only", id="only the exact repeat"),
            pytest.param(dict.fromkeys(HIT, 0), "miss", id="none"),
            pytest.param({**HIT, "A3": 0}, "inconclusive", id="reset in the middle: the third missed"),
            pytest.param({**HIT, "A4": 0}, "inconclusive", id="reset in the middle: the fourth missed"),
            pytest.param({**HIT, "A2": 0}, "inconclusive", id="reset before the repeat"),
            pytest.param({**HIT, "N1": 256}, "inconclusive", id="the other salt hits too"),
            pytest.param({**HIT, "N2": 256}, "inconclusive", id="another first token hits too"),
        ],
    )
    def test_one_round(self, cached: dict[str, int], expected: str) -> None:
        assert judge(facts(shots(cached))).verdict == expected

    def test_a_hybrid_model_that_keeps_a_prefix_from_its_second_request_on_hits_and_that_is_said(self) -> None:
        late = {**HIT, "A2": 0}
        hybrid = DENSE.model_copy(update={"hybrid": True, "retention": "0"})
        found = judge(facts(shots(late), shots(late, number=2, start=9000), config=hybrid))
        assert found.verdict is CacheVerdict.HIT
        assert any("from its second request on" in remark for remark in found.remarks)
        mixed = judge(facts(shots(late), shots(dict.fromkeys(HIT, 0), number=2, start=9000), config=hybrid))
        assert mixed.verdict is CacheVerdict.INCONCLUSIVE

    def test_two_rounds_must_agree(self) -> None:
        both = judge(facts(shots(HIT), shots(HIT, number=2, start=9000)))
        assert (both.verdict, "2 rounds alike" in both.grounds) == (CacheVerdict.HIT, True)
        found = judge(facts(shots(HIT), shots(dict.fromkeys(HIT, 0), number=2, start=9000)))
        assert found.verdict is CacheVerdict.INCONCLUSIVE
        assert "the rounds disagree" in found.grounds

    @pytest.mark.parametrize(
        ("probe", "expected", "says"),
        [
            pytest.param(
                facts(config=DENSE.model_copy(update={"enabled": False})),
                "disabled",
                "enable_prefix_caching=False",
                id="the engine says off",
            ),
            pytest.param(facts(why_not="too short"), "inconclusive", "too short", id="no length fits"),
            pytest.param(facts(), "inconclusive", "no request", id="nothing sent"),
            pytest.param(facts(shots(HIT)[:3]), "inconclusive", "A4 was not sent", id="cut off"),
            pytest.param(facts(after("A3", started_ms=2)), "contaminated", "restarted", id="another start time"),
            pytest.param(
                facts(after("A3", queries=0)), "contaminated", "went backwards", id="a counter goes backwards"
            ),
            pytest.param(facts(after("A3", preemptions=2)), "contaminated", "pre-empted", id="pre-emptions"),
            pytest.param(
                facts(after("A3", running=1)), "contaminated", "1 other requests", id="somebody is in the engine"
            ),
            pytest.param(
                facts(after("A3", queries=9999)), "contaminated", "others use the engine", id="more queries than asked"
            ),
            pytest.param(
                facts(after("A2", hits=0)), "inconclusive", "one of them is wrong", id="counter and answer contradict"
            ),
            pytest.param(
                facts(shots({**HIT, "A2": 370})), "inconclusive", "the answer is wrong", id="more cached than can be"
            ),
            pytest.param(
                facts(without_details(without_counters(shots(HIT)))),
                "inconclusive",
                "speed proves nothing",
                id="no channel at all",
            ),
            pytest.param(
                facts(shots(dict.fromkeys(HIT, 0)), expected_prefix=None, expected_repeat=None),
                "inconclusive",
                "unit of the cache|cache's unit",
                id="unit not known",
            ),
        ],
    )
    def test_what_proves_nothing_is_never_a_miss(self, probe: CacheProbeFacts, expected: str, says: str) -> None:
        found = judge(probe)
        assert found.verdict == expected
        assert any(part in found.grounds for part in says.split("|")), found.grounds

    def test_queries_that_do_not_move_mean_that_the_cache_is_off(self) -> None:
        still = [
            s.model_copy(
                update={
                    "before": s.after.model_copy(update={"queries": 0, "hits": 0}),
                    "after": s.after.model_copy(update={"queries": 0, "hits": 0}),
                }
            )
            for s in shots(dict.fromkeys(HIT, 0))
        ]
        assert judge(facts(still)).verdict is CacheVerdict.DISABLED

    def test_a_request_that_failed_is_no_miss_and_a_dead_engine_is_said(self) -> None:
        made = shots(HIT)
        made[2] = made[2].model_copy(
            update={"run": made[2].run.model_copy(update={"complete": False, "error": "HTTP 500"})}
        )
        found = judge(facts(made[:3], engine_alive=False))
        assert found.verdict is CacheVerdict.INCONCLUSIVE
        assert "A3 of round 1 did not complete: HTTP 500; the engine has ended" in found.grounds

    def test_less_evidence_is_said(self) -> None:
        counters = judge(facts(without_details(shots(HIT))))
        assert counters.verdict is CacheVerdict.HIT
        assert any("counters alone" in remark for remark in counters.remarks)
        answers = judge(facts(without_counters(shots(HIT)), salted=False, token_exact=False))
        assert answers.verdict is CacheVerdict.HIT
        assert {
            "answers' cached tokens alone" in " ".join(answers.remarks),
            "no cache_salt" in " ".join(answers.remarks),
        } == {True}

    def test_a_hit_of_another_length_than_expected_is_remarked(self) -> None:
        found = judge(facts(shots({**HIT, "A4": 128})))
        assert found.verdict is CacheVerdict.HIT
        assert "A4: expected 256 cached tokens, found 128" in found.remarks

    def test_the_causes_of_a_miss_are_looked_into_one_by_one(self) -> None:
        hybrid = DENSE.model_copy(update={"hybrid": True, "retention": "0", "engines": 2})
        found = judge(facts(shots(dict.fromkeys(HIT, 0)), config=hybrid))
        states = {cause.name: cause.state for cause in found.causes}
        assert states["flag"] == "excluded"
        assert states["length"] == "excluded"
        assert states["retention"] == "suspected"
        assert states["replica"] == "suspected"
        assert states["restart"] == "excluded"
        assert judge(facts(shots(HIT))).causes == ()

    def test_speed_is_never_a_ground(self) -> None:
        quick = [
            s.model_copy(update={"run": s.run.model_copy(update={"first_token_ms": 1 if s.name != "A1" else 9000})})
            for s in shots(dict.fromkeys(HIT, 0))
        ]
        assert judge(facts(quick)).verdict is CacheVerdict.MISS
