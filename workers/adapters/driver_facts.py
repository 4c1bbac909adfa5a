"""The NVIDIA driver on the host, three ways: the module that is loaded, the one on disk, and the packages.

Only the loaded module proves what runs now. All paths hang below a root folder, so that a recorded or fake root reads alike.
"""

from __future__ import annotations

import lzma
import re
from pathlib import Path

from workers.adapters.attempted import attempt, output, text
from workers.ports import Facts

VERSION = re.compile(r"\b(\d{3}\.\d{2,3}(?:\.\d{2})?)\b")
_PACKAGE = re.compile(r"^(?:lib)?nvidia|^cuda-(?:drivers|compat)|^xserver-xorg-video-nvidia")
_INSTALLED = "install ok installed"
_MODULES = ("nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm", "nvidia_peermem", "gdrdrv", "nouveau")
_LIBRARY_FOLDERS = (
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib64",
    "usr/lib",
    "usr/local/nvidia/lib64",
    "usr/lib/wsl/lib",
)


def driver_facts(root: Path) -> Facts:
    """Return `driver.*`, `modules.*` and `proc.gpu_count` but for `driver.state`."""
    line = "/proc/driver/nvidia/version"
    version_file = root / line.lstrip("/")
    facts: Facts = {
        "driver.loaded": attempt(line, lambda: _loaded(root)),
        "driver.module_flavour": attempt(
            line, lambda: "open" if "Open Kernel Module" in text(version_file) else "proprietary"
        ),
        "driver.on_disk": attempt("modinfo nvidia", lambda: _on_disk(root)),
        "proc.gpu_count": attempt(
            "/proc/driver/nvidia/gpus", lambda: len(list((root / "proc/driver/nvidia/gpus").iterdir()))
        ),
        "pci.gpu_count": attempt("/sys/bus/pci/devices", lambda: _pci_gpus(root)),
    }
    facts |= _packages(root)
    facts |= _library(root, "libcuda.so.1", "driver.libcuda")
    facts |= _library(root, "libnvidia-ml.so.1", "driver.libnvml")
    return facts | _modules(root)


def _loaded(root: Path) -> str | None:
    try:
        found = VERSION.search(text(root / "proc/driver/nvidia/version"))
    except FileNotFoundError:
        found = VERSION.search(text(root / "sys/module/nvidia/version"))
    return found[1] if found else None


def _on_disk(root: Path) -> str | None:
    release = text(root / "proc/sys/kernel/osrelease")
    folder = root / "lib/modules" / release
    modules = sorted(folder.glob("**/nvidia.ko*")) if folder.is_dir() else []
    if not modules:
        return None
    path = modules[0]
    if path.suffix == ".ko":
        raw = path.read_bytes()
    elif path.suffix == ".xz":
        raw = lzma.decompress(path.read_bytes())
    else:
        return output("modinfo", "-b", str(root), "-k", release, "-F", "version", "nvidia", timeout_s=1) or None
    found = re.search(rb"(?:^|\0)version=([0-9.]+)\0", raw)
    return found[1].decode() if found else None


def _packages(root: Path) -> Facts:
    path = root / "var/lib/dpkg/status"
    source = "/var/lib/dpkg/status"
    if not path.exists() and (root / "var/lib/rpm").exists() and root == Path("/"):

        def read_rpm() -> dict[str, str]:
            listed = output("rpm", "-qa", "--qf", "%{NAME} %{VERSION}-%{RELEASE}\n", "*nvidia*", timeout_s=2)
            return dict(line.split(" ", 1) for line in listed.splitlines())

        return {"driver.packages": attempt("rpm -qa", read_rpm)}
    states: dict[str, tuple[str, str]] = {}

    def read_dpkg() -> dict[str, str]:
        for block in path.read_text(encoding="utf-8", errors="replace").split("\n\n"):
            fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line and line[0] != " ")
            if _PACKAGE.match(fields.get("Package", "")):
                states[fields["Package"]] = (fields.get("Version", ""), fields.get("Status", ""))
        return {name: version for name, (version, status) in sorted(states.items()) if status == _INSTALLED}

    packages = attempt(source, read_dpkg)
    half = sorted(f"{name} {version} ({status})" for name, (version, status) in states.items() if status != _INSTALLED)
    return {
        "driver.packages": packages,
        "driver.packages_half_installed": packages.model_copy(update={"value": half})
        if packages.value is not None
        else packages,
    }


def _library(root: Path, name: str, prefix: str) -> Facts:
    def find() -> Path | None:
        for folder in _LIBRARY_FOLDERS:
            path = root / folder / name
            if path.exists() or path.is_symlink():
                return path.resolve(strict=False)
        return None

    path = attempt(name, lambda: (found := find()) and "/" + str(found.relative_to(root.resolve())))
    version = VERSION.search(str(path.value)) if path.value else None
    return {
        f"{prefix}_path": path,
        f"{prefix}_version": attempt(f"file name of {name}", lambda: version[1] if version else None),
    }


def _modules(root: Path) -> Facts:
    loaded = attempt(
        "/proc/modules", lambda: {line.split()[0] for line in text(root / "proc/modules").splitlines() if line.strip()}
    )
    if loaded.value is None:
        return {f"modules.{name}": loaded for name in _MODULES}
    facts = {}
    for name in _MODULES:

        def version(name: str = name) -> str | bool | None:
            if name not in loaded.value:
                return None
            path = root / "sys/module" / name / "version"
            return text(path) if path.exists() else True

        facts[f"modules.{name}"] = attempt("/proc/modules", version)
    return facts


def _pci_gpus(root: Path) -> int:
    count = 0
    for device in (root / "sys/bus/pci/devices").iterdir():
        if text(device / "vendor") == "0x10de" and text(device / "class").startswith("0x03"):
            count += 1
    return count
