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

from jobs import Faults, Failed, SmallDisk, expect, losses, run_all

RANKS = 4
EXPERIMENT = {
    "name": "faults", "mesh": {"dp": RANKS}, "threads": 1, "seed": 5, "timeout": 30,
    "elastic": {"meshes": [{"dp": 2}], "restarts": 5},
    "data": {"type": "synthetic_identities", "identities": 40, "image": [1, 16, 16]},
    "model": {"type": "mlp", "hidden": [256, 256]}, "head": {"classes": 40},
    "train": {"batch": 64, "steps": 500, "save_every": 20},
}


def restarts(folder):
    return json.loads((folder / "summary.json").read_text())["variants"][0]["restarts"]


class FaultsOfOneMachine(Faults):
    names = ["rank_killed", "leader_killed", "leader_lost", "new_leader_lost", "spare_lost", "other_experiment",
             "terminated_while_restarting", "lost_on_full_disk", "killed_and_not_elastic", "paused", "stopped", "terminated", "killed_while_saving", "damaged_checkpoint",
             "full_disk_for_a_while", "variant_on_full_disk", "full_disk"]
    whole = {}

    def started(self, *options, ranks=RANKS, out=None):
        job = self.job(EXPERIMENT, out)
        for rank in range(ranks):
            job.start_rank(rank, ranks, *options)
        if not ranks:
            job.start(*options)
        return job

    def reference(self):
        """The losses of a run without faults."""
        if not self.whole:
            self.whole.update(self.train(EXPERIMENT))
        return self.whole

    def some_step(self):
        return self.rng.randrange(2, EXPERIMENT["train"]["steps"] - 150)

    def rank_killed(self):
        """kill -9 of a rank other than 0 of an elastic job, whose launcher starts it again"""
        return self.comes_back(self.rng.randrange(1, RANKS))

    def leader_killed(self):
        """kill -9 of rank 0 of an elastic job, whose launcher starts it again: another rank leads"""
        return self.comes_back(0)

    def comes_back(self, rank):
        whole = self.reference()
        job = self.started("--elastic", "--set", "elastic.wait=60")  # it is not waited for longer than it takes
        job.wait_for_step(self.some_step())
        os.kill(job.program(rank), signal.SIGKILL)
        codes = job.codes()
        expect(codes == [0] * RANKS, f"{codes}: {job.errors()}")
        expect(losses(job.out) == whole, "the losses differ from those of a run without faults")
        found = restarts(job.out)
        expect(len(found) == 1 and f"rank {rank}" in found[0]["why"], f"restarts: {found}")
        expect(found[0]["ranks"] == RANKS, f"{found[0]['ranks']} ranks went on")
        return True, found[0]["seconds"]

    def leader_lost(self):
        """kill -9 of rank 0 of an elastic job, and of its launcher: another rank leads, on a smaller mesh"""
        job = self.started("--elastic")
        job.wait_for_step(self.some_step())
        self.lose(job, 0)
        codes = job.codes()
        expect(codes == [-signal.SIGKILL] + [0] * (RANKS - 1), f"{codes}: {job.errors()}")
        return self.went_on_with_two(job, 0)

    @staticmethod
    def lose(job, rank):
        """A process that no launcher starts again."""
        program = job.program(rank)
        job.processes[rank].kill()
        os.kill(program, signal.SIGKILL)

    def went_on_with_two(self, job, lost):
        whole = self.reference()
        found = restarts(job.out)
        expect(len(found) == 1 and found[0]["ranks"] == 2 and f"rank {lost}" in found[0]["why"], f"restarts: {found}")
        trained = losses(job.out)
        expect(trained.keys() == whole.keys(), "steps are missing")
        # Two ranks round otherwise than four, and training makes such differences grow.
        for step in range(found[0]["step"], found[0]["step"] + 5):
            expect(abs(trained[step] - whole[step]) <= 1e-4 * whole[step], f"step {step}: {trained[step]} for {whole[step]}")
        return True, found[0]["seconds"]

    def new_leader_lost(self):
        """kill -9 of rank 0 of an elastic job, and of the rank that leads in its place, while it waits: a third one leads"""
        job = self.started("--elastic")
        job.wait_for_step(self.some_step())
        self.lose(job, 0)
        job.wait_for_words("heddle: rank 1: rank 0: its process has ended; the other processes restart the job")
        time.sleep(self.rng.uniform(0, 3))
        self.lose(job, 1)
        codes = job.codes()
        expect(codes == [-signal.SIGKILL] * 2 + [0] * (RANKS - 2), f"{codes}: {job.errors()}")
        return self.went_on_with_two(job, 0)

    def spare_lost(self):
        """a rank of an elastic job is lost for good, and then the process that its smaller mesh does not need"""
        job = self.started("--elastic", "--set", "elastic.wait=0")
        job.wait_for_step(self.some_step())
        self.lose(job, RANKS - 1)
        job.wait_for_words("restart 1 with 3 processes")
        job.wait_for_step(max(losses(job.out)) + self.rng.randrange(2, 20))
        self.lose(job, RANKS - 2)
        codes = job.codes()
        expect(codes == [0] * 2 + [-signal.SIGKILL] * 2, f"{codes}: {job.errors()}")
        expect("rank 2: its process has ended, and this variant does not need it" in job.error(0), job.error(0))
        return self.went_on_with_two(job, RANKS - 1)

    def other_experiment(self):
        """a lost rank of an elastic job is started again with another experiment, which is refused, and then with the right one"""
        whole = self.reference()
        wait = ("--elastic", "--set", "elastic.wait=60")
        job = self.started(*wait)
        job.wait_for_step(self.some_step())
        rank = self.rng.randrange(RANKS)
        self.lose(job, rank)
        job.start_rank(rank, RANKS, *wait, "--set", "train.optimizer.lr=0.01", HEDDLE_STARTED_AGAIN="1")
        expect(job.codes([RANKS]) == [4], job.error(RANKS))
        expect("it was given another experiment or results folder" in job.error(RANKS), job.error(RANKS))
        job.start_rank(rank, RANKS, *wait, HEDDLE_STARTED_AGAIN="1")
        codes = job.codes()
        expect([code for other, code in enumerate(codes) if other not in (rank, RANKS)] == [0] * RANKS, f"{codes}: {job.errors()}")
        expect(losses(job.out) == whole, "the losses differ from those of a run without faults")
        return True, restarts(job.out)[0]["seconds"]

    def terminated_while_restarting(self):
        """SIGTERM to a process of an elastic job that restarts: it leaves, and if it leads, the job ends and is resumed"""
        job = self.started("--elastic")
        job.wait_for_step(self.some_step())
        self.lose(job, RANKS - 1)
        job.wait_for_words("the other processes restart the job")
        time.sleep(self.rng.uniform(0, 2))
        rank = self.rng.randrange(RANKS - 1)
        begin = time.monotonic()
        job.processes[rank].send_signal(signal.SIGTERM)
        codes = job.codes()
        seconds = time.monotonic() - begin
        if rank == 0:
            expect(codes == [143, 4, 4, -signal.SIGKILL], f"{codes}: {job.errors()}")
            for other in (1, 2):
                why = f"rank {other}: rank 0, which leads the restart of the job, was asked to end"
                expect(why in job.error(other), job.error(other))
            expect(json.loads((job.out / "summary.json").read_text())["variants"][0]["status"] == "interrupted", "not interrupted")
            self.resume(job.out, self.reference())
            return False, seconds
        expect(codes == [143 if other == rank else 0 for other in range(RANKS - 1)] + [-signal.SIGKILL], f"{codes}: {job.errors()}")
        return self.went_on_with_two(job, RANKS - 1)

    def lost_on_full_disk(self):
        """a rank of an elastic job is lost for good while the disk of the results is full, which then has room again"""
        with SmallDisk(self.work / "disk", "8m") as disk:
            job = self.started("--elastic", "--set", "elastic.wait=0", out=disk.folder / "out")
            job.wait_for_step(self.rng.randrange(100, 300))
            disk.fill(leave=self.rng.randrange(1000))
            job.wait_for_words("is lost")
            self.lose(job, RANKS - 1)
            job.wait_for_words("resuming after step")
            disk.empty()
            expect("processes that are started again cannot find this one" in job.errors(), "the disk was not full")
            codes = job.codes()
            expect(codes == [0] * 3 + [-signal.SIGKILL], f"{codes}: {job.errors()}")
            return self.went_on_with_two(job, RANKS - 1)

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

    def resume(self, out, whole):
        expect(self.train(EXPERIMENT, "--resume=auto", out=out) == whole, "the losses differ from those of a run without faults")

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
        steps = 60
        first = {"name": "first", "patch": {"train": {"steps": steps, "save_every": None, "save": False}}}
        with SmallDisk(self.work / "disk", "8m") as disk:
            job = self.job(EXPERIMENT | {"variants": [first, {"name": "second", "patch": {}}]}, disk.folder / "out")
            job.start()
            job.wait_for_step(self.rng.randrange(steps // 2), "first")
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
