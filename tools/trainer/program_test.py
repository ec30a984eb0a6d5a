"""Runs the built programs as a user does: flags, files, exit status."""

import json
import math
import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

TRAIN, MUONSHARD, PLUGIN_COPY = [os.path.abspath(p) for p in sys.argv[1:4]]
TINY = ["--width=8", "--layers=1", "--heads=2", "--context=8", "--sequences=2",
        "--steps=4", "--interval=2", "--ranks=3"]


def test_folder():
    return tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])


class ProgramTest(unittest.TestCase):
    """To start a program takes longer than to train, so tests share a run."""

    @classmethod
    def setUpClass(cls):
        cls.data = os.path.join(test_folder(), "text")
        with open(cls.data, "w") as file:
            file.write("the quick brown fox jumps over the lazy dog\n" * 100)
        cls.usual_folder = test_folder()
        run = cls("run_program")
        run.folder = cls.usual_folder
        cls.usual = run.report("--verify", "--bucket-mib=0.002",
                               "--trace=trace.json", "--plot=plot.svg")

    def setUp(self):
        self.folder = test_folder()

    def path(self, name):
        return os.path.join(self.folder, name)

    def run_program(self, *arguments, program=TRAIN, environment=None):
        # From another folder than the one that holds the runfiles.
        return subprocess.run(
            [program, *arguments], cwd=self.folder, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, **(environment or {})})

    def train(self, *arguments, **keywords):
        done = self.run_program(*TINY, "--data", self.data, *arguments, **keywords)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def report(self, *arguments, **keywords):
        path = self.path("report.json")
        self.train("--report", path, *arguments, **keywords)
        with open(path) as file:
            return json.load(file)

    def test_report_has_what_is_promised(self):
        report = self.usual
        self.assertEqual(report["verify"]["max_abs_difference"], 0)
        self.assertLess(report["loss"]["held_out_last"], report["loss"]["held_out_first"])
        self.assertEqual(len(report["loss"]["curve"]), 4)
        wire = report["wire_bytes"]
        self.assertEqual(wire["per_rank"], wire["bound_per_rank"])
        self.assertEqual(sum(wire["per_rank"]), wire["bound"])
        self.assertEqual(len(wire["per_rank"]), 3)
        self.assertEqual(wire["total_per_rank"], [4 * b for b in wire["per_rank"]])
        # Two all-reduces a step, which no rank does without sending.
        for per_step, total in zip(wire["control_per_rank"], wire["control_total_per_rank"]):
            self.assertGreater(per_step, 0)
            self.assertEqual(4 * per_step, total)
        for name in "step_median", "newton_schulz", "exposed_communication":
            self.assertGreater(report["time_ms"][name], 0, name)
        self.assertGreaterEqual(report["plan"]["imbalance"], 1)

    def test_trace_shows_each_kind_of_work_on_each_rank(self):
        with open(os.path.join(self.usual_folder, "trace.json")) as file:
            events = json.load(file)["traceEvents"]
        shown = [e for e in events if e["ph"] == "X"]
        processes = {e["pid"]: e["args"]["name"] for e in events
                     if e["name"] == "process_name"}
        self.assertEqual(processes, {r: f"rank {r}" for r in range(3)})
        for rank in range(3):
            names = {e["name"] for e in shown if e["pid"] == rank}
            self.assertTrue({"forward", "backward"} <= names)
            for start in "reduction of bucket ", "gather of bucket ", "update part ":
                self.assertTrue(any(n.startswith(start) for n in names), start)
            reduced = {n.split()[-1] for n in names if n.startswith("reduction")}
            gathered = {n.split()[-1] for n in names if n.startswith("gather")}
            self.assertEqual(reduced, gathered)
            self.assertGreater(len(reduced), 1)
        rows = {(e["pid"], e["tid"]) for e in shown}
        for what in "thread_name", "thread_sort_index":
            named = [(e["pid"], e["tid"]) for e in events
                     if e["name"] == what and e["ph"] == "M"]
            self.assertEqual(sorted(rows), sorted(named))
        # Perfetto shows the row of this number first.
        for e in shown:
            in_program = e["name"] in ("forward", "backward", "finish and step")
            self.assertEqual(e["tid"] == e["pid"], in_program, e)
        self.check_rows_do_not_overlap(shown)

    def check_rows_do_not_overlap(self, events):
        last_end = {}
        for e in sorted(events, key=lambda e: e["ts"]):
            row = e["pid"], e["tid"]
            # Times are in microseconds; a double of them keeps nanoseconds.
            self.assertGreaterEqual(e["ts"], last_end.get(row, -math.inf) - 0.001, e)
            last_end[row] = e["ts"] + e["dur"]

    def test_plot_is_well_formed(self):
        path = os.path.join(self.usual_folder, "plot.svg")
        root = xml.etree.ElementTree.parse(path).getroot()
        self.assertTrue(root.tag.endswith("svg"))

    def test_same_seed_same_result_whatever_buckets_and_plugin(self):
        by_path = self.report("--bucket-mib=0", "--overlap=off", "--plugin", PLUGIN_COPY)
        self.assertEqual(by_path["plugin_path"], PLUGIN_COPY)
        self.assertEqual(by_path["loss"], self.usual["loss"])

    def test_plugin_is_swapped_by_environment_and_the_seed_matters(self):
        by_name = self.report("--seed=2", environment={
            "MUONSHARD_PLUGIN": "loopback_copy",
            "MUONSHARD_PLUGIN_PATH": os.path.dirname(PLUGIN_COPY)})
        self.assertEqual(by_name["plugin_path"], PLUGIN_COPY)
        self.assertNotEqual(by_name["loss"], self.usual["loss"])

    def test_every_path_at_once_learns_and_is_verified(self):
        report = self.report(
            "--ranks=8", "--mesh", "moe_sharding=2,ep=4", "--experts=4",
            "--hierarchical=on", "--lanes-per-node=4", "--overlap=on",
            "--precision=fp16", "--scaler", "--accumulate=2", "--clip=1.0",
            "--gather=lazy", "--verify", "--steps=60", "--interval=20",
            "--lr=0.02", "--adamw-lr=0.02")
        self.assertEqual(report["verify"], {"max_abs_difference": 0, "different_count": 0})
        # What it costs to know no more than which 28 bytes the text is made of.
        self.assertLess(report["loss"]["held_out_last"], math.log(28))
        self.assertGreater(report["loss_scale"], 1)
        self.assertLess(report["skipped_steps"], 30)
        # 8 ranks, 2 micro-batches of 2 sequences of 8 bytes, 1 layer, 60 steps.
        self.assertEqual(sum(report["experts"]["positions"]), 8 * 2 * 2 * 8 * 60)
        self.assertEqual(report["plan"]["groups"], [
            {"axes": "moe_sharding+ep", "size": 8, "hosts": 2, "lanes": 4},
            {"axes": "moe_sharding", "size": 2, "hosts": 1, "lanes": 1}])

    def check_error(self, want, status, *arguments, program=TRAIN):
        done = self.run_program(*arguments, program=program)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertIn(want, done.stderr)

    def test_wrong_input_is_one_clear_error(self):
        empty = self.path("empty")
        open(empty, "w").close()
        self.check_error('write --verify=off', 2, "--verify", "off")
        self.check_error("is empty", 1, "--data", empty)
        self.check_error(empty, 1, "--plugin", empty)
        self.check_error("--experts: want a multiple of 2", 2,
                         "--mesh=ep=2", "--experts=3")
        self.check_error("want auto or off, got on", 1, "--data", self.data,
                         "--hierarchical=on")
        done = self.run_program("--report=/no/such/folder/r.json")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/no/such/folder/r.json", done.stderr)
        self.assertEqual(done.stdout, "")

    def test_commands_of_the_one_program(self):
        done = self.run_program("train", *TINY, "--data", self.data, program=MUONSHARD)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Held-out loss", done.stdout)
        done = self.run_program("plan", "--mesh=sharding=4", program=MUONSHARD)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("mbalance", done.stdout)
        for word in "help", "-h":
            done = self.run_program(word, program=MUONSHARD)
            self.assertEqual(done.returncode, 0)
            self.assertIn("plugin", done.stdout)
        self.check_error("want a command", 2, program=MUONSHARD)
        self.check_error("unknown command", 2, "fly", program=MUONSHARD)
        self.check_error("--mesh: ", 2, "plan", "--mesh=a=0", program=MUONSHARD)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
