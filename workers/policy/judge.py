"""May this request run on this node, and as what? Read-only jobs always may; all else as far as the owner's file says."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from playbooks.judging.baseline import Baseline, Mount
from playbooks.messages import JobRequest, LaunchParams, RankOf
from workers.errors import PolicyRefusal
from workers.policy.arguments import check_arguments, check_port, is_within, port_in
from workers.policy.file import ImageRule, InterpreterRule, NodePolicy

SECRET = re.compile(r"\$\{node:([A-Za-z_][A-Za-z0-9_]*)\}")
NEVER_BY_PATTERN = re.compile(r"(LD_|PYTHON|BASH_|GCONV|MALLOC_|BASELINE_)|^(PATH|HOME|IFS|ENV|SHELL|VLLM_PLUGINS)$")
"""Variables that load code or steer the worker: a pattern with `*` never opens them, only their exact name does."""
_PROGRAM_WORDS = (
    ("vllm", "serve"),
    ("serve",),
    ("python3", "-m", "vllm.entrypoints.openai.api_server"),
    ("python", "-m", "vllm.entrypoints.openai.api_server"),
)


@dataclass(frozen=True, slots=True)
class Allowed:
    """A launch as the policy allows it.

    arguments: what follows `vllm serve`, with what the product adds for this rank of a launch over several nodes.
    port: fixed by the arguments; None = the worker takes a free one of `ports`.
    """

    baseline: Baseline
    arguments: tuple[str, ...]
    interpreter: InterpreterRule | None
    image: ImageRule | None
    mounts: tuple[Mount, ...]
    port: int | None
    ports: tuple[int, int]
    total_s: int
    hold_s: int
    secrets: dict[str, str]
    gpus: tuple[str, ...]
    """UUIDs to use; empty = all of the node."""
    rank: RankOf | None = None
    env: dict[str, str] = field(default_factory=dict)
    """Variables that the product adds for this rank."""


def allow_launch(request: JobRequest, policy: NodePolicy | None) -> Allowed:
    """Judge a launch.

    Raises:
        PolicyRefusal: what the policy does not open; names the rule.
    """
    policy = _required(policy)
    baseline = request.baseline
    if baseline is None:
        raise PolicyRefusal("baseline", "expected a launch with its baseline, found none")
    if baseline.engine not in policy.engines or baseline.engine == "attach":
        raise PolicyRefusal("engine", f"expected an engine of {list(policy.engines)}, found {baseline.engine}")
    arguments = (*engine_arguments(baseline.argv), *_rank_arguments(request, policy))
    check_arguments(arguments, policy)
    _check_env(baseline, policy)
    _check_gpus(baseline, policy)
    port = port_in(arguments)
    if port is not None:
        check_port(str(port), policy)
    in_container = baseline.engine == "docker"
    return Allowed(
        baseline=baseline,
        arguments=arguments,
        interpreter=None if in_container else _interpreter(baseline, policy),
        image=_image(baseline, policy) if in_container else None,
        mounts=_mounts(baseline, policy) if in_container else (),
        port=port,
        ports=policy.ports,
        total_s=min(request.limits.total_s, policy.max_duration_s),
        hold_s=min(LaunchParams.model_validate(request.params).hold_s, policy.max_hold_s),
        secrets=_secrets(baseline, policy),
        gpus=baseline.gpus or (() if policy.gpus == "all" else policy.gpus),
        rank=request.rank,
        env=_rank_env(request, policy),
    )


def _rank_arguments(request: JobRequest, policy: NodePolicy) -> tuple[str, ...]:
    """Return what a rank is given besides the baseline; where its peers are is checked like any other address.

    Raises:
        PolicyRefusal: rule `cluster`.
    """
    rank = request.rank
    if rank is None:
        return ()
    if not 0 <= rank.rank < len(rank.nodes) or rank.nodes[rank.rank] != request.node:
        raise PolicyRefusal(
            "cluster", f"expected {request.node} as rank {rank.rank} of {list(rank.nodes)}, found it not there"
        )
    if rank.is_head and policy.address is None:
        raise PolicyRefusal(
            "cluster", "expected `address`, under which other nodes reach this one, found none in the policy"
        )
    first, last = policy.cluster_ports
    if rank.is_head and rank.master_port is not None and not first <= rank.master_port <= last:
        raise PolicyRefusal(
            "cluster", f"expected a port for the ranks from {first} to {last}, found {rank.master_port}"
        )
    return rank.arguments()


def _rank_env(request: JobRequest, policy: NodePolicy) -> dict[str, str]:
    """Return the address a rank is to tell the others: on a machine with several interfaces the engine would guess one."""
    if request.rank is None or policy.address is None or request.baseline is None:
        return {}
    return {} if "VLLM_HOST_IP" in request.baseline.env else {"VLLM_HOST_IP": policy.address}


def allow_inside(policy: NodePolicy | None, *, python: str | None = None, image: str | None = None) -> None:
    """Judge a fingerprint that starts a listed interpreter or a short-lived container.

    Raises:
        PolicyRefusal: rules `no-policy`, `interpreter`, `image`.
    """
    if python is None and image is None:
        return
    policy = _required(policy)
    if python is not None and not any(_same_program(rule.python, Path(python)) for rule in policy.interpreters):
        raise PolicyRefusal(
            "interpreter", f"expected an interpreter of {[str(r.python) for r in policy.interpreters]}, found {python}"
        )
    if image is not None and not any(_image_fits(rule.reference, image, None) for rule in policy.images):
        raise PolicyRefusal("image", f"expected an image of {[r.reference for r in policy.images]}, found {image}")


def engine_arguments(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return what follows `vllm serve`; a baseline may hold the program words or not."""
    for words in _PROGRAM_WORDS:
        if argv[: len(words)] == words:
            return argv[len(words) :]
    return argv


def _required(policy: NodePolicy | None) -> NodePolicy:
    if policy is None:
        raise PolicyRefusal(
            "no-policy",
            "this node has no policy file, so only reading jobs run; its owner makes one: baseline worker --init-policy FILE",
        )
    return policy


def _interpreter(baseline: Baseline, policy: NodePolicy) -> InterpreterRule:
    wanted = baseline.interpreter.python if baseline.interpreter else None
    if wanted is None and len(policy.interpreters) == 1:
        return policy.interpreters[0]
    for rule in policy.interpreters:
        if wanted is not None and (_same_program(rule.python, Path(wanted)) or _same_program(rule.vllm, Path(wanted))):
            return rule
    raise PolicyRefusal(
        "interpreter", f"expected an interpreter of {[str(r.python) for r in policy.interpreters]}, found {wanted}"
    )


def _same_program(one: Path, other: Path) -> bool:
    # The folder is resolved, the name is not: python in a virtual environment is a link, and its target is no environment.
    return one.parent.resolve() / one.name == other.parent.resolve() / other.name


def _image(baseline: Baseline, policy: NodePolicy) -> ImageRule:
    if baseline.image is None:
        raise PolicyRefusal("image", "expected a baseline with its image, found none")
    for rule in policy.images:
        if _image_fits(rule.reference, baseline.image.reference, baseline.image.digest or baseline.image.image_id):
            _check_container(baseline, rule, policy)
            return rule
    raise PolicyRefusal(
        "image", f"expected an image of {[r.reference for r in policy.images]}, found {baseline.image.reference}"
    )


def _image_fits(wanted: str, reference: str, digest: str | None) -> bool:
    if wanted.startswith("sha256:"):
        return wanted in {digest, reference}
    if "@sha256:" in wanted:
        return wanted == reference or wanted.partition("@")[2] == digest
    if wanted.endswith("*"):
        return reference.startswith(wanted[:-1])
    return reference == wanted


def _check_container(baseline: Baseline, rule: ImageRule, policy: NodePolicy) -> None:
    options = baseline.container
    if options is None:
        return
    if options.entrypoint is not None and options.entrypoint not in (*rule.entrypoints, ("vllm", "serve")):
        raise PolicyRefusal("entrypoint", f"expected the image's own entry point, found {list(options.entrypoint)}")
    if options.network_mode not in (None, *policy.network_modes):
        raise PolicyRefusal(
            "network", f"expected a network mode of {list(policy.network_modes)}, found {options.network_mode}"
        )
    if options.ipc_mode not in {None, "private", "host", "shareable"}:
        raise PolicyRefusal("ipc", f"expected ipc mode private, shareable or host, found {options.ipc_mode}")
    if options.runtime not in {None, "nvidia", "runc"}:
        raise PolicyRefusal("runtime", f"expected runtime nvidia or runc, found {options.runtime}")
    if options.shm_size_bytes is not None and options.shm_size_bytes > policy.max_shm_bytes:
        raise PolicyRefusal(
            "shm", f"expected at most {policy.max_shm_bytes} bytes of shared memory, found {options.shm_size_bytes}"
        )


def _mounts(baseline: Baseline, policy: NodePolicy) -> tuple[Mount, ...]:
    allowed = policy.model_dirs + policy.mounts + policy.writable_mounts
    mounts = []
    for mount in baseline.mounts:
        source = Path(mount.source).resolve()
        if not is_within(source, allowed) or source.is_socket():
            raise PolicyRefusal(
                "mount",
                f"expected a mount within {[str(p) for p in allowed]}, found {mount.source} (resolved: {source})",
            )
        if not mount.read_only and not is_within(source, policy.writable_mounts):
            raise PolicyRefusal(
                "mount-write",
                f"{mount.source}: writable mounts must lie within {[str(p) for p in policy.writable_mounts]}",
            )
        mounts.append(mount.model_copy(update={"source": str(source)}))
    return tuple(mounts)


def _check_env(baseline: Baseline, policy: NodePolicy) -> None:
    for name in baseline.env:
        exact = name in policy.env
        by_pattern = any(rule.endswith("*") and name.startswith(rule[:-1]) for rule in policy.env)
        if not exact and (not by_pattern or NEVER_BY_PATTERN.match(name)):
            raise PolicyRefusal("env", f"expected a variable of {list(policy.env)}, found {name}")


def _check_gpus(baseline: Baseline, policy: NodePolicy) -> None:
    if policy.gpus != "all" and (others := sorted(set(baseline.gpus) - set(policy.gpus))):
        raise PolicyRefusal("gpus", f"expected GPUs of {list(policy.gpus)}, found {others}")


def _secrets(baseline: Baseline, policy: NodePolicy) -> dict[str, str]:
    names = {name for text in (*baseline.env.values(), *baseline.argv) for name in SECRET.findall(text)}
    if not names:
        return {}
    if policy.secrets_file is None:
        raise PolicyRefusal("secret", f"the baseline names {sorted(names)}, and the policy has no secrets_file")
    try:
        mode = policy.secrets_file.stat().st_mode
        lines = policy.secrets_file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise PolicyRefusal("secret", f"secrets file {policy.secrets_file}: {error.strerror}") from error
    if mode & 0o077 and os.geteuid() != 0:
        raise PolicyRefusal(
            "secret", f"secrets file {policy.secrets_file}: expected mode 0600, found {mode & 0o777:04o}"
        )
    known = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    if missing := sorted(names - known.keys()):
        raise PolicyRefusal("secret", f"secrets file {policy.secrets_file}: expected {missing}, found no such lines")
    return {name: known[name] for name in sorted(names)}
