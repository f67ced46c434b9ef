"""The Debian package as an administrator meets it: installed into a bare Debian 13, looked at, started by the line that its
unit has, called, configured, taken away again.

The bare root is debootstrap's, kept in the cache; each run works on a copy. Nothing there has a systemd that runs: what the
package would tell one is the scripts' to find out. Needs to be root, and Debian's mirror, for what the package depends on.
"""
import gzip
import os
import pathlib
import re
import shutil
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
MIRROR = os.environ.get("HEED_MIRROR", "http://deb.debian.org/debian")
BESIDE = ("bash-completion", "man-db", "systemd")  # what looks at the package's files, and is no part of it
UNIT = "/usr/lib/systemd/system/heed.service"
# A command of its own in processes and mounts: whatever way it ends, nothing of it stays.
INSIDE = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c",
          'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$@"')


def cache():
    return pathlib.Path(os.environ.get("HEED_CACHE") or pathlib.Path.home() / ".cache/heed")


def bare_root():
    """A Debian 13 of its essential packages, made once."""
    root = cache() / "deb/trixie"
    if not root.exists():
        made = root.with_suffix(".new")
        shutil.rmtree(made, ignore_errors=True)
        made.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["debootstrap", "--variant=minbase", "--include=ca-certificates", "trixie", made, MIRROR], check=True,
                       stdout=subprocess.DEVNULL)
        made.rename(root)
    return root


def package():
    subprocess.run(["./dev", "deb"], cwd=ROOT, check=True)
    found, = (ROOT / "build/deb").glob("heed_*.deb")
    return found


class Debian:
    """A copy of the bare root, and commands in it."""

    def __init__(self):
        bare = bare_root()
        self.root = bare.with_name("tried")
        self.remove()  # what an interrupted run has left
        subprocess.run(["cp", "--archive", bare, self.root], check=True)
        shutil.copy("/etc/resolv.conf", self.root / "etc")
        refused = self.root / "usr/sbin/policy-rc.d"  # no service is started by whatever is installed
        refused.write_text("#!/bin/sh\nexit 101\n")
        refused.chmod(0o755)

    def remove(self):
        shutil.rmtree(self.root, ignore_errors=True)

    def command(self, *words, user="root"):
        return [*INSIDE, self.root, f"--userspec={user}:{user}", self.root, *words]

    def run(self, *words):
        """What the command says, which succeeds."""
        done = subprocess.run(self.command(*words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=600)
        assert done.returncode == 0, f"{words}: exit status {done.returncode}\n{done.stdout}"
        return done.stdout

    def apt(self, *words):
        return self.run("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-y", "--no-install-recommends", *words)

    def install(self):
        self.apt("install", "--reinstall", "/heed.deb")

    def text(self, path):
        return (self.root / path.lstrip("/")).read_text()

    def named_heed(self):
        """Every file whose name has heed in it, but for the package itself and pages that `man` has kept."""
        found = subprocess.run(["find", ".", "-xdev", "-name", "*heed*", "-not", "-path", "./heed.deb", "-not", "-path",
                                "./var/cache/man/*"], cwd=self.root, capture_output=True, text=True, check=True).stdout
        return [line.removeprefix(".") for line in found.splitlines()]


def setUpModule():
    global debian
    made = package()
    debian = Debian()
    unittest.addModuleCleanup(debian.remove)
    debian.apt("update")
    debian.apt("install", *BESIDE)
    shutil.copy(made, debian.root / "heed.deb")


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        debian.install()

    def test_it_depends_on_what_its_program_needs_and_on_nothing_that_builds(self):
        depends = debian.run("dpkg-query", "--show", "--showformat=${Depends}", "heed")
        self.assertRegex(depends, r"libgrpc\+\+\S+ \(>= 1\.51")
        self.assertNotIn("-dev", depends)
        self.assertNotIn("not found", debian.run("ldd", "/usr/bin/heed"))

    def test_its_files_are_what_it_says_and_root_s(self):
        self.assertEqual(debian.run("dpkg", "--verify", "heed"), "")
        for path in debian.run("dpkg", "--listfiles", "heed").split("\n")[1:-1]:
            status = (debian.root / path.lstrip("/")).stat()
            self.assertEqual((status.st_uid, status.st_gid, status.st_mode & 0o022), (0, 0, 0), path)

    def test_its_page_is_what_man_shows(self):
        with gzip.open(debian.root / "usr/share/man/man1/heed.1.gz", "rt") as page:
            self.assertEqual(page.read(), debian.run("heed", "man"))
        shown = debian.run("env", "MANWIDTH=80", "LANG=C.UTF-8", "man", "--warnings", "heed")
        self.assertIn("serves Transformers on CPUs, over gRPC", shown)
        self.assertNotRegex(shown, r"(?m)^\w+:.*warning:")

    def test_shells_complete_it(self):
        loaded = "source /usr/share/bash-completion/bash_completion; _comp_load heed; complete -p heed"
        self.assertIn("-F _heed heed", debian.run("bash", "-c", loaded))
        self.assertTrue(debian.text("/usr/share/zsh/vendor-completions/_heed").startswith("#compdef heed\n"))

    def test_systemd_has_nothing_to_say_against_the_unit_and_would_start_it(self):
        self.assertEqual(debian.run("systemd-analyze", "verify", UNIT), "")
        self.assertEqual(debian.run("systemctl", "is-enabled", "heed.service"), "enabled\n")

    def test_the_unit_s_user_may_not_log_in(self):
        line, = re.findall(r"^heed:.*$", debian.text("/etc/passwd"), re.MULTILINE)
        self.assertTrue(line.endswith(":/nonexistent:/usr/sbin/nologin"), line)
        self.assertLess(int(line.split(":")[2]), 1000)

    def test_the_unit_s_line_serves_the_shipped_models_as_the_unit_s_user(self):
        line, = re.findall(r"^ExecStart=(.*)$", debian.text(UNIT), re.MULTILINE)
        user, = re.findall(r"^User=(.*)$", debian.text(UNIT), re.MULTILINE)
        words = [*line.split(), "--address=127.0.0.1:0", "--metrics_address="]  # the config's port may be taken here
        with subprocess.Popen(debian.command(*words, user=user), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True) as server:
            try:
                address = "--address=" + server.stdout.readline().removeprefix("listening on ").strip()
                self.assertEqual(debian.run("heed", "health", address), "SERVING\n")
                shipped = {path.parent.name for path in (ROOT / "models").glob("*/config.json")}
                listed = debian.run("heed", "models", address)
                self.assertGreater(len(shipped), 5)
                self.assertEqual({name for name in shipped if not re.search(rf"^{name} .*READY", listed, re.MULTILINE)}, set())
                said = debian.run("heed", "classify", address, "--model=polarity", "A warm and funny film.")
                self.assertRegex(said, "^positive ")
            finally:
                server.kill()


class TakenAway(unittest.TestCase):
    def test_a_changed_config_stays_until_the_purge_which_leaves_nothing(self):
        debian.install()
        self.assertIn("/etc/heed/heed.textproto", debian.named_heed())
        config = debian.root / "etc/heed/heed.textproto"
        config.write_text(config.read_text() + "# mine\n")
        debian.install()
        self.assertIn("# mine\n", config.read_text())
        debian.apt("remove", "heed")
        self.assertIn("# mine\n", config.read_text())
        self.assertFalse((debian.root / "usr/bin/heed").exists())
        debian.install()
        self.assertIn("# mine\n", config.read_text())
        debian.apt("purge", "heed")
        self.assertEqual(debian.named_heed(), [])
        for path in ("passwd", "group", "shadow", "gshadow"):
            self.assertNotRegex(debian.text(f"/etc/{path}"), "(?m)^heed:")


if __name__ == "__main__":
    unittest.main()
