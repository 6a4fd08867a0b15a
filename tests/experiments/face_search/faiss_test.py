"""Compares `heddle search` with FAISS.

usage: faiss_test.py FOLDER    an empty folder for its files

The index that a search writes is read by faiss.IndexFlatIP, which must find the same neighbours with the same similarities,
for people with one image and with several.
"""

import json
import pathlib
import sys

import faiss
import numpy
from script_checks import check, finish, heddle

TOLERANCE = 2e-6
FEATURES = 32
PEOPLE = 4000
PROBES = 200
TOP = 10
work = pathlib.Path(sys.argv[1])


def train():
    """A checkpoint whose model gives FEATURES features; its weights do not matter."""
    experiment = {
        'name': 'small',
        'data': {'type': 'synthetic_identities', 'identities': 4, 'image': [1, 8, 8], 'train_per_identity': 2},
        'model': {'type': 'mlp', 'hidden': [8], 'embedding': FEATURES},
        'head': {'classes': 4},
        'train': {'batch': 4, 'steps': 1},
    }
    (work / 'small.json').write_text(json.dumps(experiment))
    heddle('run', work / 'small.json', '--out', work / 'results')
    return work / 'results'


def write_rows(name, rows, names):
    numpy.save(work / f'{name}.npy', rows)
    (work / f'{name}.txt').write_text(''.join(f'{line}\n' for line in names))
    return work / f'{name}.npy'


def compare(what, results, gallery, probes, *options):
    found = json.loads(heddle('search', results, gallery, probes, '--top', TOP, '--json', '--threshold', '0.5', '--index',
                              work / 'index.npy', *options))
    rows = numpy.load(work / 'index.npy')
    names = (work / 'index.txt').read_text().splitlines()
    index = faiss.IndexFlatIP(FEATURES)
    index.add(rows)
    values = numpy.load(probes)
    similarities, nearest = index.search(values / numpy.linalg.norm(values, axis=1, keepdims=True), TOP)
    key = 'image' if '--nearest-image' in options else 'person'
    ours = [[entry[key] for entry in result['nearest']] for result in found['results']]
    theirs = [[names[i] for i in row] for row in nearest]
    check(f'{what}: the neighbours are those of FAISS', ours == theirs)
    ours = numpy.array([[entry['similarity'] for entry in result['nearest']] for result in found['results']])
    difference = abs(ours - similarities).max()
    check(f'{what}: similarities differ by {difference}', difference < TOLERANCE)


def main():
    random = numpy.random.default_rng(1)
    results = train()
    draw = lambda count: random.standard_normal((count, FEATURES), dtype=numpy.float32)
    probes = write_rows('probes', draw(PROBES), [f'probe{i}' for i in range(PROBES)])
    singles = write_rows('singles', draw(PEOPLE), [f'person{i}' for i in range(PEOPLE)])
    compare('people with one image', results, singles, probes)
    compare('images', results, singles, probes, '--nearest-image')
    order = random.permutation(3 * PEOPLE)  # of images that are not sorted by their people
    several = write_rows('several', draw(3 * PEOPLE), [f'faces/person{i % PEOPLE}/{i}.jpg' for i in order])
    compare('people with three images', results, several, probes)
    finish()


main()
