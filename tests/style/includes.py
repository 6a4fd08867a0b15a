#!/usr/bin/env python3
"""Checks which file includes which.

usage: includes.py arrows     includes that point against the arrows between the parts of the code
       includes.py cycles     headers that include each other
"""

import pathlib
import re
import sys

# What each part of the code may include besides itself and what these parts may include.
ARROWS = {
    'framework': [],
    'parallel': ['framework'],
    'layers': ['parallel'],
    'models': ['layers'],
    'notebooks_export': ['framework'],
    'experiments/data': ['framework'],
    'experiments/training': ['experiments/data', 'models'],
    'experiments/config': ['experiments/training'],
    'experiments/layout_search': ['experiments/training'],
    'experiments/export': ['experiments/training'],
    'experiments/face_search': ['experiments/export'],
    'experiments/import': ['framework'],
    'experiments/extensions': ['experiments/training'],
    'experiments/results': ['experiments/training'],
    'experiments/program': ['experiments/config', 'experiments/extensions', 'experiments/face_search',
                            'experiments/import', 'experiments/layout_search', 'experiments/results',
                            'notebooks_export'],
    'tests': ['experiments/program'],
}
# A program that trains from C++ needs neither the JSON reader nor the command line.
LIBRARIES = {
    'nlohmann/': ['framework', 'notebooks_export', 'experiments/config', 'experiments/export', 'experiments/results',
                  'experiments/program', 'tests'],
    'onnx/': ['experiments/export', 'tests'],
    'CLI/': ['experiments/program'],
}


def allowed(part):
    parts = {part}
    for below in ARROWS[part]:
        parts |= allowed(below)
    return parts


def part_of(path):
    return next((part for part in ARROWS if path.startswith(part + '/')), None)


def includes():
    """(file, line number, what it includes) for every include."""
    for path in sorted(p for part in ARROWS for p in pathlib.Path(part).rglob('*')):
        if path.suffix in ('.h', '.cuh', '.cpp', '.cu'):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                match = re.match(r'\s*#\s*include ["<]([^">]+)[">]', line)
                if match:
                    yield str(path), number, match.group(1)


def against_the_arrows():
    for path, number, included in includes():
        part, other = part_of(path), part_of(included)
        if other and other not in allowed(part):
            yield f'{path}:{number}: {part} includes {included}'
        for library, parts in LIBRARIES.items():
            if included.startswith(library) and part not in parts:
                yield f'{path}:{number}: {part} includes {included}'


def cycles():
    graph = {}
    for path, _, included in includes():
        if path.endswith(('.h', '.cuh')):
            graph.setdefault(path, []).append(included)
    done, trail = set(), []

    def visit(path):
        if path in trail:
            yield ' -> '.join(trail[trail.index(path):] + [path])
            return
        if path in done:
            return
        done.add(path)
        trail.append(path)
        for included in graph.get(path, []):
            yield from visit(included)
        trail.pop()

    for path in graph:
        yield from visit(path)


for place in {'arrows': against_the_arrows, 'cycles': cycles}[sys.argv[1]]():
    print(place)
