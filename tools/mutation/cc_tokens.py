"""Just enough of C++ to change one token or statement of a source file."""

import bisect
import dataclasses
import re

_TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<comment>//[^\n]*|/\*.*?\*/)
    |(?P<preprocessor>(?<![^\n])[ \t]*\#(?:\\\n|[^\n])*)
    |(?P<string>R"(?P<mark>\w*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"
       |'(?:\\.|[^'\\\n])+')
    |(?P<number>(?:0[xX][0-9a-fA-F']+|\d[\d']*(?:\.\d*)?(?:[eE][-+]?\d+)?)
       [uUlLfF]*)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<sign><<=|>>=|->\*|\.\.\.|::|->|\+\+|--|<<|<=|>=|==|!=|&&|\|\|
       |[-+*/%&|^]=|.)""",
    re.DOTALL | re.VERBOSE,
)
_OPENS = {"(": ")", "[": "]", "{": "}"}

# What these make is text for people, or holds at compile time only.
_TEXT_CALLS = re.compile(
    r"^(?:\w*Error|StrCat|StrAppend|StrJoin|StrFormat|Substitute"
    r"|static_assert|assert)$"
)
_TEXT_FUNCTION = re.compile(
    r"^(?:static |inline )?(?:std::string|const char\*)\s+[\w:]+\(",
    re.MULTILINE,
)

_DECLARATION = re.compile(
    r"(?:^|[(,;{]|\bconst)\s*(?P<type>(?:\w+::)*\w+(?:<[\w:,&* ]*>)?)"
    r"(?:\s+const)?(?P<pointer>\s*[&*]+\s*|\s+)(?P<name>\w+)\s*(?=[=;,)({:\[])",
    re.MULTILINE,
)
_NO_TYPES = {"return", "else", "const", "new", "case", "goto", "using"}
_INTEGERS = {"int", "int32_t", "int64_t", "uint32_t", "uint64_t", "size_t"}
_INTEGER_CALLS = {"size", "ToInt", "count", "ByteWidth"}


@dataclasses.dataclass(frozen=True)
class Token:
    kind: str
    text: str
    begin: int
    end: int


def tokens_of(text):
    """The tokens that are code: no comments, no preprocessor, no spaces."""
    return [
        Token(match.lastgroup, match.group(0), match.start(), match.end())
        if match.lastgroup != "mark"
        else Token("string", match.group(0), match.start(), match.end())
        for match in _TOKEN.finditer(text)
        if match.lastgroup not in ("space", "comment", "preprocessor")
    ]


def partners_of(tokens):
    """For the index of each bracket, the index of the one that it pairs."""
    partners = {}
    stack = []
    for i, token in enumerate(tokens):
        if token.text in _OPENS and token.kind == "sign":
            stack.append(i)
        elif token.text in _OPENS.values() and token.kind == "sign":
            if stack:
                partners[i] = stack.pop()
                partners[partners[i]] = i
    return partners


def _family(type_name):
    """One name for the types that a call converts without a word."""
    return "integer" if type_name in _INTEGERS else type_name


def types_in(text):
    """The type of each name that is declared in `text`, as far as a glance
    tells."""
    types = {}
    for match in _DECLARATION.finditer(text):
        type_name = "".join(match.group("type").split())
        if type_name not in _NO_TYPES:
            types[match.group("name")] = _family(type_name)
    return types


class Source:
    """A file as tokens, their brackets, and the parts that are text only."""

    def __init__(self, text, header=""):
        self.text = text
        self.tokens = tokens_of(text)
        self.partners = partners_of(self.tokens)
        self._types = {**types_in(header), **types_in(text)}
        self._begins = [token.begin for token in self.tokens]
        self._text_ranges = sorted(self._find_text_ranges())

    def index_at(self, offset):
        """The index of the first token that begins at `offset` or later."""
        return bisect.bisect_left(self._begins, offset)

    def opener_of(self, i):
        """The bracket around token `i`, or an empty text outside all."""
        while i > 0:
            i -= 1
            if self.tokens[i].text in _OPENS and self.partners.get(i, i) > i:
                return self.tokens[i].text
            if self.tokens[i].text in _OPENS.values():
                i = self.partners.get(i, i)
        return ""

    def type_of(self, first, last):
        """What names the type of these tokens, or None if a glance does not
        tell."""
        tokens = self.tokens
        end = tokens[last]
        if first == last and end.kind == "number":
            return "integer"
        if end.kind == "name":
            # A chain of names; a type before a name would be a parameter.
            links = tokens[first + (tokens[first].text == "*") : last + 1]
            is_chain = all(
                link.text in (".", "->", "::") if i % 2 else link.kind == "name"
                for i, link in enumerate(links)
            )
            return self._types.get(end.text) if is_chain else None
        if end.text != ")" or last not in self.partners:
            return None
        opens = self.partners[last]
        if opens <= first:
            return None
        callee = tokens[opens - 1]
        if callee.text == ">":
            cast = self.slice(first, opens - 1)
            match = re.match(r"static_cast<([\w:]+)>$", cast)
            return _family(match.group(1)) if match else None
        if callee.text in _INTEGER_CALLS:
            return "integer"
        if callee.text in ("begin", "end"):
            return None  # A range from its end to its begin only crashes.
        return f"{callee.text}()"

    def is_text_only(self, i):
        """Whether token `i` only says what people read."""
        return any(first <= i <= last for first, last in self._text_ranges)

    def is_text_call(self, i):
        """Whether token `i` names a function that only makes text."""
        return bool(_TEXT_CALLS.match(self.tokens[i].text))

    def _find_text_ranges(self):
        for i, token in enumerate(self.tokens[:-1]):
            opens = self.tokens[i + 1].text == "("
            if token.kind == "name" and opens and self.is_text_call(i):
                yield i, self.partners.get(i + 1, i + 1)
        for match in _TEXT_FUNCTION.finditer(self.text):
            i = self.index_at(match.end()) - 1
            closes = self.partners.get(i, i)
            while closes + 1 < len(self.tokens):
                closes += 1
                if self.tokens[closes].text in ("{", ";"):
                    break
            yield i, self.partners.get(closes, closes)

    def slice(self, first, last):
        """The text from token `first` to token `last`, both with it."""
        return self.text[self.tokens[first].begin : self.tokens[last].end]

    def arguments(self, opens):
        """(first, last) of each argument between the brackets at `opens`."""
        closes = self.partners[opens]
        found = []
        first = i = opens + 1
        while i <= closes:
            if i == closes or self.tokens[i].text == ",":
                if first < i:
                    found.append((first, i - 1))
                first = i + 1
            # Over what stands in brackets of its own.
            inner = self.tokens[i].text in _OPENS and i in self.partners
            i = self.partners[i] + 1 if inner else i + 1
        return found
