"""The rules of this repository that a program can check on its files.

usage: tidy.py ROOT

Prints `path:line: what is wrong` for each breach and fails if there is one.
"""

import os
import re
import sys

import cc_source
import layers

HEADER_LINES_MAX = 150
SOURCE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70
COLUMNS_MAX = 80

# Longer than the rest, each for a reason given in its first comment.
LONG_FILES = {"collectives/plugin_abi.h": 400}

CC_ENDINGS = (".h", ".cc", ".cu", ".c")
TEXT_ENDINGS = CC_ENDINGS + (".py", ".sh", ".bzl", ".md", "BUILD", "WORKSPACE")

# Everything that blocks, runs concurrently or reads a clock is asked of
# collectives/runtime, or the simulated runtime could not control it.
RUNTIME = "collectives/runtime"
FORBIDDEN = re.compile(
    r"\bstd::(?:jthread|thread|\w*mutex|condition_variable\w*|this_thread"
    r"|chrono|async|future|promise|counting_semaphore|binary_semaphore"
    r"|latch|barrier)\b"
    r"|\bthread_local\b|\bpthread_\w+"
    r"|\babsl::(?:Now|SleepFor|Mutex|CondVar|Notification|Barrier)\b"
    r"|\b(?:usleep|nanosleep|sleep|clock_gettime|gettimeofday)\s*\("
    r"|#\s*include\s*<(?:thread|mutex|shared_mutex|condition_variable|chrono"
    r"|future|semaphore|latch|barrier|stop_token|pthread\.h)>"
)

# Written in two halves, so that this file does not find itself.
LEFTOVERS = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")

# Headers that lie in no folder of their package.
BARE_INCLUDES = ("cblas.h",)


def files_under(root):
    """Paths relative to `root`, without Bazel's links and hidden folders."""
    found = []
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = sorted(
            name
            for name in subfolders
            if not name.startswith((".", "bazel-")) and name != "__pycache__"
        )
        for name in sorted(names):
            path = os.path.relpath(os.path.join(folder, name), root)
            found.append(path.replace(os.sep, "/"))
    return found


def is_test(path):
    stem = os.path.splitext(os.path.basename(path))[0]
    return stem.endswith(("_test", "_benchmark"))


class Tree:
    def __init__(self, root):
        self.root = root
        self.paths = files_under(root)
        self.path_set = set(self.paths)
        self.text = {}
        for path in self.paths:
            if path.endswith(TEXT_ENDINGS):
                with open(os.path.join(root, path), encoding="utf-8") as file:
                    self.text[path] = file.read()

    def cc_files(self):
        return [path for path in self.text if path.endswith(CC_ENDINGS)]

    def build_file_of(self, path):
        folder = os.path.dirname(path)
        while True:
            candidate = f"{folder}/BUILD" if folder else "BUILD"
            if candidate in self.text:
                return candidate
            if not folder:
                return None
            folder = os.path.dirname(folder)


def check_lines(path, text):
    for number, line in enumerate(text.split("\n"), start=1):
        if path.endswith(CC_ENDINGS) and len(line) > COLUMNS_MAX:
            yield number, f"{len(line)} columns, at most {COLUMNS_MAX}"
        match = LEFTOVERS.search(line)
        if match:
            yield number, f"{match.group(0)}: finish it or leave it out"


def check_sizes(path, text):
    limit = HEADER_LINES_MAX if path.endswith(".h") else SOURCE_LINES_MAX
    limit = LONG_FILES.get(path, limit)
    lines = text.count("\n")
    if lines > limit:
        yield 1, f"{lines} lines, at most {limit}: split it"
    for first, length in cc_source.function_lengths(text):
        if length > FUNCTION_LINES_MAX:
            yield first, (
                f"a function of {length} lines, at most {FUNCTION_LINES_MAX}"
            )


def check_header(path, text):
    guard = re.sub(r"[^A-Za-z0-9]", "_", path).upper() + "_"
    for want in (f"#ifndef {guard}", f"#define {guard}", f"#endif  // {guard}"):
        # A header for C closes its guard with a comment of C.
        in_c = want.replace(f"  // {guard}", f" /* {guard} */")
        if want + "\n" not in text and in_c + "\n" not in text:
            yield 1, f"want the line '{want}'"
    internal = path.endswith("_internal.h")
    if not internal and not text.startswith(("//", "/*")):
        yield 1, "want a comment that states the contract before any code"


def check_includes(tree, path, text):
    own_header = None
    if path.endswith((".cc", ".cu", ".c")):
        stem = re.sub(r"(?:_test|_benchmark)?\.\w+$", "", path)
        if f"{stem}.h" in tree.path_set:
            own_header = f"{stem}.h"
    found = cc_source.includes(text)
    if own_header and (not found or found[0][1] != own_header):
        yield (found[0][0] if found else 1), f'want "{own_header}" first'
    layer = layers.layer_of(path)
    for number, included, in_quotes in found:
        is_own = included.split("/")[0] in layers.FOLDERS
        if is_own and not in_quotes:
            yield number, f"<{included}>: want quotes"
        if "/" not in included and in_quotes:
            if included not in BARE_INCLUDES:
                yield number, f'"{included}": want a path from the root'
        elif included.startswith("."):
            yield number, f'"{included}": want a path from the root'
        elif is_own and included not in tree.path_set:
            yield number, f'"{included}": there is no such file'
        elif is_own and layer:
            # Testonly code that is not a test is left to the query.
            is_free = is_test(path) or "/testing/" in path
            if not layers.may_see(layer, path, included, is_free):
                yield number, f"{layer.folder} may not see {included}"


def check_runtime_only(path, text):
    if not layers.is_under(path, layers.CORE):
        return
    if layers.is_under(path, (RUNTIME,)):
        return
    for number, line in enumerate(cc_source.code_only(text).split("\n"), 1):
        match = FORBIDDEN.search(line)
        if match:
            yield number, f"{match.group(0).strip()}: ask {RUNTIME} for it"


def check_is_built(tree, path):
    build_file = tree.build_file_of(path)
    if build_file is None:
        yield 1, "no BUILD file above it"
        return
    name = os.path.relpath(path, os.path.dirname(build_file) or ".")
    named = set(re.findall(r'"([^"\n]+)"', tree.text[build_file]))
    # Made of two parts, as "%s_test.cc" % area or area + "_test.cc".
    endings = [text.removeprefix("%s") for text in named]
    is_made = any(
        name.endswith(ending) and name.removesuffix(ending) in named
        for ending in endings
    )
    if name not in named and not is_made:
        yield 1, f"{build_file} does not name it"


def check_tree(root):
    """All breaches, as sorted `path:line: message`."""
    tree = Tree(root)
    breaches = []

    def add(path, found):
        breaches.extend((path, line, message) for line, message in found)

    for path, text in tree.text.items():
        add(path, check_lines(path, text))
    for path in tree.cc_files():
        text = tree.text[path]
        add(path, check_sizes(path, text))
        add(path, check_includes(tree, path, text))
        add(path, check_runtime_only(path, text))
        add(path, check_is_built(tree, path))
        if path.endswith(".h"):
            add(path, check_header(path, text))
    breaches.sort()
    return [f"{path}:{line}: {message}" for path, line, message in breaches]


def main():
    breaches = check_tree(sys.argv[1])
    for breach in breaches:
        print(breach)
    print(f"{len(breaches)} breaches")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
