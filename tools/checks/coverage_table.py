"""Adds up the lcov files of one `bazel coverage` and prints a table.

A source counts if it is not a test. One that no test has run any line of counts
as missing, which fails whatever the sum.
"""

import argparse
import collections
import glob
import json
import os
import re
import sys
import urllib.parse


def lcov_paths(events):
    """The coverage.dat of each test in an iterable of build events."""
    for event in events:
        for output in event.get("testResult", {}).get("testActionOutput", []):
            if output.get("name") == "test.lcov":
                yield urllib.parse.unquote(
                    urllib.parse.urlparse(output["uri"]).path
                )


def add_lcov(counts, lines):
    """Adds `DA:line,count` of each `SF:source` to counts[source][line]."""
    source = None
    for line in lines:
        if line.startswith("SF:"):
            source = line[3:].strip()
        elif line.startswith("DA:"):
            number, count = line[3:].split(",")[:2]
            counts[source][int(number)] += int(count)


def is_counted(path, folders):
    is_test = re.search(r"_(?:test|benchmark|testlib)\.\w+$", path)
    return not is_test and any(path.startswith(f + "/") for f in folders)


def percent(lines):
    hit = sum(1 for count in lines if count > 0)
    return 100.0 * hit / len(lines) if lines else 100.0


def summarize(counts, folders):
    """(name, lines, lines hit, percent) of each folder, then of all."""
    rows = []
    everything = []
    for folder in folders:
        lines = []
        for source, by_line in counts.items():
            if is_counted(source, [folder]):
                lines += by_line.values()
        everything += lines
        rows.append((folder, lines))
    rows.append(("all", everything))
    return [
        (name, len(lines), sum(1 for c in lines if c > 0), percent(lines))
        for name, lines in rows
    ]


def missing_sources(counts, sources, folders):
    return [s for s in sources if is_counted(s, folders) and s not in counts]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", required=True)
    parser.add_argument("--percent_min", type=float, required=True)
    parser.add_argument("--files", action="store_true")
    parser.add_argument("folders", nargs="+")
    arguments = parser.parse_args()
    folders = arguments.folders

    with open(arguments.events, encoding="utf-8") as lines:
        paths = list(lcov_paths(json.loads(line) for line in lines))
    counts = collections.defaultdict(collections.Counter)
    for path in paths:
        # Empty for a test that runs none of our C++.
        if os.path.exists(path):
            with open(path, encoding="utf-8") as lcov:
                add_lcov(counts, lcov)

    if arguments.files:
        for source in sorted(s for s in counts if is_counted(s, folders)):
            lines = counts[source]
            unhit = sorted(n for n, count in lines.items() if count == 0)
            print(
                f"{percent(lines.values()):6.1f} %  {source}"
                + (f"  not run: {', '.join(map(str, unhit))}" if unhit else "")
            )
    rows = summarize(counts, folders)
    for name, lines, hit, share in rows:
        print(f"{name:<20} {hit:6d} of {lines:6d} lines  {share:6.2f} %")

    sources = []
    for folder in folders:
        sources += glob.glob(f"{folder}/**/*.cc", recursive=True)
    missing = missing_sources(counts, sorted(set(sources)), folders)
    for source in missing:
        print(f"{source}: no test runs any of it")
    total = rows[-1][3]
    if total < arguments.percent_min:
        print(f"{total:.2f} % is below {arguments.percent_min:g} %")
    return 1 if missing or total < arguments.percent_min else 0


if __name__ == "__main__":
    sys.exit(main())
