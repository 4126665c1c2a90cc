"""Tells Rust code from its comments and texts, far enough to count `unsafe`. It is no parser."""

import re
from collections import Counter

START = re.compile(r"//|/\*|\"|'")
EDGE = re.compile(r"/\*|\*/")
RAW = re.compile(r"\b[bc]?r(#*)\Z")
TEXT_END = re.compile(r'(?:[^"\\]|\\.)*"', re.S)
CHARACTER = re.compile(r"'(?:\\(?:x[0-9a-fA-F]{2}|u\{[^}']*\}|.)|[^\\'\n])'", re.S)
UNSAFE = re.compile(
    r"""(?<!r\#)\bunsafe\b\s*(?:
        (?P<blocks>\{)
      | (?P<functions>(?:extern\s*(?:"[^"]*")?\s*)?fn\b)
      | (?P<impls>impl\b)
      | (?P<traits>(?:auto\s+)?trait\b)
      | (?P<externs>extern\b)
      | (?P<attributes>\()
      | (?P<other>)
    )""", re.X)


def code_of(text):
    """The text with comments as a blank, and strings and characters as empty ones."""
    kept, at = [], 0
    while True:
        found = START.search(text, at)
        if not found:
            kept.append(text[at:])
            return "".join(kept)
        start = found.start()
        kept.append(text[at:start])
        if found.group() == "'":
            character = CHARACTER.match(text, start)
            # Without an end it is a lifetime or a label.
            at = character.end() if character else start + 1
        elif found.group() == '"':
            kept.append('""')
            at = _text_end(text, start)
        else:
            kept.append(" ")
            at = _line_end(text, start) if found.group() == "//" else _block_end(text, start)


def unsafe_uses(text):
    """How often each kind of `unsafe` stands in a source, and the source's code."""
    code = code_of(text)
    return Counter(found.lastgroup for found in UNSAFE.finditer(code)), code


def _line_end(text, start):
    end = text.find("\n", start)
    return len(text) if end < 0 else end


def _block_end(text, start):
    """Comments nest; one that is not ended goes to the end."""
    depth = 0
    for edge in EDGE.finditer(text, start):
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return edge.end()
    return len(text)


def _text_end(text, start):
    raw = RAW.search(text[max(0, start - 64):start])
    if raw:
        closing = '"' + raw[1]
        end = text.find(closing, start + 1)
        return len(text) if end < 0 else end + len(closing)
    end = TEXT_END.match(text, start + 1)
    return end.end() if end else len(text)
