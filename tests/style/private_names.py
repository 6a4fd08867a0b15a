#!/usr/bin/env python3
"""Finds names that are private (static, or in an unnamed namespace) to several files of one library.

A unity build compiles several files as one, and which ones depends on the alphabet: two equal private names break the
build as soon as their files fall together, and so does a private type with the name of one in a header. What needs a
common name lies in a nested namespace. The kernels of the cuda backend are compiled as one for each folder.

usage: private_names.py FOLDER...    each folder is one library, with its subfolders
"""

import pathlib
import re
import sys

TOKEN = re.compile(r'[A-Za-z_]\w*|::|->|\[\[|\]\]|[{}()<>;=,\[\]~&*]|[^\s\w]|\d[\w.\']*')
BLANKED = re.compile(r'R"(\w*)\(.*?\)\1"|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', re.S)
SKIPPED = {'public', 'private', 'protected'}
SHARED = {(), ('heddle',), ('heddle', 'test')}  # namespaces of many files
CASE_NAMES = re.compile(r'^(TEST_CASE|TEST_SUITE|DOCTEST)')


def tokens_of(text):
    """The tokens with their line numbers; comments, literals and preprocessor lines are blanked."""
    def blank(match):
        return re.sub(r'[^\n]', ' ', match.group(0)) if match.group(0)[0] in '/R' else '""'
    text = BLANKED.sub(blank, text)
    text = re.sub(r'(?m)^[ \t]*#(?:[^\n]*\\\n)*[^\n]*', lambda m: '\n' * m.group(0).count('\n'), text)
    line, at = 1, 0
    for match in TOKEN.finditer(text):
        line += text.count('\n', at, match.start())
        at = match.start()
        yield match.group(0), line


class File:
    """The names at namespace level that are private to a file."""

    def __init__(self, path):
        self.path = path
        self.private = {}  # (namespace, name) -> line
        self.aliases = {}  # (namespace, name) -> what it stands for: equal aliases may stand in several files
        self.open_enums = []
        self.types = {}  # (namespace, name) -> line: those of a header
        tokens = list(tokens_of(path.read_text()))
        self._read(tokens, 0, len(tokens), (), False)

    def _read(self, tokens, i, end, namespace, is_unnamed):
        while i < end:
            word = tokens[i][0]
            start = i
            # One declaration: up to its `;`, or the end of its body.
            depth, i, body = 0, i, None
            while i < end:
                t = tokens[i][0]
                if t in '([':
                    depth += 1
                elif t in ')]':
                    depth -= 1
                elif t == '{' and depth == 0:
                    close = self._close(tokens, i)
                    body = body or (i, close)
                    if word == 'namespace' or self._ends_declaration(tokens, start, i, close, end):
                        i = close + 1
                        break
                    i = close
                elif t == '{':
                    i = self._close(tokens, i)
                elif t == ';' and depth == 0:
                    i += 1
                    break
                i += 1
            declaration = tokens[start:(body[0] if body else i)]
            if word == 'namespace' and body:
                names = [t for t, _ in declaration[1:] if t not in ('::', 'inline')]
                self._read(tokens, body[0] + 1, body[1], namespace + tuple(names), is_unnamed or not names)
                continue
            self._declare([t for t, _ in declaration], declaration, namespace, is_unnamed, body)

    @staticmethod
    def _close(tokens, i):
        depth = 0
        while True:
            if tokens[i][0] == '{':
                depth += 1
            elif tokens[i][0] == '}':
                depth -= 1
                if depth == 0:
                    return i
            i += 1

    @staticmethod
    def _ends_declaration(tokens, start, open_brace, close, end):
        """Whether the body at open_brace ends the declaration: a function's does, a struct's or an initialiser's not."""
        head = [t for t, _ in tokens[start:open_brace]]
        if close + 1 < end and tokens[close + 1][0] in (';', ','):
            return False
        return '(' in head and not ('=' in head and 'operator' not in head and head.index('=') < head.index('('))

    def _declare(self, words, declaration, namespace, is_unnamed, body):
        while words[:1] == ['template']:
            depth = 0
            for k, t in enumerate(words):
                depth += (t == '<') - (t == '>')
                if k and depth == 0:
                    break
            words, declaration = words[k + 1:], declaration[k + 1:]
            if k == 2:  # template <>: a specialisation names nothing new
                return
        if not words or words[0] in SKIPPED or CASE_NAMES.match(words[0]) or words[0] == ';':
            return
        is_private = is_unnamed or 'static' in words
        if words[0] in ('struct', 'class', 'enum') and body and not is_private:
            names = [t for t in words[1:] if re.match(r'[A-Za-z_]', t) and t not in ('class', 'struct', 'final')]
            self.types.setdefault((namespace, names[0]), declaration[0][1])
        if words[0] == 'using':
            if '=' in words:
                self._add(namespace, words[1], declaration[0][1])
                self.aliases[namespace, words[1]] = words
            elif words[1] == 'enum' and namespace in SHARED:
                self.open_enums.append(f'{declaration[0][1]}: the names of {" ".join(words[2:-1])} reach other files')
            return
        if words[0] == 'namespace':  # an alias
            self._add(namespace, words[1], declaration[0][1])
            self.aliases[namespace, words[1]] = words
            return
        if not is_private or words[0] in ('static_assert', 'friend', 'extern'):
            return
        if words[0] in ('struct', 'class', 'enum', 'union') and '(' not in words:
            skip = {'struct', 'class', 'enum', 'union', 'final', 'alignas'}
            names = [t for t in words[1:] if re.match(r'[A-Za-z_]', t) and t not in skip]
            if names and (body or words[-1] == ';'):
                self._add(namespace, names[0], declaration[0][1])
                return
        # A function's name stands before its first parenthesis outside of <>; a variable's before = { ; or [.
        depth = 0
        for k, t in enumerate(words):
            depth += (t == '<') - (t == '>' and words[k - 1] != '-')
            before = words[k - 1] if k else ''
            if depth == 0 and t in ('(', '=', ';', '[', '{') and re.match(r'[A-Za-z_]', before) and before != 'noexcept':
                if k >= 2 and words[k - 2] == '::':
                    return  # a member defined outside of its class
                self._add(namespace, before, declaration[k - 1][1])
                return
        if body and re.match(r'[A-Za-z_]', words[-1]):
            self._add(namespace, words[-1], declaration[-1][1])

    def _add(self, namespace, name, line):
        self.private.setdefault((namespace, name), line)


def clashes(files, types):
    """What is private to several of the files, or also a type of a header."""
    broken, first = [], {}
    for file in files:
        broken += [f'{file.path}:{place}' for place in file.open_enums]
        for key, line in file.private.items():
            if key in types:
                broken.append(f'{file.path}:{line}: {key[1]} is also a type in {types[key]}')
            other = first.setdefault(key, file)
            is_same = key in file.aliases and file.aliases[key] == other.aliases.get(key)
            if other is not file and not is_same:
                broken.append(f'{file.path}:{line}: {key[1]} is also private to {other.path}:{other.private[key]}')
    return broken


def main():
    broken = []
    for folder in map(pathlib.Path, sys.argv[1:]):
        headers = [File(path) for path in sorted(folder.rglob('*.h'))]
        types = {key: f'{header.path}:{line}' for header in headers for key, line in header.types.items()}
        broken += clashes([File(path) for path in sorted(folder.rglob('*.cpp'))], types)
        themes = {}  # the kernels of one folder are compiled as one
        for path in sorted(folder.rglob('*.cu')):
            themes.setdefault(path.parent, []).append(File(path))
        for kernels in themes.values():
            broken += clashes(kernels, types)
    print('\n'.join(broken), end='\n' if broken else '')


main()
