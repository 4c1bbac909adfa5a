"""`baseline watch`: somebody else's launch, looked on to its end; told in time, stopped never, left as one file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from playbooks.catalog import load_catalogue
from playbooks.judging.finding import Finding
from playbooks.judging.first_failure import analyse_text
from playbooks.messages import Limits, StageLimit
from playbooks.reading.watched import WatchedRun, first_line, read_first_line
from playbooks.vocabulary import Stage
from tests.support.fake_bot import FakeBot, serving
from tests.support.labels import labels
from workers.adapters.bounded_log import BoundedLog
from workers.adapters.watched_file import write_watched
from workers.adapters.watched_sources import CommandSource
from workers.jobs.onlooking import Onlooker

LOGS = {label.path.stem: label.path for label in labels("real-vllm", "public")}


@dataclass
class Look:
    """An onlooker with a clock that is set by hand, and all it said."""

    limits: Limits = field(default_factory=Limits)
    now_s: float = 100.0
    said: list[str] = field(default_factory=list)
    verdicts: list[Finding] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.onlooker = Onlooker(
            load_catalogue(), limits=self.limits, clock=self, say=self.said.append, verdict=self.verdicts.append
        )

    def now(self) -> datetime:
        return datetime(2026, 12, 1, tzinfo=UTC) + timedelta(seconds=self.now_s)

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def forward(self, seconds: float) -> None:
        self.now_s += seconds
        self.onlooker.tick()


class TestLookingOn:
    def test_the_first_fatal_line_is_told_at_once_and_the_verdict_when_it_falls_while_the_engine_still_runs(
        self,
    ) -> None:
        look = Look()
        data = LOGS["truncated-safetensors-r1"].read_bytes()
        head, root, rest = data.partition(b"incomplete metadata, file not fully covered\n")
        look.onlooker.feed(head)
        assert not any("first fatal line" in text for text in look.said)
        assert look.onlooker.feed(root)
        assert any("first fatal line" in text and "incomplete metadata" in text for text in look.said)
        assert look.verdicts == []
        look.forward(2.5)
        assert [found.error_class for found in look.verdicts] == ["weight_files_bad"]
        look.onlooker.feed(rest)
        look.forward(10)
        found = look.onlooker.finish(WatchedRun(exit_code=1))
        assert [found.error_class for found in look.verdicts] == ["weight_files_bad"], "told once"
        assert found.root_line == look.verdicts[0].root_line

    def test_the_line_numbers_are_those_of_the_file_that_is_written(self, tmp_path: Path) -> None:
        look = Look()
        data = LOGS["truncated-safetensors-r1"].read_bytes()
        look.onlooker.feed(data)
        found = look.onlooker.finish(WatchedRun(exit_code=1))
        file = write_watched(tmp_path / "w.log", WatchedRun(exit_code=1), [data])
        assert analyse_text(file.path.read_bytes(), load_catalogue()).root_line == found.root_line

    def test_a_verdict_that_the_rest_of_the_log_changes_is_told_again(self) -> None:
        look = Look()
        look.onlooker.feed(b"INFO 12-01 02:41:03 [api_server.py:1351] vLLM API server version 0.32.0\n")
        found = look.onlooker.finish(WatchedRun(exit_code=137, oom_killed=True))
        assert found.error_class == "container_oom_killed"
        assert look.verdicts == [found]

    def test_limits_are_told_once_each_and_nothing_is_stopped(self) -> None:
        limits = Limits(stages={Stage.CONTAINER_INIT: StageLimit(silence_s=60, total_s=300)})
        look = Look(limits)
        look.forward(59)
        assert look.said == []
        look.forward(2)
        look.forward(30)
        assert len(look.said) == 1
        assert "container init is silent for 1 min" in look.said[0]
        assert "not ours" in look.said[0]
        look.onlooker.feed(b"something\n")
        look.forward(250)
        assert len(look.said) == 2
        assert "under way for 5 min" in look.said[1]
        assert look.onlooker.limits == tuple(text.partition(";")[0] for text in look.said)

    def test_a_server_that_came_up_is_told_by_its_own_word_and_no_limit_passes_after_it(self) -> None:
        look = Look()
        look.onlooker.feed(LOGS["ok-minimal-r1"].read_bytes().partition(b"Shutting down")[0] + b"\n")
        assert sum("no request was seen" in text for text in look.said) == 1
        said = len(look.said)
        look.forward(100_000)
        assert len(look.said) == said

    def test_a_secret_in_the_first_fatal_line_is_not_told(self) -> None:
        look = Look()
        look.onlooker.feed(
            b'Traceback (most recent call last):\n  File "/a/b.py", line 1, in f\nRuntimeError: HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz012345 refused\n'
        )
        look.forward(5)
        assert any("first fatal line" in text for text in look.said)
        assert not any("hf_abc" in text for text in look.said)


class TestBoundedLog:
    def test_a_short_log_is_kept_whole(self, tmp_path: Path) -> None:
        log = BoundedLog(tmp_path / "log")
        for part in (b"a\nb", b"c\n", b"", b"d"):
            log.write(part)
        log.close()
        assert b"".join(log.chunks()) == b"a\nbc\nd"
        assert log.dropped_bytes == 0

    def test_a_long_log_keeps_head_pinned_surroundings_and_tail_and_says_what_is_gone(self, tmp_path: Path) -> None:
        log = BoundedLog(tmp_path / "log", head_bytes=1000, segment_bytes=500)
        lines = [b"line %05d\n" % no for no in range(3000)]
        for no, line in enumerate(lines):
            log.write(line)
            if no == 1500:
                log.pin()
        log.close()
        kept = b"".join(log.chunks())
        on_disk = sum(path.stat().st_size for path in (tmp_path / "log").iterdir())
        assert kept.startswith(lines[0])
        assert kept.endswith(lines[-1])
        assert all(lines[no] in kept for no in range(1480, 1520))
        assert lines[700] not in kept
        assert on_disk < 6000
        assert log.dropped_bytes == sum(map(len, lines)) - on_disk
        assert kept.count(b"left out here") == 2
        assert all(line + b"\n" in {*lines} or line.startswith(b"[baseline") for line in kept.split(b"\n")[:-1])
        log.remove()
        assert not (tmp_path / "log").exists()

    def test_a_line_without_an_end_does_not_grow_without_end(self, tmp_path: Path) -> None:
        log = BoundedLog(tmp_path / "log", head_bytes=1000, segment_bytes=500)
        for _ in range(200):
            log.write(b"x" * 100)
        log.close()
        assert log.dropped_bytes > 10_000


class TestTheFile:
    def test_its_first_line_reads_back_and_any_other_line_does_not(self) -> None:
        run = WatchedRun(command=("vllm", "serve", "é\n"), exit_code=137, oom_killed=True, where="n", limits=("a",))
        assert read_first_line(first_line(run)) == run
        assert first_line(run).count(b"\n") == 1
        for line in (
            b"",
            b"# baseline watch/1 ",
            b"# baseline watch/1 {",
            b"# baseline watch/1 []",
            b"# baseline watch/2 {}",
            b"\xff",
        ):
            assert read_first_line(line) is None

    def test_its_exit_code_counts_wherever_the_file_is_read(self) -> None:
        log = b"INFO 12-01 02:41:03 [api_server.py:1351] vLLM API server version 0.32.0\n"
        file = first_line(WatchedRun(exit_code=137, oom_killed=True)) + log
        assert analyse_text(file, load_catalogue()).error_class == "container_oom_killed"
        assert analyse_text(file, load_catalogue(), oom_killed=False).error_class != "container_oom_killed"
        assert (
            analyse_text(log + first_line(WatchedRun(exit_code=137, oom_killed=True)), load_catalogue()).error_class
            != "container_oom_killed"
        )

    def test_secrets_in_command_and_log_are_taken_out_and_counted(self, tmp_path: Path) -> None:
        run = WatchedRun(command=("vllm", "serve", "--api-key", "sk-local-key-123456"))
        file = write_watched(tmp_path / "w.log", run, [b"HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz012345\nplain"])
        content = file.path.read_bytes()
        assert b"sk-local" not in content
        assert b"hf_abc" not in content
        assert file.run.redactions == 2
        assert content.endswith(b"plain")
        assert file.path.stat().st_mode & 0o777 == 0o600


def drain(source: CommandSource, within_s: float = 20) -> bytes:
    end, out = time.monotonic() + within_s, b""
    while (data := source.read(0.1)) is not None:
        assert time.monotonic() < end, f"expected the end of the source, found it open after {out!r}"
        out += data
    return out


class TestCommands:
    def test_both_streams_and_the_exit_code(self) -> None:
        source = CommandSource(("/bin/sh", "-c", "echo out; echo err >&2; exit 7"))
        assert drain(source) == b"out\nerr\n"
        assert source.ending() == (7, None)
        source.close()

    def test_a_signal_for_us_is_a_signal_for_the_command(self) -> None:
        source = CommandSource(
            ("/bin/sh", "-c", "trap 'echo got it; exit 9' TERM; echo up; while :; do sleep 0.05; done")
        )
        while source.read(5) != b"up\n":
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        assert b"got it" in drain(source)
        assert source.ending() == (9, None)
        source.close()

    def test_a_killed_command_ends_as_a_shell_tells_it(self) -> None:
        source = CommandSource(("/bin/sh", "-c", "kill -9 $$"))
        assert drain(source) == b""
        assert source.ending() == (137, None)
        source.close()

    def test_children_that_hold_the_pipe_do_not_hold_the_end(self) -> None:
        source = CommandSource(("/bin/sh", "-c", "sleep 30 & echo $!; exit 3"))
        orphan = int(drain(source, within_s=10))
        assert source.ending() == (3, None)
        source.close()
        os.kill(orphan, signal.SIGKILL)


def watch(
    folder: Path, *words: str, stdin: bytes = b"", env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    root = str(Path(__file__).resolve().parents[2])
    code = "from playbooks.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, "watch", *words],
        cwd=folder,
        input=stdin,
        capture_output=True,
        timeout=60,
        check=False,
        env={
            **{k: v for k, v in os.environ.items() if not k.startswith("BASELINE_")},
            "PYTHONPATH": root,
            **(env or {}),
        },
    )


class TestTheCommand:
    def test_output_passes_through_and_the_exit_code_is_the_commands(self, tmp_path: Path) -> None:
        log = LOGS["unknown-flag"]
        done = watch(tmp_path, "--", "/bin/sh", "-c", f"cat '{log}'; exit 2")
        assert done.returncode == 2
        assert done.stdout == log.read_bytes()
        assert b"baseline: " in done.stderr
        [file] = tmp_path.glob("baseline-watch-*.log")
        assert file.name.encode() in done.stderr
        assert file.read_bytes().partition(b"\n")[2] == log.read_bytes()
        run = read_first_line(file.read_bytes().partition(b"\n")[0])
        assert run is not None
        assert (run.exit_code, run.command[0]) == (2, "/bin/sh")

    @pytest.mark.parametrize(("name", "code"), [("ok-minimal-r1", 0), ("unknown-flag", 1)])
    def test_a_pipe_ends_with_0_or_1(self, tmp_path: Path, name: str, code: int) -> None:
        done = watch(tmp_path, "--out", "w.log", "-", stdin=LOGS[name].read_bytes())
        assert done.returncode == code, done.stderr
        assert (tmp_path / "w.log").exists()

    @pytest.mark.parametrize(
        ("words", "says"),
        [
            ([], "expected one thing to look on"),
            (["--container", "c", "-"], "expected one thing to look on"),
            (["--", "no-such-program"], "cannot start no-such-program: No such file"),
            (["--playbook", "nothing", "-"], "nothing"),
            (["--out", "none/w.log", "-"], "none/w.log"),
        ],
    )
    def test_what_cannot_be_done_is_said(self, tmp_path: Path, words: list[str], says: str) -> None:
        done = watch(tmp_path, *words)
        assert done.returncode == 2
        assert says in done.stderr.decode()
        assert b"Traceback" not in done.stderr

    def test_without_a_key_the_file_stays_and_the_way_is_told(self, tmp_path: Path) -> None:
        done = watch(tmp_path, "--incident", "INC-7", "-", stdin=LOGS["unknown-flag"].read_bytes())
        assert b"no BASELINE_NODE_KEY" in done.stderr
        assert b"drop it into the thread of INC-7" in done.stderr
        assert len(list(tmp_path.glob("baseline-watch-*.log"))) == 1

    def test_with_a_key_it_is_sent_and_leaves_no_file(self, tmp_path: Path) -> None:
        bot = FakeBot()
        (tmp_path / "key.json").write_text(bot.key_file, encoding="utf-8")
        with serving(bot):
            env = {"BASELINE_BOT_URL": bot.url, "BASELINE_NODE_KEY": str(tmp_path / "key.json")}
            done = watch(tmp_path, "--incident", "INC-7", "-", stdin=LOGS["unknown-flag"].read_bytes(), env=env)
        assert b"sent to INC-7: recorded as entry 9" in done.stderr, done.stderr
        [(offer, data)] = bot.watched
        assert (offer.incident, offer.node, offer.size_bytes) == ("INC-7", "gpu-a1", len(data))
        assert read_first_line(data.partition(b"\n")[0]) is not None
        assert not list(tmp_path.glob("baseline-watch-*.log"))
