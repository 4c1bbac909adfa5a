"""Real services for tests: started on loopback in a folder of their own, ended by pid, never shared with the machine's."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path


def free_port() -> int:
    """Return a loopback port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for_port(port: int, *, seconds: float = 20) -> None:
    """Wait until something listens on the loopback port.

    Raises:
        TimeoutError: nothing listened in time.
    """
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with socket.socket() as probe:
            probe.settimeout(0.5)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    msg = f"expected a listener on port {port} within {seconds:g} s, found none"
    raise TimeoutError(msg)


def _need(program: str, package: str) -> str:
    found = shutil.which(program)
    if not found:
        msg = f"expected {program} on PATH, found none: install {package} (./dev test-services does it as root)"
        raise FileNotFoundError(msg)
    return found


def _as_postgres(command: list[str]) -> list[str]:
    """PostgreSQL refuses to run as root: hand the command to its own user then."""
    return (
        ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", *command]
        if os.geteuid() == 0
        else command
    )


@contextlib.contextmanager
def postgres() -> Iterator[str]:
    """Run a private PostgreSQL and yield its SQLAlchemy URL."""
    homes = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: int(p.parent.name))
    if not homes:
        msg = "expected /usr/lib/postgresql/<version>/bin, found none: install postgresql (./dev test-services does it as root)"
        raise FileNotFoundError(msg)
    bin_, port = homes[-1], free_port()
    folder = Path(tempfile.mkdtemp(prefix="baseline-pg-"))
    if os.geteuid() == 0:
        user = pwd.getpwnam("postgres")
        os.chown(folder, user.pw_uid, user.pw_gid)
    data = folder / "data"
    quiet = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
    subprocess.run(
        _as_postgres([str(bin_ / "initdb"), "-D", str(data), "-A", "trust", "-U", "app", "--no-sync"]), **quiet
    )
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"
    control = _as_postgres([str(bin_ / "pg_ctl"), "-D", str(data), "-w", "-l", str(folder / "log"), "-o", options])
    try:
        subprocess.run([*control, "start"], **quiet)
        subprocess.run([str(bin_ / "createdb"), "-h", "127.0.0.1", "-p", str(port), "-U", "app", "app"], **quiet)
        yield f"postgresql+psycopg://app@127.0.0.1:{port}/app"
    finally:
        subprocess.run([*control, "stop", "-m", "immediate"], **{**quiet, "check": False})
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def redis(*, password: str | None = None) -> Iterator[str]:
    """Run a private Redis and yield its URL."""
    program, port = _need("redis-server", "redis-server"), free_port()
    folder = Path(tempfile.mkdtemp(prefix="baseline-redis-"))
    words = [
        program,
        "--port",
        str(port),
        "--bind",
        "127.0.0.1",
        "--dir",
        str(folder),
        "--save",
        "",
        "--appendonly",
        "no",
    ]
    if password:
        words += ["--requirepass", password]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            wait_for_port(port)
            yield f"redis://:{password}@127.0.0.1:{port}/0" if password else f"redis://127.0.0.1:{port}/0"
        finally:
            server.terminate()
            server.wait(10)
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def docker_engine() -> Iterator[str]:
    """Run a private Docker engine without a bridge and yield its DOCKER_HOST."""
    program = _need("dockerd", "docker.io")
    folder = Path(tempfile.mkdtemp(prefix="baseline-docker-"))
    sock = folder / "docker.sock"
    words = [
        program,
        "--data-root",
        str(folder / "data"),
        "--exec-root",
        str(folder / "exec"),
        "-p",
        str(folder / "pid"),
    ]
    words += ["-H", f"unix://{sock}", "--bridge=none", "--iptables=false"]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True) as daemon,
    ):
        try:
            until = time.monotonic() + 30
            while not sock.exists() and daemon.poll() is None and time.monotonic() < until:
                time.sleep(0.05)
            if not sock.exists():
                msg = f"expected dockerd to answer within 30 s, its log ends: {(folder / 'log').read_text()[-800:]}"
                raise TimeoutError(msg)
            yield f"unix://{sock}"
        finally:
            daemon.send_signal(signal.SIGTERM)
            daemon.wait(30)
            subprocess.run(
                ["umount", str(folder / "exec" / "netns" / "default")], check=False, stderr=subprocess.DEVNULL
            )
            shutil.rmtree(folder, ignore_errors=True)


def busybox_image(docker_host: str, name: str = "baseline-test/busybox:1") -> str:
    """Import an image made from nothing but busybox; return its name."""
    folder = Path(tempfile.mkdtemp(prefix="baseline-img-"))
    (folder / "bin").mkdir()
    shutil.copy("/bin/busybox", folder / "bin" / "busybox")
    for tool in ("sh", "sleep", "echo", "cat", "ls", "tail", "touch", "true", "false", "id", "env"):
        (folder / "bin" / tool).symlink_to("busybox")
    tar = subprocess.run(["tar", "-C", str(folder), "-c", "."], check=True, capture_output=True).stdout
    command = ["docker", "import", "-c", "ENV PATH=/bin", "-c", 'CMD ["/bin/sh"]', "-", name]
    subprocess.run(command, input=tar, check=True, capture_output=True, env={**os.environ, "DOCKER_HOST": docker_host})
    shutil.rmtree(folder)
    return name


def python_image(docker_host: str, name: str = "baseline-test/python:1") -> str:
    """Import an image made of this machine's own system Python and the libraries it needs; return its name."""
    folder = Path(tempfile.mkdtemp(prefix="baseline-img-"))
    python = Path("/usr/bin/python3").resolve()
    home = Path("/usr/lib") / python.name
    linked = subprocess.run(["ldd", str(python)], check=True, capture_output=True, text=True).stdout
    modules = [
        path
        for path in (home / "lib-dynload").iterdir()
        if path.name.startswith(("_json", "_ctypes", "_posixsubprocess", "resource", "_struct"))
    ]
    for module in modules:
        linked += subprocess.run(["ldd", str(module)], check=True, capture_output=True, text=True).stdout
    libraries = {word for word in linked.split() if word.startswith("/")}
    for library in libraries:
        target = folder / library.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(Path(library).resolve(), target)
    shutil.copytree(
        home,
        folder / str(home).lstrip("/"),
        symlinks=False,
        ignore=shutil.ignore_patterns("test", "dist-packages", "__pycache__", "idlelib", "config-*"),
    )
    (folder / "usr/bin").mkdir(parents=True, exist_ok=True)
    shutil.copy(python, folder / "usr/bin" / "python3")
    (folder / "bin").mkdir()
    shutil.copy("/bin/busybox", folder / "bin" / "busybox")
    for tool in ("sh", "sleep"):
        (folder / "bin" / tool).symlink_to("busybox")
    tar = subprocess.run(["tar", "-C", str(folder), "-c", "."], check=True, capture_output=True).stdout
    changes = [
        "-c",
        "ENV PATH=/usr/bin:/bin",
        "-c",
        "ENV CUDA_VERSION=13.0.1",
        "-c",
        "ENV NVIDIA_REQUIRE_CUDA=cuda>=13.0",
    ]
    command = ["docker", "import", *changes, "-", name]
    subprocess.run(command, input=tar, check=True, capture_output=True, env={**os.environ, "DOCKER_HOST": docker_host})
    shutil.rmtree(folder)
    return name
