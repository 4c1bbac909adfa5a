"""The driver verdict and the other official boundaries: total over what can be read, each with its grounds (R2)."""

from __future__ import annotations

from datetime import date

import pytest

from playbooks.catalog import load_boundaries
from playbooks.errors import InvalidDefinition
from playbooks.judging.baseline import Baseline
from playbooks.judging.boundary import DriverFacts, facts_from, judge
from playbooks.judging.boundary_data import Boundaries, ImageClass, parse_boundaries, parse_file
from playbooks.judging.boundary_facts import numbers
from playbooks.judging.first_baseline import bad_first_baseline
from playbooks.reading import nvidia_smi
from playbooks.vocabulary import DriverVerdict
from tests.support.fingerprints import GIB, Sides, container, facts, gpus, host

TODAY = date(2026, 12, 1)
B300 = ("NVIDIA B300 SXM6 AC",) * 8
RTX = ("NVIDIA RTX PRO 6000 Blackwell Server Edition",) * 2
COMPAT = "/usr/local/cuda-13.0/compat"


@pytest.fixture(scope="module")
def boundaries() -> Boundaries:
    return load_boundaries()


def row(verdict, rule, *, id, **given):  # noqa: A002
    return pytest.param(DriverFacts(**given), verdict, rule, id=id)


@pytest.mark.parametrize(
    ("given", "verdict", "rule"),
    [
        row("supported", "B-01", loaded="580.65.06", cuda_image="13.0", gpu_names=B300, id="r580 and cu130"),
        row("supported", "B-01", loaded="595.84", cuda_image="13.2", gpu_names=B300, id="two-part version"),
        row("supported", "B-01", loaded="580.105.08", cuda_image="13.0", id="GPUs not read"),
        row("supported", "B-01", loaded="575.57.08", cuda_image="12.9", gpu_names=B300, id="r575 and cu129"),
        row("supported", "B-01", loaded="525.60.13", cuda_image="12.8", gpu_names=B300, id="exactly the floor"),
        row("supported", "B-01", loaded="610.43.02", cuda_image="12.4", gpu_names=B300, id="newer driver, older CUDA"),
        row("supported", "B-01", loaded="535.1", cuda_image="11.8", gpu_names=RTX, id="workstation card above the floor"),
        row("blocked", "B-02", loaded="575.57.08", cuda_image="13.0", gpu_names=B300, id="r575 and cu130"),
        row("blocked", "B-02", loaded="525.60.11", cuda_image="12.8", gpu_names=B300, id="one patch below the floor"),
        row("blocked", "B-02", loaded="575.57.08", cuda_image="13.0", gpu_names=RTX, id="workstation card below"),
        row("compat_only", "B-07", loaded="575.57.08", cuda_image="13.0", gpu_names=B300, compat_path=COMPAT, id="compat libraries on a data-center GPU"),
        row("compat_only", "B-07", loaded="575.57.08", cuda_image="13.0", gpu_names=B300, compat_path=COMPAT, compat_enabled=True, id="compat libraries switched on"),
        row("blocked", "B-10", loaded="575.57.08", cuda_image="13.0", gpu_names=RTX, compat_path=COMPAT, id="compat libraries on a workstation card"),
        row("blocked", "B-10", loaded="575.57.08", cuda_image="13.0", gpu_names=("NVIDIA GeForce RTX 5090",), compat_path=COMPAT, id="compat libraries on an unlisted card"),
        row("unknown", "B-09", loaded="575.57.08", cuda_image="13.0", compat_path=COMPAT, id="compat libraries, GPUs not read"),
        row("unknown", "B-03", cuda_image="13.0", id="no driver, no GPU"),
        row("unknown", "B-03", id="nothing at all"),
        row("blocked", "B-08", cuda_image="13.0", gpu_names=B300, id="GPUs but no driver"),
        row("blocked", "B-08", cuda_image="13.0", gpu_count=8, id="counted GPUs but no driver"),
        row("unknown", "B-04", loaded="580.65.06", gpu_names=B300, id="CUDA of the engine not read"),
        row("unknown", "B-05", loaded="580.65.06", cuda_image="13.0", cpu_build=True, id="CPU build"),
        row("unknown", "B-06", loaded="620.1", cuda_image="14.0", gpu_names=B300, id="a CUDA without a floor in the snapshot"),
    ],
)  # fmt: skip
def test_driver_verdict(boundaries, given, verdict, rule):
    found = judge(given, boundaries, TODAY)
    assert (found.verdict, found.rule) == (verdict, rule)
    assert all(found.grounds)
    assert found.snapshot == "kimi-k3, checked 2026-11-30"
    assert found.age_days == 1


def test_every_verdict_and_rule_has_a_row():
    rows = test_driver_verdict.pytestmark[0].args[1]
    assert {DriverVerdict(param.values[1]) for param in rows} == set(DriverVerdict)
    assert {param.values[2] for param in rows} == {f"B-{number:02}" for number in range(1, 11)}


def test_a_place_without_a_gpu_says_so_in_words(boundaries):
    (ground,) = judge(DriverFacts(), boundaries, TODAY).grounds
    assert ground == "No NVIDIA driver is loaded and no GPU was seen: whether a driver fits is not to be told here."


@pytest.mark.parametrize(
    ("given", "told"),
    [
        pytest.param({"loaded": "580.126.20", "cuda_image": "13.2"}, "driver 595.45.04 (error 222", id="newer toolkit than the driver"),
        pytest.param({"loaded": "580.65.06", "cuda_image": "13.0"}, None, id="the toolkit's own driver"),
        pytest.param({"loaded": "580.65.06", "cuda_image": "13.9"}, None, id="a toolkit without a row"),
        pytest.param({"loaded": "580.65.06", "cuda_image": "13.0", "image_reference": "vllm/vllm-openai:kimi-k3"}, "CUDA 13.2 may need driver 595.45.04", id="compilers bundled with the image are newer"),
        pytest.param({"loaded": "530.30.02", "cuda_image": "12.4"}, "driver 550.54.14", id="CUDA 12"),
    ],
)  # fmt: skip
def test_necessary_is_not_sufficient(boundaries, given, told):
    grounds = " ".join(judge(DriverFacts(**given, gpu_names=B300), boundaries, TODAY).grounds)
    assert ("Necessary, not sufficient" in grounds) is (told is not None)
    assert (told or "") in grounds


def test_the_recipe_s_branch_counts_where_it_speaks_of_this_cuda(boundaries):
    stricter = boundaries.model_copy(
        update={"file": boundaries.file.model_copy(update={"model": boundaries.model.model_copy(
            update={"min_driver_branch": boundaries.model.min_driver_branch.model_copy(update={"value": 590})}
        )})}
    )  # fmt: skip
    assert judge(DriverFacts(loaded="580.65.06", cuda_image="13.0"), stricter, TODAY).verdict is DriverVerdict.BLOCKED
    assert judge(DriverFacts(loaded="575.57.08", cuda_image="12.9"), stricter, TODAY).verdict is DriverVerdict.SUPPORTED
    silent = boundaries.model_copy(
        update={
            "file": boundaries.file.model_copy(
                update={"model": boundaries.model.model_copy(update={"cuda_build": None})}
            )
        }
    )
    assert judge(DriverFacts(loaded="580.65.06", cuda_image="13.0"), silent, TODAY).verdict is DriverVerdict.SUPPORTED


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({"image_reference": "vllm/vllm-openai:v0.27.1"}, "release", id="release tag"),
        pytest.param({"image_reference": "docker.io/vllm/vllm-openai:v0.28.0-cu129"}, "release", id="release tag of another CUDA"),
        pytest.param({"image_reference": "mirror.example/vllm/vllm-openai:v0.28.0@sha256:a"}, "release", id="mirrored"),
        pytest.param({"image_reference": "vllm/vllm-openai:kimi-k3", "vllm_version": "0.1.dev19262+gb6bbf29dd.d20260727"}, "k3_branch", id="the branch image"),
        pytest.param({"vllm_version": "0.1.dev19262+gb6bbf29dd.d20260727"}, "k3_branch", id="a branch build without an image"),
        pytest.param({"vllm_version": "0.28.0+cu130"}, "release", id="a release without an image"),
        pytest.param({"vllm_version": "0.28.1rc1.dev3+gabc"}, "nightly", id="a nightly without an image"),
        pytest.param({"vllm_version": "mine"}, "self_built", id="a version of one's own"),
        pytest.param({"image_reference": "vllm/vllm-openai:nightly-abc"}, "nightly", id="nightly"),
        pytest.param({"image_reference": "registry.example/team/vllm:k3", "image_digest": "sha256:a"}, "self_built", id="an image of one's own"),
        pytest.param({"image_reference": "vllm/vllm-openai:v0.28.0", "image_known": True}, "self_built", id="an official tag without a digest was loaded or built here"),
        pytest.param({"image_reference": "vllm/vllm-openai:v0.28.0", "image_known": True, "image_digest": "sha256:a"}, "release", id="an official tag with its digest"),
        pytest.param({}, "unknown", id="nothing read"),
    ],
)  # fmt: skip
def test_image_class(boundaries, given, expected):
    assert judge(DriverFacts(**given), boundaries, TODAY).image_class is ImageClass(expected)


def ids(found):
    return {finding.id: finding.severity for finding in found.findings}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({"vllm_version": "0.27.0"}, {"vllm-below-minimum": "blocking"}, id="below the minimum"),
        pytest.param({"vllm_version": "0.9.2"}, {"vllm-below-minimum": "blocking"}, id="numbers, not text: 0.9 is below 0.27"),
        pytest.param({"vllm_version": "0.27.1"}, {}, id="the minimum"),
        pytest.param({"vllm_version": "0.32.0+cpu", "cpu_build": True}, {}, id="CPU build"),
        pytest.param({"vllm_version": "0.1.dev19262+gb6"}, {"branch-build": "note"}, id="a branch build is no low number"),
        pytest.param({"vllm_version": "0.28.1rc1.dev3+gabc"}, {"nightly-build": "note"}, id="nightly"),
        pytest.param({"vllm_version": "0.26.0rc1.dev3+gabc"}, {"nightly-build": "note", "vllm-below-minimum": "blocking"}, id="old nightly"),
        pytest.param({"vllm_version": "mine"}, {"self-built": "note"}, id="self-built"),
        pytest.param({"image_reference": "mine:1"}, {"self-built": "note"}, id="self-built, version not read"),
        pytest.param({"loaded": "580.1", "on_disk": "595.1", "container_read": True}, {"loaded-is-not-on-disk": "note"}, id="another driver on disk"),
        pytest.param({"loaded": "575.57.08", "container_read": True}, {"branch-over": "note"}, id="branch at its end"),
        pytest.param({"loaded": "450.1", "container_read": True}, {}, id="branch without a row"),
        pytest.param({"loaded": "odd", "container_read": True}, {}, id="no number"),
        pytest.param({"require_disabled": "1"}, {"require-disabled": "note"}, id="toolkit check switched off"),
        pytest.param({"loaded": "580.1"}, {"host-only": "note"}, id="only the host was looked at"),
        pytest.param({"cuda_image": "13.0", "cuda_was_read": False}, {"cuda-assumed": "note"}, id="CUDA assumed"),
        pytest.param({"cuda_image": "13.0", "cuda_was_read": False, "cpu_build": True}, {}, id="CUDA assumed of a CPU build"),
        pytest.param({"cuda_init": 803}, {"cuda-init-fails": "blocking"}, id="cuInit fails"),
        pytest.param({"cuda_init": 719}, {"cuda-init-fails": "blocking"}, id="cuInit fails with a rare number"),
        pytest.param({"cuda_init": 0}, {}, id="cuInit is fine"),
        pytest.param({"compat_in_use": True}, {"compat-in-use": "note"}, id="compat libraries in use"),
        pytest.param({"cuda_image": "12.9"}, {"no-cu129-tag": "note"}, id="CUDA 12 image"),
    ],
)  # fmt: skip
def test_findings(boundaries, given, expected):
    assert ids(judge(DriverFacts(**given), boundaries, TODAY)) == expected


GPU_NOTES = {"floor-is-no-promise": "note", "derived-baseline": "note"}


@pytest.mark.parametrize(
    ("name", "count", "memory", "expected"),
    [
        pytest.param("NVIDIA B300 SXM6 AC", 8, 2144, {}, id="enough"),
        pytest.param("NVIDIA B300 SXM6 AC", 4, 1072, {"hardware-floor": "blocking", "memory-below-recipe": "note"}, id="too few"),
        pytest.param("NVIDIA GB300", 4, 1110, {"several-nodes": "note", "memory-below-recipe": "note"}, id="one tray of two"),
        pytest.param("NVIDIA H100 80GB HBM3", 8, 640, {"several-nodes": "note", "memory-below-recipe": "note"}, id="one node of four"),
        pytest.param("NVIDIA B200", 8, 1440, {"memory-below-recipe": "note"}, id="8 × B200 do not hold the weights"),
        pytest.param("NVIDIA A100-SXM4-80GB", 8, 640, {"hardware-unlisted": "note", "architecture": "blocking", "memory-below-recipe": "note"}, id="architecture"),
        pytest.param("NVIDIA B300 SXM6 AC", None, None, {}, id="count and memory not read"),
    ],
)  # fmt: skip
def test_hardware(boundaries, name, count, memory, expected):
    given = DriverFacts(gpu_names=(name,), gpu_count=count, gpu_memory_bytes=None if memory is None else memory * GIB)
    assert ids(judge(given, boundaries, TODAY)) == expected | GPU_NOTES


def test_an_architecture_that_was_read_outranks_the_table(boundaries):
    given = DriverFacts(gpu_names=("NVIDIA B300 SXM6 AC",), compute_capabilities=("8.0",))
    assert ids(judge(given, boundaries, TODAY))["architecture"] == "blocking"


def test_blocking_findings_come_first(boundaries):
    given = DriverFacts(gpu_names=("NVIDIA B300 SXM6 AC",), gpu_count=2, loaded="575.1", vllm_version="0.26.0")
    severities = [finding.severity for finding in judge(given, boundaries, TODAY).findings]
    assert severities == sorted(severities)


@pytest.mark.parametrize(("day", "told"), [(date(2026, 12, 30), False), (date(2026, 12, 31), True)])
def test_an_old_snapshot_says_its_age(boundaries, day, told):
    found = judge(DriverFacts(), boundaries, day)
    assert ("snapshot-old" in ids(found)) is told


def test_without_a_model_only_what_holds_for_any_is_judged(boundaries):
    any_model = boundaries.without_model()
    given = DriverFacts(
        loaded="575.57.08",
        cuda_image="13.0",
        gpu_names=("NVIDIA A100-SXM4-80GB",),
        gpu_count=1,
        vllm_version="0.20.0",
        container_read=True,
    )
    found = judge(given, any_model, TODAY)
    assert (found.verdict, found.rule) == (DriverVerdict.BLOCKED, "B-02")
    assert ids(found) == {"branch-over": "note"}
    assert found.snapshot == "vllm, checked 2026-11-30"


class TestFacts:
    def test_of_a_healthy_fingerprint(self, boundaries):
        found = facts_from(Sides(host(), container()))
        assert found == DriverFacts(
            loaded="580.105.08",
            on_disk="580.105.08",
            cuda_image="13.0",
            image_reference="vllm/vllm-openai:v0.28.0",
            image_digest="sha256:digest",
            image_known=True,
            gpu_names=B300,
            gpu_count=8,
            gpu_memory_bytes=8 * 268 * GIB,
            compute_capabilities=("10.3",) * 8,
            vllm_version="0.28.0",
            cuda_init=0,
            container_read=True,
        )
        assert judge(found, boundaries, TODAY).verdict is DriverVerdict.SUPPORTED

    @pytest.mark.parametrize(
        ("inside", "cuda", "read"),
        [
            ({"torch__cuda": "12.9", "torch__version": "2.9+cu130"}, "12.9", True),
            ({"torch__version": "2.9.1+cu130"}, "13.0", True),
            ({"package__torch": "2.9.1+cu128"}, "12.8", True),
            ({"cuda__version_file": "13.0.1"}, "13.0", False),
            ({"image__env__CUDA_VERSION": "13.0.2"}, "13.0", False),
            ({"container__env__CUDA_VERSION": "12.9.1"}, "12.9", False),
            ({}, None, False),
        ],
    )
    def test_cuda_is_read_from_torch_and_only_told_by_the_image(self, inside, cuda, read):
        found = facts_from(Sides({}, facts(**inside)))
        assert (found.cuda_image, found.cuda_was_read) == (cuda, read)

    @pytest.mark.parametrize(
        ("inside", "cpu"),
        [
            ({"torch__version": "2.13.0+cpu"}, True),
            ({"vllm__metadata_version": "0.32.0+cpu"}, True),
            ({"vllm__version": "0.32.0+cpu"}, True),
            ({"torch__version": "2.9.1+cu130", "vllm__version": "0.28.0"}, False),
        ],
    )
    def test_a_cpu_build_is_recognised(self, inside, cpu):
        assert facts_from(Sides({}, facts(**inside))).cpu_build is cpu

    @pytest.mark.parametrize("name", ["env", "container__env", "image__env"])
    @pytest.mark.parametrize(("value", "expected"), [("1", True), ("TRUE", True), ("0", False), ("", False)])
    def test_compatibility_is_switched_on_by_a_variable(self, name, value, expected):
        inside = facts(**{f"{name}__VLLM_ENABLE_CUDA_COMPATIBILITY": value})
        assert facts_from(Sides({}, inside)).compat_enabled is expected

    def test_an_inspected_container_was_not_looked_into(self):
        found = facts_from(
            Sides(host(), facts(container__image_id="i", image__env__CUDA_VERSION="13.0", driver__loaded="580.1"))
        )
        assert not found.container_read
        assert found.image_known

    def test_the_driver_is_read_inside_too_for_the_kernel_is_the_same(self):
        assert facts_from(Sides({}, facts(driver__loaded="575.57.08"))).loaded == "575.57.08"

    def test_odd_values_are_not_trusted(self):
        found = facts_from(Sides(facts(gpu__0__memory_total_bytes="much"), facts(cuda__init="x", nvml__count="8")))
        assert (found.gpu_memory_bytes, found.cuda_init, found.gpu_count) == (None, None, None)

    def test_a_pasted_nvidia_smi_is_enough_for_the_host_side(self, boundaries):
        text = "| NVIDIA-SMI 575.57.08   Driver Version: 575.57.08   CUDA Version: 12.9 |"
        side = nvidia_smi.to_facts(nvidia_smi.read(text))
        found = judge(facts_from(Sides(side, facts(torch__cuda="13.0"))), boundaries, TODAY)
        assert (found.verdict, found.rule) == (DriverVerdict.BLOCKED, "B-02")


@pytest.mark.parametrize(
    ("version", "expected"), [("580.105.08", (580, 105, 8)), ("595.84", (595, 84)), ("r580", (580,)), ("none", ())]
)
def test_versions_are_numbers(version, expected):
    assert numbers(version) == expected


class TestData:
    FILES = ("kimi-k3.yaml", "nvidia-driver.yaml", "vllm-options.yaml")

    def texts(self):
        from playbooks.catalog import _definitions, _texts

        return dict(_texts(_definitions() / "boundaries"))

    def test_every_fact_that_ships_has_a_source(self, boundaries):
        dated = [value for _, value in boundaries.model if value is not None]
        rows = (
            *boundaries.images,
            *boundaries.file.hardware,
            *boundaries.file.notes,
            *boundaries.driver.cuda,
            *boundaries.driver.toolkits,
        )
        for fact in (
            *dated,
            *rows,
            *boundaries.driver.branches,
            boundaries.options.caching,
            boundaries.options.recipes,
        ):
            assert fact.source
            assert fact.checked_on <= TODAY
        assert boundaries.source
        assert boundaries.title

    def test_an_option_is_left_out_for_one_reason(self, boundaries):
        named = [option for group in boundaries.options.removed for option in group.options]
        assert len(named) == len(set(named))
        assert not set(named) & {*boundaries.model.required_flags.value, *boundaries.model.kept_flags.value}

    def test_a_snapshot_is_as_fresh_as_its_oldest_part(self):
        texts = self.texts()
        texts["nvidia-driver.yaml"] = texts["nvidia-driver.yaml"].replace(
            "checked_on: 2026-11-30\ncuda", "checked_on: 2026-10-01\ncuda"
        )
        assert parse_boundaries(texts).checked_on == date(2026, 10, 1)

    def test_the_model_checked_last_counts(self):
        texts = self.texts()
        newer = (
            texts["kimi-k3.yaml"]
            .replace("id: kimi-k3", "id: other", 1)
            .replace("\nchecked_on: 2026-11-30", "\nchecked_on: 2026-12-01", 1)
        )
        assert parse_boundaries({**texts, "other.yaml": newer}).id == "other"

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (
                ("schema: baseline-boundaries/1", "schema: other/1"),
                "kimi-k3.yaml: expected schema one of baseline-boundaries/1",
            ),
            (("schema: baseline-boundaries/1", "schema: [1"), "kimi-k3.yaml: expected YAML, found"),
            (("min_gpus: 32", "min_gpus: many"), "kimi-k3.yaml: hardware.0.min_gpus: .* found 'many'"),
            (("id: kimi-k3", "idd: kimi-k3"), "kimi-k3.yaml: id: Field required"),
            (("'^0\\.1\\.dev\\d+'", "'^(0'"), "kimi-k3.yaml: images.0.version: .*expected a regular expression"),
        ],
    )
    def test_a_broken_file_says_file_place_and_expected_form(self, change, message):
        texts = self.texts()
        with pytest.raises(InvalidDefinition, match=message):
            parse_boundaries({**texts, "kimi-k3.yaml": texts["kimi-k3.yaml"].replace(*change, 1)})

    @pytest.mark.parametrize("missing", FILES)
    def test_a_missing_part_is_named(self, missing):
        texts = self.texts()
        del texts[missing]
        with pytest.raises(InvalidDefinition, match="expected a model, one driver and one options file"):
            parse_boundaries(texts)

    def test_a_text_is_no_file(self):
        with pytest.raises(InvalidDefinition, match="x: expected schema"):
            parse_file("just text", "x")


class TestFirstBaseline:
    def named(self, boundaries, argv=(), env=None, **more):
        baseline = Baseline(engine="process", argv=("m", *argv), env=env or {})
        return {finding.id: finding.severity for finding in bad_first_baseline(baseline, boundaries=boundaries, **more)}

    @pytest.mark.parametrize(
        ("given", "expected"),
        [
            pytest.param({}, {}, id="a minimal one"),
            pytest.param({"argv": ("--enable-prefix-caching", "--tool-call-parser", "x")}, {"extras-in-first-command": "blocking"}, id="cache and tools"),
            pytest.param({"argv": ("--speculative-config.model", "x")}, {"extras-in-first-command": "blocking"}, id="speculative decoding"),
            pytest.param({"argv": ("--nnodes", "2")}, {"several-nodes-first": "blocking"}, id="several nodes"),
            pytest.param({"env": {"NCCL_DEBUG": "INFO", "A": "1"}}, {"several-nodes-first": "note"}, id="communication variables"),
            pytest.param({"argv": ("--nnodes", "2"), "one_node_clean": True}, {}, id="several nodes after one was clean"),
            pytest.param({"verdict": DriverVerdict.BLOCKED}, {"driver-below-boundary": "blocking"}, id="driver blocked"),
            pytest.param({"verdict": DriverVerdict.COMPAT_ONLY}, {"driver-below-boundary": "blocking"}, id="compat only"),
            pytest.param({"verdict": DriverVerdict.SUPPORTED}, {}, id="driver supported"),
            pytest.param({"verdict": DriverVerdict.UNKNOWN}, {}, id="driver unknown"),
        ],
    )  # fmt: skip
    def test_bad_ones_are_named(self, boundaries, given, expected):
        assert self.named(boundaries, **given) == expected

    def test_many_are_counted(self, boundaries):
        env = {f"NCCL_{number}": "1" for number in range(9)}
        (found,) = bad_first_baseline(Baseline(engine="process", env=env), boundaries=boundaries)
        assert "and 3 more" in found.text


def test_gpus_of_a_fingerprint_are_named_by_their_kind(boundaries):
    found = facts_from(Sides(gpus(2, name="NVIDIA H200"), {}))
    assert boundaries.driver.kind(found.gpu_names[0]).gpu == "H200"
    assert boundaries.driver.kind("Tesla X9") is None
