"""The root command: parts are found lazily, a broken one takes nothing along, errors become messages and exit codes."""

from __future__ import annotations

import io
import json
import sys
from importlib.metadata import version
from types import SimpleNamespace

import pytest
import typer

from playbooks import cli
from playbooks.catalog import playbook_bytes
from playbooks.errors import BrokenBundle, UnreadableInput


@pytest.fixture
def run(monkeypatch, capsys):
    def call(*words):
        monkeypatch.setattr(sys, "argv", ["baseline", *words])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        out = capsys.readouterr()
        return SimpleNamespace(code=caught.value.code or 0, out=out.out, err=out.err)

    return call


@pytest.fixture
def plugins(monkeypatch):
    """Replace the installed plugins by the given ones, and count how often they are looked for."""
    asked = []

    def replace(**points):
        def parts():
            asked.append(1)
            yield from points.items()

        monkeypatch.setattr(cli, "plugin_parts", parts)
        return asked

    return replace


def part(name, error=None):
    def load():
        if error is not None:
            raise error

        def register(app):
            @app.command(name)
            def command() -> None:
                """Say hello."""
                print(f"hello from {name}")

        return register

    return load


def test_version(run):
    found = run("--version")
    assert (found.code, found.out, found.err) == (0, f"baseline {version('baseline-bot')}\n", "")


def test_help_lists_the_commands_of_core_and_plugins(run, plugins):
    plugins(extra=part("dance"))
    found = run("--help")
    assert found.code == 0
    for name in ("decide", "playbook", "rules", "dance"):
        assert f"  {name} " in found.out


def test_a_core_command_loads_no_plugin(run, plugins):
    asked = plugins(extra=part("dance"))
    assert run("playbook", "list").code == 0
    assert not asked


def test_a_plugin_s_command_runs(run, plugins):
    plugins(extra=part("dance"))
    assert run("dance").out == "hello from dance\n"


@pytest.mark.parametrize("error", [ImportError("No module named 'slack_bolt'"), SyntaxError("oops"), ValueError("bad")])
def test_a_broken_part_takes_nothing_along_and_is_named(run, plugins, error):
    plugins(broken=part("fall", error), extra=part("dance"))
    assert "hello" in run("dance").out
    found = run("fall")
    assert found.code == 2
    assert f"note: the commands of broken are not available here ({type(error).__name__}: {error}" in found.err
    assert "broken" not in run("--version").err


def test_a_known_command_says_nothing_of_broken_parts(run, plugins):
    plugins(broken=part("fall", ImportError("x")))
    assert run("playbook", "list").err == ""


def test_the_installed_plugins_are_found_by_their_group(monkeypatch):
    points = [SimpleNamespace(name="workers", load=part("b")), SimpleNamespace(name="bot", load=part("a"))]
    monkeypatch.setattr(cli, "entry_points", lambda group: points if group == "baseline.commands" else [])
    assert [name for name, _ in cli.plugin_parts()] == ["bot", "workers"]


def test_the_core_s_parts_are_its_modules():
    names = [name for name, _ in cli.core_parts()]
    assert {"playbooks.commands.decide", "playbooks.commands.playbook", "playbooks.commands.rules"} <= set(names)
    assert names == sorted(names)


def test_names_of_commands_without_a_name_come_from_the_function():
    app = typer.Typer()

    @app.command()
    def do_it() -> None: ...

    assert cli.command_names(app) == {"do-it"}


@pytest.mark.parametrize(
    ("error", "code"), [(UnreadableInput("no such log"), 2), (BrokenBundle("one byte changed"), 1)]
)
def test_errors_become_a_line_and_an_exit_code(run, plugins, error, code):
    def load():
        def register(app):
            @app.command("fail")
            def command() -> None:
                raise error

        return register

    plugins(extra=load)
    found = run("fail")
    assert (found.code, found.err) == (code, f"baseline: {error}\n")


def test_no_words_show_the_help(run, plugins):
    plugins()
    found = run()
    assert found.code == 2
    assert "Usage: baseline [OPTIONS]" in found.out + found.err


class TestPlaybook:
    def test_list(self, run):
        found = run("playbook", "list")
        assert found.code == 0
        assert [line.split()[0] for line in found.out.splitlines()] == ["generic-vllm", "kimi-k3"]

    def test_list_for_machines(self, run):
        data = json.loads(run("playbook", "list", "--json").out)
        assert [one["id"] for one in data["playbooks"]] == ["generic-vllm", "kimi-k3"]
        assert set(data["playbooks"][0]) == {"id", "title", "version", "sha256"}

    def test_show_says_what_is_not_carried_out(self, run):
        out = run("playbook", "show", "kimi-k3").out
        assert "Kimi K3 on vLLM (kimi-k3), version 1, boundaries kimi-k3" in out
        assert "Change and rollout - not carried out by this version" in out
        assert "Longer input, longer output, concurrency, in this order\n" in out
        assert "R1.1   host-driver            Driver loaded on the host\n" in out
        assert "boundaries imported" in run("playbook", "show", "generic-vllm").out

    def test_show_for_machines(self, run):
        assert json.loads(run("playbook", "show", "kimi-k3", "--json").out)["id"] == "kimi-k3"

    def test_show_of_one_that_is_not_there(self, run):
        found = run("playbook", "show", "nope")
        assert (found.code, found.err) == (2, "baseline: no playbook 'nope'; there are: generic-vllm, kimi-k3\n")

    def test_check(self, run, tmp_path):
        path = tmp_path / "mine.yaml"
        path.write_bytes(playbook_bytes("kimi-k3"))
        found = run("playbook", "check", str(path))
        assert found.code == 0
        assert found.out == f"{path}: a playbook: kimi-k3, 45 items in 8 phases\n"

    def test_check_of_a_bad_one(self, run, tmp_path):
        path = tmp_path / "mine.yaml"
        path.write_bytes(playbook_bytes("kimi-k3").replace(b"host-driver", b"Host"))
        found = run("playbook", "check", str(path))
        assert found.code == 2
        assert found.err.startswith(f"baseline: {path}: phases[0].steps[0].id: expected kebab-case")


def test_rules_prints_the_rule_book(run):
    found = run("rules")
    assert found.code == 0
    assert found.out.startswith("# Rules\n")
    assert found.out.endswith(" |\n")


class TestDecide:
    FACTS = b"schema: baseline-facts/1\noutcome: failed\nscore: 2\nstage: weight_loading\nerror_class: model_path_not_found\n"

    @pytest.fixture(autouse=True)
    def _classes(self, monkeypatch):
        """The rules need the classes' usual actions alone, whatever else the catalogue holds."""
        from playbooks.vocabulary import DecisionKind, ErrorClass

        usual = SimpleNamespace(points_to=DecisionKind.FIX_FILES)
        monkeypatch.setattr(
            "playbooks.catalog.load_catalogue",
            lambda: SimpleNamespace(classes={ErrorClass.MODEL_PATH_NOT_FOUND: usual}),
        )

    def test_for_people(self, run, tmp_path):
        path = tmp_path / "facts.yaml"
        path.write_bytes(self.FACTS)
        found = run("decide", str(path))
        assert found.code == 0
        lines = found.out.splitlines()
        assert lines[0] == "Fix the files, as the one change; then the same baseline twice."
        assert lines[1] == "fix_files, rule D-21"
        assert "Because:" in lines
        assert "  - its class points to fix_files: model_path_not_found" in lines
        assert "Not concluded:" in lines
        assert "Missing, cheapest first:" not in lines

    def test_for_machines_from_standard_input(self, run, monkeypatch):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"schema: baseline-facts/1\n")))
        data = json.loads(run("decide", "--json", "-").out)
        assert (data["kind"], data["rule"]) == ("hold", "D-99")
        assert data["missing_items"] == ["driver-verdict", "two-attempts"]

    def test_what_cannot_be_used_is_exit_code_two(self, run, tmp_path):
        found = run("decide", str(tmp_path / "gone.yaml"))
        assert (found.code, found.err) == (2, f"baseline: {tmp_path / 'gone.yaml'}: No such file or directory\n")
