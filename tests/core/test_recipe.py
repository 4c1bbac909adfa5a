"""Official recipes: any of their form is read, a profile resolves in the documented order, and changes are named."""

from __future__ import annotations

import json
import sys
from datetime import date
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from playbooks import cli
from playbooks.catalog import load_boundaries
from playbooks.errors import InvalidDefinition
from playbooks.judging.boundary import DriverFacts, judge
from playbooks.judging.minimal_command import derive
from playbooks.judging.recipe_arguments import command_of, resolve
from playbooks.judging.recipe_boundary import changes, from_recipe, prose_boundaries
from playbooks.reading.recipe import Addition, read
from playbooks.vocabulary import DriverVerdict

SAMPLES = Path(__file__).parents[1] / "logs" / "recipes"
IMPORTED = date(2026, 12, 1)


def sample(name):
    return read((SAMPLES / f"{name}.yaml").read_text(), name=name)


def recipe(**parts):
    """Return the smallest recipe with some parts set."""
    raw = {"meta": {"title": "t"}, "model": {"model_id": "org/m"}} | parts
    return read(yaml.safe_dump(raw))


@pytest.fixture
def run(monkeypatch, capsys):
    def call(*words):
        monkeypatch.setattr(sys, "argv", ["baseline", *words])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        out = capsys.readouterr()
        return SimpleNamespace(code=caught.value.code or 0, out=out.out, err=out.err)

    return call


@pytest.fixture(scope="module")
def form():
    return load_boundaries().options.recipes


class TestRead:
    def test_every_part(self):
        full = sample("full")
        assert (full.model_id, full.title, full.slug) == ("moonshotai/Kimi-K3", "Kimi K3 (sample)", "kimi-k3")
        assert full.updated == date(2026, 8, 6)
        assert full.min_vllm_version == "0.27.0"
        assert full.base == Addition(
            ("--trust-remote-code", "--gpu-memory-utilization", "0.95"), {"VLLM_ENGINE_READY_TIMEOUT_S": "3600"}
        )
        assert full.images == {"nvidia.cu130": "vllm/vllm-openai:kimi-k3", "amd": "vllm/vllm-openai-rocm:kimi-k3"}
        assert full.hardware["h100"] == "unsupported"
        assert full.variants["default"].vram_minimum_gb == 1680
        assert full.variants["nvfp4"].addition.tp_by_hardware == {"b300": 4}
        assert full.features["spec_decoding"].opt_in
        assert not full.features["reasoning"].opt_in
        assert full.features["spec_decoding"].addition.args[0] == "--speculative-config"
        assert full.strategy_overrides["single_node_tep"].hardware["blackwell"].args == ("--max-model-len", "131072")
        assert full.hardware_overrides["amd"].image == "vllm/vllm-openai-rocm:kimi-k3"
        assert full.strategy_min_gpus["multi_node_tp"] == 16
        assert full.unknown == ("model.moon_phase",)
        assert full.odd == ()

    def test_only_what_every_recipe_has(self):
        small = sample("minimal")
        assert (small.slug, small.updated) == ("small-model", date(2026, 6, 1))
        assert (small.images, small.hardware, small.odd, small.unknown) == ({}, {}, (), ())

    def test_odd_values_are_named_and_stop_nothing(self):
        odd = sample("odd")
        assert odd.model_id == "example/odd"
        assert odd.slug == "odd"
        assert odd.updated is None
        assert odd.base.args == ("--trust-remote-code", "--max-model-len", "4096")
        assert odd.base.env == {"A": "1", "B": "2"}
        assert odd.variants["large"].addition.tp == 4
        assert odd.variants["large"].vram_minimum_gb is None
        assert odd.strategy_min_gpus == {"single_node_tp": 8}
        assert odd.strategies == ("single_node_tp",)
        assert odd.unknown == ("new_part",)
        assert "variants.large.vram_minimum_gb: expected a whole number, found str 'about 80'" in odd.odd
        assert "strategy_overrides: expected a mapping, found list \"['x']\"" in odd.odd

    def test_unknown_keys_are_found_at_every_level(self):
        found = recipe(
            model={"model_id": "m", "new": 1},
            variants={"default": {"new": 1}, "odd": None},
            features={"f": {"new": 1}},
            hardware_overrides={"h": {"new": 1}},
            strategy_overrides={"s": {"new": 1}},
            new=1,
        )
        assert set(found.unknown) == {
            "new",
            "model.new",
            "variants.default.new",
            "features.f.new",
            "hardware_overrides.h.new",
            "strategy_overrides.s.new",
        }

    def test_a_version_without_quotes_is_no_number(self):
        assert read("meta: {}\nmodel: {model_id: m, min_vllm_version: 0.10}").min_vllm_version == "0.10"

    @pytest.mark.parametrize(
        ("meta", "updated"),
        [
            ({"date_added": date(2026, 1, 2)}, date(2026, 1, 2)),
            ({"date_updated": "2026-03-04T05:06:07"}, date(2026, 3, 4)),
            ({}, None),
        ],
    )
    def test_dates(self, meta, updated):
        assert recipe(meta=meta).updated == updated

    def test_a_time_is_its_day(self):
        assert read("meta: {date_updated: 2026-03-04 05:06:07}\nmodel: {model_id: m}").updated == date(2026, 3, 4)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("[1", "x: expected a recipe in YAML, found"),
            ("just text", "x: expected a recipe with the keys meta and model, found str"),
            ("a: 1", "found a"),
            ("model: 3", "found model"),
            ("model: {a: 1}", "x: model.model_id: expected the model's id, found NoneType"),
            ("model: {model_id: [a]}", "x: model.model_id: expected the model's id, found list"),
            ("[" * 100_000, "x: expected a recipe in YAML"),
            ("a" * 2_000_001, "at most 2000000 characters"),
            ("model: {model_id: 2026-99-99}", "x: expected a recipe in YAML"),
        ],
    )
    def test_what_is_no_recipe_is_refused(self, text, message):
        with pytest.raises(InvalidDefinition) as caught:
            read(text, name="x")
        assert message in str(caught.value)

    def test_anchors_do_not_make_a_recipe_endless(self):
        levels = "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9) if n else 'x'}]" for n in range(9))
        with pytest.raises(InvalidDefinition, match="anchors that repeat"):
            read(f"{levels}\nmodel: {{model_id: m}}")

    @given(
        st.dictionaries(
            st.sampled_from(["meta", "variants", "features", "hardware_overrides", "strategy_overrides", "guide", "opt_in_features", "compatible_strategies", "dependencies", "x"]),
            st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=8), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3), max_leaves=8),
        )
    )  # fmt: skip
    def test_any_form_is_read(self, parts):
        found = recipe(**parts)
        assert found.model_id == "org/m"
        changes(found, sample("minimal"))
        prose_boundaries(found)


class TestResolve:
    def test_the_default_profile(self, form):
        found = resolve(sample("full"), form)
        assert (found.profile, found.strategy, found.variant) == ("b300", "single_node_tp", "default")
        assert found.argv[0] == "moonshotai/Kimi-K3"
        assert found.image == "vllm/vllm-openai:kimi-k3"
        assert found.env == {"VLLM_ENGINE_READY_TIMEOUT_S": "3600", "VLLM_USE_RUST_FRONTEND": "1"}
        assert dict(found.origins)["--load-format"] == "hardware_overrides.blackwell"
        assert dict(found.origins)["--tool-call-parser"] == "features.tool_calling"
        assert "--speculative-config" not in found.argv
        assert found.notes == ()

    def test_the_last_word_counts(self, form):
        found = resolve(sample("full"), form, profile="h200")
        at = found.argv.index("--gpu-memory-utilization")
        assert found.argv[at + 1] == "0.97"

    def test_a_strategy_replaces_the_block_of_its_hardware(self, form):
        found = resolve(sample("full"), form, strategy="single_node_tep")
        assert "--load-format" not in found.argv
        assert found.argv[found.argv.index("--max-model-len") + 1] == "131072"
        assert "--enable-expert-parallel" in found.argv
        assert found.env["NCCL_CUMEM_ENABLE"] == "1"

    def test_features_by_choice(self, form):
        found = resolve(sample("full"), form, features=["spec_decoding"])
        assert "--speculative-config" in found.argv
        assert "--tool-call-parser" not in found.argv
        hopper = resolve(sample("full"), form, profile="h200", features=["spec_decoding"])
        assert hopper.argv[hopper.argv.index("--max-num-seqs") + 1] == "4"
        other = resolve(sample("full"), form, strategy="single_node_tep", features=["spec_decoding"])
        assert "--speculative-config" not in other.argv

    @pytest.mark.parametrize(
        ("parts", "profile", "size"),
        [
            pytest.param({}, "b300", "8", id="GPUs of a node"),
            pytest.param({}, "gb300", "4", id="GPUs of a tray"),
            pytest.param({"variants": {"default": {"tp": 2}}}, "b300", "2", id="of the variant"),
            pytest.param({"variants": {"default": {"tp": {"h200": 2, "hopper": 3}}}}, "h200", "2", id="of the variant by hardware"),
            pytest.param({"variants": {"default": {"tp": {"hopper": 3}}}}, "h100", "3", id="of the variant by group"),
            pytest.param({"variants": {"default": {"tp": 2, "hardware_overrides": {"b300": {"tp": 1}}}}}, "b300", "1", id="of the variant's hardware"),
            pytest.param({"variants": {"default": {"tp": 2}}, "hardware_overrides": {"blackwell": {"tp": 4}}}, "b300", "4", id="of the hardware"),
            pytest.param({"strategy_overrides": {"single_node_tp": {"tp": {"b300": 6}}}, "hardware_overrides": {"blackwell": {"tp": 4}}}, "b300", "6", id="of the strategy"),
            pytest.param({"strategy_overrides": {"single_node_tp": {"tp": 6, "hardware_overrides": {"nvidia": {"tp": 5}}}}}, "b300", "5", id="of the strategy's hardware"),
            pytest.param({"strategy_overrides": {"single_node_tp": {"tp": {"h200": 6}}}}, "b300", "8", id="of another hardware"),
            pytest.param({}, "unheard_of", "1", id="unknown profile"),
        ],
    )  # fmt: skip
    def test_tensor_parallel_size(self, form, parts, profile, size):
        found = resolve(recipe(**parts), form, profile=profile)
        assert found.argv[found.argv.index("--tensor-parallel-size") + 1] == size

    def test_an_unknown_profile_is_noted(self, form):
        assert "no profile of the known taxonomy" in resolve(recipe(), form, profile="x9").notes[0]

    def test_a_variant_with_its_own_model_and_hardware(self, form):
        found = resolve(sample("full"), form, variant="nvfp4")
        assert found.model_id == "RedHatAI/Kimi-K3-NVFP4"
        assert "--quantization" in found.argv
        assert found.env["VLLM_USE_FLASHINFER_MOE_FP4"] == "1"
        assert found.argv[found.argv.index("--tensor-parallel-size") + 1] == "8"

    def test_the_image_of_the_brand(self, form):
        assert resolve(sample("full"), form, profile="mi355x").image == "vllm/vllm-openai-rocm:kimi-k3"
        only = recipe(model={"model_id": "m", "docker_image": "img:1"})
        assert resolve(only, form, profile="b300").image == "img:1"
        assert resolve(recipe(), form).image is None

    @pytest.mark.parametrize(
        ("choice", "message"),
        [
            (
                {"strategy": "x"},
                "expected a strategy of the recipe (multi_node_tp, pd_cluster, single_node_tep, single_node_tp), found 'x'",
            ),
            ({"variant": "x"}, "expected a variant of the recipe (default, nvfp4), found 'x'"),
            (
                {"features": ["x"]},
                "expected a feature of the recipe (reasoning, spec_decoding, tool_calling), found 'x'",
            ),
        ],
    )
    def test_what_the_recipe_does_not_have_is_named(self, form, choice, message):
        with pytest.raises(InvalidDefinition) as caught:
            resolve(sample("full"), form, **choice)
        assert str(caught.value) == message

    def test_a_variant_of_a_recipe_without_any(self, form):
        with pytest.raises(InvalidDefinition, match="it has none"):
            resolve(recipe(), form, variant="x")

    @pytest.mark.parametrize(
        ("strategies", "chosen"),
        [(["a", "single_node_tp"], "single_node_tp"), (["a", "b"], "a"), ([], "single_node_tp")],
    )
    def test_the_first_strategy(self, form, strategies, chosen):
        assert resolve(recipe(compatible_strategies=strategies), form).strategy == chosen

    def test_a_strategy_without_known_flags_adds_none(self, form):
        assert resolve(recipe(compatible_strategies=["a"]), form).argv == ("org/m",)

    def test_an_opt_in_part_of_several_nodes(self, form):
        found = resolve(recipe(compatible_strategies=["multi_node_dep"]), form, profile="gb300")
        assert found.argv == ("org/m", "--data-parallel-size", "4", "--enable-expert-parallel")

    def test_a_minimal_command_of_a_profile(self, form):
        boundaries = load_boundaries()
        minimal = derive(command_of(resolve(sample("full"), form)), engine_version="0.28.0", boundaries=boundaries)
        assert "--no-enable-prefix-caching" in minimal.baseline.argv
        assert minimal.baseline.image.reference == "vllm/vllm-openai:kimi-k3"
        assert {gone.option for gone in minimal.removed} == {
            "--enable-prefix-caching",
            "--enable-auto-tool-choice",
            "--tool-call-parser",
            "--reasoning-parser",
        }

    def test_without_an_image_it_is_a_process(self, form):
        command = command_of(resolve(recipe(), form))
        assert command.argv[:2] == ("vllm", "serve")
        assert command_of(resolve(recipe(), form), "img").image == "img"


class TestChanges:
    def test_between_two_versions(self):
        found = {(c.path, c.before, c.after) for c in changes(sample("full"), sample("full-later"))}
        assert ("model.min_vllm_version", "0.27.0", "0.27.1") in found
        assert ("model.docker_image.amd", "vllm/vllm-openai-rocm:kimi-k3", None) in found
        assert ("hardware_overrides.blackwell.extra_args --prefix-match-unit", None, "128") in found
        assert ("guide, in words", "Use vllm/vllm-openai:kimi-k3 for a first look.", None) in found
        assert ("guide, in words", None, "Use vllm/vllm-openai:v0.27.1 or newer.") in found
        assert not any(path.startswith("hardware_overrides.hopper") for path, _, _ in found)

    def test_the_same_recipe(self):
        assert changes(sample("full"), sample("full")) == ()

    @pytest.mark.parametrize(
        ("old", "new", "expected"),
        [
            pytest.param({"x": {"y": [1]}}, {"x": {"y": [1, 2]}}, ("x.y", "1", "1 2"), id="an unknown key"),
            pytest.param({"x": ["a"]}, {}, ("x", "a", None), id="a list gone"),
            pytest.param({"dependencies": [{"note": "a"}]}, {"dependencies": [{"note": "b"}]}, ("dependencies", "[{'note': 'a'}]", "[{'note': 'b'}]"), id="a list of mappings"),
            pytest.param({"x": ["--a", "--b"]}, {"x": ["--b", "--a"]}, ("x", "--a --b", "--b --a"), id="only the order of flags"),
            pytest.param({"x": ["--a", "1"]}, {"x": ["--a", "2"]}, ("x --a", "1", "2"), id="a flag's value"),
        ],
    )  # fmt: skip
    def test_one_value(self, old, new, expected):
        (found,) = changes(recipe(**old), recipe(**new))
        assert (found.path, found.before, found.after) == expected


class TestProse:
    @pytest.mark.parametrize(
        ("sentence", "found"),
        [
            ("Use the cu130 image.", [("cuda_build", "13.0", False)]),
            ("Needs CUDA 13.0.2 or newer.", [("cuda_build", "13.0", False)]),
            ("CUDA 13 only.", [("cuda_build", "13", False)]),
            ("A host driver r580+ is required.", [("driver_branch", "580", False)]),
            ("The driver must be at least 580.65.", [("driver_branch", "580", False)]),
            (
                "There is no kimi-k3-cu129 tag.",
                [("cuda_build", "12.9", True), ("image_tag", "no kimi-k3-cu129 tag", True)],
            ),
            ("Use vllm/vllm-openai:v0.27.1.", [("image_tag", "vllm/vllm-openai:v0.27.1", False)]),
            ("Nothing of that kind.", []),
        ],
    )
    def test_boundaries_in_words_carry_their_sentence(self, sentence, found):
        read_ = prose_boundaries(recipe(guide=f"# Title\n\n{sentence} Another sentence.\n"))
        assert [(p.kind, p.value.rstrip("."), p.negated) for p in read_] == found
        assert all(p.sentence == sentence and p.path == "guide" for p in read_)

    def test_notes_of_installation_and_dependencies_are_prose(self):
        paths = {found.path for found in prose_boundaries(sample("full"))}
        assert paths == {"guide", "model.install.docker.note", "dependencies.0.note"}


class TestAsBoundaries:
    def test_what_the_recipe_states(self):
        shipped = load_boundaries()
        found = from_recipe(sample("full"), shipped.driver, shipped.options, IMPORTED)
        model = found.model
        assert model.ids.value == ("moonshotai/Kimi-K3", "RedHatAI/Kimi-K3-NVFP4")
        assert model.min_vllm.value == "0.27.0"
        assert model.cuda_build.value == "13.0"
        assert model.min_driver_branch.value == 580
        assert "A host driver r580+ is required." in model.min_driver_branch.source
        assert model.vram_minimum_gb.value == 1680
        assert model.required_flags.value == ("--trust-remote-code",)
        assert {row.gpu: (row.min_gpus, row.per_node, row.verified) for row in found.file.hardware} == {
            "H200": (8, 8, True),
            "B300": (8, 8, True),
            "GB300": (8, 4, True),
        }
        assert len(found.file.notes) == len({note.text for note in found.file.notes})
        assert found.id == "kimi-k3"
        assert found.age_days(IMPORTED) == 1, "the vendor's tables are a day older"

    def test_it_judges(self):
        shipped = load_boundaries()
        found = from_recipe(sample("full"), shipped.driver, shipped.options, IMPORTED)
        verdict = judge(
            DriverFacts(loaded="575.57.08", cuda_image="13.0", gpu_names=("NVIDIA B300",), vllm_version="0.26.0"),
            found,
            IMPORTED,
        )
        assert verdict.verdict is DriverVerdict.BLOCKED
        assert "vllm-below-minimum" in {finding.id for finding in verdict.findings}

    def test_what_it_does_not_state_is_none(self):
        shipped = load_boundaries()
        model = from_recipe(recipe(), shipped.driver, shipped.options, IMPORTED).model
        assert (
            model.min_vllm,
            model.cuda_build,
            model.min_driver_branch,
            model.vram_minimum_gb,
            model.required_flags,
        ) == (None,) * 5

    def test_contradicting_sentences_state_nothing(self):
        shipped = load_boundaries()
        both = recipe(guide="Use cu130 images.\n\nUse cu128 images.")
        assert from_recipe(both, shipped.driver, shipped.options, IMPORTED).model.cuda_build is None


class TestCommand:
    def test_the_first_import(self, run, tmp_path):
        found = run("recipe", "import", str(SAMPLES / "full.yaml"), "--data", str(tmp_path))
        assert found.code == 0
        assert "First import: nothing to compare with." in found.out
        assert "model.moon_phase" in found.out
        assert (tmp_path / "recipes" / "kimi-k3.yaml").read_bytes() == (SAMPLES / "full.yaml").read_bytes()

    def test_a_later_import_says_what_changed(self, run, tmp_path):
        run("recipe", "import", str(SAMPLES / "full.yaml"), "--data", str(tmp_path))
        found = run("recipe", "import", str(SAMPLES / "full-later.yaml"), "--data", str(tmp_path))
        assert "  - model.min_vllm_version: 0.27.0 → 0.27.1" in found.out
        assert "  - model.docker_image.amd: vllm/vllm-openai-rocm:kimi-k3 → not there" in found.out
        same = run("recipe", "import", str(SAMPLES / "full-later.yaml"), "--data", str(tmp_path))
        assert "Nothing changed since the import of" in same.out

    def test_as_json_with_its_age(self, run, tmp_path):
        run("recipe", "import", str(SAMPLES / "full.yaml"), "--data", str(tmp_path))
        found = json.loads(
            run("recipe", "import", str(SAMPLES / "full-later.yaml"), "--data", str(tmp_path), "--json").out
        )
        assert found["updated"] == "2026-08-27"
        assert found["age_days"] >= 96
        assert not found["first_import"]
        assert found["previous_import"]
        assert {"path": "model.min_vllm_version", "before": "0.27.0", "after": "0.27.1"} in found["changes"]
        assert any(prose["kind"] == "driver_branch" for prose in found["prose"])

    @pytest.mark.parametrize("name", ["odd", "minimal"])
    def test_other_forms(self, run, tmp_path, name):
        found = run("recipe", "import", str(SAMPLES / f"{name}.yaml"), "--data", str(tmp_path))
        assert found.code == 0
        assert ("Another form than expected" in found.out) is (name == "odd")
        assert ("without a date" in found.out) is (name == "odd")

    def test_a_slug_is_no_path(self, run, tmp_path):
        path = tmp_path / "r.yaml"
        path.write_text("meta: {slug: ../../etc/x}\nmodel: {model_id: m}")
        assert run("recipe", "import", str(path), "--data", str(tmp_path / "d")).code == 0
        assert [p.name for p in (tmp_path / "d" / "recipes").glob("*.yaml")] == ["-..-etc-x.yaml"]

    def test_what_cannot_be_read_or_written_is_said(self, run, tmp_path):
        bad = tmp_path / "bad.yaml"
        bad.write_text("hello")
        assert run("recipe", "import", str(bad), "--data", str(tmp_path)).code == 2
        assert "expected a recipe" in run("recipe", "import", str(bad), "--data", str(tmp_path)).err
        occupied = tmp_path / "occupied"
        occupied.write_text("")
        found = run("recipe", "import", str(SAMPLES / "full.yaml"), "--data", str(occupied))
        assert (found.code, "expected a folder that can be written" in found.err) == (2, True)

    def test_a_damaged_last_import_is_said(self, run, tmp_path):
        run("recipe", "import", str(SAMPLES / "full.yaml"), "--data", str(tmp_path))
        (tmp_path / "recipes" / "kimi-k3.json").write_text("{")
        found = run("recipe", "import", str(SAMPLES / "full.yaml"), "--data", str(tmp_path))
        assert (found.code, "expected the recipe imported last" in found.err) == (2, True)
        (tmp_path / "recipes" / "kimi-k3.json").unlink()
        found = run("recipe", "import", str(SAMPLES / "full-later.yaml"), "--data", str(tmp_path))
        assert "since the import of an unknown day" in found.out

    def test_the_launch_of_a_profile(self, run):
        found = run("recipe", "launch", str(SAMPLES / "full.yaml"), "--profile", "b300", "--engine-version", "0.28.0")
        assert found.code == 0
        assert "--no-enable-prefix-caching" in found.out
        assert "Left out:" in found.out
        assert "with VLLM_ENGINE_READY_TIMEOUT_S=3600" in found.out
        plain = run("recipe", "launch", str(SAMPLES / "minimal.yaml"), "--profile", "x9")
        assert "no profile of the known taxonomy" in plain.out

    def test_the_launch_as_json(self, run):
        found = json.loads(run("recipe", "launch", str(SAMPLES / "full.yaml"), "--json").out)
        assert found["minimal"]["image"]["reference"] == "vllm/vllm-openai:kimi-k3"
        assert {"option": "--trust-remote-code", "from": "model.base_args"} in found["origins"]
        assert found["removed"][0]["why"]
