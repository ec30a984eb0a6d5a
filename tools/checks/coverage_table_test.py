import unittest

import coverage_table


def counts_of(*files):
    counts = coverage_table.Counts()
    for text in files:
        counts.add_lcov(text.splitlines())
    return counts


class CoverageTableTest(unittest.TestCase):
    def tallies(self, counts, folders, kind="lines"):
        return [
            (name, *coverage_table.tally(getattr(part, kind)))
            for name, part in coverage_table.summarize(counts, folders)
        ]

    def test_a_line_that_any_test_runs_is_hit(self):
        counts = counts_of(
            "SF:a/x.cc\nDA:1,0\nDA:2,3\nend_of_record\n",
            "SF:a/x.cc\nDA:1,1\nDA:2,0\nDA:3,0\nend_of_record\n",
        )
        self.assertEqual(self.tallies(counts, ["a"])[0][:3], ("a", 3, 2))

    def test_a_branch_that_any_test_takes_is_taken(self):
        counts = counts_of(
            "SF:a/x.cc\nBRDA:1,7,0,-\nBRDA:1,7,1,-\nDA:1,0\n",
            "SF:a/x.cc\nBRDA:1,7,0,2\nBRDA:1,7,1,0\nDA:1,2\n",
        )
        self.assertEqual(
            self.tallies(counts, ["a"], "branches")[0], ("a", 2, 1, 50.0)
        )

    def test_branches_of_unlike_blocks_in_one_line_are_apart(self):
        counts = counts_of("SF:a/x.cc\nBRDA:1,7,0,1\nBRDA:1,8,0,0\nDA:1,1\n")
        self.assertEqual(
            self.tallies(counts, ["a"], "branches")[0][:3], ("a", 2, 1)
        )

    def test_only_the_end_of_a_scope_has_no_branches(self):
        counts = counts_of(
            "SF:a/x.cc\nBRDA:1,7,0,1\nBRDA:3,7,0,0\nBRDA:2,7,0,1\n"
            "BRDA:4,7,0,1\nBRDA:5,7,0,1\nDA:1,1\n"
        )
        text = ["if (a ||", "} else if (b) {", "  });", "} else {", "c ? 1"]
        counts.drop_scope_ends({"a/x.cc": text}.get)
        self.assertEqual(
            sorted(line for _, line, _, _ in counts.branches), [1, 2, 5]
        )

    def test_folders_are_apart_and_the_last_row_is_the_sum(self):
        counts = counts_of("SF:a/x.cc\nDA:1,1\nSF:b/c/y.h\nDA:1,0\n")
        self.assertEqual(
            self.tallies(counts, ["a", "b/c"]),
            [("a", 1, 1, 100.0), ("b/c", 1, 0, 0.0), ("all", 2, 1, 50.0)],
        )

    def test_tests_and_other_folders_do_not_count(self):
        counts = counts_of("SF:a/x_test.cc\nDA:1,0\nSF:ab/x.cc\nDA:1,0\n")
        self.assertEqual(self.tallies(counts, ["a"])[1][1], 0)

    def test_a_source_that_no_test_runs_is_missing(self):
        counts = counts_of("SF:a/x.cc\nDA:1,1\n")
        sources = ["a/x.cc", "a/y.cc", "a/y_test.cc", "b/z.cc"]
        self.assertEqual(
            coverage_table.missing_sources(counts, sources, ["a"]), ["a/y.cc"]
        )

    def test_a_file_names_its_lines_not_run_and_its_branches_not_taken(self):
        counts = counts_of(
            "SF:a/x.cc\nBRDA:4,7,0,1\nBRDA:4,7,1,0\nDA:3,1\nDA:4,1\nDA:5,0\n"
        )
        self.assertIn(
            "a/x.cc  not run: 5  branch not taken: 4",
            coverage_table.file_row("a/x.cc", counts),
        )

    def test_only_a_share_below_the_least_is_a_complaint(self):
        counts = counts_of(
            "SF:a/x.cc\nBRDA:1,7,0,1\nBRDA:1,7,1,0\nDA:1,1\nDA:2,1\n"
        )
        rows = [("a", counts)]
        self.assertEqual(list(coverage_table.below(rows, "lines", 100)), [])
        self.assertEqual(list(coverage_table.below(rows, "branches", 50)), [])
        self.assertEqual(
            list(coverage_table.below(rows, "branches", 51)),
            ["a: 50.00 % of branches is below 51 %"],
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
