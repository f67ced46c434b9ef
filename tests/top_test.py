"""`heed top` as whoever starts it meets it, at a pseudo-terminal: what a real server does is on the screen, one that goes
and comes back is told of, and the terminal is as it was whatever ends the program.
"""
import errno
import os
import pty
import select
import signal
import subprocess
import tempfile
import termios
import time
import unittest

from served import HEED, ROOT, Served, build

CONFIG = f'models {{ name: "writer" folder: "{ROOT / "models/shakespeare"}" }} shutdown {{ delay_seconds: 0 }}'
LEFT = b"\x1b[?7h\x1b[?25h\x1b[?1049l"  # long lines wrap, there is a cursor, and what was on the screen comes back


class Screen:
    """`heed top` whose terminal is ours."""

    def __init__(self, address, *flags):
        self.person, program = pty.openpty()
        termios.tcsetwinsize(self.person, (24, 160))
        self.before = termios.tcgetattr(self.person)
        self.process = subprocess.Popen([HEED, "top", f"--address={address}", "--interval=0.2s", *flags], stdin=program,
                                        stdout=program, stderr=program, env={**os.environ, "TERM": "xterm"})
        os.close(program)
        self.drawn = b""

    def read(self):
        """What is drawn next; nothing once the program has ended."""
        if not select.select([self.person], [], [], 30)[0]:
            raise AssertionError(f"nothing more is drawn:\n{self.drawn.decode(errors='replace')}")
        try:
            return os.read(self.person, 65536)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return b""

    def until(self, text):
        """Reads until this was drawn, what was read before left out."""
        deadline = time.monotonic() + 60
        while text.encode() not in self.drawn:
            part = self.read()
            if not part or time.monotonic() > deadline:
                raise AssertionError(f"not drawn: {text}\n{self.drawn.decode(errors='replace')}")
            self.drawn += part
        self.drawn = self.drawn.partition(text.encode())[2]

    def type(self, keys):
        os.write(self.person, keys)

    def end(self):
        """Its exit status, and whether the terminal is as it was."""
        try:
            while part := self.read():
                self.drawn += part
            status = self.process.wait(timeout=30)
        finally:
            self.process.kill()
        modes = termios.tcgetattr(self.person)
        os.close(self.person)
        return status, modes == self.before and self.drawn.endswith(LEFT)


class Top(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        build()
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name

    def serve(self, address="127.0.0.1:0"):
        served = Served(CONFIG, self.folder, address)
        self.addCleanup(served.end)
        return served

    def test_what_a_server_does_is_on_the_screen(self):
        served = self.serve()
        screen = Screen(served.address)
        screen.until("writer")
        screen.until("streams 0")
        command = [HEED, "generate", f"--address={served.address}", "--max_tokens=20000", "HAMLET:"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as stream:
            screen.until("calls 1, streams 1")
            stream.terminate()
        screen.until("calls 0, streams 0")
        screen.type(b"q")
        self.assertEqual(screen.end(), (0, True))

    def test_whatever_ends_it_the_terminal_is_as_it_was(self):
        served = self.serve()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            with self.subTest(number):
                screen = Screen(served.address)
                screen.until("writer")
                self.assertNotEqual(termios.tcgetattr(screen.person), screen.before)
                screen.process.send_signal(number)
                self.assertEqual(screen.end(), (128 + number, True))

    def test_a_server_that_has_gone_is_tried_again(self):
        served = self.serve()
        screen = Screen(served.address)
        screen.until("writer")
        self.assertEqual(served.end(), 0)
        screen.until(f"no server at {served.address}")
        screen.until("trying again")
        self.serve(served.address)
        screen.until("q quits")
        screen.until("writer")
        screen.type(b"q")
        self.assertEqual(screen.end(), (0, True))

    def test_lines_where_no_terminal_is_and_an_exit_status_where_no_server_is(self):
        served = self.serve()
        command = [HEED, "top", f"--address={served.address}", "--interval=0.1s"]
        done = subprocess.run([*command, "--count=2"], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(len([line for line in done.stdout.splitlines() if line.startswith("writer  ")]), 2)
        self.assertNotIn("\x1b", done.stdout)
        self.assertEqual(served.end(), 0)
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"no server at {served.address}", done.stderr)


if __name__ == "__main__":
    unittest.main()
