"""Runs the built programs as a user does: flags, files, exit status."""

import json
import math
import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

TRAIN, MUONSHARD, PLUGIN, PLUGIN_COPY = [os.path.abspath(p) for p in sys.argv[1:5]]
TINY = ["--width=16", "--layers=2", "--heads=2", "--context=8", "--sequences=2",
        "--steps=6", "--interval=2", "--ranks=3"]


class ProgramTest(unittest.TestCase):

    def setUp(self):
        self.folder = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        self.data = self.path("text")
        with open(self.data, "w") as file:
            file.write("the quick brown fox jumps over the lazy dog\n" * 100)

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
        report = self.report("--verify")
        self.assertEqual(report["verify"]["max_abs_difference"], 0)
        self.assertLess(report["loss"]["held_out_last"], report["loss"]["held_out_first"])
        self.assertEqual(len(report["loss"]["curve"]), 6)
        wire = report["wire_bytes"]
        self.assertEqual(wire["per_rank"], wire["bound_per_rank"])
        self.assertEqual(sum(wire["per_rank"]), wire["bound"])
        self.assertEqual(len(wire["per_rank"]), 3)
        for name in "step_median", "newton_schulz", "exposed_communication":
            self.assertGreater(report["time_ms"][name], 0, name)
        self.assertGreaterEqual(report["plan"]["imbalance"], 1)

    def test_trace_shows_each_kind_of_work_on_each_rank(self):
        path = self.path("trace.json")
        self.train("--trace", path, "--bucket-mib=0.02")
        with open(path) as file:
            events = json.load(file)["traceEvents"]
        shown = [e for e in events if e["ph"] == "X"]
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
        named = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
        self.assertEqual(rows, named)
        self.check_rows_do_not_overlap(shown)

    def check_rows_do_not_overlap(self, events):
        last_end = {}
        for e in sorted(events, key=lambda e: e["ts"]):
            row = e["pid"], e["tid"]
            # Times are in microseconds; a double of them keeps nanoseconds.
            self.assertGreaterEqual(e["ts"], last_end.get(row, -math.inf) - 0.001, e)
            last_end[row] = e["ts"] + e["dur"]

    def test_plot_is_well_formed(self):
        path = self.path("plot.svg")
        self.train("--plot", path)
        root = xml.etree.ElementTree.parse(path).getroot()
        self.assertTrue(root.tag.endswith("svg"))

    def test_same_seed_same_result_whatever_the_buckets(self):
        first = self.report()["loss"]
        again = self.report("--bucket-mib=0", "--overlap=off")["loss"]
        self.assertEqual(first, again)
        self.assertNotEqual(first, self.report("--seed=2")["loss"])

    def test_plugin_is_swapped_by_path_and_by_environment(self):
        usual = self.report("--plugin", PLUGIN)
        by_path = self.report("--plugin", PLUGIN_COPY)
        self.assertEqual(by_path["plugin_path"], PLUGIN_COPY)
        self.assertEqual(by_path["loss"], usual["loss"])
        by_name = self.report(environment={
            "MUONSHARD_PLUGIN": "loopback_copy",
            "MUONSHARD_PLUGIN_PATH": os.path.dirname(PLUGIN_COPY)})
        self.assertEqual(by_name["plugin_path"], PLUGIN_COPY)
        self.assertEqual(by_name["loss"], usual["loss"])

    def check_error(self, want, status, *arguments, program=TRAIN):
        done = self.run_program(*arguments, program=program)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertIn(want, done.stderr)

    def test_wrong_input_is_one_clear_error(self):
        empty = self.path("empty")
        open(empty, "w").close()
        self.check_error("--steps, ", 2, "--stepz=3")
        self.check_error("[1, 64]", 2, "--ranks=65")
        self.check_error("is empty", 1, "--data", empty)
        self.check_error("no such file", 1, "--data", self.path("none"))
        self.check_error("libmuonshard_nothing.so", 1, "--plugin=nothing")
        self.check_error(empty, 1, "--plugin", empty)
        done = self.run_program("--report=/no/such/folder/r.json")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/no/such/folder/r.json", done.stderr)
        self.assertEqual(done.stdout, "")

    def test_help_lists_flags(self):
        done = self.run_program("--help")
        self.assertEqual(done.returncode, 0)
        self.assertIn("--bucket-mib", done.stdout)

    def test_commands_of_the_one_program(self):
        done = self.run_program("train", *TINY, "--data", self.data, program=MUONSHARD)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Held-out loss", done.stdout)
        done = self.run_program("plugin", program=MUONSHARD)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("canonical: yes", done.stdout)
        done = self.run_program("plan", "--mesh=sharding=4", program=MUONSHARD)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("mbalance", done.stdout)
        for command in "plan", "plugin":
            done = self.run_program(command, "--help", program=MUONSHARD)
            self.assertEqual(done.returncode, 0)
            self.check_error("unknown flag", 2, command, "--x=1", program=MUONSHARD)
        done = self.run_program("help", program=MUONSHARD)
        self.assertEqual(done.returncode, 0)
        self.check_error("want a command", 2, program=MUONSHARD)
        self.check_error("unknown command", 2, "fly", program=MUONSHARD)
        self.check_error("no-such-model", 1, "plan", "--model=no-such-model", program=MUONSHARD)
        self.check_error("nothing", 1, "plugin", "--plugin=nothing", program=MUONSHARD)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
