"""Compares records that Heddle and MXNet write with what the other reads.

usage: mxnet_test.py FOLDER    an empty folder for its files

A folder of JPEG files is packed, plainly and shuffled, and read by MXNet: images must have the bytes of their files, labels
the number of their person, and InsightFace's header and ranges must be there. Files that MXNet writes, plain ones and those
of InsightFace's layout, with one label or several and with magic numbers within images, are packed again by Heddle,
which reads them for that: images and labels must be those that MXNet reads from its own.
"""

import io
import pathlib
import random
import struct
import subprocess
import sys

import numpy
from mxnet import image, recordio
from PIL import Image

MAGIC = struct.pack('<I', 0xced7230a)
work = pathlib.Path(sys.argv[1])
heddle = pathlib.Path('heddle').resolve()
passed = failed = 0


def check(what, is_true):
    global passed, failed
    if is_true:
        passed += 1
    else:
        failed += 1
        print(f'FAILED: {what}')


def run(*arguments):
    done = subprocess.run([heddle, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f'heddle {" ".join(map(str, arguments))}: {done.stderr}')
    return done.stdout


def jpeg(seed, side):
    """An image of noise; half of them hold the magic number where a record is cut."""
    pixels = numpy.random.RandomState(seed).randint(0, 256, (side, side, 3), dtype=numpy.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, 'JPEG', quality=90)
    data = out.getvalue()
    if seed % 2 == 0:
        return data
    comment = b' ' * (seed % 5) + MAGIC * (1 + seed % 3)
    return data[:2] + b'\xff\xfe' + struct.pack('>H', len(comment) + 2) + comment + data[2:]


def first_label(header):
    return header.label if header.flag == 0 else header.label[0]


def read(path):
    """The images of a file in the order of their keys: label and bytes. MXNet decodes each."""
    reader = recordio.MXIndexedRecordIO(str(path.with_suffix('.idx')), str(path), 'r')
    images = []
    for key in sorted(reader.keys):
        header, data = recordio.unpack(reader.read_idx(key))
        if data:
            assert image.imdecode(data).shape[2] == 3
            images.append((int(first_label(header)), data))
    return images


def read_through(path):
    """The same without the index, in the order of the file."""
    reader = recordio.MXRecordIO(str(path), 'r')
    images = []
    while (payload := reader.read()) is not None:
        header, data = recordio.unpack(payload)
        if data:
            images.append((int(first_label(header)), data))
    return images


def test_pack(people, most):
    folder = work / 'people'
    expected = []
    rng = random.Random(5)
    for person in range(people):
        (folder / f'p{person:04d}').mkdir(parents=True)
        for number in range(rng.randint(1, most)):
            data = jpeg(len(expected), 16 + 8 * (number % 3))
            (folder / f'p{person:04d}' / f'{number:04d}.jpg').write_bytes(data)
            expected.append((person, data))
    (work / 'plain').mkdir()
    plain = work / 'plain' / 'a.rec'
    run('data', 'pack', folder, plain)
    check('MXNet reads the packed images and labels', read(plain) == expected)
    check('MXNet reads them without the index', read_through(plain) == expected)
    reader = recordio.MXIndexedRecordIO(str(plain.with_suffix('.idx')), str(plain), 'r')
    header, _ = recordio.unpack(reader.read_idx(0))
    check('record 0 announces the images and the people',
          [int(x) for x in header.label] == [len(expected) + 1, len(expected) + 1 + people])
    ranges = [recordio.unpack(reader.read_idx(len(expected) + 1 + person))[0].label for person in range(people)]
    check('each person has the range of the images',
          all(int(label) == person for person, (begin, end) in enumerate(ranges)
              for label, _ in expected[int(begin) - 1:int(end) - 1]) and ranges[-1][1] == len(expected) + 1)
    (work / 'shuffled').mkdir()
    shuffled = work / 'shuffled' / 'a.rec'
    run('data', 'pack', folder, shuffled, '--shuffle', '--seed', '3')
    found = read_through(shuffled)
    check('shuffled: MXNet reads the same images in another order',
          sorted(found) == sorted(expected) and found != expected)
    return len(expected)


def test_read(name, records, expected):
    """Packs what MXNet wrote; `records` are keys, labels and images."""
    (work / name).mkdir()
    path = work / name / 'a.rec'
    writer = recordio.MXIndexedRecordIO(str(path.with_suffix('.idx')), str(path), 'w')
    for key, label, data in records:
        writer.write_idx(key, recordio.pack(recordio.IRHeader(0, label, key, 0), data))
    writer.close()
    check(f'{name}: all images are sound', 'none is broken' in run('data', 'check', path))
    (work / f'{name}_packed').mkdir()
    packed = work / f'{name}_packed' / 'a.rec'
    run('data', 'pack', path, packed)
    check(f'{name}: Heddle reads the images and labels that MXNet wrote', sorted(read(packed)) == sorted(expected))
    return len(expected)


def main():
    images = test_pack(300, 8)
    faces = [(person, jpeg(1000 + 3 * person + i, 16)) for person in range(200) for i in range(1 + person % 4)]
    plain = [(key, float(person), data) for key, (person, data) in enumerate(faces)]
    random.Random(7).shuffle(plain)
    images += test_read('plain_by_mxnet', plain, faces)
    records = [(0, [len(faces) + 1, len(faces) + 201], b'')]
    begins = {}
    for key, (person, data) in enumerate(faces, 1):
        begins.setdefault(person, key)
        records.append((key, [float(person), float(key)] if key % 2 else float(person), data))
    begins[200] = len(faces) + 1
    records += [(len(faces) + 1 + person, [begins[person], begins[person + 1]], b'') for person in range(200)]
    images += test_read('insightface_by_mxnet', records, faces)
    print(f'{images} images')
    print(f'{passed} passed, {failed} failed')
    sys.exit(failed != 0)


main()
