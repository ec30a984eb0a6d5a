"""Prints the median, least and greatest time of each benchmark case.

usage: bench_table.py RESULT_JSON...    written by --benchmark_out
"""

import json
import statistics
import sys

_NANOSECONDS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
_UNITS = (("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1.0))


def times_by_case(result):
    """Real time in nanoseconds of each repetition, by case, in file order."""
    cases = {}
    for run in result.get("benchmarks", []):
        # Aggregates of the library are left out: they have no minimum.
        if run.get("run_type") == "aggregate":
            continue
        times = cases.setdefault(run.get("run_name", run["name"]), [])
        if not run.get("error_occurred"):
            times.append(run["real_time"] * _NANOSECONDS[run["time_unit"]])
    return cases


def with_unit(nanoseconds):
    for unit, size in _UNITS:
        if nanoseconds >= size:
            return f"{nanoseconds / size:.4g} {unit}"
    return f"{nanoseconds:.4g} ns"


def rows(result):
    for name, times in times_by_case(result).items():
        if times:
            middle = statistics.median(times)
            yield (name, *map(with_unit, (middle, min(times), max(times))))
        else:
            yield name, "error", "", ""


def table(all_rows):
    all_rows = [("case", "median", "min", "max"), *all_rows]
    widths = [max(len(row[i]) for row in all_rows) for i in range(4)]
    return "\n".join(
        f"{row[0]:<{widths[0]}}  "
        + "  ".join(f"{row[i]:>{widths[i]}}" for i in (1, 2, 3))
        for row in all_rows
    )


def main():
    all_rows = []
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        # The library leaves the file empty if the filter matches no case.
        if text.strip():
            all_rows += rows(json.loads(text))
    print(table(all_rows))
    has_error = any(row[1] == "error" for row in all_rows)
    return 1 if has_error or not all_rows else 0


if __name__ == "__main__":
    sys.exit(main())
