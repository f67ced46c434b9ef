"""What README.md and CONTRIBUTING.md tell a stranger to type works.

Of every ```console fence the lines that begin with "$ " are run, in order, from the top of the tree, and must end well.
One that ends with " &" is a server: the next line waits until it listens; at the fence's end it is told to stop, and
must end well. What is in ```sh fences is not run: what takes hours, or needs what a test must not use.
"""
import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = ("README.md", "CONTRIBUTING.md")


def fences(page):
    """The commands of each console fence of the page."""
    text = (ROOT / page).read_text()
    for fence in re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        yield re.findall(r"^\$ (.*)$", fence, re.MULTILINE)


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
    def try_fence(self, commands):
        servers = []
        try:
            for command in commands:
                print("$", command, flush=True)
                if command.endswith(" &"):
                    servers.append(Server(command.removesuffix(" &")))
                else:
                    done = subprocess.run(["bash", "-c", command], cwd=ROOT, stdin=subprocess.DEVNULL, timeout=1200)
                    self.assertEqual(done.returncode, 0, command)
        finally:
            ends = [server.stop() for server in servers]
        self.assertEqual(ends, [0] * len(servers))

    def test_every_command_of_every_console_fence_works(self):
        for page in PAGES:
            for commands in fences(page):
                with self.subTest(f"{page}: {commands[0]}"):
                    self.try_fence(commands)


if __name__ == "__main__":
    unittest.main()
