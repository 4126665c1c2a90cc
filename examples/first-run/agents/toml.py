"""Reads as much TOML as manifests and lock files need: which key has which value, as raw text.

It checks nothing; Python below 3.11 has no reader of its own.
"""

import re

TOKEN = re.compile(
    r'"""(?:\\.|.)*?(?:"""|\Z)' r"|'''.*?(?:'''|\Z)" r'|"(?:\\.|[^"\\\n])*"' r"|'[^'\n]*'"
    r"|\#[^\n]*|[^\"'\#\[\]{}\n]+|.", re.S)
KEY = r"""(?:"(?:\\.|[^"\\])*"|'[^']*'|[A-Za-z0-9_-]+)"""
HEADER = re.compile(r"\s*(\[\[?)\s*(%s(?:\s*\.\s*%s)*)\s*\]" % (KEY, KEY))
PAIR = re.compile(r"\s*(%s(?:\s*\.\s*%s)*)\s*=\s*(.*)" % (KEY, KEY), re.S)
TEXT = re.compile(r'"((?:\\.|[^"\\])*)"' r"|'([^']*)'")


def tables(text):
    """The tables in order: pairs of the header's path and a list of (key path, raw value)."""
    rows = []
    found = [((), rows)]
    for line in _lines(text):
        header, pair = HEADER.match(line), PAIR.match(line)
        if header:
            rows = []
            found.append((_path(header[2]), rows))
        elif pair:
            rows.append((_path(pair[1]), pair[2].strip()))
    return found


def pairs(text):
    """Every value with its whole path; a table is there too, with an empty value."""
    for path, rows in tables(text):
        yield path, ""
        for key, value in rows:
            yield path + key, value


def texts(raw):
    """The strings in a raw value."""
    return [double or single for double, single in TEXT.findall(raw)]


def attribute(raw, name):
    """The raw word or text of a key in an inline table; None when it is not there."""
    found = re.search(r"""[{,\s]%s\s*=\s*(?:"([^"]*)"|'([^']*)'|(\w+))""" % re.escape(name), raw)
    return next(group for group in found.groups() if group is not None) if found else None


def _path(dotted):
    return tuple(part.strip("\"'") for part in re.findall(KEY, dotted))


def _lines(text):
    """Logical lines: a value in brackets is one line, comments are gone."""
    depth, line = 0, []
    for token in TOKEN.findall(text + "\n"):
        if token == "\n" and depth == 0:
            yield "".join(line)
            line = []
        elif not token.startswith("#"):
            depth = max(0, depth + (token in "[{") - (token in "]}"))
            line.append(token)
