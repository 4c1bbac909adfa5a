"""Host against container, node against node, then against now: each rule with a pair that breaks it and one that keeps it (R3)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playbooks.judging import consistency_rules, health_rules
from playbooks.judging.consistency import Disagreement, between_nodes, compare, drift, stable_digest
from playbooks.judging.disagreement import shown
from playbooks.reading.fields import FIELDS, FieldValue, read
from playbooks.vocabulary import FieldStatus
from tests.support.fingerprints import container, facts, gpus, host, lost


def found(given_host, given_container):
    return {one.rule: one.severity for one in compare(given_host, given_container)}


def test_a_healthy_pair_agrees():
    assert compare(host(), container()) == ()


def test_nothing_read_says_nothing():
    assert compare({}, {}) == ()
    assert compare(host(), {}) == ()


@pytest.mark.parametrize(
    "status", [FieldStatus.TIMEOUT, FieldStatus.REFUSED, FieldStatus.ERROR, FieldStatus.UNSUPPORTED]
)
def test_a_field_that_could_not_be_read_accuses_nobody(status):
    unread = {name: FieldValue(status=status) for name in container() if name != "nvml.error"}
    assert compare(host(), unread) == ()


BROKEN_BETWEEN = [
    pytest.param({}, {"driver__loaded": "575.57.08", "driver__libcuda_version": None}, {"kernel-driver": "finding"}, id="two machines"),
    pytest.param({}, {"nvml__version": "13.575.57.08"}, {"nvml-version": "finding"}, id="old injected NVML"),
    pytest.param({"nvml__version": None}, {"nvml__version": None, "nvml__driver": "575.1"}, {"nvml-version": "finding"}, id="NVML version not read, its driver is"),
    pytest.param({}, {"driver__libcuda_version": "575.57.08"}, {"libcuda-version": "finding"}, id="old injected libcuda"),
    pytest.param({}, {"cuda__driver": "13.2"}, {"compat-shadowing": "finding"}, id="compat library first, path not seen"),
    pytest.param({}, {"cuda__driver": None, "nvml__cuda": "13.2"}, {"compat-shadowing": "finding"}, id="compat library first, seen by NVML"),
    pytest.param({}, {"cuda__driver": None, "nvml__cuda": None}, {}, id="CUDA of the driver not read"),
    pytest.param({}, {"cuda__compat_in_use": True, "driver__libcuda_version": "590.1"}, {"compat-in-use": "note"}, id="compat in use and works"),
    pytest.param({}, {"cuda__libcuda_path": "/usr/local/cuda-13.2/compat/libcuda.so.595.1"}, {"compat-in-use": "note"}, id="compat by its path"),
    pytest.param({}, {"cuda__compat_in_use": True, "cuda__init": 803}, {"compat-in-use": "finding", "cuda-init": "finding"}, id="compat does not pair: 803"),
    pytest.param({}, {"cuda__compat_in_use": True, "cuda__init": 804}, {"compat-in-use": "finding", "cuda-init": "finding"}, id="compat not allowed: 804"),
    pytest.param({}, {"cuda__compat_in_use": True, "cuda__init": "x"}, {"compat-in-use": "note"}, id="compat, odd result"),
    pytest.param({}, {"gpu__0__uuid": "GPU-other"}, {"gpu-identity": "finding"}, id="a GPU the host does not list"),
    pytest.param({}, {"nvml__count": 7, "cuda__count": 7}, {"gpu-count": "finding"}, id="one GPU less"),
    pytest.param({}, {"nvml__count": 0, "cuda__count": 0}, {"gpu-count": "finding"}, id="no GPU in the container"),
    pytest.param({}, {"nvml__count": 2, "cuda__count": 2, "container__env__NVIDIA_VISIBLE_DEVICES": "0,1"}, {}, id="two were asked for by variable"),
    pytest.param({}, {"container__env__NVIDIA_VISIBLE_DEVICES": "all"}, {}, id="all were asked for"),
    pytest.param({}, {"nvml__count": 2, "cuda__count": 2, "container__device_requests": [{"count": 2, "device_ids": []}]}, {}, id="two were asked for by count"),
    pytest.param({}, {"nvml__count": 2, "cuda__count": 2, "container__device_requests": [{"count": 0, "device_ids": ["GPU-0", "GPU-1"]}]}, {}, id="two were asked for by id"),
    pytest.param({}, {"nvml__count": 2, "cuda__count": 2, "container__device_requests": [{"count": 4, "device_ids": []}]}, {"gpu-count": "finding"}, id="four were asked for"),
    pytest.param({}, {"container__device_requests": [{"count": -1, "device_ids": None}, "odd"]}, {}, id="all were asked for by count"),
    pytest.param({}, {"container__device_requests": [{"count": 0, "device_ids": ["nvidia.com/gpu=all"]}]}, {}, id="all by CDI"),
    pytest.param({}, {"cuda__count": 4}, {"cuda-count": "finding"}, id="fewer in CUDA"),
    pytest.param({}, {"container__device_requests": [], "container__runtime": "runc"}, {"gpu-runtime": "finding"}, id="no GPU was given"),
    pytest.param({"docker__default_runtime": "nvidia"}, {"container__device_requests": [], "container__runtime": None}, {}, id="the default runtime gives GPUs"),
    pytest.param({}, {"container__device_requests": [], "container__devices": ["/dev/nvidia0"]}, {}, id="devices were passed in"),
    pytest.param({}, {"cuda__init": 802}, {"cuda-init": "finding"}, id="cuInit fails"),
    pytest.param({}, {"container__image_id": "sha256:image", "image__tag_image_id": "sha256:new"}, {"moved-tag": "finding"}, id="the tag moved"),
    pytest.param({}, {"image__tag_image_id": "sha256:image"}, {}, id="the tag stands"),
    pytest.param({}, {"vllm__metadata_version": "0.27.1"}, {"vllm-version": "finding"}, id="two vLLM installations"),
    pytest.param({}, {"vllm__metadata_version": "0.28.0+cu130"}, {}, id="a local version label is no other version"),
    pytest.param({}, {"image__env__CUDA_VERSION": "12.9.1"}, {"cuda-build": "finding"}, id="torch of another CUDA than the image says"),
    pytest.param({}, {"image__env__CUDA_VERSION": "13.0.1"}, {}, id="same CUDA major"),
    pytest.param({}, {"torch__nccl": "2.28.9", "package__nvidia-nccl-cu13": "2.30.7"}, {"nccl-version": "note"}, id="two NCCL"),
    pytest.param({}, {"torch__nccl": "2.28.9", "package__nvidia-nccl-cu13": "2.28.9"}, {}, id="one NCCL"),
    pytest.param({}, {"torch__arch_list": ["sm_90", "sm_100a"]}, {"architecture": "finding"}, id="no code for 10.3"),
    pytest.param({}, {"torch__arch_list": ["sm_100"]}, {}, id="10.0 code runs on 10.3"),
    pytest.param({}, {"torch__arch_list": ["sm_103a"]}, {}, id="exactly this one"),
    pytest.param({}, {"torch__arch_list": ["sm_100f"]}, {}, id="of the family"),
    pytest.param({}, {"torch__arch_list": ["sm_90", "compute_90"]}, {}, id="PTX is compiled at load"),
    pytest.param({}, {"torch__arch_list": ["sm_odd"]}, {}, id="not understood"),
    pytest.param({}, {"torch__arch_list": []}, {}, id="no list"),
    pytest.param({}, {"container__shm_bytes": 64 << 20, "container__ipc_mode": "private"}, {"small-shm": "finding"}, id="64 MiB for eight ranks"),
    pytest.param({}, {"container__shm_bytes": 64 << 20, "container__ipc_mode": "host"}, {}, id="shared memory of the host"),
    pytest.param({}, {"shm__total_bytes": 64 << 20}, {}, id="IPC mode not read"),
    pytest.param({}, {"container__shm_bytes": 16 << 30, "container__ipc_mode": "private"}, {}, id="enough"),
    pytest.param({}, {"dev__nodes": {"/dev/nvidiactl": "rw", "/dev/nvidia-uvm": "rw", "/dev/nvidia0": "r"}}, {"device-rights": "finding"}, id="a node read-only"),
    pytest.param({}, {"dev__nodes": {"/dev/nvidiactl": "rw", "/dev/nvidia0": "rw"}}, {"device-missing": "finding"}, id="no uvm node"),
    pytest.param({}, {"dev__nodes": {"/dev/nvidiactl": "rw", "/dev/nvidia-uvm": "rw", "/dev/nvidia-caps/nvidia-cap1": ""}}, {}, id="capability nodes are root's"),
    pytest.param({}, {"dev__nodes": {}}, {}, id="no node at all is told by the count"),
    pytest.param({"rdma__devices": ["mlx5_0"]}, {"rdma__uverbs": {}}, {"rdma-missing": "note"}, id="no RDMA node"),
    pytest.param({"rdma__devices": ["mlx5_0"]}, {"rdma__uverbs": {"/dev/infiniband/uverbs0": "r"}}, {"rdma-rights": "finding"}, id="RDMA node read-only"),
    pytest.param({"rdma__devices": ["mlx5_0"]}, {"rdma__uverbs": {"/dev/infiniband/uverbs0": "rw"}, "limits__memlock_bytes": 65536}, {"memlock": "finding"}, id="locked memory"),
    pytest.param({"rdma__devices": ["mlx5_0"]}, {"rdma__uverbs": {"/dev/infiniband/uverbs0": "rw"}, "limits__memlock_bytes": -1}, {}, id="RDMA as it should be"),
    pytest.param({"rdma__devices": ["mlx5_0"]}, {}, {}, id="RDMA nodes not read"),
]  # fmt: skip


@pytest.mark.parametrize(("on_host", "inside", "expected"), BROKEN_BETWEEN)
def test_rules_between_the_sides(on_host, inside, expected):
    assert found(host(**on_host), container(**inside)) == expected


BROKEN_HOST = [
    pytest.param({"driver__state": "upgrade_pending_reboot", "driver__on_disk": "595.1"}, {"driver-state": "finding"}, id="upgrade pending"),
    pytest.param({"driver__packages_half_installed": ["nvidia-driver-595"]}, {"driver-packages": "finding"}, id="half-installed"),
    pytest.param({"nvml__error": 18}, {"nvml-error": "finding"}, id="NVML mismatch"),
    pytest.param({"nvml__error": 77}, {"nvml-error": "finding"}, id="rare NVML error"),
    pytest.param({"nvml__error": 12, "driver__loaded": None, "driver__on_disk": None}, {}, id="no driver, no NVML: no GPU machine"),
    pytest.param({"nvml__error": 12, "driver__loaded": None, "pci__gpu_count": 8}, {"nvml-error": "finding"}, id="GPUs on the bus and no driver"),
    pytest.param({"nvml__error": lost()}, {"nvml-hang": "finding"}, id="NVML hangs"),
    pytest.param({"os__reboot_pending": True}, {"reboot-pending": "note"}, id="reboot pending"),
    pytest.param({"modules__nouveau": True}, {"nouveau": "finding"}, id="nouveau"),
    pytest.param({"modules__nvidia_uvm": None}, {"uvm-missing": "finding"}, id="uvm not loaded"),
    pytest.param({"modules__nvidia_uvm": lost()}, {}, id="uvm not read"),
    pytest.param({"proc__gpu_count": 9}, {"gpu-lost": "finding"}, id="one failed to start"),
    pytest.param({"pci__gpu_count": 9}, {"gpu-lost": "finding"}, id="one on the bus alone"),
    pytest.param({"gpu__3__error": 15}, {"gpu-error": "finding"}, id="a lost GPU"),
    pytest.param({"gpu__3__error": 77}, {"gpu-error": "finding"}, id="a GPU with a rare error"),
    pytest.param({"gpu__0__remap_pending": True}, {"remap-pending": "finding"}, id="remap pending"),
    pytest.param({"gpu__0__remap_failed": True}, {"remap-failed": "finding"}, id="remap failed"),
    pytest.param({"gpu__0__mig_current": True}, {"mig-enabled": "finding"}, id="MIG"),
    pytest.param({"gpu__0__mig_current": False, "gpu__0__mig_pending": True}, {"mig-pending": "finding"}, id="MIG pending"),
    pytest.param({"gpu__0__compute_mode": "prohibited"}, {"compute-mode": "finding"}, id="compute prohibited"),
    pytest.param({"gpu__0__compute_mode": "exclusive_process", "gpu__0__processes": [{"pid": 1}]}, {"exclusive-mode": "finding"}, id="exclusive and taken"),
    pytest.param({"gpu__0__compute_mode": "exclusive_process", "gpu__0__processes": []}, {}, id="exclusive and free"),
    pytest.param({"gpu__0__fabric_state": "in_progress"}, {"fabric": "finding"}, id="fabric in progress"),
    pytest.param({"gpu__0__fabric_status": 999}, {"fabric-status": "finding"}, id="fabric registration failed"),
    pytest.param({"gpu__0__ecc_uncorrected_volatile": 3}, {"ecc": "finding"}, id="memory errors"),
    pytest.param({"gpu__0__recovery_action": 2}, {"recovery-action": "finding"}, id="reboot asked for"),
    pytest.param({"gpu__0__recovery_action": 9}, {"recovery-action": "finding"}, id="an action that is not known"),
    pytest.param({"gpu__0__clocks_reasons": 0x8 | 0x4}, {"clocks": "note"}, id="hardware slowdown"),
    pytest.param({"gpu__0__clocks_reasons": 0x5}, {}, id="idle and power cap are nothing"),
    pytest.param({"gpu__0__pcie_width": 8, "gpu__0__pcie_width_max": 16}, {"pcie-width": "note"}, id="fewer lanes"),
    pytest.param({"service__fabric_manager_version": "580.95.05"}, {"fabric-version": "finding"}, id="fabric manager of another driver"),
    pytest.param({"service__fabric_manager_version": "580.105.08", "service__fabric_manager": "active"}, {}, id="fabric manager as it should be"),
    pytest.param({"service__imex": "failed"}, {"service-failed": "finding"}, id="IMEX failed"),
    pytest.param({"rdma__mlx5_0.1__state": "1: DOWN"}, {"rdma-port": "note"}, id="a port down"),
    pytest.param({"rdma__mlx5_0.1__state": "4: ACTIVE"}, {}, id="a port up"),
    pytest.param({"rdma__mlx5_0.1__state": lost()}, {}, id="a port not read"),
    pytest.param({"gpu__2__memory_unowned_bytes": 96 << 30}, {"memory-without-owner": "finding"}, id="memory without owner"),
    pytest.param({"gpu__2__memory_unowned_bytes": 1 << 20}, {}, id="the driver's own context"),
    pytest.param({"leftovers": ["port 8000"], "tenants": ["process 1 x"]}, {"leftovers": "finding", "tenants": "finding"}, id="leftovers and tenants"),
    pytest.param({"leftovers": [], "tenants": []}, {}, id="none of them"),
    pytest.param({"kernel__xid": [{"bus_id": "0", "xid": 45, "text": "x"}, {"bus_id": "0", "xid": 79, "text": "y"}]}, {"xid": "finding"}, id="fallen off the bus"),
    pytest.param({"kernel__xid": [{"bus_id": "0", "xid": 63, "text": "x"}]}, {"xid": "note"}, id="informational"),
    pytest.param({"kernel__xid": [{"bus_id": "0", "xid": 45, "text": "x"}]}, {}, id="only a consequence"),
    pytest.param({"kernel__xid": ["odd"]}, {}, id="odd"),
]  # fmt: skip


@pytest.mark.parametrize(("on_host", "expected"), BROKEN_HOST)
def test_rules_of_the_host(on_host, expected):
    assert found(host(**on_host), {}) == expected


def test_every_rule_has_a_row_that_breaks_it():
    broken = {rule for param in (*BROKEN_BETWEEN, *BROKEN_HOST) for rule in param.values[-1]}
    named = {name for module in (consistency_rules, health_rules) for name in _names_in(module)}
    assert named <= broken


def _names_in(module):
    import inspect
    import re

    text = inspect.getsource(module)
    return set(re.findall(r'(?:Disagreement\(|found\(|_differs\(\s*host,\s*container,)\s*"([a-z-]+)"', text))


def test_a_disagreement_carries_the_values_it_rests_on():
    (one,) = compare(host(), container(nvml__version="13.575.57.08"))
    assert one.evidence == (
        "host: nvml.version = 13.580.105.08 (test)",
        "container: nvml.version = 13.575.57.08 (test)",
    )


def test_a_lost_gpu_among_others_is_named():
    (one,) = compare(host(gpu__3__error=15), {})
    assert one.text == "GPU 3: a GPU is lost: reboot"


def test_several_gpus_are_counted():
    (one,) = compare(host(gpu__1__memory_unowned_bytes=1 << 30, gpu__4__memory_unowned_bytes=1 << 30), {})
    assert one.text.startswith("GPUs 1, 4 hold 2048 MiB")


class TestDrift:
    @pytest.mark.parametrize(
        ("before", "after", "moved"),
        [
            pytest.param({"driver__loaded": "575.57.08"}, {"driver__loaded": "580.95.05"}, ("driver.loaded: 575.57.08 → 580.95.05",), id="the driver"),
            pytest.param({"modules__nvidia_peermem": None}, {"modules__nvidia_peermem": True}, ("modules.nvidia_peermem: not there → true",), id="a module was loaded"),
            pytest.param({"gpu__0__memory_free_bytes": 1}, {"gpu__0__memory_free_bytes": 2}, (), id="free memory is volatile"),
            pytest.param({"driver__loaded": "575.57.08"}, {"driver__loaded": lost()}, (), id="not read afterwards"),
            pytest.param({"driver__loaded": lost(FieldStatus.REFUSED)}, {"driver__loaded": "1"}, (), id="not read before"),
            pytest.param({}, {"driver__loaded": "580.95.05"}, (), id="not asked before"),
            pytest.param({"new__field": 1}, {"new__field": 2}, (), id="a name of a newer node"),
        ],
    )  # fmt: skip
    def test_what_moved(self, before, after, moved):
        assert drift(facts(**before), facts(**after)) == moved

    def test_equal_stable_fields_have_one_digest(self):
        assert stable_digest(host(tenants=["x"]), container()) == stable_digest(host(os__boot_id="y"), container())

    def test_a_moved_field_has_another_digest(self):
        assert stable_digest(host(), container()) != stable_digest(host(driver__loaded="1"), container())
        assert stable_digest(host(), container()) != stable_digest(container(), host())

    def test_a_field_that_could_not_be_read_is_left_out(self):
        assert stable_digest(host(os__kernel=lost()), {}) == stable_digest(host(), {})

    @given(st.sampled_from([spec for spec in FIELDS if spec.stable]))
    def test_any_stable_field_moves_the_digest(self, spec):
        name = spec.name.replace("{i}", "0").replace("{name}", "x")
        before, after = ({name: read(value)} for value in ("a", "b"))
        assert stable_digest(before, {}) != stable_digest(after, {})
        assert len(drift(before, after)) == 1


class TestNodes:
    @pytest.mark.parametrize(
        ("change", "field"),
        [
            ({"driver__loaded": "580.95.05"}, "driver.loaded"),
            ({"image__digest": "sha256:other"}, "image.digest"),
            ({"torch__nccl": "2.30.7"}, "torch.nccl"),
            ({"network__mtu": {"ib0": 1500}}, "network.mtu"),
            ({"nvml__count": 4}, "nvml.count"),
            ({"gpu__0__fabric_cluster": "other"}, "gpu.{i}.fabric_cluster"),
            ({f"gpu__{i}__name": "NVIDIA B200" for i in range(8)}, "gpu.{i}.name"),
        ],
    )
    def test_what_must_be_equal_on_all_nodes(self, change, field):
        one = host() | container(torch__nccl="2.28.9", network__mtu={"ib0": 4092}, gpu__0__fabric_cluster="c")
        (differs,) = between_nodes(one, one | facts(**change), ("a1", "a2"))
        assert differs.rule == "node-differs"
        assert differs.fields == (field,)
        assert "on a1" in differs.text

    def test_equal_nodes_agree_and_unread_fields_say_nothing(self):
        assert between_nodes(host() | container(), host(), ("a1", "a2")) == ()

    def test_other_uuids_are_no_difference(self):
        assert between_nodes(gpus(2), gpus(2) | facts(gpu__0__uuid="GPU-x"), ("a1", "a2")) == ()


@pytest.mark.parametrize(
    ("value", "text"), [(None, "not there"), ("a", "a"), (True, "true"), (["a"], '["a"]'), ("x" * 200, "x" * 119 + "…")]
)
def test_values_are_shown_on_a_line(value, text):
    assert shown(value) == text


def test_a_disagreement_is_a_finding_unless_it_says_otherwise():
    assert Disagreement("r", (), "t").severity == "finding"


def test_leftovers_are_named_in_words_and_what_is_not_named_is_counted() -> None:
    facts = {
        "leftovers": FieldValue(status=FieldStatus.OK, value=[f"psm_{n}" for n in range(6)], source="shared memory")
    }
    (found,) = compare(facts, {})
    assert found.text == "an earlier launch left behind: psm_0, psm_1, psm_2, psm_3 and 2 more"
    facts["leftovers"] = FieldValue(status=FieldStatus.OK, value=["container old"], source="docker ps -a")
    (found,) = compare(facts, {})
    assert found.text == "an earlier launch left behind: container old"
