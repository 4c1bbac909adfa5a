"""Two baselines differ in named variables; one at most may change, and a named change can be made (R6.7)."""

from __future__ import annotations

import pytest

from playbooks.errors import InvalidCommand, SecondVariable
from playbooks.judging.baseline import (
    Baseline,
    Change,
    ContainerOptions,
    FixedSample,
    ImageRef,
    Interpreter,
    ModelFiles,
    Mount,
)
from playbooks.judging.baseline_diff import apply, diff, one_change
from playbooks.judging.option_words import normalised, options_of


def words(*given):
    return normalised(options_of(given))


BASE = Baseline(
    engine="docker",
    image=ImageRef(reference="img:1", digest="sha256:a"),
    argv=words("m", "--gpu-memory-utilization", "0.95", "--no-enable-prefix-caching", "--trust-remote-code"),
    env={"A": "1"},
    mounts=(Mount(source="/models", target="/models"),),
    container=ContainerOptions(
        shm_size_bytes=1 << 30, ipc_mode="host", ulimits={"memlock": -1}, entrypoint=("vllm", "serve")
    ),
)


def having(**update):
    return BASE.model_copy(update=update)


def argv(*given):
    return having(argv=words("m", *given))


def container(**update):
    return having(container=BASE.container.model_copy(update=update))


ONE_VARIABLE = [
    pytest.param(argv("--gpu-memory-utilization", "0.90", "--no-enable-prefix-caching", "--trust-remote-code"), "argument --gpu-memory-utilization", "0.95", "0.90", id="an argument's value"),
    pytest.param(argv("--gpu-memory-utilization", "0.95", "--enable-prefix-caching", "--trust-remote-code"), "argument --enable-prefix-caching", "off", "on", id="a switch against its negation"),
    pytest.param(argv("--gpu-memory-utilization", "0.95", "--trust-remote-code"), "argument --enable-prefix-caching", "off", None, id="a negation against the default"),
    pytest.param(argv("--gpu-memory-utilization", "0.95", "--no-enable-prefix-caching"), "argument --trust-remote-code", "on", None, id="a switch gone"),
    pytest.param(argv("--config", '{"a":1}', "--gpu-memory-utilization", "0.95", "--no-enable-prefix-caching", "--trust-remote-code"), "argument --config", None, '{"a":1}', id="JSON is one value"),
    pytest.param(argv("--gpu-memory-utilization", "0.95", "--names", "a", "b", "--no-enable-prefix-caching", "--trust-remote-code"), "argument --names", None, "a b", id="several values"),
    pytest.param(having(argv=("n", *BASE.argv[1:])), "argument model", "m", "n", id="the model"),
    pytest.param(having(env={"A": "2"}), "environment A", "1", "2", id="a variable"),
    pytest.param(having(env={}), "environment A", "1", None, id="a variable gone"),
    pytest.param(having(env={"A": "1", "B": ""}), "environment B", None, "", id="an empty variable"),
    pytest.param(having(mounts=(Mount(source="/other", target="/models"),)), "mount /models", "/models (read-only)", "/other (read-only)", id="a mount's source"),
    pytest.param(having(mounts=(Mount(source="/models", target="/models", read_only=False),)), "mount /models", "/models (read-only)", "/models", id="a mount made writable"),
    pytest.param(having(mounts=()), "mount /models", "/models (read-only)", None, id="a mount gone"),
    pytest.param(container(shm_size_bytes=2 << 30), "container shm_size_bytes", str(1 << 30), str(2 << 30), id="shared memory"),
    pytest.param(container(ipc_mode=None), "container ipc_mode", "host", None, id="IPC mode gone"),
    pytest.param(container(ulimits={"memlock": -1, "nofile": 65536}), "container ulimit nofile", None, "65536", id="a limit"),
    pytest.param(container(ulimits={}), "container ulimit memlock", "-1", None, id="a limit gone"),
    pytest.param(container(entrypoint=("python3",)), "container entrypoint", "vllm serve", "python3", id="the entrypoint"),
    pytest.param(having(image=ImageRef(reference="img:2", digest="sha256:b")), "image", "img:1@sha256:a", "img:2@sha256:b", id="the image"),
    pytest.param(having(image=None), "image", "img:1@sha256:a", None, id="no image"),
]  # fmt: skip


@pytest.mark.parametrize(("other", "name", "before", "after"), ONE_VARIABLE)
def test_one_variable_differs(other, name, before, after):
    (found,) = diff(BASE, other)
    assert (found.name, found.before, found.after) == (name, before, after)


@pytest.mark.parametrize(("other", "name", "before", "after"), ONE_VARIABLE)
def test_a_named_change_can_be_made(other, name, before, after):
    change = one_change(BASE, other, reason="why", expected="what")
    assert change == Change(variable=name, before=before, after=after, reason="why", expected="what")
    assert apply(BASE, change) == other


def test_a_change_on_a_baseline_without_container_options():
    bare = Baseline(engine="docker", image=ImageRef(reference="img"))
    changed = apply(bare, Change(variable="container memory_limit_bytes", before=None, after="5"))
    assert changed.container == ContainerOptions(memory_limit_bytes=5)


def test_the_model_keeps_the_way_it_is_named():
    one, other = (Baseline(engine="process", argv=("--model", name)) for name in ("a", "b"))
    (found,) = diff(one, other)
    assert found.name == "argument model"
    assert apply(one, Change(variable=found.name, before="a", after="b")) == other
    assert diff(one, Baseline(engine="process", argv=("a",))) == ()


@pytest.mark.parametrize("name", ["driver", "packages", "container nothing", "gpus"])
def test_what_cannot_be_set_by_name_is_refused(name):
    with pytest.raises(InvalidCommand, match="expected"):
        apply(BASE, Change(variable=name, before=None, after="x"))


def test_an_interpreter_and_a_repaired_model_directory_can_be_set():
    process = Baseline(engine="process", interpreter=Interpreter(python="/a"), model=ModelFiles(path="/m"))
    assert apply(process, Change(variable="interpreter", before="/a", after="/b")).interpreter.python == "/b"
    assert apply(process, Change(variable="interpreter", before="/a", after=None)).interpreter is None
    assert apply(process, Change(variable="model files", before="x", after="y")).model is None


class TestWhatOnlyTheNodeSees:
    @pytest.mark.parametrize(
        ("update", "name"),
        [
            ({"gpus": ("GPU-1",)}, "gpus"),
            ({"nodes": ("a",)}, "nodes"),
            ({"driver": "580.1"}, "driver"),
            ({"sample": FixedSample(body="{}")}, "request sample"),
            ({"interpreter": Interpreter(python="/a", packages={"vllm": "1"})}, "packages"),
            ({"model": ModelFiles(path="/m", files=(("a", 1),))}, "model files"),
        ],
    )
    def test_what_one_side_has_not_read_is_no_difference(self, update, name):
        assert diff(BASE, having(**update)) == ()
        assert diff(having(**update), BASE) == ()

    @pytest.mark.parametrize(
        ("before", "after", "name", "detail"),
        [
            pytest.param({"gpus": ("GPU-1",)}, {"gpus": ("GPU-2",)}, "gpus", (), id="GPUs"),
            pytest.param({"nodes": ("a",)}, {"nodes": ("a", "b")}, "nodes", (), id="nodes"),
            pytest.param({"driver": "575.1"}, {"driver": "580.1"}, "driver", (), id="driver"),
            pytest.param({"engine": "docker"}, {"engine": "process"}, "engine", (), id="engine"),
            pytest.param(
                {"sample": FixedSample(body="{}")},
                {"sample": FixedSample(body='{"a":1}')},
                "request sample",
                ('body: {} → {"a":1}',),
                id="request",
            ),
            pytest.param(
                {"interpreter": Interpreter(python="/a", packages={"torch": "1", "vllm": "1"})},
                {"interpreter": Interpreter(python="/a", packages={"torch": "2", "triton": "3", "vllm": "1"})},
                "packages",
                ("torch: 1 → 2", "triton: not set → 3"),
                id="packages are one variable",
            ),
            pytest.param(
                {"interpreter": Interpreter(python="/a", packages={"torch": "1"})},
                {"interpreter": Interpreter(python="/b", packages={"torch": "2"})},
                "interpreter",
                ("torch: 1 → 2",),
                id="another interpreter with its packages",
            ),
            pytest.param(
                {"interpreter": Interpreter(python="/a", packages={"torch": "1"})},
                {"interpreter": Interpreter(python="/b")},
                "interpreter",
                (),
                id="another interpreter whose packages were not read",
            ),
            pytest.param(
                {"model": ModelFiles(path="/m", revision="r1", files=(("a", 1), ("b", 2)))},
                {"model": ModelFiles(path="/m", revision="r2", files=(("a", 5), ("c", 3)))},
                "model files",
                ("revision: r1 → r2", "a: 1 bytes → 5 bytes", "b: 2 bytes → absent", "c: absent → 3 bytes"),
                id="all model files are one variable",
            ),
            pytest.param(
                {"model": ModelFiles(path="/m", index_sha256="i", config_sha256="c")},
                {"model": ModelFiles(path="/n", index_sha256="j", config_sha256="d")},
                "model files",
                ("path: /m → /n", "index: i → j", "config.json: c → d"),
                id="another directory",
            ),
        ],
    )
    def test_what_both_sides_read_is_compared(self, before, after, name, detail):
        (found,) = diff(having(**before), having(**after))
        assert (found.name, found.detail) == (name, detail)

    @pytest.mark.parametrize(
        "same", [{"model": ModelFiles(path="/m")}, {"interpreter": Interpreter(python="/a", packages={"a": "1"})}]
    )
    def test_equal_ones_are_no_difference(self, same):
        assert diff(having(**same), having(**same)) == ()


class TestImage:
    @pytest.mark.parametrize(
        ("a", "b", "differs"),
        [
            pytest.param({"digest": "d"}, {"digest": "d"}, False, id="same digest"),
            pytest.param({"digest": "d"}, {"digest": "e"}, True, id="the tag moved"),
            pytest.param({"digest": "d"}, {}, False, id="digest read on one side"),
            pytest.param({"image_id": "i"}, {"image_id": "j"}, True, id="built here, another build"),
            pytest.param({"image_id": "i"}, {"image_id": "i"}, False, id="built here, the same build"),
        ],
    )
    def test_one_reference(self, a, b, differs):
        one, other = (having(image=ImageRef(reference="img", **side)) for side in (a, b))
        assert bool(diff(one, other)) is differs

    def test_another_reference_of_the_same_digest_is_the_same_image(self):
        one, other = (having(image=ImageRef(reference=name, digest="d")) for name in ("a", "b"))
        assert diff(one, other) == ()

    def test_no_image_on_both_sides(self):
        assert diff(having(image=None), having(image=None)) == ()


def test_equal_baselines_change_nothing():
    assert diff(BASE, BASE) == ()
    assert one_change(BASE, BASE) is None


def test_a_second_variable_is_refused_and_both_are_named():
    other = having(image=ImageRef(reference="img:2"), env={"A": "2"})
    with pytest.raises(SecondVariable, match=r"expected one changed variable, found 2") as caught:
        one_change(BASE, other.model_copy(update={"image": ImageRef(reference="img:2", digest="sha256:b")}))
    assert caught.value.items == ("image", "environment A")
    assert "environment A (1 → 2)" in str(caught.value)
    assert "image (img:1@sha256:a → img:2@sha256:b)" in str(caught.value)


def test_no_container_options_are_no_options():
    assert diff(having(container=None), having(container=ContainerOptions())) == ()


def test_nodes_and_how_the_model_is_spread_over_them_are_one_variable() -> None:
    one = Baseline(engine="process", argv=("serve", "/m", "--tensor-parallel-size", "8"), nodes=("a1",))
    two = one.model_copy(
        update={
            "nodes": ("a1", "a2"),
            "argv": ("serve", "/m", "--pipeline-parallel-size", "2", "--tensor-parallel-size", "8"),
        }
    )
    (variable,) = diff(one, two)
    assert (variable.name, variable.before, variable.after) == (
        "nodes",
        "a1; --tensor-parallel-size 8",
        "a1, a2; --pipeline-parallel-size 2; --tensor-parallel-size 8",
    )
    change = one_change(one, two)
    assert change is not None
    changed = apply(one, change)
    assert (changed.nodes, diff(changed, two)) == (two.nodes, ())
    back = one_change(two, one)
    assert back is not None
    assert diff(apply(two, back), one) == ()


def test_a_spread_that_changes_on_the_same_nodes_is_an_argument() -> None:
    one = Baseline(engine="process", argv=("serve", "/m", "--tensor-parallel-size", "8"), nodes=("a1", "a2"))
    two = one.model_copy(update={"argv": ("serve", "/m", "--tensor-parallel-size", "16")})
    assert [variable.name for variable in diff(one, two)] == ["argument --tensor-parallel-size"]
