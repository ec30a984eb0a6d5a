"""Runs the two programs of the project as `collectives` does, once each."""

import os
import sys
import unittest

import cells
import ratios
import stacks

OURS, PROBE = [os.path.abspath(path) for path in sys.argv[1:3]]
RANKS = 2
SIZE = 4096
# For a whole program on a busy machine, under a sanitizer.
LIMIT_S = 50


class ProgramsTest(unittest.TestCase):
    def run_stack(self, stack, wanted, limit_s=LIMIT_S):
        stack.prepare(os.environ["TEST_TMPDIR"])
        flags = ["--batches=3", "--batch-ms=0"]
        return list(
            cells.run_cells(stack, RANKS, "shm", wanted, flags, limit_s)
        )

    def check_stack(self, stack):
        wanted = [(operation, SIZE) for operation in ratios.OPERATIONS]
        results = self.run_stack(stack, wanted)
        self.assertEqual(
            [(result["operation"], result["bytes"]) for result in results], wanted
        )
        for result in results:
            self.assertNotIn("reason", result)
            self.assertEqual(result["ranks"], RANKS)
            self.assertEqual(result["batches"], 3)
            self.assertGreaterEqual(result["calls"], 1)
            self.assertGreater(result["min_us"], 0)
            self.assertLessEqual(result["min_us"], result["median_us"])
            self.assertLessEqual(result["median_us"], result["max_us"])

    def test_our_ranks_are_processes_that_print_their_figures(self):
        # The thread sanitizer does not survive UCX's hooks in calls for memory.
        quiet = {"UCX_MEM_EVENTS": "n"}
        self.check_stack(stacks.Muonshard(OURS, variables=quiet))

    def test_the_probe_prints_its_figures(self):
        self.check_stack(stacks.Probe(PROBE))

    def test_a_program_that_fails_says_why(self):
        results = self.run_stack(stacks.Probe(PROBE), [("all_reduce", 1)])
        self.assertEqual(results[0]["reason"], "failed")
        self.assertIn("want an element for each of 2 ranks", results[0]["said"])

    def test_a_cell_over_its_limit_is_named_so_and_the_program_ended(self):
        wanted = [("all_gather", SIZE), ("all_gather", 2 * SIZE)]
        results = self.run_stack(stacks.Probe(PROBE), wanted, limit_s=0)
        self.assertEqual(
            [result["reason"] for result in results], [cells.OVER_LIMIT] * 2
        )


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
