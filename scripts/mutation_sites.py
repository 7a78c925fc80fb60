"""Finds what can be mutated in a C++ source of this project, for scripts/mutants.

A site is one token, or a few, exchanged for others, and the smallest expression around them. The
source is split into tokens, without comments, strings and preprocessor lines; operators have spaces
around them and template brackets have not, as clang-format leaves them.
"""
import bisect
import dataclasses
import re

TOKEN = re.compile(r"""
    (?P<space>\s+|//[^\n]*|/\*.*?\*/|(?<=\n)[ \t]*\#(?:[^\n\\]|\\.|\\\n)*|^\#[^\n]*)
  | (?P<string>R"\((?:.|\n)*?\)"|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)+')
  | (?P<number>\.?[0-9](?:[eEpP][+-]|'[0-9]|[0-9a-zA-Z_.])*)
  | (?P<name>[A-Za-z_][A-Za-z_0-9]*)
  | (?P<operator><<=|>>=|<=>|->\*|\.\.\.|::|->|\+\+|--|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)
""", re.VERBOSE | re.DOTALL)

# Of the operators that end an expression's operand; those that bind more tightly than + never do.
PRECEDENCE = {"+": 12, "-": 12, "<<": 11, ">>": 11, "<": 9, ">": 9, "<=": 9, ">=": 9, "==": 8,
              "!=": 8, "&": 7, "^": 6, "|": 5, "&&": 4, "||": 3}
ENDS = {"?", ":", "=", "+=", "-=", "*=", "/=", "%=", "|=", "&=", ",", ";", "{", "}", "return",
        "throw", "case", "else", "co_return"}
OPEN, CLOSE = {"(": ")", "[": "]", "{": "}"}, {")": "(", "]": "[", "}": "{"}

OPERATORS = {"==": ["!="], "!=": ["=="], "<": ["<=", ">="], ">": [">=", "<="],
             "<=": ["<", ">"], ">=": [">", "<"], "&&": ["||"], "||": ["&&"],
             "+": ["-"], "-": ["+"]}
LITERALS = {"0": ["1"], "1": ["2", "0"], "2": ["1"], "3": ["2"], "4": ["3"], "true": ["false"],
            "false": ["true"]}
CALLS = {"min": "max", "max": "min", "lesser": "greater", "greater": "lesser",
         "rbegin": "begin"}
# Names that mean the same of the other direction, or of the thing beside.
NAMES = {}
for one, other in [("h", "w"), ("r", "s"), ("p", "q"), ("top", "left"), ("top", "bottom"),
                   ("left", "right"), ("x_h", "x_w"), ("y_p", "y_q"), ("x_n", "x_c"),
                   ("y_n", "y_k"), ("w_r", "w_s"), ("row_planes", "column_planes"),
                   ("step_h", "step_w"), ("halo_h", "halo_w"), ("rows", "columns"),
                   ("stride", "dilation"), ("x_strides", "y_strides"),
                   ("group_c", "group_k"), ("c", "k"), ("begin", "end"), ("first", "rest"),
                   ("row_plane", "column_plane"), ("x_extents", "y_extents"),
                   ("begin_step", "step"), ("blocks", "block"), ("panels", "width"),
                   ("bands", "rows"), ("low", "high")]:
    NAMES.setdefault(one, []).append(other)
    NAMES.setdefault(other, []).append(one)


@dataclasses.dataclass
class Token:
    kind: str
    text: str
    begin: int
    end: int
    spaced: bool = False  # on both sides


@dataclasses.dataclass
class Site:
    """`begin` and `end` of the expression; `changes` are (begin, end, text), in order."""
    kind: str
    begin: int
    end: int
    changes: list
    function: str = ""
    id: int = 0

    def mutated(self, source):
        """The expression as mutated, on one line."""
        text, at = "", self.begin
        for begin, end, change in self.changes:
            text += source[at:begin] + change
            at = end
        text += source[at:self.end]
        return re.sub(r"\s*(//[^\n]*)?\n\s*", " ", text)

    def line(self, source):
        return source.count("\n", 0, self.changes[0][0]) + 1

    def lines(self, source):
        """The line that is mutated, before and after."""
        begin = source.rfind("\n", 0, self.changes[0][0]) + 1
        stop = source.find("\n", self.changes[-1][1])
        text, at = "", begin
        for first, last, change in self.changes:
            text += source[at:first] + change
            at = last
        short = lambda what: re.sub(r"\s+", " ", what).strip()
        return short(source[begin:stop]), short(text + source[at:stop])


def tokens_of(source):
    tokens = []
    for match in TOKEN.finditer(source):
        kind = match.lastgroup
        if kind == "space":
            continue
        begin, end = match.span()
        spaced = source[begin - 1:begin].isspace() and source[end:end + 1].isspace()
        tokens.append(Token(kind, match.group(), begin, end, spaced))
    return tokens


class Source:
    def __init__(self, text):
        self.text = text
        self.tokens = tokens_of(text)
        self.partner = self._partners()
        self.functions = self._functions()

    def is_binary(self, i):
        """Whether token i is an operator between two operands."""
        token = self.tokens[i]
        if token.text not in PRECEDENCE:
            return False
        if token.text in ("<", ">", "&", "&&") and not token.spaced:
            return False
        before = self.tokens[i - 1]
        return (before.kind in ("number", "string") or before.text in (")", "]", "}") or
                (before.kind == "name" and before.text not in ENDS and before.text != "operator"))

    def _angle(self, i):
        token = self.tokens[i]
        return token.text in "<>" and not token.spaced and self.tokens[i - 1].text != "operator"

    def _partners(self):
        partner, stack, angles = {}, [], []
        for i, token in enumerate(self.tokens):
            if token.text in OPEN:
                stack.append((i, angles))
                angles = []
            elif token.text in CLOSE:
                if stack:
                    opening, angles = stack.pop()
                    partner[i], partner[opening] = opening, i
            elif token.text == ";":
                angles.clear()
            elif token.text == "<" and self._angle(i):
                angles.append(i)
            elif token.text == ">" and self._angle(i) and angles:
                opening = angles.pop()
                partner[i], partner[opening] = opening, i
        return partner

    def _functions(self):
        """(first token of the body, last, name) of function definitions, without those inside."""
        found, i = [], 0
        while i < len(self.tokens):
            token = self.tokens[i]
            if token.text == "(" and self.tokens[i - 1].kind == "name" and i in self.partner:
                j = self.partner[i] + 1
                while j < len(self.tokens) and self.tokens[j].text in ("const", "noexcept"):
                    j += 1
                if j < len(self.tokens) and self.tokens[j].text == ":":  # a constructor's members
                    while self.tokens[j].text not in ("{", ";"):
                        j = self.partner.get(j, j) + 1 if self.tokens[j].text == "(" else j + 1
                if (j < len(self.tokens) and self.tokens[j].text == "{" and j in self.partner and
                        self.tokens[i - 1].text not in ("if", "for", "while", "switch")):
                    found.append((j, self.partner[j], self.tokens[i - 1].text))
                    i = self.partner[j]
            i += 1
        return found

    def function_at(self, i):
        at = bisect.bisect_right([first for first, _, _ in self.functions], i) - 1
        if at >= 0 and i <= self.functions[at][1]:
            return self.functions[at][2]
        return ""

    def _operand_begin(self, i, precedence):
        """First token of the operand that ends before token i."""
        j = i
        while j > 0:
            token = self.tokens[j - 1]
            if token.text in CLOSE and (j - 1) in self.partner and not (
                    token.text == "}" and self.tokens[j - 2].text in (";", "}")):
                j = self.partner[j - 1]
                continue
            if token.text == ">" and (j - 1) in self.partner:
                j = self.partner[j - 1]
                continue
            if token.text in ENDS or token.text in OPEN or token.text in CLOSE:
                return j
            if self.is_binary(j - 1) and PRECEDENCE[token.text] < precedence:
                return j
            if token.text in ("if", "for", "while", "switch"):
                return j
            j -= 1
        return j

    def _operand_end(self, i, precedence):
        """One beyond the last token of the operand that begins behind token i."""
        j = i + 1
        while j < len(self.tokens):
            token = self.tokens[j]
            if (token.text in OPEN or token.text == "<") and j in self.partner:
                j = self.partner[j] + 1
                continue
            if token.text in ENDS or token.text in CLOSE:
                return j
            if self.is_binary(j) and PRECEDENCE[token.text] <= precedence:
                return j
            j += 1
        return j

    def _chain_begin(self, i):
        """First token of the member access that token i ends, as a in a.b[c].d."""
        while i > 0:
            before = self.tokens[i - 1].text
            if before in (".", "->", "::"):
                i -= 2
                if self.tokens[i].text == "]" and i in self.partner:
                    i = self.partner[i] - 1
                if self.tokens[i].text in (")", ">") and i in self.partner:
                    i = self.partner[i]
                    if self.tokens[i - 1].text == ">" and i - 1 in self.partner:
                        i = self.partner[i - 1]
                    if self.tokens[i - 1].kind == "name":
                        i -= 1
                    continue
                continue
            return i
        return i

    def _site(self, kind, first, beyond, changes):
        begin, end = self.tokens[first].begin, self.tokens[beyond - 1].end
        if re.search(r"\n[ \t]*#", self.text[begin:end]):
            return None
        at = bisect.bisect_left([t.begin for t in self.tokens], changes[0][0])
        return Site(kind, begin, end, changes, self.function_at(at))

    def sites(self):
        found = []
        for i, token in enumerate(self.tokens):
            if not self.function_at(i):  # declarations, and constants
                continue
            for kind, first, beyond, changes in self._at(i, token):
                site = self._site(kind, first, beyond, changes)
                if site:
                    found.append(site)
        return found

    def _at(self, i, token):
        swap = lambda text: [(token.begin, token.end, text)]
        if token.kind == "operator" and token.text in OPERATORS and self.is_binary(i):
            precedence = PRECEDENCE[token.text]
            first = self._operand_begin(i, precedence)
            beyond = self._operand_end(i, precedence)
            for text in OPERATORS[token.text]:
                yield "operator", first, beyond, swap(text)
        elif token.text in LITERALS:
            for text in LITERALS[token.text]:
                yield "literal", i, i + 1, swap(text)
        elif token.text == "!" and self.tokens[i + 1].text != "=":
            beyond = self._operand_end(i, 99)
            yield "negation", i, beyond, [(token.begin, token.end, "")]
        elif token.text == "if" and self.tokens[i + 1].text == "(" and i + 1 in self.partner:
            yield from self._condition(i)
        elif token.kind == "name":
            yield from self._name(i, token, swap)

    def _condition(self, i):
        """A condition that no operator mutates as a whole."""
        opening, closing = i + 1, self.partner[i + 1]
        first = opening + 1
        for j in range(first, closing):
            if self.tokens[j].text == ";":
                first = j + 1
        inside = self.tokens[first:closing]
        if any(t.text in ("=", "&&", "||") or t.text in OPERATORS and t.spaced for t in inside):
            return
        if inside and inside[0].text != "!":
            begin, end = inside[0].begin, inside[-1].end
            yield "condition", first, closing, [(begin, begin, "!("), (end, end, ")")]

    def _name(self, i, token, swap):
        after = self.tokens[i + 1].text if i + 1 < len(self.tokens) else ""
        before = self.tokens[i - 1]
        is_call = after == "(" or (after == "<" and i + 1 in self.partner)
        if token.text in CALLS and is_call:
            opening = i + 1 if after == "(" else self.partner[i + 1] + 1
            if self.tokens[opening].text == "(" and opening in self.partner:
                first = i - 2 if before.text == "::" else i
                yield "call", first, self.partner[opening] + 1, swap(CALLS[token.text])
                return
        if token.text not in NAMES:
            return
        if before.text == "." and self.tokens[i - 2].text in ("{", ","):  # .name = value
            return
        if before.kind == "name" and before.text not in ENDS:  # a declaration
            return
        if before.text not in (".", "->") and after in (".", "->"):  # an object, not what it has
            return
        if before.text in ("*", "&", ">") and not self.is_binary(i - 1) and after in ("=", ";", ","):
            return
        first, beyond = self._chain_begin(i), i + 1
        if after == "(" and i + 1 in self.partner:
            beyond = self.partner[i + 1] + 1
        for text in NAMES[token.text]:
            yield "name", first, beyond, swap(text)


def instrumented(source, sites):
    """The source with all sites switched at run time, and where each of them came to lie: on the
    same lines, as (line, column) from 1 on, begin and end."""
    inserts = []
    for site in sites:
        length = site.end - site.begin
        prefix = f"(::mutants::on({site.id}) ? {site.mutated(source)} : "
        # At one place: what ends before what begins; outer begins first, inner ends first.
        inserts.append((site.begin, 1, -length, site.id, prefix, site, True))
        inserts.append((site.end, 0, length, -site.id, ")", site, False))
    inserts.sort(key=lambda one: one[:4])
    text, at, line, column, begins, where = [], 0, 1, 1, {}, {}

    def put(piece):
        nonlocal line, column
        text.append(piece)
        newlines = piece.count("\n")
        if newlines:
            line += newlines
            column = len(piece) - piece.rfind("\n")
        else:
            column += len(piece)

    for position, _, _, _, insert, site, begins_here in inserts:
        put(source[at:position])
        at = position
        if begins_here:
            begins[site.id] = (line, column)
        put(insert)
        if not begins_here:
            where[site.id] = (begins[site.id], (line, column))
    put(source[at:])
    return "".join(text), where
