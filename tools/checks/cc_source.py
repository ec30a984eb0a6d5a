"""Just enough of C++ to look at the shape of a source file."""

import re

_TOKENS = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'",
    re.DOTALL,
)
_PREPROCESSOR = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]')
_CONTAINER = re.compile(
    r"^(?:template\s*<.*>\s*)?(?:inline\s+|typedef\s+)?"
    r"(?:namespace|class|struct|union|enum|extern)\b",
    re.DOTALL,
)


def _blank(text):
    """Spaces of the same length and the same number of lines."""
    return re.sub(r"[^\n]", " ", text)


def code_only(text):
    """The text with comments and literals blanked out."""

    def replace(match):
        token = match.group(0)
        if token.startswith("/"):
            return _blank(token)
        return '"' + _blank(token[1:-1]) + '"'

    # An include's path looks like a literal, so those lines pass as they are.
    return "\n".join(
        original if _INCLUDE.match(original) else blanked
        for original, blanked in zip(
            text.split("\n"), _TOKENS.sub(replace, text).split("\n")
        )
    )


def includes(text):
    """(line number, path, whether in quotes) of each include."""
    found = []
    for number, line in enumerate(text.split("\n"), start=1):
        match = _INCLUDE.match(line)
        if match:
            found.append((number, match.group(2), match.group(1) == '"'))
    return found


def function_lengths(text):
    """(first line, lines from its opening to its closing brace) of each
    function that is not inside another."""
    code = _PREPROCESSOR.sub(lambda m: _blank(m.group(0)), code_only(text))
    found = []
    # For each open brace: what it opens, and its line.
    stack = []
    head = ""
    line = 1
    for char in code:
        if char == "\n":
            line += 1
        if char == "{":
            inside = all(kind == "container" for kind, _ in stack)
            stack.append((_kind(head) if inside else "block", line))
            head = ""
        elif char == "}":
            kind, first = stack.pop() if stack else ("block", line)
            if kind == "function":
                found.append((first, line - first + 1))
            head = ""
        elif char == ";":
            head = ""
        else:
            head += char
    return found


def _kind(head):
    head = head.strip()
    # An access label or a macro without semicolon may stand before it.
    head = re.sub(r"^(?:(?:public|protected|private)\s*:\s*)+", "", head)
    if _CONTAINER.match(head):
        return "container"
    if "(" in head and not head.endswith("="):
        return "function"
    return "block"
