"""Runs the tests, on the platform; ./dev test calls it.

    tests/run.py [quick|full]      stages, one after the other
    tests/run.py TARGET [FILTER]   one test binary (asan/TARGET, tsan/TARGET for another build) or one Python test

A failing stage does not stop the next. Each stage says its minutes and how many of them went into building; what cannot
run here is said (`not run: NAME`) and counted as nothing; the last line is the sum of all: `N passed, N failed`.
"""
import collections
import concurrent.futures
import glob
import json
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared" / "oracle"
DTYPES = ("f32", "bf16", "int8")

# The oracle's cases that Heed agrees with, all tried by `full`; tests/golden holds the small ones that every run tries.
AGREED = ("native/axial-*", "native/bigbird-*", "native/blockwise-*", "native/compressive-*", "native/etc-*",
          "native/ft-transformer-*",
          "native/funnel-*", "native/image-*", "native/large-axial-*", "native/large-bigbird-*",
          "native/large-full-*", "native/large-funnel-*", "native/large-linear-*",
          "native/large-memory-compressed-*", "native/large-performer-*", "native/large-plain-*",
          "native/large-relative-memory-*", "native/large-reversible-*", "native/large-sliding-window-*",
          "native/large-softmax-*", "native/large-sparse-strided-*", "native/large-synthesizer-*",
          "native/learned-hybrid-*", "native/linear-*", "native/linformer-*", "native/lsh-*",
          "native/memory-compressed-*", "native/moe-*", "native/nystrom-*", "native/perceiver-*",
          "native/performer-*", "native/persistent-*", "native/pkm-*", "native/plain-*", "native/relative-memory-*",
          "native/reversible-*", "native/routing-*", "native/saint*", "native/seq2seq-*", "native/set-*",
          "native/sinkhorn-*", "native/sliding-window-*", "native/softmax-*", "native/sparse-fixed-*",
          "native/sparse-strided-*", "native/synthesizer-*", "native/tab-transformer-*", "native/weights-*",
          "sampling", "tokenizers/*")
AGREED_HF = ROOT / "tests/golden/agreed_hf.txt"  # of published checkpoints, a folder a line

# Instruction sets, weakest first: name, the CPU's flags, oneDNN's limit, Highway's limit.
LEVELS = (
    ("avx2", {"avx2", "fma"}, "AVX2", "avx2"),
    ("avx512", {"avx512f", "avx512bw", "avx512dq", "avx512vl"}, "AVX512_CORE", "avx512"),
    ("avx512_vnni", {"avx512_vnni"}, "AVX512_CORE_VNNI", "avx512"),
    ("avx512_bf16", {"avx512_bf16"}, "AVX512_CORE_BF16", "avx512"),
    ("amx", {"amx_tile", "amx_int8", "amx_bf16"}, "AVX512_CORE_AMX", ""),
)

# Programs whose tests compute on a thread or two and meet nobody: as many at a time as there are CPUs.
SHARDED = {"attention_test", "models_test", "blocks_test", "ops_test"}

SANITIZER_OPTIONS = {
    "ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
}

long_tests = {}  # the environment in which the release build's tests are long
passed = 0
failures = []  # their names
built = 0.0  # seconds that builds took


# ----------------------------------------------------------------------------------------------------- one test program

def count(name, good, bad):
    global passed
    passed += good
    failures.extend([name] * bad)


def not_run(name, why):
    print(f"not run: {name} ({why})", flush=True)


def run(command, env=None, limit=3600):
    """Runs it to its end or the limit in seconds, its output shown as it comes. Returns exit status and output."""
    process = subprocess.Popen(["timeout", "--kill-after=10", str(limit), *command], cwd=ROOT,
                               env={**os.environ, **SANITIZER_OPTIONS, **(env or {})}, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    lines = []
    for line in process.stdout:
        lines.append(line)
        print(line, end="", flush=True)
    return process.wait(), "".join(lines)


def number(pattern, text):
    """The number that the last match of the pattern captures."""
    found = re.findall(pattern, text)
    return int(found[-1]) if found else 0


def check(name, status, good, bad):
    """Counts a program's tests. One that failed without a failed test, or that tried nothing, is a failure itself."""
    if bad == 0 and (status != 0 or good == 0):
        print(f"{name}: exit status {status}, {good} passed", flush=True)
        bad = 1
    count(name, good, bad)


def build(preset, *targets):
    """True if all is built; a build that fails is one failure."""
    global built
    start = time.monotonic()
    status, _ = run(["./dev", "build", preset, *targets])
    built += time.monotonic() - start
    if status != 0:
        count(f"build {preset}", 0, 1)
    return status == 0


def binaries(preset, label=""):
    """The test binaries that the build knows, by name."""
    listing = subprocess.run(["ctest", "--test-dir", f"build/{preset}", "--show-only=json-v1", "-L", label],
                             cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [test["name"] for test in json.loads(listing)["tests"]]


def gtest(preset, binary, pattern="*", env=None, name=None):
    name = name or f"{preset}/{binary}"
    print(f"-- {name}", flush=True)
    prefix = ["setarch", "--addr-no-randomize"] if preset == "tsan" else []  # memory where TSan expects it
    command = [*prefix, f"build/{preset}/{binary}", "--gtest_brief=1", f"--gtest_filter={pattern}"]
    shards = os.cpu_count() if binary in SHARDED else 1

    def shard(i):
        return run(command, {**(env or {}), "GTEST_TOTAL_SHARDS": str(shards), "GTEST_SHARD_INDEX": str(i)})

    with concurrent.futures.ThreadPoolExecutor(shards) as pool:
        ended = list(pool.map(shard, range(shards)))
    good, bad = (sum(number(rf"\[  {word}  \] (\d+) test", output) for _, output in ended) for word in ("PASSED", "FAILED"))
    check(name, max((status for status, _ in ended), key=abs), good, bad)


def golden(preset, folders, dtype="f32", env=None, name=None):
    name = name or f"{preset} golden {dtype}"
    if not folders:
        return not_run(name, "no folder")
    if not (ROOT / "build" / preset / "heed").exists():
        return not_run(name, "no heed yet")
    print(f"-- {name}", flush=True)
    status, output = run([f"build/{preset}/heed", "golden", f"--dtype={dtype}", *folders], env)
    if "not run: " not in output:  # it says so where the CPU has no such kernels
        bad = number(r"(\d+) failed", output)
        check(name, status, max(0, number(r"(\d+) cases", output) - bad), bad)


def python(test):
    print(f"-- {test}", flush=True)
    status, output = run([sys.executable, f"tests/{test}.py"])
    bad = number(r"failures=(\d+)", output) + number(r"errors=(\d+)", output)
    skipped = number(r"skipped=(\d+)", output)
    good = max(0, number(r"Ran (\d+) test", output) - bad - skipped)  # parts of a test may fail one by one
    check(test, status, good, bad)


# --------------------------------------------------------------------------------------------------------------- stages

def golden_folders():
    return sorted({str(path.parent.relative_to(ROOT)) for path in (ROOT / "tests/golden").rglob("cases.*")})


def computing_folders():
    """Those whose results depend on kernels and precision."""
    return [folder for folder in golden_folders() if "/tokenizers/" not in folder]


def agreed_folders():
    published = tuple(AGREED_HF.read_text().split())
    return sorted(folder for pattern in AGREED + published for folder in glob.glob(str(SHARED / pattern)))


def stage_release():
    if build("release"):
        for binary in binaries("release"):
            gtest("release", binary, env=long_tests)


def stage_golden():
    golden("release", golden_folders())
    for dtype in DTYPES[1:]:
        golden("release", computing_folders(), dtype)


def stage_format():
    status, _ = run(["./dev", "format", "--check"])
    check("format", status, int(status == 0), int(status != 0))


def stage_rules():
    for test in ("layering_test", "rules_test", "proto_test", "dev_test", "serve_test", "survey_doc_test",
                 "deploy_test", "operations_doc_test", "top_test", "chat_test"):
        python(test)


def stage_asan():
    if build("asan"):
        for binary in binaries("asan"):  # text_test and models_test try the golden cases; int8 computes in bf16, too
            gtest("asan", binary, "-*AgreeInBf16*" if binary == "models_test" else "*")


def stage_tsan():
    if build("tsan"):
        for binary in binaries("tsan", "threads"):
            gtest("tsan", binary)


def stage_levels():
    """The best level of this CPU is the one that all other stages ran with. Attentions are tried on the weakest beside it:
    between them they run the same code in vectors of another width or type, which the operations and golden cases try."""
    cpu = set(re.search(r"flags\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text()).group(1).split())
    available = [level for level in LEVELS if level[1] <= cpu]
    for name, _, onednn, highway in available[:-1]:
        env = {"ONEDNN_MAX_CPU_ISA": onednn, "HEED_MAX_SIMD": highway}
        tried = {"ops_test", "blocks_test"} | ({"attention_test"} if name == available[0][0] else set())
        for binary in sorted(tried & set(binaries("release"))):  # there is no bf16 below the best: it would be f32
            gtest("release", binary, "-*bf16*" if binary == "attention_test" else "*", env, f"{name} {binary}")
        for dtype in DTYPES:
            golden("release", computing_folders(), dtype, env, f"{name} golden {dtype}")
    for level in LEVELS:
        if level not in available:
            not_run(level[0], "not in this CPU")


def stage_readme():
    python("readme_test")


def stage_oracle():
    for dtype in DTYPES:
        golden("asan", agreed_folders(), dtype, name=f"asan oracle {dtype}")


def stage_image():
    status, _ = run(["./dev", "image"])
    check("image", status, int(status == 0), int(status != 0))


def stage_watch():
    for test in ("watch_test", "grafana_schema_test", "rolling_upgrade_test"):
        python(test)


def stage_deploy():
    for test in ("manifests_test", "deb_test"):
        python(test)


QUICK = (stage_release, stage_golden, stage_format, stage_rules)
NORMAL = QUICK + (stage_asan, stage_tsan, stage_levels, stage_readme)
FULL = NORMAL + (stage_oracle, stage_watch, stage_image, stage_deploy)


def run_stages(stages):
    minutes = {}
    for stage in stages:
        name = stage.__name__.removeprefix("stage_")
        print(f"== {name}", flush=True)
        start, built_before, passed_before, failed_before = time.monotonic(), built, passed, len(failures)
        stage()
        minutes[name] = (f"== {name}: {(time.monotonic() - start) / 60:.1f} minutes, "
                         f"{(built - built_before) / 60:.1f} of them building, "
                         f"{passed - passed_before} passed, {len(failures) - failed_before} failed")
        print(minutes[name], flush=True)
    print("\nAll stages:", *minutes.values(), sep="\n")


def run_one(name, pattern="*"):
    preset, _, target = name.rpartition("/")
    if (ROOT / "tests" / f"{target}.py").exists():
        python(target)
    elif build(preset or "release", target):
        gtest(preset or "release", target, pattern)


def main(arguments):
    modes = {"quick": QUICK, "": NORMAL, "full": FULL}
    mode = arguments[0] if arguments else ""
    if mode == "full":
        long_tests["HEED_FULL"] = "1"
    if mode in modes:
        run_stages(modes[mode])
    else:
        run_one(*arguments)
    for name, times in collections.Counter(failures).items():
        print(f"failed: {name} ({times})")
    print(f"{passed} passed, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
