"""Trains with ranks in processes of their own, as a user does."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

TRAIN, LAUNCH, UCX = [os.path.abspath(p) for p in sys.argv[1:4]]
TINY = ["--width=8", "--layers=1", "--heads=2", "--context=8", "--sequences=2",
        "--steps=10", "--interval=4"]
# Longer than any run here takes; a hang is a failure.
PATIENCE_S = 120


class ProcessTest(unittest.TestCase):

    def setUp(self):
        self.folder = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        self.data = self.path("text")
        with open(self.data, "w") as file:
            file.write("the quick brown fox jumps over the lazy dog\n" * 100)
        self.environment = {**os.environ, "TMPDIR": self.folder,
                            "MUONSHARD_PLUGIN_PATH": os.path.dirname(UCX)}

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self, *command, **environment):
        return subprocess.Popen(command, cwd=self.folder, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env={**self.environment, **environment})

    def finish(self, process, status=0):
        out, errors = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, status, out + errors)
        return out, errors

    def train(self, *flags):
        return [TRAIN, *TINY, "--data", self.data, *flags]

    def report(self, name):
        with open(self.path(name)) as file:
            return json.load(file)

    def in_threads(self, ranks, *flags):
        out, _ = self.finish(self.start(*self.train(
            f"--ranks={ranks}", "--report=threads.json", *flags)))
        return out, self.report("threads.json")

    def check_same(self, one, other):
        for part in ("parameter_hash", "loss", "loss_scale", "skipped_steps",
                     "verify", "experts", "plan", "options"):
            self.assertEqual(one[part], other[part], part)
        # How plugins do a small all-reduce is their own affair.
        for part in "total_per_rank", "bound_per_rank":
            self.assertEqual(one["wire_bytes"][part], other["wire_bytes"][part])

    def test_processes_give_what_threads_give_bit_for_bit(self):
        out, _ = self.finish(self.start(LAUNCH, "-n", "2", "--", *self.train(
            "--plugin=ucx", "--report=processes.json", "--verify")))
        processes = self.report("processes.json")
        self.assertEqual(processes["plugin"], "ucx")
        self.assertEqual(processes["verify"],
                         {"max_abs_difference": 0, "different_count": 0})
        threads_out, threads = self.in_threads(2, "--verify")
        self.assertEqual(threads["plugin"], "loopback")
        self.check_same(processes, threads)
        # Rank 0 reports, and it alone.
        lines = out.splitlines()
        self.assertEqual({line[:4] for line in lines}, {"[0] "})
        for begin in "Parameters: hash ", "Verify: ":
            said, = [line[4:] for line in lines if line[4:].startswith(begin)]
            self.assertIn(said, threads_out.splitlines())

    def test_every_path_at_once_is_the_same_too(self):
        flags = ["--mesh", "moe_sharding=2,ep=2", "--experts=4", "--scaler",
                 "--precision=fp16", "--accumulate=2", "--overlap=on",
                 "--gather=lazy", "--verify", "--seed=3"]
        self.finish(self.start(
            LAUNCH, "-n", "4", "--store=file:store", "--",
            *self.train("--plugin=ucx", "--report=processes.json", *flags)))
        _, threads = self.in_threads(4, *flags)
        self.check_same(self.report("processes.json"), threads)
        self.assertEqual(threads["verify"]["different_count"], 0)

    def test_ranks_of_another_launcher_meet_by_its_variables(self):
        ranks = [self.start(
            *self.train("--plugin=ucx", "--report=processes.json"),
            OMPI_COMM_WORLD_RANK=str(rank), OMPI_COMM_WORLD_SIZE="2",
            OMPI_COMM_WORLD_LOCAL_RANK=str(rank), OMPI_COMM_WORLD_LOCAL_SIZE="2",
            PMIX_NAMESPACE="77") for rank in range(2)]
        for rank in ranks:
            self.finish(rank)
        self.check_same(self.report("processes.json"), self.in_threads(2)[1])
        self.assertEqual([name for name in os.listdir(self.folder)
                          if name.startswith("muonshard-")], [])

    def check_error(self, status, want, *flags, **environment):
        _, errors = self.finish(
            self.start(*self.train(*flags), **environment), status)
        self.assertIn(want, errors)

    def test_what_does_not_fit_the_launcher_is_refused(self):
        two = {"MUONSHARD_RANK": "0", "MUONSHARD_SIZE": "2",
               "MUONSHARD_STORE": "file:" + self.path("store")}
        self.check_error(2, "--ranks: want 2, as many as muonshard has started, got 3",
                         "--ranks=3", **two)
        self.check_error(2, "--mesh: want a product equal to --ranks=2",
                         "--mesh=sharding=4", **two)
        self.check_error(1, "want one that joins processes, as --plugin=ucx", **two)
        self.check_error(1, "ranks that are processes have real hosts",
                         "--lanes-per-node=1", **{**two, "MUONSHARD_SIZE": "1"})
        self.check_error(2, "disagree", RANK="1", WORLD_SIZE="2", **two)
        self.check_error(2, "MUONSHARD_STORE=tcp:HOST:PORT", OMPI_COMM_WORLD_RANK="0",
                         OMPI_COMM_WORLD_SIZE="2", OMPI_COMM_WORLD_LOCAL_SIZE="1")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
