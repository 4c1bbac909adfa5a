"""The node policy, rule by rule: what is refused names its rule, and no spelling slips past."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from playbooks.judging.baseline import Baseline, ContainerOptions, ImageRef, Interpreter, Mount
from playbooks.messages import Limits
from playbooks.vocabulary import JobKind
from tests.support.node_builders import baseline, job, policy
from workers.errors import InvalidPolicy, PolicyRefusal
from workers.policy import Allowed, allow_inside, allow_launch, load_policy
from workers.policy.file import ImageRule, template


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "models" / "tiny").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "models" / "link").symlink_to(tmp_path / "elsewhere")
    return tmp_path


def allowed(folder: Path, what: Baseline | None = None, *, argv: tuple[str, ...] = (), **rules: Any) -> Allowed:
    request = job(JobKind.LAUNCH, attempt=1, baseline=what or baseline(folder, argv=argv))
    return allow_launch(request, policy(folder, **rules))


def refused(folder: Path, what: Baseline | None = None, *, argv: tuple[str, ...] = (), **rules: Any) -> str:
    with pytest.raises(PolicyRefusal) as found:
        allowed(folder, what, argv=argv, **rules)
    assert f"(rule {found.value.rule})" in str(found.value)
    return found.value.rule


CODE = ["--trust-remote-code", "--tool-parser-plugin", "--reasoning-parser-plugin", "--middleware", "--worker-cls"]
CODE += ["--worker-extension-cls", "--scheduler-cls", "--logits-processors", "--config", "--log-config-file"]


@pytest.mark.parametrize("option", CODE)
def test_an_option_that_loads_code_runs_only_when_listed(folder: Path, option: str) -> None:
    assert refused(folder, argv=(option, "x")) == "code-argument"
    assert allowed(folder, argv=(option, "x"), arguments={"code": (option,)}).arguments[-2:] == (option, "x")


@pytest.mark.parametrize(
    ("argv", "rule"),
    [
        pytest.param(("--trust_remote_code",), "code-argument", id="underscores"),
        pytest.param(("--trust-remote",), "code-argument", id="shortened"),
        pytest.param(("--middleware=evil.Thing",), "code-argument", id="with an equals sign"),
        pytest.param(("--distributed-executor-backend", "evil.Executor"), "code-argument", id="class as a value"),
        pytest.param(("--kv-transfer-config", '{"kv_connector_module_path":"evil"}'), "code-argument", id="in JSON"),
        pytest.param(("--kv-transfer-config.kv_connector_module_path", "evil"), "code-argument", id="dotted JSON"),
        pytest.param(("--compilation-config", '{"backend":"evil.compile"}'), "code-argument", id="compiler backend"),
        pytest.param(("-cc.backend", "evil.compile"), "code-argument", id="compiler backend, short"),
        pytest.param(("--chat-template", "/etc/passwd"), "path", id="file elsewhere"),
        pytest.param(("--chat-template=../../etc/passwd",), "path", id="file elsewhere, relative"),
        pytest.param(("--lora-modules", "a=/etc"), "path", id="path after a name"),
        pytest.param(("--speculative-config", '{"model":"/srv/other"}'), "path", id="path in JSON"),
        pytest.param(("--allowed-local-media-path", "/"), "path", id="the whole file system"),
        pytest.param(("--uds", "/run/x.sock"), "path", id="socket"),
        pytest.param(("--otlp-traces-endpoint", "http://evil.example:4317"), "endpoint", id="foreign host"),
        pytest.param(("--chat-template", "file:///etc/passwd"), "endpoint", id="file URL"),
        pytest.param(("--host", "0.0.0.0"), "listen", id="all addresses"),
        pytest.param(("--port", "22"), "port", id="port outside the range"),
        pytest.param(("--port",), "port", id="port without a number"),
        pytest.param(("--model", "/srv/other"), "model", id="second model elsewhere"),
        pytest.param(("--model", "org/name"), "model", id="hub model"),
        pytest.param(("--model", "s3://bucket/x"), "endpoint", id="object store"),
    ],
)
def test_arguments_are_refused_by_name_of_the_rule(folder: Path, argv: tuple[str, ...], rule: str) -> None:
    assert refused(folder, argv=argv) == rule


@pytest.mark.parametrize(
    "argv",
    [
        ("--tensor-parallel-size", "8", "--enforce-eager", "--max-model-len", "4096"),
        ("--load-format", "fastsafetensors", "--gpu-memory-utilization", "0.95"),
        ("--distributed-executor-backend", "mp"),
        ("--compilation-config", '{"cudagraph_mode":"PIECEWISE"}', "-O2"),
        ("--served-model-name", "org/name", "--host", "127.0.0.1", "--port", "21000"),
        ("--seed", "-1"),
    ],
)
def test_ordinary_arguments_are_left_alone(folder: Path, argv: tuple[str, ...]) -> None:
    assert allowed(folder, argv=argv).arguments[1:] == argv


@pytest.mark.parametrize(
    "words", [(), ("serve",), ("vllm", "serve"), ("python3", "-m", "vllm.entrypoints.openai.api_server")]
)
def test_the_program_words_are_never_the_requests(folder: Path, words: tuple[str, ...]) -> None:
    model = str(folder / "models" / "tiny")
    what = baseline(folder).model_copy(update={"argv": (*words, model)})
    assert allowed(folder, what).arguments == (model,)


def test_another_program_is_taken_for_a_model_and_refused(folder: Path) -> None:
    assert refused(folder, baseline(folder).model_copy(update={"argv": ("bash", "-c", "true")})) == "model"


def test_links_are_followed_before_a_path_is_compared(folder: Path) -> None:
    what = baseline(folder).model_copy(update={"argv": (str(folder / "models" / "link"),)})
    assert refused(folder, what) == "model"


def test_a_model_that_is_missing_from_a_listed_folder_may_be_tried(folder: Path) -> None:
    model = str(folder / "models" / "none")
    assert allowed(folder, baseline(folder).model_copy(update={"argv": (model,)})).arguments == (model,)


@pytest.mark.parametrize(
    ("name", "rules", "rule"),
    [
        pytest.param("LD_PRELOAD", ("*",), "env", id="a pattern never opens the loader"),
        pytest.param("PYTHONPATH", ("PYTHON*",), "env", id="nor Python"),
        pytest.param("VLLM_PLUGINS", ("VLLM_*",), "env", id="nor plugins"),
        pytest.param("BASELINE_JOB", ("*",), "env", id="nor the marker"),
        pytest.param("FOO", ("VLLM_*",), "env", id="not listed"),
        pytest.param("VLLM_LOGGING_LEVEL", ("VLLM_*",), None, id="by pattern"),
        pytest.param("LD_LIBRARY_PATH", ("LD_LIBRARY_PATH",), None, id="by its exact name"),
    ],
)
def test_environment(folder: Path, name: str, rules: tuple[str, ...], rule: str | None) -> None:
    what = baseline(folder, env={name: "1"})
    if rule is None:
        assert allowed(folder, what, env=rules).baseline.env == {name: "1"}
    else:
        assert refused(folder, what, env=rules) == rule


def test_secrets_come_from_the_nodes_own_file(folder: Path) -> None:
    what = baseline(folder, env={"VLLM_API_KEY": "${node:KEY}"})
    assert refused(folder, what) == "secret"
    secrets = folder / "secrets.env"
    secrets.write_text("# comment\nKEY=abc=def\n", encoding="utf-8")
    secrets.chmod(0o600)
    assert allowed(folder, what, secrets_file=secrets).secrets == {"KEY": "abc=def"}
    missing = baseline(folder, env={"VLLM_X": "${node:OTHER}"})
    assert refused(folder, missing, secrets_file=secrets) == "secret"


def test_interpreters_are_compared_as_programs_not_as_link_targets(folder: Path) -> None:
    assert allowed(folder).interpreter is not None
    other = baseline(folder).model_copy(update={"interpreter": Interpreter(python=os.path.realpath(sys.executable))})
    if os.path.realpath(sys.executable) != sys.executable:
        assert refused(folder, other) == "interpreter"
    unnamed = baseline(folder).model_copy(update={"interpreter": None})
    assert allowed(folder, unnamed).interpreter is not None


def test_limits_are_capped_by_the_owner(folder: Path) -> None:
    request = job(
        JobKind.LAUNCH, attempt=1, baseline=baseline(folder), params={"hold_s": 9999}, limits=Limits(total_s=9999)
    )
    found = allow_launch(request, policy(folder, max_duration_s=100, max_hold_s=50))
    assert (found.total_s, found.hold_s) == (100, 50)


def test_without_a_file_only_reading_jobs_run(folder: Path) -> None:
    with pytest.raises(PolicyRefusal, match=r"no policy file.*\(rule no-policy\)"):
        allow_launch(job(JobKind.LAUNCH, attempt=1, baseline=baseline(folder)), None)
    allow_inside(None)
    with pytest.raises(PolicyRefusal):
        allow_inside(None, python="/usr/bin/python3")


def test_gpus_outside_the_set_are_refused(folder: Path) -> None:
    what = baseline(folder).model_copy(update={"gpus": ("GPU-a", "GPU-b")})
    assert refused(folder, what, gpus=("GPU-a",)) == "gpus"
    assert allowed(folder, gpus=("GPU-a",)).gpus == ("GPU-a",)


def container(folder: Path, *, mounts: tuple[Mount, ...] = (), **options: Any) -> Baseline:
    return Baseline(
        engine="docker",
        image=ImageRef(reference="vllm/vllm-openai:v0.32.0", digest="sha256:" + "a" * 64),
        argv=(str(folder / "models" / "tiny"),),
        mounts=mounts,
        container=ContainerOptions(**options),
    )


DOCKER: dict[str, Any] = {"engines": ("docker",), "images": (ImageRule(reference="vllm/vllm-openai:*"),)}


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        ("vllm/vllm-openai:*", True),
        ("vllm/vllm-openai:v0.32.0", True),
        ("sha256:" + "a" * 64, True),
        ("vllm/vllm-openai@sha256:" + "a" * 64, True),
        ("sha256:" + "b" * 64, False),
        ("vllm/vllm-openai:v0.31.0", False),
        ("other/*", False),
    ],
)
def test_images(folder: Path, wanted: str, fits: bool) -> None:
    rules = {**DOCKER, "images": (ImageRule(reference=wanted),)}
    if fits:
        assert allowed(folder, container(folder), **rules).image is not None
    else:
        assert refused(folder, container(folder), **rules) == "image"


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"entrypoint": ("bash",)}, "entrypoint"),
        ({"network_mode": "host"}, "network"),
        ({"ipc_mode": "container:other"}, "ipc"),
        ({"runtime": "evil"}, "runtime"),
        ({"shm_size_bytes": 1 << 60}, "shm"),
    ],
)
def test_container_options(folder: Path, options: dict[str, Any], rule: str) -> None:
    assert refused(folder, container(folder, **options), **DOCKER) == rule


def test_mounts_lie_within_listed_folders_and_are_read_only(folder: Path) -> None:
    inside = Mount(source=str(folder / "models" / "tiny"), target="/models/tiny")
    assert allowed(folder, container(folder, mounts=(inside,)), **DOCKER).mounts == (inside,)
    socket = Mount(source="/var/run/docker.sock", target="/x")
    assert refused(folder, container(folder, mounts=(socket,)), **DOCKER) == "mount"
    link = Mount(source=str(folder / "models" / "link"), target="/x")
    assert refused(folder, container(folder, mounts=(link,)), **DOCKER) == "mount"
    writable = inside.model_copy(update={"read_only": False})
    assert refused(folder, container(folder, mounts=(writable,)), **DOCKER) == "mount-write"


@pytest.mark.parametrize("engine", ["docker", "attach", "recorded"])
def test_engines_that_are_not_opened(folder: Path, engine: str) -> None:
    assert refused(folder, baseline(folder).model_copy(update={"engine": engine})) == "engine"


def test_the_template_is_a_policy_that_opens_only_what_was_named(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(template(), encoding="utf-8")
    empty, digest = load_policy(path)
    assert empty is not None
    assert (empty.engines, empty.interpreters, empty.arguments.code, len(digest)) == ((), (), (), 64)
    path.write_text(
        template(interpreters=((Path("/v/python"), Path("/v/vllm")),), model_dirs=(tmp_path,)), encoding="utf-8"
    )
    opened, _ = load_policy(path)
    assert opened is not None
    assert (opened.engines, opened.model_dirs) == (("process",), (tmp_path,))
    assert opened.summary()["interpreters"] == ["/v/python"]


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("p.toml", "schema = ", "policy file"),
        ("p.yaml", "schema: [", "policy file"),
        ("p.txt", "", "expected a name ending in .toml"),
        ("p.toml", 'schema = "baseline-node-policy/2"', "schema"),
        ("p.yaml", "schema: baseline-node-policy/1\nenginess: [docker]", "enginess"),
        ("p.yaml", "schema: baseline-node-policy/1\nports: [2, 1]", "ports"),
    ],
)
def test_a_file_that_is_no_policy_is_named_with_its_place(tmp_path: Path, name: str, text: str, says: str) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidPolicy, match=says):
        load_policy(path)


def test_a_configured_file_that_is_missing_allows_nothing(tmp_path: Path) -> None:
    with pytest.raises(InvalidPolicy, match="No such file"):
        load_policy(tmp_path / "none.toml")
    assert load_policy(None) == (None, "")
