"""A pasted command becomes a value: what was typed, less its secrets, and a note for all that could not be taken over."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playbooks.errors import InvalidCommand
from playbooks.reading.command_values import CommandKind, MountSpec
from playbooks.reading.launch_command import read, read_words

DOCKER = r"""
docker run -it --rm --gpus all --ipc=host -p 8000:8000 \
  -v ~/.cache/huggingface:/root/.cache/huggingface:ro \
  --env "HF_TOKEN=hf_abcdefghijklmnopqrstuvwx" -e VLLM_USE_V2_MODEL_RUNNER=1 \
  --shm-size=16g --ulimit memlock=-1 --ulimit nofile=65536:524288 \
  --mount type=bind,source=/models,target=/models,readonly -m 200g \
  --entrypoint "" --network host --runtime nvidia --pid host --privileged --cap-add SYS_NICE \
  vllm/vllm-openai:kimi-k3 \
  --model moonshotai/Kimi-K3 --tensor-parallel-size=8 --trust-remote-code
"""


class TestDockerRun:
    def test_every_option_is_taken_over(self):
        command = read(DOCKER)
        assert command.kind is CommandKind.DOCKER_RUN
        assert command.image == "vllm/vllm-openai:kimi-k3"
        assert command.argv == ("--model", "moonshotai/Kimi-K3", "--tensor-parallel-size=8", "--trust-remote-code")
        assert command.env == {"HF_TOKEN": "${node:HF_TOKEN}", "VLLM_USE_V2_MODEL_RUNNER": "1"}
        assert command.mounts == (
            MountSpec("~/.cache/huggingface", "/root/.cache/huggingface", read_only=True),
            MountSpec("/models", "/models", read_only=True),
        )
        spec = command.container
        assert spec.shm_size_bytes == 16 * 1024**3
        assert (spec.ipc_mode, spec.network_mode, spec.pid_mode, spec.runtime) == ("host", "host", "host", "nvidia")
        assert spec.ulimits == {"memlock": -1, "nofile": 65536}
        assert spec.entrypoint == ()
        assert spec.memory_limit_bytes == 200 * 1024**3
        assert spec.gpus == "all"
        assert spec.privileged
        assert spec.others == (("publish", "8000:8000"), ("cap-add", "SYS_NICE"))
        assert command.redactions == 1

    @pytest.mark.parametrize(
        ("words", "expected"),
        [
            pytest.param("docker run img --a", ("--a",), id="docker"),
            pytest.param("sudo docker container run --rm img --a", ("--a",), id="container run"),
            pytest.param("/usr/bin/podman --log-level=debug run img --a", ("--a",), id="podman with a global option"),
            pytest.param("docker create -itd img --a", ("--a",), id="create, letters together"),
            pytest.param("docker run -eA=1 -v/a:/b -p8000:8000 img --a", ("--a",), id="values glued to letters"),
            pytest.param("docker run -de A=1 img --a", ("--a",), id="a switch and an option together"),
            pytest.param("docker run --read-only=true img --a", ("--a",), id="switch with a value"),
            pytest.param("docker run --privileged=false img --a", ("--a",), id="switch switched off"),
        ],
    )
    def test_forms_of_the_command(self, words, expected):
        command = read(words)
        assert command.image == "img"
        assert command.argv == expected
        assert not command.container.privileged

    def test_the_engine_behind_the_image_is_found(self):
        command = read("docker run img /opt/venv/bin/vllm serve m --port 1")
        assert command.argv == ("vllm", "serve", "m", "--port", "1")
        assert command.program == "/opt/venv/bin/vllm"

    @pytest.mark.parametrize(
        ("text", "argv"),
        [
            ("docker run --entrypoint vllm img serve m", ("vllm", "serve", "m")),
            (
                "docker run --entrypoint python3 img -m vllm.entrypoints.openai.api_server --model m",
                ("python3", "-m", "vllm.entrypoints.openai.api_server", "--model", "m"),
            ),
            ("docker run --entrypoint bash img -c 'vllm serve m'", ("vllm", "serve", "m")),
        ],
        ids=["vllm", "module", "shell"],
    )
    def test_an_entrypoint_and_arguments_are_one_program(self, text, argv):
        command = read(text)
        assert command.argv == argv
        assert command.container.entrypoint is None

    def test_another_entrypoint_stays(self):
        command = read("docker run --entrypoint /start.sh img m")
        assert command.container.entrypoint == ("/start.sh",)
        assert command.argv == ("m",)

    def test_mounts_that_are_none_are_kept_apart(self):
        text = "docker run -v /anonymous --mount type=tmpfs,target=/dev/shm,tmpfs-size=8g --mount type=tmpfs,target=/x --tmpfs /run img"
        command = read(text)
        assert command.mounts == ()
        assert command.container.shm_size_bytes == 8 * 1024**3
        assert command.container.others == (
            ("volume", "/anonymous"),
            ("mount", "type=tmpfs,target=/x"),
            ("tmpfs", "/run"),
        )

    def test_a_tmpfs_for_shared_memory_without_a_size_says_nothing(self):
        assert read("docker run --mount type=tmpfs,target=/dev/shm img").container.shm_size_bytes is None

    def test_a_variable_without_value_comes_from_the_shell_or_the_node(self):
        command = read("export A=1\ndocker run -e A -e HF_TOKEN --net none --env-file x.env img")
        assert command.env == {"A": "1", "HF_TOKEN": "${node:HF_TOKEN}"}
        assert command.container.network_mode == "none"
        assert any("--env-file x.env" in note for note in command.notes)
        assert command.redactions == 0

    def test_what_is_set_in_the_shell_is_not_in_the_container(self):
        command = read("export NCCL_DEBUG=INFO\ndocker run img m")
        assert command.env == {}
        assert "set in the shell, not in the container: NCCL_DEBUG" in command.notes

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("docker run --gpus all", "expected an image after the options"),
            ("docker run img --x && docker run --name", None),
            ("docker run --name", "expected a value after --name"),
            ("docker run --shm-size lots img", "expected a size such as 16g, found 'lots'"),
            ("docker run --ulimit memlock img", "expected --ulimit name=number"),
        ],
        ids=["no image", "a second one is not read", "no value", "no size", "no limit"],
    )
    def test_broken_ones_say_what_was_expected(self, text, message):
        if message is None:
            assert read(text).image == "img"
        else:
            with pytest.raises(InvalidCommand, match=message):
                read(text)

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("1048576", 1048576),
            ("64m", 64 << 20),
            ("10.5gb", 21 * (1 << 29)),
            ("64Gi", 64 << 30),
            ("1t", 1 << 40),
            ("2KB", 2048),
        ],
    )
    def test_sizes(self, text, expected):
        assert read(f"docker run --shm-size {text} img").container.shm_size_bytes == expected


class TestShell:
    def test_environment_wrapper_and_path(self):
        command = read(
            "export HF_HOME=/hf\nMODEL=moonshotai/Kimi-K3\n"
            "VLLM_USE_RUST_FRONTEND=1 nohup numactl --interleave=all /opt/venv/bin/vllm serve $MODEL -tp 8 > log.txt 2>&1 &"
        )
        assert command.kind is CommandKind.VLLM_SERVE
        assert command.argv == ("vllm", "serve", "moonshotai/Kimi-K3", "-tp", "8")
        assert command.env == {"HF_HOME": "/hf", "VLLM_USE_RUST_FRONTEND": "1"}
        assert command.wrapper == ("nohup", "numactl", "--interleave=all")
        assert command.program == "/opt/venv/bin/vllm"
        assert command.image is None

    def test_a_variable_is_exported_later_or_changed(self):
        command = read("A=1\nB=2\nexport A\nA=3\nvllm serve m")
        assert command.env == {"A": "3"}

    @pytest.mark.parametrize(
        "text",
        [
            "python3 -m vllm.entrypoints.openai.api_server --model m",
            "/usr/bin/python3.12 -m vllm.entrypoints.openai.api_server --model m",
            "env A=1 python -m vllm.entrypoints.openai.api_server --model m",
            "uv run python -m vllm.entrypoints.openai.api_server --model m",
        ],
    )
    def test_module_calls(self, text):
        assert read(text).argv == ("python3", "-m", "vllm.entrypoints.openai.api_server", "--model", "m")

    @pytest.mark.parametrize(
        "text",
        [
            "$ vllm serve m --x 1",
            "root@gpu-a1:~# vllm serve m --x 1",
            "```bash\nvllm serve m --x 1\n```",
            "# start it\nvllm serve m \\\n   --x 1",
            "vllm serve m \\ \n   --x 1   # with x",
            "vllm serve m\n  --x 1",
            "vllm serve m —x 1",
            "vllm serve “m” ‑‑x 1".replace("‑‑", "--"),
            "#!/bin/bash\nset -e\ncd /tmp\nvllm serve m --x 1\n",
            "vllm serve m --x 1 | tee log.txt",
            "cd /x &amp;&amp; vllm serve m --x 1 2&gt;&amp;1",
            "vllm serve m\\\r\n --x 1",
        ],
        ids=[
            "prompt",
            "root prompt",
            "fence",
            "comment",
            "blank behind the backslash",
            "no backslash",
            "long dash",
            "curly quotes",
            "script",
            "pipe",
            "escaped by the chat program",
            "carriage returns",
        ],
    )
    def test_what_people_paste(self, text):
        assert read(text).argv == ("vllm", "serve", "m", "--x", "1")

    def test_json_in_quotes_over_two_lines_stays_one_word(self):
        command = read("vllm serve m --attention-config '{\"a\":\n1}' --x")
        assert command.argv[3:] == ("--attention-config", '{"a":\n1}', "--x")

    def test_a_script_in_a_shell(self):
        command = read("bash -lc 'pip install x && export A=1 B=2; C=3 vllm serve m --x'")
        assert command.argv == ("vllm", "serve", "m", "--x")
        assert command.env == {"A": "1", "B": "2", "C": "3"}
        assert command.wrapper == ("bash", "-lc", "pip install x")
        assert any("pip install x" in note for note in command.notes)

    def test_environment_before_a_shell(self):
        command = read("env A=1 bash -c 'B=2; vllm serve m'")
        assert command.env == {"A": "1", "B": "2"}

    def test_commands_around_the_launch_are_noted(self):
        command = read("git pull\nvllm serve m\ncurl localhost")
        assert "before the launch, not taken over: git pull" in command.notes
        assert "after the launch, not taken over: curl localhost" in command.notes

    def test_what_a_shell_would_expand_is_noted(self):
        command = read("docker run -v $(pwd):/x img $MODEL --seed ${SEED:-1}")
        assert command.notes[-1] == "not known here is the value of $MODEL, ${SEED:-1}, $(pwd)"

    @pytest.mark.parametrize(
        ("text", "found"),
        [
            ("", "found nothing"),
            ("   ", "found nothing"),
            ("hello there", "found `hello there`"),
            ("vllm bench serve --model m", "`vllm bench`, which starts no server"),
            ("bash -c 'echo hi'", "found `bash"),
            ("bash start.sh", "found `bash"),
            ("bash -x", "found `bash"),
            ("bash -c", "found `bash"),
            ("bash -c 'vllm serve \"m'", "found `bash"),
            ("python3 -m http.server", "found `python3"),
            ("node -m vllm.entrypoints.openai.api_server", "found `node"),
            ("docker ps", "found `docker ps`"),
            ("docker compose run x", "found `docker compose run x`"),
            ("docker", "found `docker`"),
            ("vllm serve 'm", "expected balanced quotes"),
            ("x" * 100_001, "at most 100000 characters, found 100001"),
        ],
    )
    def test_what_is_no_launch_is_refused(self, text, found):
        with pytest.raises(InvalidCommand, match="expected") as caught:
            read(text)
        assert found in str(caught.value)

    def test_shells_in_shells_have_an_end(self):
        text = "vllm serve m"
        for _ in range(3):
            text = f"bash -c {json.dumps(text)}"
        assert read(text).argv[:2] == ("vllm", "serve")
        with pytest.raises(InvalidCommand):
            read(f"bash -c {json.dumps(text)}")


class TestDocuments:
    COMPOSE = """
services:
  db: {image: postgres}
  llm:
    image: vllm/vllm-openai:v0.27.1
    container_name: llm
    environment:
      - HF_TOKEN=${HF_TOKEN}
      - NCCL_DEBUG=INFO
      - FROM_SHELL
    env_file: secrets.env
    ipc: host
    shm_size: 16gb
    mem_limit: 100g
    cap_add: [SYS_NICE]
    privileged: true
    volumes:
      - /models:/models:ro
      - {type: bind, source: /hf, target: /hf, read_only: true}
      - /anonymous
      - {type: tmpfs, target: /t}
    ulimits: {memlock: -1, nofile: {soft: 65536, hard: 1000000}, odd: many}
    command: --model /models/k3 --tensor-parallel-size 8 --seed $$SEED
    deploy: {resources: {reservations: {devices: [{driver: nvidia, count: 4, capabilities: [gpu]}]}}}
"""

    def test_a_compose_service(self):
        command = read(self.COMPOSE)
        assert command.kind is CommandKind.COMPOSE
        assert command.image == "vllm/vllm-openai:v0.27.1"
        assert command.argv == ("--model", "/models/k3", "--tensor-parallel-size", "8", "--seed", "$SEED")
        assert command.env == {"HF_TOKEN": "${node:HF_TOKEN}", "NCCL_DEBUG": "INFO", "FROM_SHELL": "${node:FROM_SHELL}"}
        assert command.mounts == (MountSpec("/models", "/models", True), MountSpec("/hf", "/hf", True))
        spec = command.container
        assert (spec.shm_size_bytes, spec.memory_limit_bytes) == (16 << 30, 100 << 30)
        assert (spec.ipc_mode, spec.gpus, spec.privileged) == ("host", "4", True)
        assert spec.ulimits == {"memlock": -1, "nofile": 65536}
        assert spec.others == (("cap_add", '["SYS_NICE"]'),)
        assert any("env_file" in note for note in command.notes)
        assert sum("volume not taken over" in note for note in command.notes) == 2

    @pytest.mark.parametrize(
        ("body", "gpus"),
        [
            ("gpus: all", "all"),
            ("gpus: [{device_ids: ['0', '1']}]", "device=0,1"),
            ("deploy: {resources: {reservations: {devices: [{capabilities: [gpu]}]}}}", "all"),
            ("deploy: {resources: {}}", None),
            ("gpus: [all]", "all"),
        ],
    )
    def test_gpus_of_a_service(self, body, gpus):
        assert read(f"image: img\ncommand: [vllm, serve, m]\n{body}").container.gpus == gpus

    def test_a_service_alone_and_its_entrypoint(self):
        command = read(
            "image: img\nentrypoint: [vllm, serve]\ncommand: [m, --seed, 1, --flag, true]\nenvironment: {A: 1, B: , C: true}"
        )
        assert command.argv == ("vllm", "serve", "m", "--seed", "1", "--flag", "true")
        assert command.env == {"A": "1", "B": "${node:B}", "C": "true"}

    def test_several_services_that_may_be_meant(self):
        with pytest.raises(InvalidCommand, match="expected one service that launches the engine, found 2: a, b"):
            read("services:\n  a: {image: vllm/a}\n  b: {image: vllm/b}")

    POD = """
apiVersion: v1
kind: Pod
spec:
  hostIPC: true
  hostNetwork: true
  hostPID: true
  runtimeClassName: nvidia
  volumes:
  - {name: shm, emptyDir: {medium: Memory, sizeLimit: 64Gi}}
  - {name: models, hostPath: {path: /data/models}}
  containers:
  - {name: sidecar, image: proxy, args: [x]}
  - name: engine
    image: vllm/vllm-openai:v0.28.0
    command: ["bash","-c"]
    args: ["vllm serve /models/k3 --api-key=$KEY"]
    env:
    - {name: HF_TOKEN, valueFrom: {secretKeyRef: {name: a, key: b}}}
    - {name: A, value: "1"}
    envFrom: [{configMapRef: {name: c}}]
    securityContext: {privileged: true}
    volumeMounts: [{name: shm, mountPath: /dev/shm}, {name: models, mountPath: /models, readOnly: true}, {name: other, mountPath: /o}, odd]
    resources: {limits: {nvidia.com/gpu: 8, memory: 100Gi}}
"""

    def test_a_kubernetes_pod(self):
        command = read(self.POD)
        assert command.kind is CommandKind.KUBERNETES
        assert command.argv == ("vllm", "serve", "/models/k3", "--api-key=${node:KEY}")
        assert command.env == {"HF_TOKEN": "${node:HF_TOKEN}", "A": "1"}
        assert command.mounts == (MountSpec("/data/models", "/models", True), MountSpec("volume:other", "/o"))
        spec = command.container
        assert (spec.ipc_mode, spec.network_mode, spec.pid_mode, spec.runtime) == ("host", "host", "host", "nvidia")
        assert (spec.shm_size_bytes, spec.memory_limit_bytes, spec.gpus) == (64 << 30, 100 << 30, "8")
        assert spec.privileged
        assert any("envFrom" in note for note in command.notes)

    def test_a_deployment_and_shared_memory_without_a_limit(self):
        pod = "\n".join(f"    {line}" for line in self.POD.replace(", sizeLimit: 64Gi", "").splitlines()[3:])
        command = read(f"apiVersion: apps/v1\nkind: Deployment\nspec:\n  template:\n{pod}")
        assert command.container.shm_size_bytes is None
        assert any("without a size limit" in note for note in command.notes)

    def test_a_container_alone(self):
        assert read("- name: x\n  image: vllm/x\n  args: [--model, m]").argv == ("--model", "m")

    def test_several_containers_that_may_be_meant(self):
        with pytest.raises(InvalidCommand, match="expected one container that launches the engine, found 2: a, b"):
            read("containers:\n- {name: a, image: vllm/a}\n- {name: b, image: vllm/b}")

    @pytest.mark.parametrize(
        ("text", "argv"),
        [
            ('["vllm", "serve", "m"]', ("vllm", "serve", "m")),
            ('["--model", "m", 8]', ("--model", "m", "8")),
            ('{"image": "vllm/x", "command": ["--model", "m"]}', ("--model", "m")),
            ('{"containers": [{"image": "vllm/x", "args": ["--model", "m"]}]}', ("--model", "m")),
            ('[{"image": "vllm/x", "args": ["--model", "m"]}]', ("--model", "m")),
        ],
        ids=["words", "arguments alone", "service", "pod", "list of containers"],
    )
    def test_json(self, text, argv):
        assert read(text).argv == argv

    @pytest.mark.parametrize(
        ("text", "found"),
        [
            ('{"a": 1}', "found a"),
            ("{}", "an empty object"),
            ("[]", "list"),
            ("{broken", "found `{broken`"),
            ("services: [x]\nimage: {", "expected a compose or Kubernetes document in YAML"),
            ("services:\n - x", "expected services as a mapping, found list"),
            ("services:\n  a: {image: 'vllm/a', command: \"'open\"}", "balanced quotes"),
            ("image: 2026-99-99\ncommand: x", "expected a compose"),
            ("kind: Secret\ndata: {}", "found `kind: Secret`"),
            ("services: {a: 1}\nimage:\n", "found `services"),
        ],
    )
    def test_documents_that_are_none(self, text, found):
        with pytest.raises(InvalidCommand) as caught:
            read(text)
        assert found in str(caught.value)

    def test_anchors_do_not_make_a_document_endless(self):
        levels = "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9) if n else 'x'}]" for n in range(9))
        with pytest.raises(InvalidCommand):
            read(f"{levels}\nservices:\n  b: {{image: x, deploy: *a8}}\n  c: {{image: x, deploy: *a8}}")

    @pytest.mark.parametrize("text", ["[" * 50_000, '{"a":' * 50_000, "image:\n " + "[" * 20_000])
    def test_deep_nesting_is_refused(self, text):
        with pytest.raises(InvalidCommand):
            read(text)


class TestSecrets:
    @pytest.mark.parametrize(
        ("text", "kept"),
        [
            ("vllm serve m --api-key s3cr3tvalue", "${node:VLLM_API_KEY}"),
            ("vllm serve m --api-key=s3cr3tvalue", "${node:VLLM_API_KEY}"),
            ("vllm serve m --api-key s3cr3tvalue s3cr3tvalue", "${node:VLLM_API_KEY}"),
            ("vllm serve m --hf-token s3cr3tvalue", "${node:HF_TOKEN}"),
            ("VLLM_API_KEY=s3cr3tvalue vllm serve m", "${node:VLLM_API_KEY}"),
            ("export AWS_SECRET_ACCESS_KEY=s3cr3tvalue; vllm serve m", "${node:AWS_SECRET_ACCESS_KEY}"),
            ('vllm serve m --speculative-config \'{"model":"d","hf_token":"s3cr3tvalue"}\'', "${node:HF_TOKEN}"),
            ('vllm serve m --kv-transfer-config \'{"extra":[{"password":"s3cr3tvalue"}]}\'', "${node:PASSWORD}"),
            ("vllm serve m --x https://user:s3cr3tvalue@host/path", "${node:URL_USERINFO}"),
            ("HTTPS_PROXY=http://u:s3cr3tvalue@proxy:3128 vllm serve m", "${node:URL_USERINFO}"),
            ("vllm serve m --header 'Authorization: Bearer s3cr3tvalue'", "${node:AUTHORIZATION}"),
            ("docker run -e X='Authorization: Bearer s3cr3tvalue' img", "${node:AUTHORIZATION}"),
            ("docker run --label token=s3cr3tvalue img m", None),
            ("docker run -e A=1 --log-opt splunk-token=s3cr3tvalue img m", "${node:SPLUNK_TOKEN}"),
            ("bash -c 'export HF_TOKEN=s3cr3tvalue && vllm serve m'", "${node:HF_TOKEN}"),
            ("bash -c 'huggingface-cli login --token s3cr3tvalue && vllm serve m'", "${node:TOKEN}"),
            ("docker login -p s3cr3tvalue --password s3cr3tvalue2 r.io\nvllm serve m", None),
            ("vllm serve m --x hf_s3cr3tvalue0123456789", "${node:HF_TOKEN}"),
            ("vllm serve m --x AKIAS3CR3TVALUE01234", "${node:AWS_ACCESS_KEY_ID}"),
            ("docker run https://u:s3cr3tvalue@registry/img", "${node:URL_USERINFO}"),
            ("vllm serve m api_key=s3cr3tvalue", "${node:VLLM_API_KEY}"),
        ],
    )
    def test_no_secret_survives(self, text, kept):
        command = read(text)
        shown = repr(command).lower()
        assert "s3cr3tvalue" not in shown
        if kept is not None:
            assert kept in repr(command)
            assert command.redactions >= 1

    @pytest.mark.parametrize(
        "text",
        [
            "vllm serve m --max-num-batched-tokens 8192",
            "VLLM_MAX_TOKENS_PER_EXPERT_FP4_MOE=4 vllm serve m",
            "VLLM_SHARED_EXPERTS_STREAM_TOKEN_THRESHOLD=256 vllm serve m --tokenizer-mode auto",
            "TOKENIZERS_PARALLELISM=false vllm serve m --tokenizer t",
            "vllm serve m --cache-key x",
        ],
    )
    def test_tuning_is_no_secret(self, text):
        command = read(text)
        assert command.redactions == 0
        assert "${node:" not in repr(command)

    @pytest.mark.parametrize("value", ["$HF_TOKEN", "${HF_TOKEN}", "${node:HF_TOKEN}"])
    def test_a_reference_is_not_counted(self, value):
        command = read(f"docker run -e HF_TOKEN={value} img --api-key {value}")
        assert command.env["HF_TOKEN"] == "${node:HF_TOKEN}"
        assert command.argv == ("--api-key", "${node:HF_TOKEN}")
        assert command.redactions == 0

    def test_a_default_value_of_a_variable_is_a_secret(self):
        command = read("docker run -e 'HF_TOKEN=${T:-hf_default}' img")
        assert command.env["HF_TOKEN"] == "${node:HF_TOKEN}"
        assert command.redactions == 1

    def test_json_that_is_none_is_still_searched(self):
        assert "s3cr3t" not in repr(read("vllm serve m --speculative-config '{model: d, hf_token: s3cr3t}'"))

    def test_what_was_redacted_before_is_not_counted_again(self):
        command = read("docker run -e HF_TOKEN=[redacted] img --api-key [redacted]")
        assert command.env == {"HF_TOKEN": "${node:HF_TOKEN}"}
        assert command.argv == ("--api-key", "${node:VLLM_API_KEY}")
        assert command.redactions == 0

    def test_an_empty_value_stays(self):
        assert read("docker run -e HF_TOKEN= img").env == {"HF_TOKEN": ""}

    @given(st.text(alphabet=st.characters(codec="ascii", categories=("L", "N")), min_size=8, max_size=40))
    def test_any_value_of_a_secret_name_is_replaced(self, value):
        secret = f"zz{value}zz"
        command = read(f"docker run -e MY_SECRET={secret} img --api-key {secret} --x.password={secret}")
        assert secret not in repr(command)
        assert command.redactions == 3


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(text):
    try:
        command = read(text)
    except InvalidCommand:
        return
    assert isinstance(command.argv, tuple)


def test_words_of_a_process():
    assert (
        read_words(["/v/bin/python", "-m", "vllm.entrypoints.openai.api_server", "--api-key", "abcdefgh1"]).argv[-1]
        == "${node:VLLM_API_KEY}"
    )
    assert read_words(("sleep", "1")).kind is CommandKind.ARGV
