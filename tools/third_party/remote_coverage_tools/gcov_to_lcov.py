"""Writes gcov's JSON reports of one test as one lcov file.

Bazel's coverage runner has put the reports into --coverage_dir. Only sources
named in --source_file_manifest are kept.

A branch is one way out of a decision of the source: of an `if`, a loop, a `?:`,
each operand of `&&` and `||`, each case of a switch. A call that may throw has
two ways out as well, to the next statement and to its clean-up. Neither is a
decision, so both are left out. What is compiled without exceptions (.bazelrc)
has none to begin with.
"""

import argparse
import collections
import glob
import gzip
import json
import os


def decisions(branches):
    """Executions of each branch of a line that the source decides on.

    gcov names a call's way into clean-up `throw`. The one before it is the same
    call's return.
    """
    counts = []
    for branch in branches:
        if not branch["throw"]:
            counts.append(branch["count"])
        elif counts:
            counts.pop()
    return counts


def add_source(lines, branches, source):
    """Adds one source of a report to lines[line] and branches[line, block, i].

    A template's instances are one block, and so are the copies of an inline
    function, because they start at one place and have as many branches. A lambda
    in a line of its function starts elsewhere.
    """
    starts = {
        f["name"]: f["start_line"] * 1000 + min(f["start_column"], 999)
        for f in source["functions"]
    }
    for line in source["lines"]:
        number = line["line_number"]
        lines[number] += line["count"]
        counts = decisions(line["branches"])
        start = starts.get(line.get("function_name"), 0)
        block = start * 1000 + min(len(counts), 999)
        for i, count in enumerate(counts):
            branches[number, block, i] += count


def read_reports(coverage_dir, sources):
    """(lines, branches) by source, added up over all reports."""
    counts = collections.defaultdict(
        lambda: (collections.Counter(), collections.Counter())
    )
    pattern = os.path.join(coverage_dir, "**", "*.gcov.json.gz")
    for path in glob.glob(pattern, recursive=True):
        with gzip.open(path, "rt") as report:
            for source in json.load(report)["files"]:
                name = os.path.normpath(source["file"])
                if name in sources:
                    add_source(*counts[name], source)
    return counts


def lcov_of(name, lines, branches):
    yield f"SF:{name}"
    for (line, block, i), count in sorted(branches.items()):
        yield f"BRDA:{line},{block},{i},{count}"
    for line, count in sorted(lines.items()):
        yield f"DA:{line},{count}"
    yield "end_of_record"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--coverage_dir", required=True)
    parser.add_argument("--output_file", required=True)
    parser.add_argument("--source_file_manifest", required=True)
    arguments, _ = parser.parse_known_args()
    with open(arguments.source_file_manifest) as manifest:
        sources = {os.path.normpath(line.strip()) for line in manifest}
    counts = read_reports(arguments.coverage_dir, sources)
    with open(arguments.output_file, "w") as output:
        for name in sorted(counts):
            for line in lcov_of(name, *counts[name]):
                output.write(line + "\n")


if __name__ == "__main__":
    main()
