#!/bin/sh
# exported_symbols_test.sh LIBRARY SYMBOL...: the shared object LIBRARY exports
# these symbols and nothing else.
set -eu
library=$1
shift
# Absolute symbols are names of symbol versions, which a version script may add.
exported=$(nm -D --defined-only --format=posix "$library" |
  awk '$2 != "A" { print $1 }' | LC_ALL=C sort)
wanted=$(printf '%s\n' "$@" | LC_ALL=C sort)
if [ "$exported" != "$wanted" ]; then
  printf '%s exports:\n%s\nwant:\n%s\n' "$library" "$exported" "$wanted" >&2
  exit 1
fi
