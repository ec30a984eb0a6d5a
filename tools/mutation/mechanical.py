"""Mutants that no one chose: every small edit of a kind, drawn by a seed.

What is drawn depends on the seed and on each edit's own line alone, so a change
elsewhere leaves the rest of a draw as it is. Never drawn: what changes only a
message, a comment or an include; what cannot change anything, such as the order
of the arguments of std::min or memory reserved ahead.
"""

import collections
import hashlib
import re

import cc_tokens
import mutant

DELETE = "delete a statement"
NEGATE = "negate a condition"
SHIFT = "shift a constant"
SWAP = "swap two arguments"
KINDS = (DELETE, NEGATE, SHIFT, SWAP)
_SHORT = {DELETE: "delete", NEGATE: "negate", SHIFT: "shift", SWAP: "swap"}

_NOT_A_STATEMENT = {
    "return",
    "using",
    "typedef",
    "namespace",
    "template",
    "class",
    "struct",
    "enum",
    "static_assert",
    "static_cast",
    "case",
    "default",
    "public",
    "private",
    "goto",
    "const",
    "constexpr",
    "auto",
    "static",
    "for",
    "while",
    "do",
    "switch",
    "else",
    "if",
    "friend",
    "extern",
}
_NOT_A_CALL = {"if", "for", "while", "switch", "return", "sizeof", "catch"}
# The same whatever the order of their arguments.
_SYMMETRIC = {"min", "max", "swap", "minmax"}
# Without effect on any result.
_NO_EFFECT = {"reserve", "shrink_to_fit"}
_NUMBER = re.compile(r"^(0[xX][0-9a-fA-F']+|[\d']+)([uUlL]*)$")
_FLOAT = re.compile(r"^[\d']+\.\d*(?:[eE][-+]?\d+)?[fF]?$")


def _is_expression(source, first, last):
    """Whether these tokens are an expression rather than a declaration."""
    tokens = source.tokens
    for i in range(first, last):
        if tokens[i].text in ("(", "=", "[", "{", "+=", "-=", "|=", "<<"):
            return True
        if tokens[i].kind == "name" and tokens[i + 1].kind == "name":
            return False
        if tokens[i].text in (">", "&", "*") and tokens[i + 1].kind == "name":
            return i == first
    return True


def _plain_statement(source, first):
    """The index of the `;` of the expression statement at `first`, or None."""
    tokens = source.tokens
    head = tokens[first]
    if head.kind == "string" or head.text in _NOT_A_STATEMENT:
        if head.text != "return" or tokens[first + 1].text != ";":
            return None
    if head.text in ("{", "}", ";", ")", "]", "~"):
        return None
    i = first
    while i < len(tokens) and tokens[i].text not in (";", "}", ":"):
        if tokens[i].text in ("(", "[", "{"):
            i = source.partners.get(i, i)
        i += 1
    if i >= len(tokens) or tokens[i].text != ";" or i == first:
        return None
    if not _is_expression(source, first, i - 1):
        return None
    if i - first > 1 and _ends_without_effect(source, first, i):
        return None
    return i


def _ends_without_effect(source, first, last):
    names = [t.text for t in source.tokens[first:last] if t.kind == "name"]
    text_calls = [
        i
        for i in range(first, last)
        if source.tokens[i].kind == "name" and source.is_text_call(i)
    ]
    is_text = bool(text_calls) and text_calls[0] <= first + 2
    return is_text or any(name in _NO_EFFECT for name in names)


def _guard(source, first):
    """The last token of `if (...) one statement;` at `first`, or None."""
    tokens = source.tokens
    if tokens[first].text != "if" or tokens[first + 1].text != "(":
        return None
    i = source.partners.get(first + 1)
    if i is None or tokens[i + 1].text == "{":
        return None
    while i < len(tokens) and tokens[i].text != ";":
        i = source.partners.get(i, i) if tokens[i].text in "([{" else i
        i += 1
    if i + 1 < len(tokens) and tokens[i + 1].text == "else":
        return None
    return i


def _deletions(source):
    tokens = source.tokens
    for i in range(1, len(tokens) - 1):
        before = tokens[i - 1].text
        begins = before in ("{", "}", ";", "else")
        if before == ")" and i - 1 in source.partners:
            opened = source.partners[i - 1]
            begins = tokens[opened - 1].text in ("if", "for", "while")
        # Not in the head of a loop.
        if not begins or source.opener_of(i) != "{":
            continue
        last = _guard(source, i)
        if last is None:
            last = _plain_statement(source, i)
        if last is not None:
            yield i, last, ";"


def _negations(source):
    tokens = source.tokens
    for i, token in enumerate(tokens[:-1]):
        if token.text not in ("if", "while") or tokens[i + 1].text != "(":
            continue
        first, last = i + 2, source.partners.get(i + 1, 0) - 1
        # A condition may follow a declaration.
        for j in range(first, last):
            if tokens[j].text == ";":
                first = j + 1
        if first <= last:
            yield first, last, f"!({source.slice(first, last)})"


def _shifts(source):
    for i, token in enumerate(source.tokens):
        if token.kind != "number":
            continue
        number = _NUMBER.match(token.text)
        if number:
            value = int(number.group(1).replace("'", ""), 0)
            yield i, i, f"{value + 1}{number.group(2)}"
            if value > 0:
                yield i, i, f"{value - 1}{number.group(2)}"
        elif _FLOAT.match(token.text):
            yield i, i, f"({token.text} + 1)"


def _swaps(source):
    tokens = source.tokens
    for i, token in enumerate(tokens[:-1]):
        if token.kind != "name" or tokens[i + 1].text != "(":
            continue
        if token.text in _NOT_A_CALL | _SYMMETRIC:
            continue
        if i + 1 not in source.partners:
            continue
        arguments = source.arguments(i + 1)
        for one, two in zip(arguments, arguments[1:]):
            texts = source.slice(*one), source.slice(*two)
            if texts[0] == texts[1]:
                continue
            types = source.type_of(*one), source.type_of(*two)
            if types[0] is not None and types[0] == types[1]:
                between = source.text[tokens[one[1]].end : tokens[two[0]].begin]
                yield one[0], two[1], f"{texts[1]}{between}{texts[0]}"


_FINDERS = {
    DELETE: _deletions,
    NEGATE: _negations,
    SHIFT: _shifts,
    SWAP: _swaps,
}


def _one_line(text):
    return " ".join(text.split())


def candidates(path, text, header, tests):
    """Every mutant of one source, by kind. `header` is the text of its own
    header, which says the types of members."""
    source = cc_tokens.Source(text, header)
    seen = collections.Counter()
    found = {kind: [] for kind in KINDS}
    for kind in KINDS:
        for first, last, replacement in _FINDERS[kind](source):
            if source.is_text_only(first):
                continue
            begin, end = source.tokens[first].begin, source.tokens[last].end
            line_begin = text.rfind("\n", 0, begin) + 1
            line_end = text.find("\n", end)
            line = _one_line(text[line_begin:line_end])
            # What tells it from other edits, wherever its line may move.
            column = str(begin - line_begin)
            key = mutant.digest_of(path, kind, line, column, replacement)
            seen[key] += 1
            digest = mutant.digest_of(key, str(seen[key]))
            old, new = _one_line(text[begin:end]), _one_line(replacement)
            what = f"`{old}` -> `{new}`"
            if kind == DELETE:
                what = f"delete `{old}`"
            elif kind in (SHIFT, SWAP):
                what += f" in `{line}`"
            file_name = path.rpartition("/")[2]
            found[kind].append(
                mutant.Mutant(
                    name=f"{file_name}-{_SHORT[kind]}-{digest[:6]}",
                    stands_for=what,
                    path=path,
                    begin=begin,
                    end=end,
                    replacement=replacement,
                    tests=tests,
                    digest=digest,
                )
            )
    return found


def draw(found_in_files, seed):
    """All of the candidates, given file by file, in the order that `seed`
    gives: kind after kind in turn, as long as each lasts."""
    queues = {kind: [] for kind in KINDS}
    for found in found_in_files:
        for kind in KINDS:
            queues[kind] += found[kind]
    for queue in queues.values():
        queue.sort(
            key=lambda m: hashlib.sha256(f"{seed}:{m.digest}".encode()).digest()
        )
    drawn = []
    for place in range(max(map(len, queues.values()), default=0)):
        for kind in KINDS:
            if place < len(queues[kind]):
                drawn.append(queues[kind][place])
    return drawn
