"""Jobs of processes for the scripts of this folder, and the table of what faults came to."""
import argparse
import concurrent.futures
import contextlib
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 300  # seconds, after which something counts as a hang: far more than it takes on a busy machine
LAUNCH = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "HEDDLE_JOB_SECRET")


class Failed(Exception):
    """What a try shows to be wrong."""


class Missing(Exception):
    """What is not possible on this machine."""


def expect(holds, what):
    if not holds:
        raise Failed(what)


def losses(folder, variant=None):
    """The loss of each step; of a step that was trained again, the last one."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return {line["step"]: line["loss"] for line in lines if variant in (None, line["variant"])}


def children(pid):
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def send(pids, number):
    """A signal to processes, of which some may have ended."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except OSError:
            pass


class SmallDisk:
    """A disk of its own, in the memory, that can be filled."""

    def __init__(self, folder, size):
        folder.mkdir()
        self.folder = folder
        options = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder]
        if subprocess.run(options, capture_output=True, check=False).returncode:
            raise Missing("a small disk cannot be mounted here")

    def fill(self, leave):
        """All but so many bytes, or less, because the job writes, too."""
        with contextlib.suppress(OSError), open(self.folder / "other", "wb") as other:
            other.write(bytes(max(shutil.disk_usage(self.folder).free - leave, 0)))

    def empty(self):
        (self.folder / "other").unlink()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["umount", "--lazy", self.folder], check=False)


class Job:
    """Launchers, of one process each, of one run, and what they print."""

    ports = itertools.count(20000 + os.getpid() % 8000)

    def __init__(self, folder, experiment, out=None):
        folder.mkdir()
        self.folder = folder
        self.out = out or folder / "out"
        self.file = folder / "experiment.json"
        self.file.write_text(json.dumps(experiment))
        self.port = next(Job.ports)
        self.processes = []
        self.logs = []

    def start(self, *options, before=(), **environment):
        """Starts one process more; `before` are words in front of the command."""
        inherited = {key: value for key, value in os.environ.items() if key not in LAUNCH}
        log = open(self.folder / f"log.{len(self.logs)}", "w")
        self.logs.append(log)
        self.processes.append(subprocess.Popen(
            [*before, ROOT / "heddle", "run", self.file, "--out", self.out, *options], cwd=ROOT,
            env=inherited | environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log))

    def start_rank(self, rank, size, *options, before=(), address="127.0.0.1", **environment):
        launch = {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": address, "MASTER_PORT": str(self.port),
                  "HEDDLE_JOB_SECRET": "of the faults"}
        self.start(*options, before=before, **(launch | environment))

    def program(self, number):
        """The process that trains: the launcher's child of that name."""
        for child in children(self.processes[number].pid):
            try:
                if Path(f"/proc/{child}/exe").resolve().name.startswith("heddle"):
                    return child
            except OSError:
                pass
        raise Failed(f"process {number} has no program: {self.error(number)}")

    def wait_for_step(self, step, variant=None, patience=PATIENCE):
        end = time.monotonic() + patience
        while time.monotonic() < end:
            try:
                if max(losses(self.out, variant), default=-1) >= step:
                    return
            except (OSError, ValueError):
                pass
            if all(process.poll() is not None for process in self.processes):
                break
            time.sleep(0.01)
        raise Failed(f"step {step} is not reached: {self.errors()}")

    def wait_for_words(self, words, patience=PATIENCE):
        end = time.monotonic() + patience
        while words not in self.errors():
            expect(time.monotonic() < end, f"'{words}' is not printed: {self.errors()}")
            time.sleep(0.01)

    def codes(self, numbers=None, patience=PATIENCE):
        """The exit codes of all processes, or of those with these numbers, once they have ended by themselves."""
        end = time.monotonic() + patience
        processes = [process for number, process in enumerate(self.processes) if numbers is None or number in numbers]
        try:
            return [process.wait(max(end - time.monotonic(), 0.01)) for process in processes]
        except subprocess.TimeoutExpired:
            raise Failed(f"a process does not end within {patience} s: {self.errors()}") from None

    def error(self, number):
        """What the process has printed; the table wraps long lines."""
        return " ".join((self.folder / f"log.{number}").read_text().split())

    def errors(self):
        return "\n".join(self.error(number) for number in range(len(self.processes)))

    def end(self):
        for process, log in zip(self.processes, self.logs):
            if process.poll() is None:
                send([*children(process.pid), process.pid], signal.SIGKILL)
            process.wait()
            log.close()


class Faults:
    """Base of a script's faults. Each is a method of an object of its own: it injects one, and returns whether the job
    went on, and the seconds that it took. Its first line is its name in the table."""

    names = ()

    def __init__(self, work, rng, arguments):
        self.work = work
        self.rng = rng
        self.arguments = arguments
        self.jobs = []

    def job(self, experiment, out=None):
        """A job without processes, whose results go to a folder of its own, or to `out`."""
        self.jobs.append(Job(self.work / f"{len(self.jobs)}", experiment, out))
        return self.jobs[-1]

    def train(self, experiment, *options, out=None, variant=None):
        """The losses of a run of one process, which must end well."""
        job = self.job(experiment, out)
        job.start(*options)
        codes = job.codes()
        expect(codes == [0], f"{codes}: {job.errors()}")
        return losses(job.out, variant)

    def end(self):
        for job in self.jobs:
            job.end()


def run_one(faults, name, number, arguments):
    """The result of one fault; or an exception, which says why there is none."""
    with tempfile.TemporaryDirectory(prefix="heddle-faults-") as work:
        one = None
        try:
            one = faults(Path(work), random.Random(f"{name} {arguments.seed} {number}"), arguments)
            return getattr(one, name)()
        except (Failed, Missing) as wrong:
            return wrong
        finally:
            if one:
                one.end()


def parser_of(text, tries=3):
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tries", type=int, default=tries, help=f"of each fault (default: {tries})")
    parser.add_argument("--seed", type=int, default=1, help="draws ranks and moments (default: 1)")
    return parser


def print_head():
    print(f"{'fault':<86} {'tries':>5} {'go on':>6} {'fails':>8} {'worst':>8}", flush=True)


def print_row(what, results):
    missing = next((result for result in results if isinstance(result, Missing)), None)
    if missing:
        print(f"{what}: not run: {missing}", flush=True)
        return
    done = [result for result in results if not isinstance(result, Failed)]
    went_on = sum(goes_on for goes_on, _ in done)
    worst = max((seconds for _, seconds in done), default=0)
    print(f"{what:<86} {len(done):>5} {went_on:>6} {len(done) - went_on:>8} {worst:>6.2f} s", flush=True)


def run_tries(faults, name, arguments):
    """The results of all tries of a fault. What is wrong goes to stderr at once."""
    def one(number):
        result = run_one(faults, name, number, arguments)
        if isinstance(result, Failed):
            print(f"{name}, try {number}: {result}", file=sys.stderr, flush=True)
        return result

    with concurrent.futures.ThreadPoolExecutor(arguments.at_once) as pool:
        return list(pool.map(one, range(arguments.tries)))


def run_all(faults, text, add_options=lambda parser: None):
    """The command line of a script, its table, and its exit code."""
    parser = parser_of(text)
    parser.add_argument("--at-once", type=int, default=1, help="tries that run at the same time (default: 1)")
    parser.add_argument("faults", nargs="*", metavar="FAULT", help=", ".join(faults.names))
    add_options(parser)
    arguments = parser.parse_args()
    for name in arguments.faults:
        if name not in faults.names:
            parser.error(f"{name}: expected one of {', '.join(faults.names)}")
    subprocess.run([ROOT / "heddle", "--version"], stdout=subprocess.DEVNULL, check=True)
    passed = failed = 0
    print_head()
    for name in arguments.faults or faults.names:
        results = run_tries(faults, name, arguments)
        print_row(getattr(faults, name).__doc__.split("\n")[0], results)
        failed += sum(isinstance(result, Failed) for result in results)
        passed += sum(isinstance(result, tuple) for result in results)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0
