"""The faults of elastic jobs, for faults.py: processes are lost, and the others go on."""
import json
import os
import signal
import time

from jobs import Faults, SmallDisk, expect, losses

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


class ElasticFaults(Faults):
    elastic_names = ("rank_killed", "leader_killed", "two_killed", "leader_lost", "new_leader_lost", "spare_lost", "spare_stopped",
                     "resumed_and_lost", "other_experiment", "terminated_while_restarting",
                     "lost_on_full_disk", "lost_while_meeting", "spare_lost_early", "back_and_leader_lost")
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
        return self.rng.randrange(2, EXPERIMENT["train"]["steps"] // 2)

    def resume(self, out, whole):
        expect(self.train(EXPERIMENT, "--resume=auto", out=out) == whole, "the losses differ from those of a run without faults")

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

    def spare_lost_early(self):
        """the same, and the process is lost within 20 ms after the others have met again"""
        job = self.started("--elastic", "--set", "elastic.wait=0")
        job.wait_for_step(self.some_step())
        program = job.program(RANKS - 2)
        self.lose(job, RANKS - 1)
        job.wait_for_words("restart 1 with 3 processes")
        time.sleep(self.rng.uniform(0, 0.02))
        job.processes[RANKS - 2].kill()
        os.kill(program, signal.SIGKILL)
        codes = job.codes()
        expect(codes == [0] * 2 + [-signal.SIGKILL] * 2, f"{codes}: {job.errors()}")
        expect(losses(job.out).keys() == self.reference().keys(), "steps are missing")
        return True, max(restart["seconds"] for restart in restarts(job.out))

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

    def lost_while_meeting(self):
        """a rank of an elastic job is lost for good, and another one within the 0.3 s in which the others meet again"""
        job = self.started("--elastic", "--set", "elastic.wait=0")
        job.wait_for_step(self.some_step())
        program = job.program(1)  # its number stays the same when the process runs its program again
        self.lose(job, RANKS - 1)
        job.wait_for_words("the other processes restart the job")
        time.sleep(self.rng.uniform(0, 0.3))
        job.processes[1].kill()
        os.kill(program, signal.SIGKILL)
        codes = job.codes()
        expect(codes == [0, -signal.SIGKILL, 0, -signal.SIGKILL], f"{codes}: {job.errors()}")
        found = restarts(job.out)
        expect(found and found[-1]["ranks"] == 2, f"restarts: {found}")
        expect(losses(job.out).keys() == self.reference().keys(), "steps are missing")
        return True, max(restart["seconds"] for restart in found)

    def back_and_leader_lost(self):
        """two ranks of an elastic job are lost, and one of them comes back; rank 0 is lost while it waits for the other"""
        job = self.started("--elastic", "--set", "elastic.wait=8")
        job.wait_for_step(self.some_step())
        self.lose(job, 2)
        os.kill(job.program(3), signal.SIGKILL)
        job.wait_for_words("heddle: rank 3: starts again")
        time.sleep(self.rng.uniform(1, 4))
        self.lose(job, 0)
        codes = job.codes()
        expect(codes == [-signal.SIGKILL, 0, -signal.SIGKILL, 0], f"{codes}: {job.errors()}")
        found = restarts(job.out)
        expect(found[-1]["ranks"] == 2, f"restarts: {found}")
        expect(losses(job.out).keys() == self.reference().keys(), "steps are missing")
        return True, found[-1]["seconds"]

    def resumed_and_lost(self):
        """an elastic job is interrupted and resumed, and loses a rank for good before its first step"""
        job = self.started("--elastic")
        job.wait_for_step(self.some_step())
        job.processes[0].send_signal(signal.SIGTERM)
        expect(job.codes() == [143] * RANKS, job.errors())
        again = self.started("--elastic", "--resume=auto", "--set", "elastic.wait=0", out=job.out)
        again.wait_for_words("faults: faults (1 of 1)")
        time.sleep(self.rng.uniform(0, 0.05))
        self.lose(again, RANKS - 1)
        codes = again.codes()
        expect(codes == [0] * 3 + [-signal.SIGKILL], f"{codes}: {again.errors()}")
        return self.went_on_with_two(again, RANKS - 1)

    def two_killed(self):
        """kill -9 of two ranks of an elastic job, one after the other within 50 ms, whose launchers start them again"""
        whole = self.reference()
        job = self.started("--elastic", "--set", "elastic.wait=60")
        job.wait_for_step(self.some_step())
        first, second = self.rng.sample(range(1, RANKS), 2)
        programs = job.program(first), job.program(second)
        os.kill(programs[0], signal.SIGKILL)
        time.sleep(self.rng.uniform(0, 0.05))
        os.kill(programs[1], signal.SIGKILL)
        codes = job.codes()
        if codes[second] == 4:  # it was killed while the others were connecting again, or just before
            expect("which came too late" in job.error(second), job.error(second))
            codes[second] = 0
            whole = losses(job.out)
        expect(codes == [0] * RANKS, f"{codes}: {job.errors()}")
        expect(losses(job.out) == whole, "the losses differ from those of a run without faults")
        return True, restarts(job.out)[-1]["seconds"]

    def spare_stopped(self):
        """a process that the smaller mesh of an elastic job does not need is stopped for good: the others end without it"""
        job = self.started("--elastic", "--set", "elastic.wait=0", "--set", "timeout=5")
        job.wait_for_step(self.some_step())
        self.lose(job, RANKS - 1)
        job.wait_for_words("restart 1 with 3 processes")
        job.wait_for_step(max(losses(job.out)) + self.rng.randrange(2, 20))
        os.kill(job.program(RANKS - 2), signal.SIGSTOP)
        begin = time.monotonic()
        codes = job.codes([0, 1])
        expect(codes == [0, 0], f"{codes}: {job.errors()}")
        seconds = time.monotonic() - begin
        self.went_on_with_two(job, RANKS - 1)
        return True, seconds
