import unittest

import bench_table


def run(name, time, unit="ms", **more):
    return {
        "name": name,
        "run_name": name,
        "run_type": "iteration",
        "real_time": time,
        "time_unit": unit,
        **more,
    }


class BenchTableTest(unittest.TestCase):
    def test_a_case_is_its_median_least_and_greatest_repetition(self):
        result = {"benchmarks": [run("a", 3.0), run("a", 1.0), run("a", 2.0)]}
        self.assertEqual(
            list(bench_table.rows(result)), [("a", "2 ms", "1 ms", "3 ms")]
        )

    def test_units_are_brought_together(self):
        result = {"benchmarks": [run("a", 3.0, "s"), run("a", 1500.0, "us")]}
        ((_, _, least, greatest),) = bench_table.rows(result)
        self.assertEqual((least, greatest), ("1.5 ms", "3 s"))

    def test_aggregates_are_left_out(self):
        mean = {**run("a_mean", 100.0), "run_name": "a", "run_type": "aggregate"}
        result = {"benchmarks": [run("a", 1.0), mean]}
        self.assertEqual(
            list(bench_table.rows(result)), [("a", "1 ms", "1 ms", "1 ms")]
        )

    def test_a_case_that_failed_is_an_error(self):
        result = {"benchmarks": [run("a", 0.0, error_occurred=True)]}
        self.assertEqual(
            list(bench_table.rows(result)), [("a", "error", "", "")]
        )

    def test_columns_line_up(self):
        lines = bench_table.table([("long name", "1 ms", "1 ms", "10 ms")])
        head, row = lines.split("\n")
        self.assertEqual(len(head), len(row))


if __name__ == "__main__":
    unittest.main()
