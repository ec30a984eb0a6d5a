import collections
import os
import sys
import unittest

sys.path.append(
    os.path.join(
        os.path.dirname(os.path.realpath(__file__)),
        "../third_party/remote_coverage_tools",
    )
)
import gcov_to_lcov


def branch(count, throw=False, fallthrough=False):
    return {"count": count, "throw": throw, "fallthrough": fallthrough}


def source(functions, lines):
    """Of (name, line, column) and of (line, name of function, branches)."""
    return {
        "functions": [
            {"name": name, "start_line": line, "start_column": column}
            for name, line, column in functions
        ],
        "lines": [
            {
                "line_number": number,
                "count": 1,
                "function_name": function,
                "branches": branches,
            }
            for number, function, branches in lines
        ],
    }


def shares(*sources):
    """The executions of each branch, in order."""
    lines, branches = collections.Counter(), collections.Counter()
    for one in sources:
        gcov_to_lcov.add_source(lines, branches, one)
    return [count for _, count in sorted(branches.items())]


class GcovToLcovTest(unittest.TestCase):
    def test_both_ways_of_a_condition_are_branches(self):
        ways = [branch(3, fallthrough=True), branch(0)]
        self.assertEqual(gcov_to_lcov.decisions(ways), [3, 0])

    def test_a_call_that_may_throw_is_no_decision(self):
        ways = [branch(3, fallthrough=True), branch(0, throw=True)]
        self.assertEqual(gcov_to_lcov.decisions(ways), [])

    def test_calls_around_a_condition_leave_it_alone(self):
        call = [branch(9, fallthrough=True), branch(0, throw=True)]
        condition = [branch(3, fallthrough=True), branch(2)]
        self.assertEqual(
            gcov_to_lcov.decisions(call + call + condition + call), [3, 2]
        )

    def test_a_switch_has_a_branch_for_each_case(self):
        self.assertEqual(
            gcov_to_lcov.decisions([branch(1), branch(0), branch(2)]), [1, 0, 2]
        )

    def test_instances_of_a_template_are_one(self):
        functions = [("FIf", 4, 1), ("FId", 4, 1)]
        lines = [
            (5, "FIf", [branch(1), branch(0)]),
            (5, "FId", [branch(0), branch(2)]),
        ]
        self.assertEqual(shares(source(functions, lines)), [1, 2])

    def test_copies_of_an_inline_function_in_two_reports_are_one(self):
        functions = [("F", 4, 1)]
        self.assertEqual(
            shares(
                source(functions, [(5, "F", [branch(0), branch(0)])]),
                source(functions, [(5, "F", [branch(1), branch(0)])]),
            ),
            [1, 0],
        )

    def test_a_lambda_in_a_line_of_its_function_is_apart(self):
        functions = [("F", 4, 1), ("lambda", 5, 20)]
        lines = [
            (5, "F", [branch(1), branch(0)]),
            (5, "lambda", [branch(0), branch(2)]),
        ]
        self.assertEqual(shares(source(functions, lines)), [1, 0, 0, 2])

    def test_lcov_has_the_branches_and_lines_of_a_source(self):
        self.assertEqual(
            list(
                gcov_to_lcov.lcov_of(
                    "a/x.cc", {2: 1, 1: 3}, {(2, 7, 1): 0, (2, 7, 0): 1}
                )
            ),
            [
                "SF:a/x.cc",
                "BRDA:2,7,0,1",
                "BRDA:2,7,1,0",
                "DA:1,3",
                "DA:2,1",
                "end_of_record",
            ],
        )


if __name__ == "__main__":
    unittest.main()
