#!/bin/bash
# Runs faults_apply.py on the repository that the link to WORKSPACE leads to.
set -euo pipefail
root=$(dirname "$(readlink -f WORKSPACE)")
exec python3 -B tools/mutation/faults_apply.py "$root"
