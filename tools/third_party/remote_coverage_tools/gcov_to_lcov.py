"""Writes gcov's JSON reports of one test as one lcov file.

Bazel's coverage runner has put the reports into --coverage_dir. Only sources
named in --source_file_manifest are kept.
"""

import argparse
import collections
import glob
import gzip
import json
import os


def read_counts(coverage_dir, sources):
    """Executions by source and line, added up over all reports."""
    counts = collections.defaultdict(collections.Counter)
    pattern = os.path.join(coverage_dir, "**", "*.gcov.json.gz")
    for path in glob.glob(pattern, recursive=True):
        with gzip.open(path, "rt") as report:
            for source in json.load(report)["files"]:
                name = os.path.normpath(source["file"])
                if name not in sources:
                    continue
                for line in source["lines"]:
                    counts[name][line["line_number"]] += line["count"]
    return counts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--coverage_dir", required=True)
    parser.add_argument("--output_file", required=True)
    parser.add_argument("--source_file_manifest", required=True)
    arguments, _ = parser.parse_known_args()
    with open(arguments.source_file_manifest) as manifest:
        sources = {os.path.normpath(line.strip()) for line in manifest}
    counts = read_counts(arguments.coverage_dir, sources)
    with open(arguments.output_file, "w") as output:
        for name in sorted(counts):
            output.write(f"SF:{name}\n")
            for line, count in sorted(counts[name].items()):
                output.write(f"DA:{line},{count}\n")
            output.write("end_of_record\n")


if __name__ == "__main__":
    main()
