"""Counts the test cases of one `bazel test`, from its build events.

usage: count_tests.py EVENTS_JSON [NAME=STATUS ...]

Prints what failed and, as the last line, `N passed, N failed`. Each NAME=STATUS
is a case that ran outside Bazel; status 0 is a pass. The status of Bazel itself
is passed as `bazel=STATUS`: it adds a failure only if no other accounts for it,
and no pass.
"""

import dataclasses
import json
import os
import sys
import urllib.parse
import xml.etree.ElementTree as ElementTree


@dataclasses.dataclass
class Totals:
    passed: int = 0
    skipped: int = 0
    failures: list = dataclasses.field(default_factory=list)

    def line(self):
        return f"{self.passed} passed, {len(self.failures)} failed"


def add_xml(totals, label, path):
    """Adds the cases of one test.xml; returns how many of them failed."""
    failed = 0
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = ".".join(
            part for part in (case.get("classname"), case.get("name")) if part
        )
        if case.find("failure") is not None or case.find("error") is not None:
            totals.failures.append(f"{label} {name}")
            failed += 1
        elif (
            case.find("skipped") is not None
            or case.get("status") == "notrun"
            or case.get("result") == "suppressed"
        ):
            totals.skipped += 1
        else:
            totals.passed += 1
    return failed


def add_result(totals, label, result):
    """Adds one run of one test target."""
    status = result.get("status")
    path = None
    for output in result.get("testActionOutput", []):
        if output.get("name") == "test.xml":
            path = urllib.parse.unquote(
                urllib.parse.urlparse(output.get("uri", "")).path
            )
    failed = 0
    if path and os.path.exists(path):
        try:
            failed = add_xml(totals, label, path)
        except ElementTree.ParseError as error:
            totals.failures.append(f"{label} (test.xml: {error})")
            failed = 1
    elif status == "PASSED":
        totals.passed += 1
    # A sanitizer may fail a program after its last case has passed.
    if status != "PASSED" and failed == 0:
        totals.failures.append(f"{label} ({status})")


def count(events):
    """Totals of an iterable of build events."""
    totals = Totals()
    without_result = {}
    for event in events:
        kind = next(iter(event["id"]))
        label = event["id"][kind].get("label")
        if kind == "targetConfigured":
            if "testSize" in event.get("configured", {}):
                without_result[label] = "no result"
        elif kind == "targetCompleted":
            if event.get("aborted", {}).get("reason") == "SKIPPED":
                without_result.pop(label, None)
                totals.skipped += 1
        elif kind == "testResult":
            without_result.pop(label, None)
            # A run that was interrupted has a result without a status.
            add_result(totals, label, event.get("testResult", {}))
    for label, reason in without_result.items():
        totals.failures.append(f"{label} ({reason}: not built or not run)")
    return totals


def add_outside_cases(totals, arguments):
    for argument in arguments:
        name, status = argument.split("=")
        if name == "bazel":
            if status != "0" and not totals.failures:
                totals.failures.append(f"bazel (exit status {status})")
        elif status == "0":
            totals.passed += 1
        else:
            totals.failures.append(f"{name} (exit status {status})")


def main():
    # Bazel leaves no events behind if it does not even start.
    events = []
    if os.path.exists(sys.argv[1]):
        with open(sys.argv[1], encoding="utf-8") as lines:
            events = [json.loads(line) for line in lines if line.strip()]
    totals = count(events)
    add_outside_cases(totals, sys.argv[2:])
    for failure in totals.failures:
        print(f"FAILED {failure}")
    if totals.skipped:
        print(f"{totals.skipped} skipped: not promised or not installed here")
    print(totals.line())
    return 1 if totals.failures else 0


if __name__ == "__main__":
    sys.exit(main())
