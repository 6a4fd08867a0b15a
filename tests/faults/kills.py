#!/usr/bin/env python3
"""Kills a run that saves every step again and again, at random moments, and resumes it.

    tests/faults/kills.py [--tries N] [--seed S]

Each time the newest whole checkpoint must load. At the end, the losses must have the bits of a run that was never killed.
`worst` is the longest time from a start to the next checkpoint. The last line is `N passed, N failed`.
"""
import re
import signal
import sys
import time

from jobs import PATIENCE, Faults, Failed, expect, parser_of, print_head, print_row, run_one, send

MAX_STEPS = 3  # between two kills
MAX_START = 0.3  # seconds, in which a program starts
MAX_SAVE = 0.02  # seconds, in which it trains a step and saves it
EXPERIMENT = {
    "name": "kills", "mesh": {"dp": 2}, "threads": 1, "seed": 5,
    "data": {"type": "synthetic_identities", "identities": 20, "image": [1, 8, 8]},
    "model": {"type": "mlp", "hidden": [32], "embedding": 16}, "head": {"classes": 20},
}


def newest_checkpoint(out):
    """The number of its steps."""
    return max((int(folder.name[5:]) for folder in out.glob("checkpoint/*/step-*") if folder.name[5:].isdigit()), default=0)


class Kills(Faults):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.out = self.work / "out"
        self.experiment = EXPERIMENT | {"train": {"batch": 16, "steps": 1000000, "save_every": 1}}

    def start_and_kill(self):
        """Returns the seconds from the start to the next checkpoint, or 0 if it was killed earlier."""
        before = newest_checkpoint(self.out)
        steps = self.rng.randrange(MAX_STEPS + 1)
        begin = time.monotonic()
        job = self.job(self.experiment, self.out)
        job.start("--resume=auto")
        seconds = self.wait_for_checkpoint(job, before + 1) - begin if steps else 0
        if steps > 1:
            self.wait_for_checkpoint(job, before + steps)
        time.sleep(self.rng.uniform(0, MAX_SAVE if steps else MAX_START))
        self.kill(job)
        expect(newest_checkpoint(self.out) >= before + steps, "a checkpoint is lost")
        resumed = re.search(r"resuming after step (\d+)", job.error(0))
        expect(not resumed or int(resumed[1]) == before, f"the newest checkpoint is of step {before}: {job.error(0)}")
        expect(resumed or not before or not steps, f"step {before} is not resumed: {job.error(0)}")
        job.end()
        return seconds

    def wait_for_checkpoint(self, job, step, patience=PATIENCE):
        """Returns when there is one after this step, or a newer one: the time of that."""
        end = time.monotonic() + patience
        while newest_checkpoint(self.out) < step:
            expect(job.processes[0].poll() is None and time.monotonic() < end, f"step {step} is not reached: {job.error(0)}")
            time.sleep(0.001)
        return time.monotonic()

    @staticmethod
    def kill(job):
        """Kills the program, as soon as there is one."""
        while job.processes[0].poll() is None:
            try:
                send([job.program(0)], signal.SIGKILL)
                break
            except Failed:
                time.sleep(0.001)
        codes = job.codes()
        expect(codes == [4], f"{codes}: {job.error(0)}")

    def all_tries(self):
        """kill -9 at any time of a run that saves every step, which is then resumed"""
        results = [(False, self.start_and_kill()) for _ in range(self.arguments.tries)]
        end = "--set", f"train.steps={newest_checkpoint(self.out) + 5}"
        resumed = self.train(self.experiment, "--resume=auto", *end, out=self.out)
        whole = self.train(self.experiment, "--set", "train.save=false", *end)
        expect(resumed == whole, "the losses differ from those of a run without faults")
        return results


def main():
    arguments = parser_of(__doc__, tries=1000).parse_args()
    results = run_one(Kills, "all_tries", 0, arguments)
    if isinstance(results, Failed):
        print(f"{results}", file=sys.stderr)
        results = [results]
    print_head()
    print_row(Kills.all_tries.__doc__, results)
    failed = sum(isinstance(result, Failed) for result in results)
    print(f"{len(results) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
