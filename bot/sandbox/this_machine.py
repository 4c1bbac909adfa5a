"""Makes this machine a node: its key, and a narrow policy that opens only what lies ready for the purpose."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from bot.adapters.keys import bot_key, node_key_file, write_secret
from playbooks.evidence.signing import SigningKey

NODE = "this-machine"
_POLICY = """\
# What the sandbox's worker may start on this machine; written at every start of the sandbox.
# For rules of your own: baseline sandbox --policy FILE. Reference: docs/reference/node-policy.md
schema = "baseline-node-policy/1"
engines = [{engines}]
model_dirs = [{model_dirs}]
env = ["VLLM_*", "OMP_NUM_THREADS", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "CUDA_VISIBLE_DEVICES"]
ports = [18000, 18999]
max_duration_s = 1800
max_hold_s = 1800

{interpreters}"""
_INTERPRETER = """[[interpreters]]
python = {python}
vllm = {vllm}
"""


@dataclass(frozen=True, slots=True)
class Engine:
    """A vLLM on this machine: the interpreter and the command."""

    python: Path
    vllm: Path


def find_engine(lab: Path) -> Engine | None:
    """Return the lab's vLLM, else one on PATH with its interpreter beside it, else None."""
    on_path = shutil.which("vllm")
    for vllm in (lab / "venv" / "bin" / "vllm", Path(on_path) if on_path else None):
        if vllm is not None and vllm.is_file() and (vllm.parent / "python").exists():
            return Engine(vllm.parent.absolute() / "python", vllm.absolute())
    return None


def lab_folder() -> Path:
    """Return where `./dev lab` puts an engine: `.lab` here, else beside the code."""
    here = Path.cwd() / ".lab"
    return here if here.is_dir() else Path(__file__).resolve().parents[2] / ".lab"


def tiny_command(lab: Path) -> str | None:
    """Return a command that launches the lab's tiny model on a machine without a GPU; None where it is not installed."""
    model = lab / "models" / "tiny-llama"
    if find_engine(lab) is None or not model.is_dir():
        return None
    return (
        "VLLM_CPU_KVCACHE_SPACE=1 HF_HUB_OFFLINE=1 vllm serve "
        f"{model.absolute()} --served-model-name tiny --enforce-eager --max-model-len 4096 --dtype bfloat16"
    )


def make_key(data: Path) -> Path:
    """Return the node's key file; make it, and enrol its public half, when there is none."""
    path = data / "sandbox" / "node.key.json"
    if not path.exists():
        key = SigningKey.generate()
        public = data / "nodes" / f"{NODE}.pub"
        public.parent.mkdir(parents=True, exist_ok=True)
        public.write_text(key.public.to_text() + "\n", encoding="utf-8")
        write_secret(path, node_key_file(NODE, key, bot_key(data).public))
    return path


def write_policy(data: Path, *, lab: Path, engine: Engine | None) -> Path:
    """Write the node's policy: models of the lab and of the data folder, and the engine that was found."""
    models = data / "models"
    models.mkdir(parents=True, exist_ok=True)
    folders = [one for one in (lab / "models", models) if one.is_dir()]
    path = data / "sandbox" / "node-policy.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        _POLICY.format(
            engines='"process"' if engine else "",
            model_dirs=", ".join(_quoted(one.absolute()) for one in folders),
            interpreters=_INTERPRETER.format(python=_quoted(engine.python), vllm=_quoted(engine.vllm))
            if engine
            else "",
        ),
        encoding="utf-8",
    )
    return path


def _quoted(path: Path) -> str:
    # TOML's basic strings take JSON's escapes.
    return json.dumps(str(path), ensure_ascii=False)
