#!/bin/bash
# Runs tidy.py on the repository that the link to WORKSPACE leads to.
set -euo pipefail
exec python3 -B tools/checks/tidy.py "$(dirname "$(readlink -f WORKSPACE)")"
