"""The JSON of docker becomes fields of a fingerprint, and a container's inspection its launch command."""

from __future__ import annotations

import json

import pytest

from playbooks.errors import UnreadableInput
from playbooks.reading import docker_inspect
from playbooks.reading.command_values import CommandKind, MountSpec
from playbooks.reading.fields import value_of
from playbooks.reading.launch_command import read as read_command
from playbooks.vocabulary import FieldStatus

IMAGE_ID = "sha256:" + "a" * 64
DIGEST = "sha256:" + "d" * 64
IMAGE = {
    "Id": IMAGE_ID,
    "RepoTags": ["vllm/vllm-openai:v0.28.0"],
    "RepoDigests": [f"vllm/vllm-openai@{DIGEST}"],
    "Created": "2026-08-20T10:00:00Z",
    "Architecture": "amd64",
    "Size": 21_000_000_000,
    "Config": {
        "Env": ["PATH=/usr/bin", "CUDA_VERSION=13.0.1", "NVIDIA_REQUIRE_CUDA=cuda>=13.0", "BUILD_TOKEN=t0psecret"],
        "Labels": {"org.opencontainers.image.version": "24.04"},
        "Entrypoint": ["vllm", "serve"],
        "Cmd": None,
    },
}
CONTAINER = {
    "Id": "3f2a",
    "Name": "/k3",
    "Image": IMAGE_ID,
    "Created": "2026-09-01T10:00:00Z",
    "RestartCount": 2,
    "State": {
        "Status": "exited",
        "ExitCode": 137,
        "OOMKilled": True,
        "Error": "",
        "StartedAt": "2026-09-01T10:00:01Z",
        "FinishedAt": "0001-01-01T00:00:00Z",
        "Health": {"Status": "unhealthy"},
    },
    "Config": {
        "Image": "vllm/vllm-openai:v0.28.0",
        "Env": [
            "PATH=/usr/bin",
            "CUDA_VERSION=13.0.1",
            "HF_TOKEN=hf_t0psecret0123456789",
            "NCCL_DEBUG=INFO",
            "NV_X=1",
            "ODD",
        ],
        "Entrypoint": ["vllm", "serve"],
        "Cmd": ["moonshotai/Kimi-K3", "--api-key", "t0psecret"],
    },
    "HostConfig": {
        "ShmSize": 64 << 20,
        "IpcMode": "private",
        "PidMode": "",
        "NetworkMode": "bridge",
        "Runtime": "nvidia",
        "Memory": 0,
        "Privileged": False,
        "CapAdd": ["SYS_PTRACE", "SYS_NICE"],
        "SecurityOpt": None,
        "RestartPolicy": {"Name": "always"},
        "Ulimits": [{"Name": "memlock", "Soft": -1, "Hard": -1}, {"Name": "odd"}],
        "DeviceRequests": [{"Driver": "", "Count": -1, "DeviceIDs": None, "Capabilities": [["gpu"]]}],
        "Devices": [{"PathOnHost": "/dev/infiniband/uverbs0"}],
        "Binds": ["/models:/models:ro", "https://u:t0psecret@h:/x"],
        "CgroupParent": "",
    },
    "Mounts": [
        {"Type": "bind", "Source": "/models", "Destination": "/models", "RW": False},
        {"Type": "volume", "Name": "hf", "Destination": "/hf", "RW": True},
        {"Type": "odd"},
    ],
}
INFO = {
    "ServerVersion": "28.1",
    "Runtimes": {"runc": {}, "nvidia": {}},
    "DefaultRuntime": "runc",
    "CDISpecDirs": ["/etc/cdi"],
    "DiscoveredDevices": [{"Source": "cdi", "ID": "nvidia.com/gpu=all"}],
    "CgroupVersion": "2",
    "CgroupDriver": "systemd",
    "LiveRestoreEnabled": False,
    "KernelVersion": "6.8.0",
    "OperatingSystem": "Ubuntu 24.04",
    "Architecture": "x86_64",
    "Name": "gpu-a1",
    "NCPU": 192,
    "MemTotal": 2_000_000_000_000,
}


def test_a_container():
    facts = docker_inspect.read(json.dumps([CONTAINER]))
    expected = {
        "container.image_id": IMAGE_ID,
        "container.image_reference": "vllm/vllm-openai:v0.28.0",
        "container.name": "k3",
        "container.status": "exited",
        "container.exit_code": 137,
        "container.oom_killed": True,
        "container.restart_count": 2,
        "container.restart_policy": "always",
        "container.health": "unhealthy",
        "container.shm_bytes": 64 << 20,
        "container.ipc_mode": "private",
        "container.runtime": "nvidia",
        "container.cap_add": ["SYS_NICE", "SYS_PTRACE"],
        "container.security_opt": [],
        "container.ulimits": {"memlock": -1, "odd": None},
        "container.device_requests": [{"driver": "", "count": -1, "device_ids": [], "capabilities": [["gpu"]]}],
        "container.devices": ["/dev/infiniband/uverbs0"],
        "container.entrypoint": ["vllm", "serve"],
        "container.cmd": ["moonshotai/Kimi-K3", "--api-key", "${node:VLLM_API_KEY}"],
        "container.env.HF_TOKEN": "${node:HF_TOKEN}",
        "container.env.NCCL_DEBUG": "INFO",
    }
    assert {name: value_of(facts, name) for name in expected} == expected
    assert "t0psecret" not in repr(facts)


@pytest.mark.parametrize(
    "name", ["container.finished_at", "container.error", "container.memory_limit_bytes", "container.cgroup_parent"]
)
def test_what_is_not_there_is_absent(name):
    assert docker_inspect.read(json.dumps(CONTAINER))[name].status is FieldStatus.ABSENT


def test_an_image():
    facts = docker_inspect.read(json.dumps([IMAGE]))
    expected = {
        "image.reference": "vllm/vllm-openai:v0.28.0",
        "image.id": IMAGE_ID,
        "image.digest": DIGEST,
        "image.created": "2026-08-20T10:00:00Z",
        "image.architecture": "amd64",
        "image.size_bytes": 21_000_000_000,
        "image.require_cuda": "cuda>=13.0",
        "image.env.CUDA_VERSION": "13.0.1",
        "image.env.BUILD_TOKEN": "${node:BUILD_TOKEN}",
        "image.labels.org.opencontainers.image.version": "24.04",
        "image.entrypoint": ["vllm", "serve"],
    }
    assert {name: value_of(facts, name) for name in expected} == expected


def test_an_image_that_was_built_here_has_no_digest():
    facts = docker_inspect.read(json.dumps({**IMAGE, "RepoTags": [], "RepoDigests": [], "Config": None}))
    assert facts["image.digest"].status is FieldStatus.ABSENT
    assert facts["image.reference"].status is FieldStatus.ABSENT


def test_an_image_without_tag_is_named_by_its_digest():
    facts = docker_inspect.read(json.dumps({**IMAGE, "RepoTags": None}))
    assert value_of(facts, "image.reference") == f"vllm/vllm-openai@{DIGEST}"


def test_the_daemon():
    facts = docker_inspect.read(json.dumps(INFO))
    expected = {
        "docker.version": "28.1",
        "docker.runtimes": ["nvidia", "runc"],
        "docker.cdi_devices": ["nvidia.com/gpu=all"],
        "docker.cgroup_version": 2,
        "docker.live_restore": False,
        "os.kernel": "6.8.0",
        "memory.total_bytes": 2_000_000_000_000,
    }
    assert {name: value_of(facts, name) for name in expected} == expected


def test_an_old_daemon_does_not_discover_devices():
    facts = docker_inspect.read(json.dumps({"ServerVersion": "20.10"}))
    assert facts["docker.cdi_devices"].status is FieldStatus.ABSENT
    assert facts["docker.cgroup_version"].status is FieldStatus.ABSENT


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{", "expected the JSON of docker inspect"),
        ("[1, {}]", "found none of them"),
        ("[" * 100_000, "expected the JSON"),
    ],
)
def test_other_json_is_refused(text, found):
    with pytest.raises(UnreadableInput) as caught:
        docker_inspect.read(text)
    assert found in str(caught.value)


class TestCommand:
    def test_of_a_container_inspected_with_its_image(self):
        command = read_command(json.dumps([CONTAINER, IMAGE]))
        assert command.kind is CommandKind.INSPECT
        assert command.image == "vllm/vllm-openai:v0.28.0"
        assert command.argv == ("moonshotai/Kimi-K3", "--api-key", "${node:VLLM_API_KEY}")
        assert command.container.entrypoint is None
        assert command.env == {"HF_TOKEN": "${node:HF_TOKEN}", "NCCL_DEBUG": "INFO", "NV_X": "1"}
        assert command.mounts == (MountSpec("/models", "/models", True), MountSpec("hf", "/hf"))
        assert command.container.gpus == "all"
        assert command.container.ulimits == {"memlock": -1}
        assert command.notes == ()

    def test_of_a_container_alone_leaves_image_variables_out_by_name(self):
        command = read_command(json.dumps([CONTAINER]))
        assert command.env == {"HF_TOKEN": "${node:HF_TOKEN}", "NCCL_DEBUG": "INFO"}
        assert command.argv[:2] == ("vllm", "serve")
        assert "left out by name" in command.notes[0]

    @pytest.mark.parametrize(
        ("request_", "gpus"),
        [
            ({"Count": 2}, "2"),
            ({"DeviceIDs": ["0", "1"]}, "device=0,1"),
            ({"Count": 0}, None),
        ],
    )
    def test_gpus(self, request_, gpus):
        host = {**CONTAINER["HostConfig"], "DeviceRequests": [request_]}
        assert read_command(json.dumps({**CONTAINER, "HostConfig": host})).container.gpus == gpus

    def test_an_image_is_no_command(self):
        assert docker_inspect.command_of([IMAGE]) is None
