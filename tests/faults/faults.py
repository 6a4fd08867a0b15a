#!/usr/bin/env python3
"""Provokes faults in jobs of processes, and counts what comes of them.

    tests/faults/faults.py [--tries N] [--seed S] [--timeout T] [FAULT ...]

Without a name, all faults. A job `goes on` if it trains to its end, where possible with the bits of a run without a
fault; otherwise all of its processes must end by themselves, with an exit code and an error that names the cause: it is
`answered`. `worst` is the longest time to the next step or to the last exit. The last line is `N passed, N failed`.
"""
import argparse
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
RANKS = 4
EXPERIMENT = {
    "name": "faults", "mesh": {"dp": RANKS}, "threads": 1, "seed": 5, "timeout": 30,
    "elastic": {"meshes": [{"dp": 2}], "restarts": 5},
    "data": {"type": "synthetic_identities", "identities": 40, "image": [1, 16, 16]},
    "model": {"type": "mlp", "hidden": [256, 256]}, "head": {"classes": 40},
    "train": {"batch": 64, "steps": 500, "save_every": 20},
}


class Failed(Exception):
    """What a try shows to be wrong."""


def expect(holds, what):
    if not holds:
        raise Failed(what)


def losses(folder):
    """The loss of each step; of a step that was trained again, the last one."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return {line["step"]: line["loss"] for line in lines}


def restarts(folder):
    return json.loads((folder / "summary.json").read_text())["variants"][0]["restarts"]


def children(pid):
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


class Job:
    """One launcher for each rank, or one without ranks, and what they print."""

    port = 20000 + os.getpid() % 8000

    def __init__(self, out, *options, ranks=RANKS):
        self.out = out
        self.file = out.parent / "faults.json"
        self.file.write_text(json.dumps(EXPERIMENT))
        Job.port += 1
        self.processes = []
        self.said = []
        for rank in range(max(ranks, 1)):
            environment = {key: value for key, value in os.environ.items() if key not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
            if ranks:
                environment |= {"RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1",
                                "MASTER_PORT": str(Job.port), "HEDDLE_JOB_SECRET": "of the faults"}
            said = open(out.parent / f"{out.name}.{rank}.err", "w+")
            self.said.append(said)
            self.processes.append(subprocess.Popen(
                [ROOT / "heddle", "run", self.file, "--out", out, *options], cwd=ROOT, env=environment,
                stdin=subprocess.DEVNULL, stdout=said, stderr=said))

    def program(self, rank):
        """The process that trains: the launcher's child of that name."""
        for child in children(self.processes[rank].pid):
            try:
                if Path(f"/proc/{child}/exe").resolve().name.startswith("heddle"):
                    return child
            except OSError:
                pass
        raise Failed(f"rank {rank} has no program")

    def wait_for_step(self, step, patience=60):
        end = time.monotonic() + patience
        while time.monotonic() < end:
            try:
                if max(losses(self.out), default=-1) >= step:
                    return
            except (OSError, ValueError):
                pass
            if all(process.poll() is not None for process in self.processes):
                break
            time.sleep(0.01)
        raise Failed(f"step {step} is not reached: {self.error(0)}")

    def codes(self, patience=90):
        """The exit codes once all have ended by themselves."""
        end = time.monotonic() + patience
        try:
            return [process.wait(max(end - time.monotonic(), 0.01)) for process in self.processes]
        except subprocess.TimeoutExpired:
            raise Failed(f"a process does not end within {patience} s") from None

    def error(self, rank):
        """What the process has printed; the table wraps long lines."""
        return " ".join((self.out.parent / f"{self.out.name}.{rank}.err").read_text().split())

    def errors(self):
        return "\n".join(self.error(rank) for rank in range(len(self.processes)))

    def end(self):
        for rank, process in enumerate(self.processes):
            for pid in [*children(process.pid), process.pid]:
                if process.poll() is None:
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except OSError:
                        pass
            process.wait()
            self.said[rank].close()


class Faults:
    """Each fault is a method: it provokes one, and returns whether the job went on, and the seconds that it took."""

    def __init__(self, work, rng, timeout):
        self.work = work
        self.timeout = timeout
        self.rng = rng
        self.tries = 0
        self.whole = {}

    def folder(self):
        self.tries += 1
        return self.work / f"{self.tries}"

    def started(self, *options, ranks=RANKS):
        job = Job(self.folder(), *options, ranks=ranks)
        self.job = job
        return job

    def reference(self):
        """The losses of a run without faults."""
        if not self.whole:
            job = self.started(ranks=0)
            expect(job.codes() == [0], job.errors())
            self.whole = losses(job.out)
        return self.whole

    def some_step(self):
        return self.rng.randrange(2, EXPERIMENT["train"]["steps"] - 150)

    def rank_killed(self):
        """kill -9 of a rank other than 0 of an elastic job, whose launcher starts it again"""
        whole = self.reference()
        job = self.started("--elastic", "--set", "elastic.wait=60")  # it is not waited for longer than it takes
        job.wait_for_step(self.some_step())
        rank = self.rng.randrange(1, RANKS)
        os.kill(job.program(rank), signal.SIGKILL)
        codes = job.codes()
        expect(codes == [0] * RANKS, f"{codes}: {job.errors()}")
        expect(losses(job.out) == whole, "the losses differ from those of a run without faults")
        found = restarts(job.out)
        expect(len(found) == 1 and f"rank {rank}" in found[0]["why"], f"restarts: {found}")
        expect(found[0]["ranks"] == RANKS, f"{found[0]['ranks']} ranks went on")
        return True, found[0]["seconds"]

    def leader_killed(self):
        """kill -9 of rank 0 of an elastic job: another rank leads, on a smaller mesh"""
        whole = self.reference()
        job = self.started("--elastic")
        job.wait_for_step(self.some_step())
        os.kill(job.program(0), signal.SIGKILL)
        codes = job.codes()
        expect(codes == [4] + [0] * (RANKS - 1), f"{codes}: {job.errors()}")
        found = restarts(job.out)
        expect(len(found) == 1 and found[0]["ranks"] == 2 and "rank 0" in found[0]["why"], f"restarts: {found}")
        trained = losses(job.out)
        expect(trained.keys() == whole.keys(), "steps are missing")
        # Two ranks round otherwise than four, and training makes such differences grow.
        for step in range(found[0]["step"], found[0]["step"] + 5):
            expect(abs(trained[step] - whole[step]) <= 1e-4 * whole[step], f"step {step}: {trained[step]} for {whole[step]}")
        return True, found[0]["seconds"]

    def killed_and_not_elastic(self):
        """kill -9 of a rank of a job that is not elastic"""
        job = self.started("--set", "train.steps=1000000")
        job.wait_for_step(self.some_step())
        rank = self.rng.randrange(RANKS)
        begin = time.monotonic()
        os.kill(job.program(rank), signal.SIGKILL)
        codes = job.codes()
        seconds = time.monotonic() - begin
        expect(codes == [4] * RANKS, f"{codes}: {job.errors()}")
        others = "\n".join(job.error(other) for other in range(RANKS) if other != rank)
        expect(f"rank {rank}: its process has ended" in others, others)
        return False, seconds

    def paused(self):
        """a rank is stopped for 1 to 6 s"""
        whole = self.reference()
        job = self.started()
        job.wait_for_step(self.some_step())
        pid = job.program(self.rng.randrange(RANKS))
        pause = self.rng.uniform(1, 6)
        os.kill(pid, signal.SIGSTOP)
        time.sleep(pause)
        os.kill(pid, signal.SIGCONT)
        codes = job.codes()
        expect(codes == [0] * RANKS, f"{codes}: {job.errors()}")
        expect(losses(job.out) == whole, "the losses differ from those of a run without faults")
        return True, pause

    def stopped(self):
        """a rank is stopped for good, with the timeout of --timeout"""
        job = self.started("--set", f"timeout={self.timeout}", "--set", "train.steps=1000000")
        job.wait_for_step(self.some_step())
        rank = self.rng.randrange(RANKS)
        pid = job.program(rank)
        begin = time.monotonic()
        os.kill(pid, signal.SIGSTOP)
        while sum(process.poll() is None for process in job.processes) > 1:
            expect(time.monotonic() - begin < self.timeout + 60, f"processes wait for ever: {job.errors()}")
            time.sleep(0.01)
        seconds = time.monotonic() - begin
        codes = [process.poll() for process in job.processes]
        expect([code for other, code in enumerate(codes) if other != rank] == [4] * (RANKS - 1), f"{codes}")
        expect(f"rank {rank}" in job.errors(), job.errors())
        os.kill(pid, signal.SIGKILL)
        return False, seconds

    def terminated(self):
        """SIGTERM to one process of a job, which is then resumed"""
        whole = self.reference()
        job = self.started()
        job.wait_for_step(self.some_step())
        begin = time.monotonic()
        job.processes[self.rng.randrange(RANKS)].send_signal(signal.SIGTERM)
        codes = job.codes()
        seconds = time.monotonic() - begin
        expect(codes == [143] * RANKS, f"{codes}: {job.errors()}")
        self.resume(job.out, whole)
        return False, seconds

    def resume(self, out, whole):
        job = Job(out, "--resume=auto", ranks=0)
        self.job = job
        codes = job.codes()
        expect(codes == [0], f"{codes}: {job.errors()}")
        expect(losses(out) == whole, "the losses differ from those of a run without faults")

    def killed_while_saving(self):
        """kill -9 at any time of a run that saves every step, which is then resumed"""
        whole = self.reference()
        job = self.started("--set", "train.save_every=1", ranks=0)
        time.sleep(self.rng.uniform(0.1, 1.5))
        begin = time.monotonic()
        try:
            os.kill(job.program(0), signal.SIGKILL)
        except Failed:
            pass  # not yet begun
        job.codes()
        seconds = time.monotonic() - begin
        self.resume(job.out, whole)
        return False, seconds

    def damaged_checkpoint(self):
        """a byte of a checkpoint's file is flipped, or the file is cut, before a run is resumed"""
        whole = self.reference()
        job = self.started("--set", "train.steps=40", ranks=0)
        expect(job.codes() == [0], job.errors())
        files = sorted(path for path in (job.out / "checkpoint").rglob("*") if path.is_file() and path.stat().st_size)
        path = self.rng.choice(files)
        content = bytearray(path.read_bytes())
        at = self.rng.randrange(len(content))
        if self.rng.random() < 0.5:
            content[at] ^= 1 << self.rng.randrange(8)
        else:
            del content[at:]
        path.write_bytes(content)
        begin = time.monotonic()
        job = Job(job.out, "--resume", ranks=0)
        self.job = job
        codes = job.codes()
        seconds = time.monotonic() - begin
        if codes == [0]:
            expect(losses(job.out) == whole, f"{path.name} was damaged and gave other losses")
            return True, seconds
        expect(codes == [2], f"{codes}: {job.errors()}")
        expect(path.name in job.errors() or path.parent.name in job.errors(), f"{path.name} is not named: {job.errors()}")
        return False, seconds

    def full_disk(self):
        """the disk of the results is full when a checkpoint is saved"""
        disk = self.folder()
        disk.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", disk], capture_output=True, check=False)
        if mounted.returncode:
            raise PermissionError("a small disk cannot be mounted here")
        try:
            self.job = job = Job(disk / "out", "--set", "train.steps=40", ranks=0)
            expect(job.codes() == [0], job.errors())
            rest = shutil.disk_usage(disk).free
            (disk / "other").write_bytes(bytes(max(rest - self.rng.randrange(100000), 0)))
            begin = time.monotonic()
            self.job = job = Job(disk / "out", "--resume", ranks=0)
            codes = job.codes()
            seconds = time.monotonic() - begin
            expect(codes == [2] and "No space left on device" in job.errors(), f"{codes}: {job.errors()}")
            (disk / "other").unlink()
            self.resume(disk / "out", self.reference())
            return False, seconds
        finally:
            self.job.end()
            subprocess.run(["umount", "--lazy", disk], check=False)


NAMES = ["rank_killed", "leader_killed", "killed_and_not_elastic", "paused", "stopped", "terminated", "killed_while_saving",
         "damaged_checkpoint", "full_disk"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tries", type=int, default=3, help="of each fault (default: 3)")
    parser.add_argument("--seed", type=int, default=1, help="draws ranks and moments (default: 1)")
    parser.add_argument("--timeout", type=int, default=3, help="seconds, where a rank is stopped for good (default: 3)")
    parser.add_argument("faults", nargs="*", metavar="FAULT", help=", ".join(NAMES))
    arguments = parser.parse_args()
    for name in arguments.faults:
        if name not in NAMES:
            parser.error(f"{name}: expected one of {', '.join(NAMES)}")
    subprocess.run([ROOT / "heddle", "--version"], stdout=subprocess.DEVNULL, check=True)
    passed = failed = 0
    print(f"{'fault':<84} {'tries':>5} {'go on':>6} {'answered':>8} {'worst':>8}")
    for name in arguments.faults or NAMES:
        went_on = answered = 0
        worst = 0
        reason = ""
        for number in range(arguments.tries):
            with tempfile.TemporaryDirectory(prefix="heddle-faults-") as work:
                faults = Faults(Path(work), random.Random(f"{name} {arguments.seed} {number}"), arguments.timeout)
                try:
                    goes_on, seconds = getattr(faults, name)()
                    went_on += goes_on
                    answered += not goes_on
                    worst = max(worst, seconds)
                except Failed as wrong:
                    failed += 1
                    print(f"{name}, try {number}: {wrong}", file=sys.stderr)
                except PermissionError as missing:
                    reason = str(missing)
                    break
                finally:
                    faults.job.end()
        passed += went_on + answered
        what = getattr(Faults, name).__doc__
        tries = went_on + answered if not reason else 0
        print(f"{what:<84} {tries:>5} {went_on:>6} {answered:>8} {worst:>6.2f} s" if not reason else f"{what}: not run: {reason}",
              flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
