#!/bin/bash
# Bazel passes this script alone to the coverage runner, so the program is
# found through the script's own link.
exec python3 "$(dirname "$(readlink -f "$0")")/gcov_to_lcov.py" "$@"
