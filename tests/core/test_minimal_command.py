"""The minimal command: what stays, what is left out and why, and what has to be said aloud (R4.2)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playbooks.catalog import load_boundaries
from playbooks.judging.minimal_command import as_given, derive
from playbooks.judging.option_words import Option, normalised, options_of, overridden, program_of
from playbooks.reading.command_values import CommandKind, LaunchCommand
from playbooks.reading.launch_command import read

K3 = "vllm serve moonshotai/Kimi-K3 --trust-remote-code"
QUICK_START = (
    "docker run --gpus all --ipc=host -p 8000:8000 vllm/vllm-openai:kimi-k3 moonshotai/Kimi-K3 --tensor-parallel-size 8"
    " --trust-remote-code --load-format fastsafetensors --enable-prefix-caching --enable-auto-tool-choice"
    " --tool-call-parser kimi_k3 --reasoning-parser kimi_k3"
)


@pytest.fixture(scope="module")
def boundaries():
    return load_boundaries()


@pytest.fixture
def minimal(boundaries):
    def derived(text, version=None, keep=()):
        return derive(read(text), engine_version=version, boundaries=boundaries, keep=keep)

    return derived


def test_the_official_quick_start_loses_its_features_and_nothing_else(minimal):
    found = minimal(QUICK_START)
    assert found.baseline.argv == (
        "moonshotai/Kimi-K3",
        "--load-format",
        "fastsafetensors",
        "--tensor-parallel-size",
        "8",
        "--trust-remote-code",
    )
    assert {gone.option for gone in found.removed} == {
        "--enable-prefix-caching",
        "--enable-auto-tool-choice",
        "--tool-call-parser",
        "--reasoning-parser",
        "docker --publish",
    }
    assert all(gone.why for gone in found.removed)
    assert found.added == ()
    assert found.baseline.container.ipc_mode == "host"
    assert found.baseline.image.reference == "vllm/vllm-openai:kimi-k3"


class TestCacheDefault:
    @pytest.mark.parametrize(
        ("version", "model", "said"),
        [
            pytest.param(None, "moonshotai/Kimi-K3", False, id="version not read: nothing is known of the default"),
            pytest.param("0.27.1", "moonshotai/Kimi-K3", False, id="0.27.1: off for hybrid models"),
            pytest.param("0.1.dev19262+gb6bbf29dd.d20260727", "moonshotai/Kimi-K3", False, id="branch build: off"),
            pytest.param("0.28.0", "moonshotai/Kimi-K3", True, id="0.28: on for hybrid models"),
            pytest.param("0.32.0+cpu", "/models/kimi-k3", True, id="by the name of a directory"),
            pytest.param("0.28.0", "Qwen/Qwen3-Next-80B", True, id="another hybrid model"),
            pytest.param("0.27.1", "Qwen/Qwen3-Next-80B", False, id="another hybrid model before"),
            pytest.param("0.27.1", "meta-llama/Llama-3", True, id="a dense model has been caching for long"),
            pytest.param("0.10.0", "meta-llama/Llama-3", False, id="a dense model of an old engine"),
            pytest.param("unknown", "moonshotai/Kimi-K3", False, id="no number"),
        ],
    )
    def test_the_default_is_said_aloud_where_it_is_on(self, minimal, version, model, said):
        found = minimal(f"vllm serve {model} --trust-remote-code --served-model-name x", version)
        assert ("--no-enable-prefix-caching" in found.baseline.argv) is said
        assert [item.option for item in found.added] == (["--no-enable-prefix-caching"] if said else [])

    @pytest.mark.parametrize(
        ("options", "argv"),
        [
            ("--no-enable-prefix-caching", ("--no-enable-prefix-caching",)),
            ("--enable-prefix-caching", ("--no-enable-prefix-caching",)),
            ("--no-enable-prefix-caching --enable-prefix-caching", ("--no-enable-prefix-caching",)),
        ],
    )
    def test_it_is_said_once(self, minimal, options, argv):
        assert minimal(f"{K3} {options}", "0.28.0").baseline.argv[1:-1] == argv

    def test_an_add_back_stays_and_nothing_new_is_said(self, minimal):
        found = minimal(
            f"{K3} --enable-prefix-caching --tool-call-parser x", "0.28.0", keep=("--enable-prefix-caching",)
        )
        assert "--enable-prefix-caching" in found.baseline.argv
        assert [gone.option for gone in found.removed] == ["--tool-call-parser"]
        assert found.added == ()


class TestRequiredFlags:
    def test_the_recipe_s_required_flag_is_added_with_its_source(self, minimal):
        found = minimal("vllm serve /models/Kimi-K3-NVFP4")
        assert "--trust-remote-code" in found.baseline.argv
        assert "recipe" in found.added[0].why

    def test_another_model_is_left_alone(self, minimal):
        assert minimal("vllm serve meta-llama/Llama-3").added == ()


class TestNothingIsLost:
    def test_an_unknown_option_stays_with_its_values(self, minimal):
        found = minimal(f"{K3} --made-up one two --other=3")
        assert found.baseline.argv[1:] == ("--made-up", "one", "two", "--other", "3", "--trust-remote-code")
        assert found.removed == ()

    def test_an_option_given_again_is_named(self, minimal):
        found = minimal(f"{K3} --seed 1 --seed=2")
        assert found.baseline.argv[1:3] == ("--seed", "2")
        assert [(gone.option, gone.value) for gone in found.removed] == [("--seed", "1")]

    def test_keys_behind_a_dot_are_of_their_option(self, minimal):
        found = minimal(f"{K3} --speculative-config.model x --compilation-config.level 3")
        assert [gone.option for gone in found.removed] == ["--speculative-config.model"]
        assert "--compilation-config.level" in found.baseline.argv

    def test_wrappers_and_variables(self, minimal):
        found = minimal(f"VLLM_TRACE_FUNCTION=1 NCCL_DEBUG=INFO numactl -N 0 bash -c 'pip install x; {K3}'")
        assert found.baseline.env == {"NCCL_DEBUG": "INFO"}
        assert [gone.option for gone in found.removed] == [
            "VLLM_TRACE_FUNCTION",
            "numactl",
            "-N",
            "0",
            "bash",
            "-c",
            "pip install x",
        ]

    def test_options_of_the_container_that_the_worker_has_no_place_for(self, minimal):
        found = minimal("docker run --gpus '\"device=0,1\"' --cap-add X --restart always --privileged --pid host img m")
        assert {(gone.option, gone.value) for gone in found.removed} == {
            ("docker --gpus", "device=0,1"),
            ("docker --cap-add", "X"),
            ("docker --restart", "always"),
            ("docker --privileged", None),
            ("docker --pid", "host"),
        }

    def test_the_port_is_no_variable(self, minimal):
        found = minimal(f"{K3} --port 8000 --host 0.0.0.0")
        assert found.baseline.argv == ("moonshotai/Kimi-K3", "--trust-remote-code")

    @given(
        st.lists(
            st.tuples(
                st.sampled_from(["--seed", "--dtype", "--made-up", "--enforce-eager", "-tp", "--attention-config"]),
                st.sampled_from(["1", "auto", '{"b":1,"a":[2]}', "x"]),
            ),
            unique_by=lambda pair: pair[0],
        )
    )
    def test_with_nothing_to_remove_it_is_the_command_as_given(self, pairs):
        argv = ("vllm", "serve", "meta-llama/Llama-3", *(word for pair in pairs for word in pair))
        command = LaunchCommand(CommandKind.VLLM_SERVE, argv)
        found = derive(command, engine_version=None, boundaries=load_boundaries())
        assert found.baseline == as_given(command)
        assert (found.removed, found.added) == ((), ())
        again = derive(command.having(argv=found.baseline.argv), engine_version=None, boundaries=load_boundaries())
        assert again.baseline.argv == found.baseline.argv


class TestBaseline:
    def test_order_and_spelling_of_arguments_mean_nothing(self):
        one = as_given(
            read('vllm serve m --tensor-parallel-size=8 --attention-config \'{"a":1, "b":2}\' --trust_remote_code')
        )
        other = as_given(read('vllm serve m --trust-remote-code -tp 8 --attention-config \'{"b":2,"a":1}\''))
        assert one.digest == other.digest

    def test_gpus_by_uuid_are_frozen(self):
        text = "docker run --gpus device=GPU-bbbb,GPU-aaaa img m"
        assert as_given(read(text)).gpus == ("GPU-aaaa", "GPU-bbbb")

    def test_a_digest_in_the_reference(self):
        image = as_given(read(f"docker run img@sha256:{'a' * 64} m")).image
        assert (image.reference, image.digest) == ("img", f"sha256:{'a' * 64}")

    @pytest.mark.parametrize(
        ("text", "entrypoint", "argv"),
        [
            ("docker run img m --a", None, ("m", "--a")),
            ("docker run img vllm serve m", ("vllm", "serve"), ("m",)),
            ("docker run img /v/bin/vllm serve m", ("/v/bin/vllm", "serve"), ("m",)),
            ("docker run --entrypoint /start.sh img m", ("/start.sh",), ("m",)),
            (
                "docker run img python3 -m vllm.entrypoints.openai.api_server --model m",
                ("python3", "-m", "vllm.entrypoints.openai.api_server"),
                ("--model", "m"),
            ),
        ],
        ids=["of the image", "typed", "by path", "another", "module"],
    )
    def test_program_words_behind_the_image_are_its_entrypoint(self, text, entrypoint, argv):
        baseline = as_given(read(text))
        assert baseline.container.entrypoint == entrypoint
        assert baseline.argv == argv

    @pytest.mark.parametrize(
        ("text", "python"),
        [
            ("/v/bin/vllm serve m", "/v/bin/python"),
            ("/v/bin/python3 -m vllm.entrypoints.openai.api_server --model m", "/v/bin/python3"),
            ("vllm serve m", None),
        ],
    )
    def test_the_interpreter_of_a_process(self, text, python):
        baseline = as_given(read(text))
        assert baseline.engine == "process"
        assert (baseline.interpreter.python if baseline.interpreter else None) == python


class TestOptionWords:
    @pytest.mark.parametrize(
        ("words", "expected"),
        [
            ("serve m --a", [Option("", ("m",)), Option("--a")]),
            ("--enforce-eager m", [Option("--enforce-eager"), Option("", ("m",))]),
            ("--dtype auto m --a", [Option("--dtype", ("auto",)), Option("", ("m",)), Option("--a")]),
            ("--model m --enforce-eager x", [Option("--model", ("m",)), Option("--enforce-eager", ("x",))]),
            (
                "-m m -O3 -tp 2",
                [
                    Option("--model", ("m",)),
                    Option("--optimization-level", ("3",)),
                    Option("--tensor-parallel-size", ("2",)),
                ],
            ),
            ("m -cc.mode 3", [Option("", ("m",)), Option("--compilation-config.mode", ("3",))]),
            ("m --x -1 --y -0.5", [Option("", ("m",)), Option("--x", ("-1",)), Option("--y", ("-0.5",))]),
            ("m --x -", [Option("", ("m",)), Option("--x", ("-",))]),
            ("m --x=", [Option("", ("m",)), Option("--x", ("",))]),
            ("m --x {broken", [Option("", ("m",)), Option("--x", ("{broken",))]),
            ("", []),
        ],
    )
    def test_words_are_grouped(self, words, expected):
        assert list(options_of(tuple(words.split()))) == expected

    def test_options_that_add_up_are_all_kept(self):
        options = options_of(("m", "--middleware", "a", "--middleware", "b", "--x", "1", "--no-x"))
        assert normalised(options) == ("m", "--middleware", "a", "--middleware", "b", "--no-x")
        assert overridden(options) == (Option("--x", ("1",)),)

    def test_program_words(self):
        assert program_of(("vllm", "serve", "m")) == ("vllm", "serve")
        assert program_of(("m",)) == ()
