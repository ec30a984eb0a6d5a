import collections
import unittest

import coverage_table


def counts_of(*files):
    counts = collections.defaultdict(collections.Counter)
    for text in files:
        coverage_table.add_lcov(counts, text.splitlines())
    return counts


class CoverageTableTest(unittest.TestCase):
    def test_a_line_that_any_test_runs_is_hit(self):
        counts = counts_of(
            "SF:a/x.cc\nDA:1,0\nDA:2,3\nend_of_record\n",
            "SF:a/x.cc\nDA:1,1\nDA:2,0\nDA:3,0\nend_of_record\n",
        )
        self.assertEqual(
            coverage_table.summarize(counts, ["a"])[0][:3], ("a", 3, 2)
        )

    def test_folders_are_apart_and_the_last_row_is_the_sum(self):
        counts = counts_of("SF:a/x.cc\nDA:1,1\nSF:b/c/y.h\nDA:1,0\n")
        self.assertEqual(
            coverage_table.summarize(counts, ["a", "b/c"]),
            [("a", 1, 1, 100.0), ("b/c", 1, 0, 0.0), ("all", 2, 1, 50.0)],
        )

    def test_tests_and_other_folders_do_not_count(self):
        counts = counts_of("SF:a/x_test.cc\nDA:1,0\nSF:ab/x.cc\nDA:1,0\n")
        self.assertEqual(coverage_table.summarize(counts, ["a"])[1][1], 0)

    def test_a_source_that_no_test_runs_is_missing(self):
        counts = counts_of("SF:a/x.cc\nDA:1,1\n")
        sources = ["a/x.cc", "a/y.cc", "a/y_test.cc", "b/z.cc"]
        self.assertEqual(
            coverage_table.missing_sources(counts, sources, ["a"]), ["a/y.cc"]
        )

    def test_the_files_are_those_of_the_events(self):
        event = {
            "testResult": {
                "testActionOutput": [
                    {"name": "test.xml", "uri": "file:///x.xml"},
                    {"name": "test.lcov", "uri": "file:///a%20b.dat"},
                ]
            }
        }
        self.assertEqual(
            list(coverage_table.lcov_paths([event, {"id": {}}])), ["/a b.dat"]
        )


if __name__ == "__main__":
    unittest.main()
