"""A feature off against on: what two starts of one baseline do not share, and nothing said of what is not there."""

from __future__ import annotations

from playbooks.judging.off_on import MOST_LINES, Launched, compare

OFF, ON = Launched(attempt=4, ready_ms=31_000, memory_bytes=1 << 34), Launched(attempt=5, ready_ms=31_500)
START = b"(EngineCore pid=%d) INFO 12-01 02:%02d:11 [core.py:1] Initializing a V1 LLM engine (v0.32.0)"
READY = b"(APIServer pid=%d) INFO: Application startup complete."


def log(pid: int, minute: int, *more: bytes) -> list[bytes]:
    return [START % (pid, minute), *more, READY % pid]


def test_two_launches_alike_differ_in_nothing_but_their_times() -> None:
    found = compare(OFF, ON, log(100, 41), log(200, 55))
    assert (found.count_off, found.count_on, found.logs_read) == (0, 0, True)
    assert (found.off.ready_ms, found.on.memory_bytes) == (31_000, None)


def test_lines_that_one_alone_has_are_shown_without_what_moves_each_time() -> None:
    cached = b"(EngineCore pid=7) INFO 12-01 02:55:12 [kv.py:9] Prefix caching with 4096 blocks of 128 tokens"
    found = compare(OFF, ON, log(100, 41, b"plain start"), log(200, 55, cached))
    assert found.only_off == ("plain start",)
    assert found.only_on == ("Prefix caching with <n> blocks of <size>",)


def test_what_is_served_after_readiness_is_no_difference_of_the_start() -> None:
    served = [*log(100, 41), b"POST /v1/completions 200"]
    assert compare(OFF, ON, log(1, 1), served).count_on == 0


def test_more_lines_than_are_shown_are_counted() -> None:
    many = [b"loading module %s" % name.encode() for name in "abcdefghij"]
    found = compare(OFF, ON, log(1, 1), log(2, 2, *many))
    assert (len(found.only_on), found.count_on) == (4, 10)


def test_a_log_that_is_not_there_leaves_the_lines_out() -> None:
    assert not compare(OFF, ON, None, log(1, 1)).logs_read


def test_a_start_without_an_end_is_bounded() -> None:
    endless = (b"line of kind %s" % chr(97 + n % 26).encode() * (n % 50 + 1) for n in range(10 * MOST_LINES))
    assert compare(OFF, ON, [], endless).count_on <= MOST_LINES
