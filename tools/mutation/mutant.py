"""A mutant: one edit of one file, and what it stands for."""

import dataclasses
import hashlib
import os

import lists

CHOSEN_KEYS = ("name", "stands for", "file", "pattern", "replacement", "tests")

# What an edit leaves unused or compares with itself must not hide behind a
# warning that is an error: such a mutant compiles.
_IGNORED_WARNINGS = (
    "bool-compare",
    "bool-operation",
    "conversion",
    "empty-body",
    "float-conversion",
    "int-in-bool-context",
    "maybe-uninitialized",
    "misleading-indentation",
    "parentheses",
    "return-type",
    "shadow",
    "sign-compare",
    "sign-conversion",
    "tautological-compare",
    "type-limits",
    "uninitialized",
    "unused-but-set-parameter",
    "unused-but-set-variable",
    "unused-function",
    "unused-local-typedefs",
    "unused-parameter",
    "unused-value",
    "unused-variable",
)
WARNINGS_OFF = "".join(
    f'#pragma GCC diagnostic ignored "-W{name}"\n' for name in _IGNORED_WARNINGS
)


@dataclasses.dataclass(frozen=True)
class Mutant:
    name: str
    stands_for: str
    path: str
    # The edit: text[begin:end] becomes `replacement`.
    begin: int
    end: int
    replacement: str
    # Labels of the tests that belong to what is changed.
    tests: tuple
    # A digest of file and edit: whether a result is of this very mutant.
    digest: str

    def applied_to(self, text):
        changed = text[: self.begin] + self.replacement + text[self.end :]
        return WARNINGS_OFF + changed


def digest_of(*parts):
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def find_once(text, pattern, path, name):
    """Where `pattern` stands in `text`; it must stand there once."""
    count = text.count(pattern)
    if count != 1:
        raise lists.ListError(
            f"{name}: want its pattern once in {path}, found {count} times"
        )
    return text.index(pattern)


def chosen(root, list_path):
    """The mutants of the list, on the sources below `root`."""
    blocks = lists.read(
        list_path, CHOSEN_KEYS, [key for key in CHOSEN_KEYS if key != "tests"]
    )
    lists.unique(blocks, "name", list_path)
    mutants = []
    for block in blocks:
        path, pattern = block["file"], block["pattern"]
        name, replacement = block["name"], block["replacement"]
        if pattern == replacement:
            raise lists.ListError(f"{name}: the replacement is the pattern")
        source = os.path.join(root, path)
        if not os.path.exists(source):
            raise lists.ListError(f"{name}: there is no file {path}")
        with open(source, encoding="utf-8") as file:
            begin = find_once(file.read(), pattern, path, name)
        mutants.append(
            Mutant(
                name=name,
                stands_for=block["stands for"],
                path=path,
                begin=begin,
                end=begin + len(pattern),
                replacement=replacement,
                tests=tuple(block.get("tests", "").split()),
                digest=digest_of(path, pattern, replacement),
            )
        )
    return mutants
