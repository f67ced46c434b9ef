"""./dev as a stranger's host meets it: its commands, the root it makes, interruptions, what is left behind.

For the second half this Debian 13 is made to look like a Debian 12: a file is bound over /etc/os-release, in a mount
namespace of the test's own, and the root is made by a debootstrap of ours, whose root borrows all programs from /host.
Needs to be root, as ./dev does there.
"""
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import textwrap
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEV = str(ROOT / "dev")
MARK = "1000.5"  # seconds that only our processes sleep

TOOLS = {
    "debootstrap": """\
        target=${@: -2:1}
        echo made >>"$HEED_CACHE/calls"
        mkdir -p "$target"/{dev,etc,proc,sys,tmp,usr/sbin,var/lib}
        [ ! -e "$HEED_CACHE/wait" ] || exec sleep %s
        [ "${@: -1}" != http://nowhere ] || exit 1
        for name in bin lib lib64 share; do ln -s /host/usr/$name "$target/usr"; done
        ln -s usr/bin usr/sbin usr/lib usr/lib64 "$target"
        ln -s /host/var/lib/dpkg "$target/var/lib"
        cp "$HEED_CACHE/os-release" "$target/etc"
        """ % MARK,
    "chroot": """\
        [ "$2" = apt-get ] || exec /usr/sbin/chroot "$@"
        """,
}


def run(*command, env=None, **options):
    options.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run([DEV, *command], capture_output=True, text=True, env=env, timeout=60, **options)


class Commands(unittest.TestCase):
    def test_no_command_shows_the_usage(self):
        done = run()
        self.assertEqual((done.returncode, done.stdout.startswith("usage: ./dev COMMAND")), (0, True))

    def test_an_unknown_command_shows_the_usage_and_fails(self):
        done = run("frobnicate")
        self.assertEqual((done.returncode, done.stdout, done.stderr.startswith("usage:")), (2, "", True))
        self.assertTrue(done.stderr.endswith("\ndev: there is no command 'frobnicate'\n"))

    def test_the_exit_status_is_the_command_s(self):
        self.assertEqual(run("shell", "bash", "-c", "exit 7").returncode, 7)

    def test_commands_run_in_the_source_tree(self):
        self.assertEqual(run("shell", "pwd", cwd="/").stdout.strip(), str(ROOT))

    def test_a_model_that_nobody_trains_is_refused_by_name(self):
        self.assertIn("models/nobody/train.py", run("train", "nobody").stderr)


class Paths(unittest.TestCase):
    """What `heed` is called with: paths as the platform sees them, texts as they were typed."""

    def setUp(self):
        self.world = pathlib.Path(tempfile.mkdtemp()).resolve()
        self.addCleanup(shutil.rmtree, self.world)
        self.tree = self.world / "tree"
        for folder in ("deploy", "build/release", "tools", "models/polarity", "classify"):
            (self.tree / folder).mkdir(parents=True)
        for name in ("deploy/packages.txt", "CMakePresets.json", "build/release/compile_commands.json", "README.md"):
            (self.tree / name).write_text("")
        shutil.copy(DEV, self.tree)
        self.program("tools/cmake", "")
        self.program("build/release/heed", 'for word; do printf "%s\\n" "$word"; done')

    def program(self, name, text):
        (self.tree / name).write_text(f"#!/bin/bash\n{text}\n")
        (self.tree / name).chmod(0o755)

    def seen(self, *command):
        """The words that heed gets from `./dev COMMAND`, typed in the tree; TREE stands for its path."""
        env = {**os.environ, "PATH": f"{self.tree}/tools:{os.environ['PATH']}"}
        done = subprocess.run(["./dev", *command], cwd=self.tree, env=env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.replace(str(self.tree), "TREE").splitlines()

    def test_a_word_that_is_no_path_stays_though_a_folder_has_its_name(self):
        self.assertEqual(self.seen("heed", "models"), ["models"])
        self.assertEqual(self.seen("heed", "describe", "models"), ["describe", "models"])
        self.assertEqual(self.seen("heed", "classify", "--model=models", "README.md", "models/polarity"),
                         ["classify", "--model=models", "README.md", "models/polarity"])
        self.assertEqual(self.seen("heed", "generate", "--stop", "models", "--", "--file=README.md"),
                         ["generate", "--stop", "models", "--", "--file=README.md"])

    def test_flags_that_name_files_are_paths(self):
        self.assertEqual(self.seen("heed", "classify", "--file=README.md", "--file", "README.md", "README.md"),
                         ["classify", "--file=TREE/README.md", "--file", "TREE/README.md", "README.md"])
        self.assertEqual(self.seen("serve", "--models", "models", "--config=README.md", "--check"),
                         ["serve", "--models", "TREE/models", "--config=TREE/README.md", "--check"])
        self.assertEqual(self.seen("heed", "classify", "--image=README.md", "--csv", "README.md", "--csv=-"),
                         ["classify", "--image=TREE/README.md", "--csv", "TREE/README.md", "--csv=-"])

    def test_what_is_inspected_is_a_path(self):
        self.assertEqual(self.seen("heed", "inspect", "models/polarity", "--precision=f32"),
                         ["inspect", "TREE/models/polarity", "--precision=f32"])
        self.assertEqual(self.seen("golden", "models", "nowhere"), ["golden", "TREE/models", "nowhere"])

    def test_a_path_that_is_none_stays_and_so_does_no_word_at_all(self):
        self.assertEqual(self.seen("heed", "classify", "--file=-", "--file=nowhere.txt"),
                         ["classify", "--file=-", "--file=nowhere.txt"])
        self.assertEqual(self.seen("heed"), [])


@unittest.skipUnless(os.geteuid() == 0, "needs root")
class AnotherDebian(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        os.unshare(os.CLONE_NEWNS)
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
        cls.release = pathlib.Path("/etc/os-release").read_text()
        with tempfile.NamedTemporaryFile("w", suffix=".os-release") as other:
            other.write('ID=debian\nVERSION_ID="12"\n')
            other.flush()
            os.chmod(other.name, 0o644)
            subprocess.run(["mount", "--bind", other.name, "/etc/os-release"], check=True)

    @classmethod
    def tearDownClass(cls):
        subprocess.run(["umount", "/etc/os-release"], check=True)

    def setUp(self):
        self.world = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.world)
        self.cache = self.world / "cache"
        (self.world / "bin").mkdir()
        self.cache.mkdir()
        (self.cache / "os-release").write_text(self.release)
        self.env = {**os.environ, "HEED_CACHE": str(self.cache), "PATH": f"{self.world}/bin:{os.environ['PATH']}"}
        for name, text in TOOLS.items():
            self.tool(name, text)

    def tearDown(self):
        self.assertEqual(self.left(), [])

    def tool(self, name, text):
        path = self.world / "bin" / name
        path.write_text("#!/bin/bash\n" + textwrap.dedent(text))
        path.chmod(0o755)

    def dev(self, *command, **options):
        return run(*command, env=self.env, **options)

    def left(self):
        """What is still there of ./dev: processes and mounts."""
        lines = [line for line in pathlib.Path("/proc/self/mounts").read_text().splitlines() if str(self.cache) in line]
        for process in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = process.read_bytes().decode(errors="replace").split("\0")
            except OSError:  # it has just ended
                continue
            if MARK in words or str(self.cache) in " ".join(words):
                lines.append(" ".join(words))
        return lines

    def until(self, condition):
        deadline = time.monotonic() + 30
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def start(self, *command):
        return subprocess.Popen([DEV, *command], env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, start_new_session=True)

    def calls(self):
        path = self.cache / "calls"
        return path.read_text().count("made") if path.exists() else 0

    def test_the_root_is_made_once(self):
        self.assertEqual([self.dev("shell", "echo", "in").stdout for _ in range(2)], ["in\n", "in\n"])
        self.assertEqual(self.calls(), 1)

    def test_two_at_once_make_one_root(self):
        both = [self.start("shell", "echo", "in") for _ in range(2)]
        self.assertEqual([process.communicate(timeout=60)[0] for process in both], ["in\n", "in\n"])
        self.assertEqual(self.calls(), 1)

    def test_an_interrupted_first_run_leaves_nothing_and_the_next_repairs_it(self):
        for times, (number, status) in enumerate([(signal.SIGINT, 1), (signal.SIGTERM, 1), (signal.SIGKILL, -9)], 1):
            with self.subTest(number):
                (self.cache / "wait").touch()
                process = self.start("shell", "true")
                self.until(lambda: self.calls() == times)
                os.killpg(process.pid, number)
                process.communicate(timeout=60)
                self.assertEqual(process.returncode, status)
                self.until(lambda: self.left() == [])
        (self.cache / "wait").unlink()
        self.assertEqual(self.dev("shell", "echo", "in").stdout, "in\n")

    def test_what_the_command_reads_writes_and_returns_passes_through(self):
        with tempfile.TemporaryFile("w+") as text:
            text.write("a line\n")
            text.seek(0)
            done = self.dev("shell", "bash", "-c", "cat; exit 7", stdin=text)
        self.assertEqual((done.stdout, done.returncode), ("a line\n", 7))

    def test_the_command_is_in_the_source_tree_and_sees_the_host_read_only(self):
        there = f"/host{self.cache}/os-release"
        done = self.dev("shell", "bash", "-c", f"pwd; ls {there}; touch /host/made || echo refused")
        self.assertEqual(done.stdout.split(), [str(ROOT), there, "refused"])

    def test_signals_reach_the_command_once_and_its_status_comes_back(self):
        count = """times=0; trap 'times=$((times + 1))' INT TERM; echo up
                   while [ $times = 0 ]; do sleep 0.05; done; sleep 0.2; exit $((20 + times))"""
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number):
                process = self.start("shell", "bash", "-c", count)
                self.assertEqual(process.stdout.readline(), "up\n")
                os.killpg(process.pid, number)
                process.communicate(timeout=60)
                self.assertEqual(process.returncode, 21)

    def test_a_killed_run_leaves_nothing(self):
        process = self.start("shell", "bash", "-c", f"echo up; sleep {MARK} & sleep {MARK}")
        self.assertEqual(process.stdout.readline(), "up\n")
        process.kill()
        process.communicate(timeout=60)
        self.until(lambda: self.left() == [])

    def test_a_background_process_ends_with_its_command(self):
        self.dev("shell", "bash", "-c", f"setsid sleep {MARK} >/dev/null 2>&1 & exit 0")
        self.until(lambda: self.left() == [])

    def test_without_a_network_one_line_says_so(self):
        self.env["HEED_MIRROR"] = "http://nowhere"
        done = self.dev("shell", "true")
        self.assertEqual(done.returncode, 1)
        self.assertIn("dev: cannot get Debian 13 from http://nowhere; is there a network?", done.stderr)

    def test_without_room_one_line_says_so(self):
        self.tool("df", "echo Avail; echo 123456")
        done = self.dev("shell", "true")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, f"dev: {self.cache} has 123 MB free; the Debian 13 root needs 4000\n")

    def test_without_the_right_to_unshare_one_line_says_so(self):
        self.tool("unshare", "exit 1")
        done = self.dev("shell", "true")
        self.assertEqual((done.returncode, done.stderr[:32]), (1, "dev: no permission to unshare; i"))

    def test_without_root_one_line_says_so(self):
        done = self.dev("shell", "true", user=65534)
        self.assertEqual((done.returncode, done.stderr.count("\n"), "only root" in done.stderr), (1, 1, True))


if __name__ == "__main__":
    unittest.main()
