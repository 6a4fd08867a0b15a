"""Compares the Parquet file of `heddle embed` with its .npy.

usage: parquet_test.py FOLDER    an empty folder for its files

PyArrow and pandas must read the same paths and the same bits, for embeddings of one number and of many, in one row group
and in several.
"""

import json
import pathlib
import sys

import heddle as package
import numpy
import pandas
import pyarrow
import pyarrow.parquet
from PIL import Image
from script_checks import check, error_of, finish, heddle

work = pathlib.Path(sys.argv[1])


def make_images(images):
    noise = numpy.random.default_rng(1)
    for i in range(images):
        folder = work / 'faces' / f'person{i % 3}, "älter"'
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(noise.integers(0, 256, (8, 8), dtype=numpy.uint8)).save(folder / f'{i}.png')
    return work / 'faces'


def train(faces, features):
    experiment = {
        'name': f'features_{features}',
        'data': {'type': 'image_folder', 'path': str(faces), 'image': [1, 8, 8]},
        'model': {'type': 'mlp', 'hidden': [8], 'embedding': features},
        'head': {'classes': 3},
        'train': {'batch': 4, 'steps': 1},
    }
    (work / 'small.json').write_text(json.dumps(experiment))
    heddle('run', work / 'small.json', '--out', work / experiment['name'])
    return work / experiment['name']


def compare(faces, features, groups):
    results = train(faces, features)
    for suffix in ('npy', 'parquet'):
        heddle('embed', results, faces, '--out', work / f'e.{suffix}')
    rows = numpy.load(work / 'e.npy')
    paths = (work / 'e.txt').read_text().splitlines()
    file = pyarrow.parquet.ParquetFile(work / 'e.parquet')
    what = f'{features} features'
    check(f'{what}: row groups', file.num_row_groups == groups, file.num_row_groups)
    check(f'{what}: columns', file.schema_arrow.field('image').type == pyarrow.string() and
          file.schema_arrow.field('embedding').type == pyarrow.list_(pyarrow.field('element', pyarrow.float32(), False)),
          file.schema_arrow)
    table = file.read()
    check(f'{what}: paths', table['image'].to_pylist() == paths)
    numbers = table['embedding'].combine_chunks().flatten().to_numpy()
    check(f'{what}: PyArrow has the same bits', numbers.tobytes() == rows.tobytes())
    frame = pandas.read_parquet(work / 'e.parquet')
    check(f'{what}: pandas has the same bits', numpy.stack(frame['embedding']).tobytes() == rows.tobytes())
    check(f'{what}: pandas has the paths', frame['image'].tolist() == paths)
    ours = package.embeddings(work / 'e.parquet')
    check(f'{what}: the package reads both files as the same', ours.equals(package.embeddings(work / 'e.npy')))


images = make_images(300)
compare(images, 1, 1)
compare(images, 512, 1)
compare(images, 20000, 2)  # more than 16 MiB
error = error_of('embed', work / 'features_1', images, '--out', work / 'e.feather')
check('another ending', error == f'heddle: {work}/e.feather: expected a file that ends in .npy, .parquet or .csv\n', error)
finish()
