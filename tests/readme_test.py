"""What README.md and CONTRIBUTING.md tell a stranger to type works.

Of every ```console fence the lines that begin with "$ " are run, in order, from the top of the tree, and must end well.
One that ends with " &" is a server: the next line waits until it listens; at the fence's end it is told to stop, and
must end well. A ```python fence whose first line is "# PATH" is that file, for the fences after it. What is in ```sh
fences is not run: what takes hours, or needs what a test must not use.

grpcurl is in no Debian. Where there is none, and there is Go here or on the host, it is built once, in the cache; where
that cannot be, its commands are not run.
"""
import functools
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = ("README.md", "CONTRIBUTING.md")
GRPCURL, VERSION = "github.com/fullstorydev/grpcurl/cmd/grpcurl", "v1.9.4"
GO = (os.environ["PATH"], "/usr/local/go/bin", "/host/usr/local/go/bin", "/host/usr/bin")  # ./dev shows the host there
HOST_CERTIFICATES = "/host/etc/ssl/certs/ca-certificates.crt"


def fences(page):
    """Each fence of the page that is tried, as (kind, text)."""
    return re.findall(r"^```(console|python)\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


def commands_of(fence):
    return re.findall(r"^\$ (.*)$", fence, re.MULTILINE)


@functools.cache
def grpcurl():
    """The folder that grpcurl is in; None, said once, where it cannot be had."""
    if found := shutil.which("grpcurl"):
        return os.path.dirname(found)
    cache = pathlib.Path(os.environ.get("HEED_CACHE") or pathlib.Path.home() / ".cache/heed")
    folder = cache / f"grpcurl-{VERSION}"
    why = "" if (folder / "grpcurl").exists() else build_grpcurl(cache, folder)
    if why:
        print(f"not run: grpcurl ({why})", flush=True)
    return None if why else str(folder)


def build_grpcurl(cache, folder):
    """Why that has failed; empty if it has not."""
    go = shutil.which("go", path=os.pathsep.join(GO))
    if not go:
        return "no Go"
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as work:  # what Go downloads is not kept
        env = {**os.environ, "GOBIN": f"{work}/bin", "GOPATH": f"{work}/path", "GOCACHE": f"{work}/objects",
               "GOFLAGS": "-modcacherw", "CGO_ENABLED": "0"}
        if os.path.exists(HOST_CERTIFICATES):  # those that a network of the host's own may need
            env["SSL_CERT_FILE"] = HOST_CERTIFICATES
        try:
            done = subprocess.run([go, "install", f"{GRPCURL}@{VERSION}"], env=env, capture_output=True, text=True,
                                  timeout=900)
        except subprocess.TimeoutExpired:
            return "`go install` took too long"
        if done.returncode:
            return "`go install` has failed: " + done.stderr.strip().rpartition("\n")[2]
        folder.mkdir(exist_ok=True)
        os.replace(f"{work}/bin/grpcurl", folder / "grpcurl")
    return ""


class Server:
    """A command in the background, up when it says so."""

    def __init__(self, command):
        self.process = subprocess.Popen(["bash", "-c", f"exec {command}"], cwd=ROOT, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, text=True)
        for line in self.process.stdout:
            if line.startswith("listening on"):
                return
        raise AssertionError(f"{command} has ended with {self.process.wait()}")

    def stop(self):
        self.process.terminate()
        self.process.communicate(timeout=120)
        return self.process.returncode


class Pages(unittest.TestCase):
    def try_command(self, command):
        path = os.environ["PATH"]
        if re.match(r"(! )?grpcurl ", command):
            if not grpcurl():
                return
            path = f"{grpcurl()}:{path}"
        done = subprocess.run(["bash", "-c", command], cwd=ROOT, env={**os.environ, "PATH": path},
                              stdin=subprocess.DEVNULL, timeout=1200)
        self.assertEqual(done.returncode, 0, command)

    def try_commands(self, commands):
        servers = []
        try:
            for command in commands:
                print("$", command, flush=True)
                if command.endswith(" &"):
                    servers.append(Server(command.removesuffix(" &")))
                else:
                    self.try_command(command)
        finally:
            ends = [server.stop() for server in servers]
        self.assertEqual(ends, [0] * len(servers))

    def try_fence(self, kind, text):
        if kind == "console":
            return self.try_commands(commands_of(text))
        path = ROOT / re.match(r"# (\S+)\n", text).group(1)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def test_every_command_of_every_console_fence_works(self):
        for page in PAGES:
            for kind, text in fences(page):
                with self.subTest(f"{page}: {text.partition(chr(10))[0]}"):
                    self.try_fence(kind, text)


if __name__ == "__main__":
    unittest.main()
