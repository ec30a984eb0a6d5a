"""Adds up the lcov files of one `bazel coverage` and prints a table.

A source counts if it is not a test. One that no test has run any line of counts
as missing, which fails whatever the sum. A branch is what gcov_to_lcov.py in
tools/third_party/remote_coverage_tools says it is, but for those in lines that
only end a scope; one in a line that no test runs counts as not taken.
"""

import argparse
import collections
import glob
import json
import os
import re
import sys
import urllib.parse

# What a step depends on most, and the sources that decide it.
SUBJECTS = {
    "reducer": [
        "optimizer/bucket_buffers.cc",
        "optimizer/check_in.cc",
        "optimizer/reducer.cc",
    ],
    "scaler": [
        "optimizer/control_vector.cc",
        "optimizer/grad_scaler.cc",
    ],
    "hierarchy": [
        "collectives/hierarchical_collective.cc",
        "collectives/level_operations.cc",
    ],
    "group construction": [
        "optimizer/group_levels.cc",
        "optimizer/group_set.cc",
        "optimizer/shard_groups.cc",
        "topology/host_map.cc",
        "topology/mesh.cc",
    ],
}


class Counts:
    """Executions of every line and branch.

    A key is a tuple: the source, the line, and for a branch what lcov tells it
    apart by.
    """

    def __init__(self):
        self.lines = collections.Counter()
        self.branches = collections.Counter()

    def add_lcov(self, lcov):
        """Adds what the lines of an lcov file say."""
        source = None
        for line in lcov:
            kind, _, value = line.strip().partition(":")
            if kind == "SF":
                source = value
            elif kind == "DA":
                number, count = value.split(",")[:2]
                self.lines[source, int(number)] += int(count)
            elif kind == "BRDA":
                number, block, i, count = value.split(",")
                # lcov writes "-" where the condition never ran.
                taken = 0 if count == "-" else int(count)
                self.branches[source, int(number), block, i] += taken

    def drop_scope_ends(self, text_of):
        """Leaves out the branches of lines that only end a scope.

        A scope that is left early and late has its clean-up once, behind which
        the compiler asks where to go on. The source has decided that before, in
        a line of its own. text_of(source) is the lines of a source, or none.
        """
        ends = {
            source: [is_scope_end(line) for line in text_of(source)]
            for source in self.sources()
        }
        for key in list(self.branches):
            lines = ends.get(key[0], [])
            if key[1] <= len(lines) and lines[key[1] - 1]:
                del self.branches[key]

    def sources(self):
        return {key[0] for key in self.lines}

    def of(self, sources):
        """What these sources have."""
        part = Counts()
        for kind in ("lines", "branches"):
            for key, count in getattr(self, kind).items():
                if key[0] in sources:
                    getattr(part, kind)[key] = count
        return part


def is_scope_end(line):
    return line.lstrip().startswith("}") and not re.search(
        r"\b(?:if|while|for)\b|&&|\|\||\?", line
    )


def lines_of(source):
    """Of a file, by its path; none where it is not one."""
    if not os.path.isfile(source):
        return []
    with open(source, encoding="utf-8") as text:
        return text.read().splitlines()


def lcov_paths(events):
    """The coverage.dat of each test in an iterable of build events."""
    for event in events:
        for output in event.get("testResult", {}).get("testActionOutput", []):
            if output.get("name") == "test.lcov":
                yield urllib.parse.unquote(
                    urllib.parse.urlparse(output["uri"]).path
                )


def is_counted(path, folders):
    is_test = re.search(r"_(?:test|benchmark|testlib)\.\w+$", path)
    return not is_test and any(path.startswith(f + "/") for f in folders)


def tally(counter):
    """(how many, how many of them ran, percent)."""
    ran = sum(1 for count in counter.values() if count > 0)
    return len(counter), ran, 100.0 * ran / len(counter) if counter else 100.0


def summarize(counts, folders):
    """(name, Counts) of each folder, then of all."""
    sources = counts.sources()
    return [
        (name, counts.of({s for s in sources if is_counted(s, selected)}))
        for name, selected in [(f, [f]) for f in folders] + [("all", folders)]
    ]


def missing_sources(counts, sources, folders):
    known = counts.sources()
    return [s for s in sources if is_counted(s, folders) and s not in known]


def row(name, counts):
    lines, lines_run, line_share = tally(counts.lines)
    branches, branches_run, branch_share = tally(counts.branches)
    return (
        f"{name:<20} {lines_run:6d} of {lines:6d} lines  {line_share:6.2f} %"
        f"  {branches_run:6d} of {branches:6d} branches  {branch_share:6.2f} %"
    )


def file_row(source, counts):
    """Its shares, and the lines not run and those with a branch not taken."""
    text = (
        f"{tally(counts.lines)[2]:6.1f} %  {tally(counts.branches)[2]:6.1f} %"
        f"  {source}"
    )
    for label, counter in (
        ("not run", counts.lines),
        ("branch not taken", counts.branches),
    ):
        numbers = sorted({key[1] for key, n in counter.items() if n == 0})
        if numbers:
            text += f"  {label}: {', '.join(map(str, numbers))}"
    return text


def below(rows, kind, percent_min):
    """A complaint for each of (name, Counts) with too small a share."""
    for name, counts in rows:
        share = tally(getattr(counts, kind))[2]
        if share < percent_min:
            yield f"{name}: {share:.2f} % of {kind} is below {percent_min:g} %"


def read_counts(events_path):
    counts = Counts()
    with open(events_path, encoding="utf-8") as lines:
        paths = list(lcov_paths(json.loads(line) for line in lines))
    for path in paths:
        # Empty for a test that runs none of our C++.
        if os.path.exists(path):
            with open(path, encoding="utf-8") as lcov:
                counts.add_lcov(lcov)
    counts.drop_scope_ends(lines_of)
    return counts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", required=True)
    parser.add_argument("--line_percent_min", type=float, required=True)
    parser.add_argument("--branch_percent_min", type=float, required=True)
    parser.add_argument("--files", action="store_true")
    parser.add_argument("folders", nargs="+")
    arguments = parser.parse_args()
    folders = arguments.folders
    counts = read_counts(arguments.events)

    if arguments.files:
        for source in sorted(counts.sources()):
            if is_counted(source, folders):
                print(file_row(source, counts.of({source})))
    rows = summarize(counts, folders)
    subjects = [(name, counts.of(set(s))) for name, s in SUBJECTS.items()]
    for name, part in rows + subjects:
        print(row(name, part))

    sources = {source for subject in SUBJECTS.values() for source in subject}
    for folder in folders:
        sources.update(glob.glob(f"{folder}/**/*.cc", recursive=True))
    missing = missing_sources(counts, sorted(sources), folders)
    complaints = [f"{source}: no test runs any of it" for source in missing]
    complaints += below(rows[-1:], "lines", arguments.line_percent_min)
    complaints += below(subjects, "branches", arguments.branch_percent_min)
    for complaint in complaints:
        print(complaint)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
