"""Host facts below a fake root: every row of loaded, on disk and packages; what is missing or forbidden is a status."""

from __future__ import annotations

import ast
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from playbooks.messages import FingerprintParams
from playbooks.reading.fields import FIELDS, read, spec_of, value_of
from playbooks.vocabulary import FieldStatus
from tests.support.node_builders import FakeGpus, FakeHost, FakeInside
from workers.adapters import inside_probe
from workers.adapters.attempted import attempt
from workers.adapters.clocks import SystemClock
from workers.adapters.docker_facts import docker_facts
from workers.adapters.docker_gateway import DockerGateway
from workers.adapters.host_reader import RootHostReader
from workers.adapters.inside_reader import ProbeInsideReader, probe_text
from workers.adapters.kernel_log import kernel_facts
from workers.adapters.model_files import model_facts
from workers.adapters.system_facts import system_facts
from workers.errors import ProbeFailed, UnusableRequest
from workers.jobs.driver_state import driver_state
from workers.jobs.fingerprint import read_fingerprint
from workers.jobs.fingerprint_table import table
from workers.ports import Facts
from workers.reading_here import read_local

OPEN = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {v}  Release Build  (b@h)  Mon Aug  4\nGCC version: 12\n"
)
CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  {v}  Mon Aug  4\n"
RELEASE = "6.8.0-85-generic"


def write(root: Path, name: str, text: str | bytes) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)


def host(root: Path) -> Facts:
    write(root, "proc/sys/kernel/osrelease", RELEASE + "\n")
    return RootHostReader(root=root, data_dir=root, docker=None).read()


def installed(root: Path, *, loaded: str | None, on_disk: str | None, packages: bool = True) -> None:
    if loaded:
        write(root, "proc/driver/nvidia/version", OPEN.format(v=loaded))
    if on_disk:
        write(
            root,
            f"lib/modules/{RELEASE}/updates/dkms/nvidia.ko",
            b"\x7fELF\0license=Dual\0version=" + on_disk.encode() + b"\0",
        )
    if packages:
        package = "Package: nvidia-driver-580\nStatus: install ok installed\nVersion: 580.95.05-1\n"
        half = "Package: libnvidia-compute-580\nStatus: install ok half-configured\nVersion: 580.95.05-1\n"
        other = "Package: bash\nStatus: install ok installed\nVersion: 5\n"
        write(root, "var/lib/dpkg/status", f"{package}\n{half}\n{other}")


@pytest.mark.parametrize(
    ("loaded", "on_disk", "nvml", "state"),
    [
        pytest.param("575.57.08", "575.57.08", 0, "consistent", id="all the same"),
        pytest.param("575.57.08", "580.95.05", 18, "upgrade_pending_reboot", id="new libraries already"),
        pytest.param("575.57.08", "580.95.05", 0, "upgrade_pending_reboot", id="old libraries kept"),
        pytest.param(None, "580.95.05", 9, "module_not_loaded", id="on disk, not loaded"),
        pytest.param(None, None, 9, "module_not_built", id="packages, no module for this kernel"),
        pytest.param("580.95.05", "580.95.05", 12, "user_libraries_missing", id="no user libraries"),
    ],
)
def test_driver_state(tmp_path: Path, loaded: str | None, on_disk: str | None, nvml: int, state: str) -> None:
    installed(tmp_path, loaded=loaded, on_disk=on_disk)
    facts = host(tmp_path) | {"nvml.error": read(nvml, "nvmlInit")}
    assert value_of(facts, "driver.loaded") == loaded
    assert value_of(facts, "driver.on_disk") == on_disk
    assert driver_state(facts).value == state


def test_a_machine_without_any_driver_has_no_state(tmp_path: Path) -> None:
    assert driver_state(host(tmp_path)).status is FieldStatus.ABSENT


def test_packages_and_half_installed_ones_are_apart(tmp_path: Path) -> None:
    installed(tmp_path, loaded=None, on_disk=None)
    facts = host(tmp_path)
    assert value_of(facts, "driver.packages") == {"nvidia-driver-580": "580.95.05-1"}
    assert value_of(facts, "driver.packages_half_installed") == [
        "libnvidia-compute-580 580.95.05-1 (install ok half-configured)"
    ]


@pytest.mark.parametrize(("text", "flavour"), [(OPEN, "open"), (CLOSED, "proprietary")])
def test_the_flavour_of_the_module(tmp_path: Path, text: str, flavour: str) -> None:
    write(tmp_path, "proc/driver/nvidia/version", text.format(v="580.105.08"))
    facts = host(tmp_path)
    assert value_of(facts, "driver.loaded") == "580.105.08"
    assert value_of(facts, "driver.module_flavour") == flavour


def test_libraries_are_named_by_what_the_link_points_to(tmp_path: Path) -> None:
    write(tmp_path, "usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05", "")
    (tmp_path / "usr/lib/x86_64-linux-gnu/libcuda.so.1").symlink_to("libcuda.so.580.95.05")
    facts = host(tmp_path)
    assert value_of(facts, "driver.libcuda_path") == "/usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05"
    assert value_of(facts, "driver.libcuda_version") == "580.95.05"
    assert facts["driver.libnvml_path"].status is FieldStatus.ABSENT


def test_modules_devices_and_rdma(tmp_path: Path) -> None:
    write(tmp_path, "proc/modules", "nvidia 1 0 - Live\nnvidia_uvm 1 0 - Live\n")
    write(tmp_path, "sys/module/nvidia/version", "580.95.05\n")
    write(tmp_path, "dev/nvidiactl", "")
    write(tmp_path, "dev/infiniband/uverbs0", "")
    for leaf, text in {
        "state": "4: ACTIVE",
        "phys_state": "5: LinkUp",
        "rate": "400 Gb/sec",
        "link_layer": "Ethernet",
    }.items():
        write(tmp_path, f"sys/class/infiniband/mlx5_0/ports/1/{leaf}", text + "\n")
    write(tmp_path, "sys/class/infiniband/mlx5_0/fw_ver", "28.43\n")
    write(tmp_path, "sys/bus/pci/devices/0/vendor", "0x10de\n")
    write(tmp_path, "sys/bus/pci/devices/0/class", "0x030200\n")
    facts = host(tmp_path)
    assert value_of(facts, "modules.nvidia") == "580.95.05"
    assert value_of(facts, "modules.nvidia_uvm") is True
    assert facts["modules.nouveau"].status is FieldStatus.ABSENT
    assert value_of(facts, "dev.nodes") == {"/dev/nvidiactl": "rw"}
    assert value_of(facts, "rdma.mlx5_0.1.state") == "4: ACTIVE"
    assert value_of(facts, "rdma.mlx5_0.1.firmware") == "28.43"
    assert value_of(facts, "pci.gpu_count") == 1


def test_the_kernel_log_gives_xids_and_what_else_is_worth_showing(tmp_path: Path) -> None:
    lines = [
        "[  1.0] usb something",
        "[  2.0] NVRM: Xid (PCI:0000:05:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        "[  3.0] NVRM: API mismatch: the client has the version 580.95.05, but",
    ]
    write(tmp_path, "dev/kmsg", "\n".join(lines))
    facts = kernel_facts(tmp_path)
    (xid,) = value_of(facts, "kernel.xid")
    assert (xid["bus_id"], xid["xid"]) == ("0000:05:00", 79)
    assert value_of(facts, "kernel.nvrm") == [lines[2]]
    assert kernel_facts(tmp_path / "none")["kernel.xid"].status is FieldStatus.ABSENT


def test_every_host_field_has_a_listed_name(tmp_path: Path) -> None:
    installed(tmp_path, loaded="580.95.05", on_disk="580.95.05")
    assert [name for name in host(tmp_path) if spec_of(name) is None] == []
    assert len(FIELDS) > 100


def test_this_machine_is_read_within_a_second_or_so() -> None:
    facts = read_local(root=Path("/"), container=None, image=None, python=None, model=None)
    assert value_of(facts.host, "os.kernel") == os.uname().release
    assert [name for name in facts.host if spec_of(name) is None] == []
    assert "nothing disagrees" in table(facts) or "finding" in table(facts) or table(facts)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (FileNotFoundError("x"), FieldStatus.ABSENT),
        (PermissionError("x"), FieldStatus.REFUSED),
        (TimeoutError("x"), FieldStatus.TIMEOUT),
        (OSError("x"), FieldStatus.ERROR),
        (ValueError("x"), FieldStatus.ERROR),
    ],
)
def test_what_goes_wrong_is_the_status_of_its_field(error: Exception, status: FieldStatus) -> None:
    def fail() -> None:
        raise error

    assert attempt("source", fail).status is status


def test_a_model_folder_by_names_sizes_and_small_digests(tmp_path: Path) -> None:
    write(tmp_path, "m/config.json", "{}")
    write(tmp_path, "m/a.safetensors", "12345")
    facts = model_facts(str(tmp_path / "m"))
    assert value_of(facts, "model.files") == [["a.safetensors", 5], ["config.json", 2]]
    assert value_of(facts, "model.total_bytes") == 7
    assert len(value_of(facts, "model.config_sha256")) == 64
    assert facts["model.index_sha256"].status is FieldStatus.ABSENT
    assert value_of(facts, "model.free_bytes") > 0
    missing = model_facts(str(tmp_path / "none"))
    assert missing["model.files"].status is FieldStatus.ABSENT
    assert "expected a folder" in missing["model.files"].detail


def fingerprint(
    host_facts: Facts, gpus: Facts, inside: FakeInside | ProbeInsideReader, **params: str
) -> tuple[Facts, Facts]:
    facts = read_fingerprint(
        FingerprintParams(**params),  # type: ignore[arg-type]
        host=FakeHost(host_facts),
        gpus=FakeGpus(gpus),
        inside=inside,
        clock=SystemClock(),
    )
    return facts.host, facts.container


def test_tenants_and_leftovers_are_named() -> None:
    gpus = {
        "gpu.0.processes": read([{"pid": 7, "name": "train", "used_bytes": 1}], "NVML"),
        "gpu.1.processes": read([], "NVML"),
        "gpu.1.memory_unowned_bytes": read(40 << 30, "NVML", unit="bytes"),
    }
    listening = {"ports.listening": read([22, 8000], "/proc/net/tcp"), "shm.leftovers": read(["nccl-x"], "shm")}
    facts, _ = fingerprint(listening, gpus, FakeInside())
    assert value_of(facts, "tenants") == ["process 7 train on GPU 0"]
    assert value_of(facts, "leftovers") == [
        "shared memory nccl-x",
        "GPU 1: 40960 MiB in use by nobody",
        "port 8000 is taken",
    ]


def test_no_secret_is_in_a_fingerprint() -> None:
    inside = FakeInside(
        {
            "env.HF_TOKEN": read("hf_abcdefghijklmnopqrstuvwx", "environment"),
            "env.VLLM_LOGGING_LEVEL": read("INFO", "environment"),
            "container.cmd": read(["--api-key", "very-secret-word", "--port", "8000"], "inspect"),
            "torch.error": read("RuntimeError: Authorization: Bearer aB3defghi9jklmnop4qR", "import"),
        }
    )
    _, facts = fingerprint({}, {}, inside, python="/x/python")
    assert value_of(facts, "env.HF_TOKEN") == "${node:HF_TOKEN}"
    assert value_of(facts, "env.VLLM_LOGGING_LEVEL") == "INFO"
    assert value_of(facts, "container.cmd") == ["--api-key", "${node:API_KEY}", "--port", "8000"]
    assert "aB3defghi9" not in value_of(facts, "torch.error")


def test_a_side_that_cannot_be_read_costs_its_own_fields() -> None:
    host_facts, inside = fingerprint(
        {"os.kernel": read("6", "uname")}, {}, ProbeInsideReader(None, worker="x"), container="c"
    )
    assert value_of(host_facts, "os.kernel") == "6"
    assert inside["probe.static"].status is FieldStatus.ERROR
    assert "no" in inside["probe.static"].detail


def test_only_one_place_is_looked_into() -> None:
    with pytest.raises(UnusableRequest, match="found 2 of them"):
        fingerprint({}, {}, FakeInside(), container="a", image="b")


def test_an_interpreter_that_is_none_is_said(tmp_path: Path) -> None:
    with pytest.raises(ProbeFailed, match="No such file"):
        ProbeInsideReader(None, worker="x").in_python(str(tmp_path / "python"))
    silent = tmp_path / "python"
    silent.write_text("#!/bin/sh\necho oops >&2\nexit 3\n", encoding="utf-8")
    silent.chmod(0o755)
    facts = ProbeInsideReader(None, worker="x").in_python(str(silent))
    assert value_of(facts, "probe.static") == 3
    assert "oops" in facts["probe.static"].detail


def test_shared_memory_that_a_living_process_has_mapped_is_no_leftover(tmp_path: Path) -> None:
    for name in ("psm_dead", "psm_alive", "nccl-alive", "other"):
        write(tmp_path, f"dev/shm/{name}", b"")
    mapping = "7f0000000000-7f0000001000 rw-s 00000000 00:1a 5   /dev/shm/"
    write(tmp_path, "proc/42/maps", f"{mapping}psm_alive\n{mapping}nccl-alive\n{mapping}psm_dead (deleted)\n")
    assert value_of(host(tmp_path), "shm.leftovers") == ["psm_dead"]


def test_the_probe_is_written_for_the_oldest_python_that_images_have() -> None:
    parts = {"probe": probe_text()} | {
        name: getattr(inside_probe, name) for name in ("VERSIONS", "CUDA", "NVML", "TORCH")
    }
    for name, text in parts.items():
        tree = ast.parse(text.replace("%%", "%").replace("%r", "()"), filename=name, feature_version=(3, 8))
        for node in ast.walk(tree):
            called = node.func if isinstance(node, ast.Call) else None
            attribute = called.attr if isinstance(called, ast.Attribute) else ""
            # newer than 3.8: str.removeprefix and removesuffix, dict | dict is an operator and no call
            assert attribute not in {
                "removeprefix",
                "removesuffix",
                "is_relative_to",
                "packages_distributions",
                "bit_count",
            }, name
            assert not (
                isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr) and isinstance(node.left, ast.Dict)
            ), name
        imported = {
            alias.name.partition(".")[0]
            for node in ast.walk(tree)
            if isinstance(node, ast.Import)
            for alias in node.names
        }
        assert imported <= sys.stdlib_module_names | {"torch"}, name


def test_a_path_that_blocks_costs_one_field_and_its_own_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.adapters.attempted.LIMIT_S", 0.3)
    version = tmp_path / "proc" / "driver" / "nvidia" / "version"
    version.parent.mkdir(parents=True)
    os.mkfifo(version)
    facts = read_local(root=tmp_path, container=None, image=None, python=None, model=None)
    assert facts.host["driver.loaded"].status is FieldStatus.TIMEOUT
    assert "no answer within 0.3 s" in facts.host["driver.loaded"].detail
    assert facts.host["os.machine"].status is FieldStatus.OK
    os.close(os.open(version, os.O_RDWR | os.O_NONBLOCK))  # whoever still waits reads an end


def test_a_daemon_that_never_answers_is_no_machine_without_one(tmp_path: Path) -> None:
    path = tmp_path / "docker.sock"
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(path))
        silent.listen()
        gateway = DockerGateway(base_url=f"unix://{path}")
        assert docker_facts(gateway)["docker.version"].status is FieldStatus.TIMEOUT
    gone = DockerGateway(base_url=f"unix://{tmp_path}/none.sock")
    assert docker_facts(gone)["docker.version"].status is FieldStatus.ERROR


def test_a_file_without_an_end_costs_its_fields_and_little_memory(tmp_path: Path) -> None:
    write(tmp_path, "proc/x", "")
    for name in ("meminfo", "uptime", "modules"):
        (tmp_path / "proc" / name).symlink_to("/dev/zero")
    facts = host(tmp_path)
    for name in ("memory.total_bytes", "hugepages.total", "os.uptime_s", "modules.nvidia"):
        assert facts[name].status is FieldStatus.ERROR, name
        assert "at most 16 MiB" in facts[name].detail


def test_lines_that_are_none_do_not_hide_the_modules(tmp_path: Path) -> None:
    write(tmp_path, "proc/modules", "\nnvidia 1 0 - Live\n  \n")
    assert value_of(host(tmp_path), "modules.nvidia") is True


@pytest.mark.parametrize(
    ("groups", "files", "limit"),
    [
        pytest.param("0::/a.slice/w.service", {"a.slice/memory.max": "max", "a.slice/w.service/memory.max": "4096"}, 4096, id="own"),
        pytest.param("0::/a.slice/w.service", {"a.slice/memory.max": "2048", "a.slice/w.service/memory.max": "4096"}, 2048, id="one above"),
        pytest.param("0::/", {"memory.max": "1024"}, 1024, id="a container's own root"),
        pytest.param("0::/a", {"a/memory.max": "max"}, None, id="none"),
        pytest.param(
            "5:cpu:/x\n9:memory:/a\n", {"memory/memory.limit_in_bytes": str(2**63 - 4096), "memory/a/memory.limit_in_bytes": "8192"}, 8192, id="version 1"
        ),
        pytest.param("0::/../elsewhere", {"memory.max": "512"}, 512, id="above what is seen"),
    ],
)  # fmt: skip
def test_the_memory_limit_is_the_smallest_of_the_groups_above(
    tmp_path: Path, groups: str, files: dict[str, str], limit: int | None
) -> None:
    write(tmp_path, "proc/self/cgroup", groups)
    for name, text in files.items():
        write(tmp_path, f"sys/fs/cgroup/{name}", text + "\n")
    assert value_of(host(tmp_path), "cgroup.memory_limit_bytes") == limit


def test_a_distribution_that_leaves_no_word_of_a_reboot_is_not_said_to_need_none(tmp_path: Path) -> None:
    assert host(tmp_path)["os.reboot_pending"].status is FieldStatus.ABSENT
    write(tmp_path, "var/lib/dpkg/status", "")
    assert value_of(host(tmp_path), "os.reboot_pending") is False
    write(tmp_path, "run/reboot-required", "")
    assert value_of(host(tmp_path), "os.reboot_pending") is True


def test_what_another_users_process_may_have_mapped_is_not_called_a_leftover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("psm_mine", "psm_theirs"):
        write(tmp_path, f"dev/shm/{name}", b"")
    write(tmp_path, "proc/42/maps", "")
    os.chown(tmp_path / "dev/shm/psm_theirs", 12345, -1)
    read = Path.read_bytes

    def guarded(path: Path) -> bytes:
        if path.name == "maps":
            raise PermissionError(13, "Permission denied")
        return read(path)

    assert value_of(host(tmp_path), "shm.leftovers") == ["psm_mine", "psm_theirs"]
    monkeypatch.setattr(Path, "read_bytes", guarded)
    assert value_of(host(tmp_path), "shm.leftovers") == ["psm_mine"]


def test_the_fabric_manager_is_asked_for_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nv-fabricmanager"
    program.write_text("#!/bin/sh\necho 'Fabric Manager version is : 580.95.05'\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    facts = system_facts(Path("/"), data_dir=tmp_path)
    assert value_of(facts, "service.fabric_manager_version") == "580.95.05"
    program.write_text("#!/bin/sh\necho 'no such device' >&2; exit 3\n", encoding="utf-8")
    assert system_facts(Path("/"), data_dir=tmp_path)["service.fabric_manager_version"].status is FieldStatus.ERROR
    program.unlink()
    assert system_facts(Path("/"), data_dir=tmp_path)["service.fabric_manager_version"].status is FieldStatus.ABSENT


def test_a_terminal_that_lacks_the_signs_still_gets_the_whole_report(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from playbooks.cli import main; main()", "fingerprint"]
    env = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "BASELINE_DATA_DIR": str(tmp_path)}
    done = subprocess.run(command, env=env, capture_output=True, check=False, timeout=60)
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    assert done.stdout.decode("ascii").count("\n") > 10
