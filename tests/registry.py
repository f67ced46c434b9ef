"""Programs that no Debian has, from the registries of Go and Python: made once, in the cache. Where one cannot be had, that
is said once, and None is given back. Go is taken from here or from the host, where it is.
"""
import functools
import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile

GO = (os.environ["PATH"], "/usr/local/go/bin", "/host/usr/local/go/bin", "/host/usr/bin")  # ./dev shows the host there
HOST_CERTIFICATES = "/host/etc/ssl/certs/ca-certificates.crt"  # a network of the host's own may need them


def cache():
    return pathlib.Path(os.environ.get("HEED_CACHE") or pathlib.Path.home() / ".cache/heed")


@functools.cache
def go_program(package, version):
    """The program of a Go package."""
    return _cached(package.rpartition("/")[2], version, lambda folder: _go(folder, "install", f"{package}@{version}"))


@functools.cache
def go_module(source):
    """The program of a Go module of ours, called as its folder is."""
    files = b"".join(path.read_bytes() for path in sorted(source.iterdir()))
    return _cached(source.name, hashlib.sha256(files).hexdigest()[:12],
                   lambda folder: _go(folder, "-C", str(source), "install", "."))


@functools.cache
def python_program(package, version):
    """The program of a Python package that is called as the package is, in an environment of its own."""
    return _cached(package, version, lambda folder: _python(folder, package, version))


def _cached(name, version, make):
    folder = cache() / f"{name}-{version}"
    program = folder / name
    why = ""
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        why = make(folder)
    if why:
        print(f"not run: {name} ({why})", flush=True)
    return None if why else str(program)


def _go(folder, *command):
    """Why that has failed; empty if it has not."""
    go = shutil.which("go", path=os.pathsep.join(GO))
    if not go:
        return "no Go"
    with tempfile.TemporaryDirectory(dir=cache()) as work:  # what Go downloads is not kept
        env = {"GOBIN": f"{work}/bin", "GOPATH": f"{work}/path", "GOCACHE": f"{work}/objects", "GOFLAGS": "-modcacherw",
               "CGO_ENABLED": "0"}
        if why := _run([go, *command], {"SSL_CERT_FILE": HOST_CERTIFICATES}, env):
            return why
        program, = pathlib.Path(work, "bin").iterdir()
        os.replace(program, folder / program.name)
    return ""


def _python(folder, package, version):
    """Likewise."""
    pip = f"{folder}/environment/bin/pip"
    why = (_run(["python3", "-m", "venv", "--clear", folder / "environment"]) or
           _run([pip, "install", "--quiet", f"{package}=={version}"], {"PIP_CERT": HOST_CERTIFICATES}))
    if not why:
        os.symlink(f"environment/bin/{package}", folder / package)
    return why


def _run(command, certificates=None, env=None):
    if os.path.exists(HOST_CERTIFICATES):
        env = {**(certificates or {}), **(env or {})}
    name = " ".join(os.path.basename(word) for word in command[:2])
    try:
        done = subprocess.run(command, env={**os.environ, **(env or {})}, capture_output=True, text=True, timeout=900)
    except subprocess.TimeoutExpired:
        return f"`{name}` took too long"
    except OSError as error:
        return f"`{name}`: {error.strerror}"
    return f"`{name}` has failed: " + done.stderr.strip().rpartition("\n")[2] if done.returncode else ""
