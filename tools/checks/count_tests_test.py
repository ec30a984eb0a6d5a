import os
import tempfile
import unittest

import count_tests

SUITE = "<testsuites><testsuite>{}</testsuite></testsuites>"
PASSED = '<testcase classname="A" name="passes" status="run"/>'
FAILED = '<testcase classname="A" name="fails"><failure message="x"/></testcase>'
SKIPPED = '<testcase classname="A" name="skips"><skipped/></testcase>'
DISABLED = '<testcase classname="A" name="is_off" status="notrun"/>'


def configured(label):
    return {
        "id": {"targetConfigured": {"label": label}},
        "configured": {"targetKind": "cc_test rule", "testSize": "SMALL"},
    }


class CountTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def result(self, label, cases, status="PASSED"):
        path = os.path.join(self.folder.name, label.replace("/", "_") + ".xml")
        with open(path, "w", encoding="utf-8") as xml:
            xml.write(SUITE.format(cases))
        output = {"name": "test.xml", "uri": "file://" + path}
        return {
            "id": {"testResult": {"label": label}},
            "testResult": {"status": status, "testActionOutput": [output]},
        }

    def test_counts_cases_not_targets(self):
        totals = count_tests.count(
            [
                configured("//a:b"),
                self.result("//a:b", PASSED + PASSED + SKIPPED + DISABLED),
                configured("//a:c"),
                self.result("//a:c", PASSED),
            ]
        )
        self.assertEqual(totals.line(), "3 passed, 0 failed")
        self.assertEqual(totals.skipped, 2)

    def test_names_each_case_that_failed(self):
        totals = count_tests.count(
            [self.result("//a:b", PASSED + FAILED, "FAILED")]
        )
        self.assertEqual(totals.line(), "1 passed, 1 failed")
        self.assertEqual(totals.failures, ["//a:b A.fails"])

    def test_a_program_that_fails_after_its_cases_is_a_failure(self):
        totals = count_tests.count([self.result("//a:b", PASSED, "FAILED")])
        self.assertEqual(totals.line(), "1 passed, 1 failed")

    def test_a_run_without_xml_counts_as_one_case(self):
        event = {
            "id": {"testResult": {"label": "//a:b"}},
            "testResult": {"status": "TIMEOUT"},
        }
        self.assertEqual(count_tests.count([event]).line(), "0 passed, 1 failed")
        event["testResult"]["status"] = "PASSED"
        self.assertEqual(count_tests.count([event]).line(), "1 passed, 0 failed")

    def test_xml_that_was_cut_off_is_a_failure(self):
        event = self.result("//a:b", PASSED + "<testcase")
        self.assertEqual(len(count_tests.count([event]).failures), 1)

    def test_a_test_that_was_not_built_is_a_failure(self):
        totals = count_tests.count([configured("//a:b")])
        self.assertEqual(totals.line(), "0 passed, 1 failed")

    def test_an_interrupted_test_is_a_failure(self):
        event = {
            "id": {"testResult": {"label": "//a:b"}},
            "aborted": {"reason": "USER_INTERRUPTED"},
        }
        self.assertEqual(count_tests.count([event]).line(), "0 passed, 1 failed")

    def test_an_incompatible_test_is_skipped(self):
        skip = {
            "id": {"targetCompleted": {"label": "//a:b"}},
            "aborted": {"reason": "SKIPPED"},
        }
        totals = count_tests.count([configured("//a:b"), skip])
        self.assertEqual(totals.line(), "0 passed, 0 failed")
        self.assertEqual(totals.skipped, 1)

    def test_outside_cases_count_like_others(self):
        totals = count_tests.Totals()
        count_tests.add_outside_cases(totals, ["layers=0", "lint=2"])
        self.assertEqual(totals.line(), "1 passed, 1 failed")

    def test_bazels_own_failure_is_never_lost_nor_counted_twice(self):
        totals = count_tests.Totals()
        count_tests.add_outside_cases(totals, ["bazel=0"])
        self.assertEqual(totals.line(), "0 passed, 0 failed")
        count_tests.add_outside_cases(totals, ["bazel=1"])
        self.assertEqual(totals.line(), "0 passed, 1 failed")
        count_tests.add_outside_cases(totals, ["bazel=1"])
        self.assertEqual(totals.line(), "0 passed, 1 failed")


if __name__ == "__main__":
    unittest.main()
