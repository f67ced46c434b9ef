"""What README.md and CONTRIBUTING.md tell a stranger to type works.

Of every ```console fence the lines that begin with "$ " are run, in order, from the top of the tree, and must end well.
One that ends with " &" is a server: the next line waits until it listens; at the fence's end it is told to stop, and
must end well. A ```python fence whose first line is "# PATH" is that file, for the fences after it. What is in ```sh
fences is not run: what takes hours, or needs what a test must not use.

grpcurl is in no Debian. Where there is none, and there is Go here or on the host, it is built once, in the cache; where
that cannot be, its commands are not run.
"""
import os
import pathlib
import re
import shutil
import subprocess
import unittest

import registry

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = ("README.md", "CONTRIBUTING.md")
GRPCURL, VERSION = "github.com/fullstorydev/grpcurl/cmd/grpcurl", "v1.9.4"


def fences(page):
    """Each fence of the page that is tried, as (kind, text)."""
    return re.findall(r"^```(console|python)\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


def commands_of(fence):
    return re.findall(r"^\$ (.*)$", fence, re.MULTILINE)


def grpcurl():
    """The folder that grpcurl is in; None where it cannot be had."""
    found = shutil.which("grpcurl") or registry.go_program(GRPCURL, VERSION)
    return found and os.path.dirname(found)


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
