#!/usr/bin/env python3
"""Injects faults into jobs of processes, and counts how the jobs end.

    tests/faults/faults.py [--tries N] [--seed S] [--timeout T] [FAULT ...]

Without a name, all faults. A job `goes on` if it trains to its end, where possible with the bits of a run without a
fault; otherwise all of its processes must end by themselves, with an exit code and an error that names the cause: it
`fails` cleanly. `worst` is the longest time to the next step or to the last exit. The last line is `N passed, N failed`.
"""
import json
import os
import signal
import sys
import time

from elastic_faults import EXPERIMENT, RANKS, ElasticFaults
from jobs import Failed, SmallDisk, expect, losses, run_all


class FaultsOfOneMachine(ElasticFaults):
    names = (*ElasticFaults.elastic_names, "killed_and_not_elastic", "paused", "stopped", "terminated", "killed_while_saving",
             "damaged_checkpoint", "full_disk_for_a_while", "variant_on_full_disk", "full_disk")

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
        job = self.started("--set", f"timeout={self.arguments.timeout}", "--set", "train.steps=1000000")
        job.wait_for_step(self.some_step())
        rank = self.rng.randrange(RANKS)
        pid = job.program(rank)
        begin = time.monotonic()
        os.kill(pid, signal.SIGSTOP)
        while sum(process.poll() is None for process in job.processes) > 1:
            expect(time.monotonic() - begin < self.arguments.timeout + 60, f"processes wait for ever: {job.errors()}")
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
        out = self.work / "out"
        self.train(EXPERIMENT, "--set", "train.steps=40", out=out)
        files = sorted(path for path in (out / "checkpoint").rglob("*") if path.is_file() and path.stat().st_size)
        path = self.rng.choice(files)
        content = bytearray(path.read_bytes())
        at = self.rng.randrange(len(content))
        if self.rng.random() < 0.5:
            content[at] ^= 1 << self.rng.randrange(8)
        else:
            del content[at:]
        path.write_bytes(content)
        begin = time.monotonic()
        job = self.started("--resume", ranks=0, out=out)
        codes = job.codes()
        seconds = time.monotonic() - begin
        if codes == [0]:
            expect(losses(out) == whole, f"{path.name} was damaged and gave other losses")
            return True, seconds
        expect(codes == [2], f"{codes}: {job.errors()}")
        expect(path.name in job.errors() or path.parent.name in job.errors(), f"{path.name} is not named: {job.errors()}")
        return False, seconds

    def full_disk_for_a_while(self):
        """the disk of the results is full while checkpoints are saved, and has room again"""
        whole = self.reference()
        with SmallDisk(self.work / "disk", "8m") as disk:
            job = self.started(ranks=0, out=disk.folder / "out")
            job.wait_for_step(self.rng.randrange(20, 200))
            begin = time.monotonic()
            disk.fill(leave=self.rng.randrange(100000))
            job.wait_for_words("is lost")
            disk.empty()
            codes = job.codes()
            seconds = time.monotonic() - begin
            expect(codes == [0], f"{codes}: {job.errors()}")
            expect(losses(job.out) == whole, "the losses differ from those of a run without faults")
            lost = json.loads((job.out / "summary.json").read_text())["variants"][0]["lost_checkpoints"]
            expect(lost and "No space left on device" in lost[0]["why"], f"lost: {lost}")
            self.end()
            return True, seconds

    def variant_on_full_disk(self):
        """the disk of the results is full when the next variant of a study begins, and has room again"""
        whole = self.reference()
        steps = 200
        first = {"name": "first", "patch": {"train": {"steps": steps, "save_every": None, "save": False}}}
        with SmallDisk(self.work / "disk", "8m") as disk:
            job = self.job(EXPERIMENT | {"variants": [first, {"name": "second", "patch": {}}]}, disk.folder / "out")
            job.start()
            job.wait_for_step(self.rng.randrange(30), "first")
            begin = time.monotonic()
            disk.fill(leave=0)
            expect("second (2 of 2)" not in job.errors(), "the second variant had begun before the disk was full")
            job.wait_for_words("second (2 of 2)")
            job.wait_for_words("is lost")
            disk.empty()
            codes = job.codes()
            seconds = time.monotonic() - begin
            expect(codes == [0], f"{codes}: {job.errors()}")
            expect(losses(job.out, "second") == whole, "the losses differ from those of a run without faults")
            expect(losses(job.out, "first").keys() == set(range(steps)), "steps of the first variant are missing")
            for variant in ("first", "second"):
                events = next((job.out / "tensorboard" / variant).iterdir()).read_bytes()
                expect(events.count(b"learning_rate") == len(losses(job.out, variant)), f"records of {variant} are missing")
            self.end()
            return True, seconds

    def full_disk(self):
        """the disk of the results is full, and stays full"""
        with SmallDisk(self.work / "disk", "8m") as disk:
            job = self.started(ranks=0, out=disk.folder / "out")
            job.wait_for_step(self.some_step())
            disk.fill(leave=self.rng.randrange(100000))
            codes = job.codes()
            expect(codes == [5] and "No space left on device" in job.errors(), f"{codes}: {job.errors()}")
            disk.empty()
            begin = time.monotonic()
            self.resume(job.out, self.reference())
            self.end()
            return False, time.monotonic() - begin


def add_options(parser):
    parser.add_argument("--timeout", type=int, default=3, help="seconds, where a rank is stopped for good (default: 3)")


if __name__ == "__main__":
    sys.exit(run_all(FaultsOfOneMachine, __doc__, add_options))
