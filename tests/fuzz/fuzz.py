#!/usr/bin/env python3
"""Runs the readers of untrusted files under libFuzzer, AddressSanitizer and UndefinedBehaviorSanitizer. Needs clang.

    tests/fuzz/fuzz.py [--seconds N | --inputs N] [--at-once N] [--keep] [FORMAT ...]

The inputs that have reached new code stay in build/fuzz/corpus; the first ones are those of tests/fuzz/corpus. --keep puts
the fewest of them that reach the same code back there, where the tests read them. An input that is a finding is left in
build/fuzz/findings. The last line counts the formats: `N passed, N failed`.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "fuzz"
PROGRAM = BUILD / "tests" / "heddle_fuzz"
KEPT = pathlib.Path(__file__).resolve().parent / "corpus"
# The bytes of an input, the MiB of memory, and the seconds for one input.
LIMITS = ["-max_len=4096", "-rss_limit_mb=2048", "-timeout=20"]


def build():
    if not shutil.which("clang++"):
        sys.exit("fuzz.py: needs clang++, which has libFuzzer: on Debian, apt-get install clang libomp-dev")
    for command in (["cmake", "--preset", "fuzz"], ["cmake", "--build", "--preset", "fuzz"]):
        called = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if called.returncode:
            sys.exit(f"fuzz.py: {' '.join(command)} failed:\n{called.stdout[-4000:]}")


def unpack(name, folder):
    folder.mkdir(parents=True, exist_ok=True)
    if (KEPT / f"{name}.zip").exists():
        with zipfile.ZipFile(KEPT / f"{name}.zip") as inputs:
            inputs.extractall(folder)


def call(name, options, log):
    """Runs the fuzzer with its output in a file."""
    with tempfile.TemporaryDirectory() as scratch, open(log, "w", encoding="utf-8") as output:
        environment = os.environ | {"HEDDLE_FUZZ_FORMAT": name, "TMPDIR": scratch}
        return subprocess.run([PROGRAM, *map(str, options)], env=environment, stdout=output, stderr=output,
                              stdin=subprocess.DEVNULL).returncode


def keep(name, corpus):
    with tempfile.TemporaryDirectory() as scratch:
        fewest = pathlib.Path(scratch) / "fewest"
        fewest.mkdir()
        if call(name, [*LIMITS, "-merge=1", fewest, corpus], BUILD / f"{name}.merge.log"):
            return False
        KEPT.mkdir(exist_ok=True)
        with zipfile.ZipFile(KEPT / f"{name}.zip", "w", zipfile.ZIP_DEFLATED) as inputs:
            for file in sorted(fewest.iterdir()):  # without the time, so that equal inputs make equal files
                inputs.writestr(zipfile.ZipInfo(file.name), file.read_bytes(), zipfile.ZIP_DEFLATED)
    return True


def fuzz(name, options):
    corpus, findings, log = BUILD / "corpus" / name, BUILD / "findings", BUILD / f"{name}.log"
    unpack(name, corpus)
    findings.mkdir(parents=True, exist_ok=True)
    limit = f"-runs={options.inputs}" if options.inputs else f"-max_total_time={options.seconds}"
    code = call(name, [*LIMITS, limit, "-use_value_profile=1", "-print_final_stats=1", f"-artifact_prefix={findings}/{name}-",
                       corpus], log)
    text = log.read_text(encoding="utf-8", errors="replace")
    inputs = re.search(r"number_of_executed_units: *(\d+)", text)
    coverage = re.findall(r" cov: (\d+)", text)
    print(f"{name:16} {int(inputs[1]) if inputs else 0:>10,} inputs, {coverage[-1] if coverage else 0:>6} edges, "
          f"{len(list(corpus.iterdir())):>5} that differ{'' if code == 0 else f', A FINDING: {log}'}", flush=True)
    if code == 0 and options.keep and not keep(name, corpus):
        print(f"{name}: the inputs could not be merged: {BUILD / f'{name}.merge.log'}")
        return False
    return code == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60, help="for each format (default 60)")
    parser.add_argument("--inputs", type=int, help="for each format, however long they take")
    parser.add_argument("--at-once", type=int, default=os.cpu_count(), help="formats at a time (default: one per core)")
    parser.add_argument("--keep", action="store_true", help="keep the inputs for the tests")
    parser.add_argument("formats", nargs="*", metavar="FORMAT", help="default: all")
    options = parser.parse_args()
    build()
    listed = subprocess.run([PROGRAM], env=os.environ | {"HEDDLE_FUZZ_FORMAT": ""}, capture_output=True, text=True).stderr
    known = listed.split(":", 1)[1].split()[3:]
    wanted = options.formats or known
    if unknown := [name for name in wanted if name not in known]:
        parser.error(f"unknown format {', '.join(unknown)}: expected {', '.join(known)}")
    with concurrent.futures.ThreadPoolExecutor(max(1, options.at_once)) as pool:
        results = list(pool.map(lambda name: fuzz(name, options), wanted))
    print(f"{results.count(True)} passed, {results.count(False)} failed")
    return results.count(False) > 0


if __name__ == "__main__":
    sys.exit(main())
