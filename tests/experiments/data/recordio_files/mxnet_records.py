#!/usr/bin/env python3
"""Writes the files beside it with MXNet, and lists what MXNet's reader gives.

usage: mxnet_records.py write FOLDER     the files, and listed.txt with what MXNet reads from them
       mxnet_records.py list FILE.rec    a line for each record, read with the index beside the file if there is one

Made with Python 3.11, mxnet 1.9.1, numpy 1.23.5 and pillow 13.0.0.
"""

import io
import pathlib
import struct
import sys
import zlib

import numpy
from PIL import Image
from mxnet import recordio

MAGIC = struct.pack('<I', 0xced7230a)  # RecordIO's, which is cut out where it stands at a multiple of 4
HEADER = 24  # bytes before an image without labels after the header


def face(number, kind, comment=b'', extra_labels=0):
    """An image of 8 x 8 pixels whose file holds `comment` at a multiple of 4 of the record's payload."""
    pixels = numpy.random.RandomState(number).randint(0, 256, (8, 8, 3), dtype=numpy.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, kind, **({'quality': 90} if kind == 'JPEG' else {}))
    data = out.getvalue()
    # Behind the beginning of a JPEG (2 bytes) or the signature and the first chunk of a PNG (33 bytes).
    at, head = (2, 4) if kind == 'JPEG' else (33, 8)
    comment = b' ' * (-(HEADER + 4 * extra_labels + at + head) % 4) + comment
    if kind == 'JPEG':
        segment = b'\xff\xfe' + struct.pack('>H', len(comment) + 2) + comment
    else:
        body = b'heDl' + comment
        segment = struct.pack('>I', len(comment)) + body + struct.pack('>I', zlib.crc32(body))
    return data[:at] + segment + data[at:]


def pack(label, number, image):
    return recordio.pack(recordio.IRHeader(0, label, number, 0), image)


def write_indexed(path, records):
    writer = recordio.MXIndexedRecordIO(str(path.with_suffix('.idx')), str(path), 'w')
    for key, payload in records:
        writer.write_idx(key, payload)
    writer.close()


def insightface(folder):
    """Two photographs each of persons 0, 1 and 3, and one record for each person after them."""
    labels = [0.0, [0, 1], 1.0, [1, 0], 3.0, [3, 1]]
    comments = [b'', MAGIC, b'', MAGIC + MAGIC, b'x' + MAGIC, b'abcd' + MAGIC + b'efgh' + MAGIC]
    images = [(key, pack(label, 0xced7230a if key == 3 else key,
                         face(key, 'JPEG' if key % 2 else 'PNG', comment, 2 if isinstance(label, list) else 0)))
              for key, (label, comment) in enumerate(zip(labels, comments), 1)]
    people = [(7, pack([1, 3], 7, b'')), (8, pack([3, 5], 8, b'')), (9, pack([5, 7], 9, b''))]
    write_indexed(folder / 'insightface.rec', [(0, pack([7, 10], 0, b''))] + images + people)


def plain(folder):
    """As im2rec writes a list that was shuffled: keys in any order, one of them missing."""
    keys = [4, 0, 2, 5, 1]
    write_indexed(folder / 'plain.rec', [(key, pack(float(key % 3), key, face(key, 'PNG'))) for key in keys])


def shuffled(folder):
    """As InsightFace's shuffle_rec.py writes the images of its layout: keys from 0, no header record."""
    write_indexed(folder / 'shuffled.rec',
                  [(key, pack(float(label), key, face(10 + key, 'JPEG', MAGIC if key == 0 else b'')))
                   for key, label in enumerate([2, 0, 1, 1])])


def unindexed(folder):
    writer = recordio.MXRecordIO(str(folder / 'unindexed.rec'), 'w')
    for number in range(3):
        writer.write(pack(float(number), number, face(20 + number, 'PNG')))
    writer.close()


def payloads(folder):
    """Payloads that are not images: every length up to 40, and magic numbers at every offset and in a row."""
    writer = recordio.MXRecordIO(str(folder / 'payloads.rec'), 'w')
    for length in range(41):
        writer.write(bytes(range(length)))
    for offset in range(9):
        for behind in range(5):
            writer.write(b'a' * offset + MAGIC + b'b' * behind)
            writer.write(b'a' * offset + MAGIC + MAGIC + b'b' * behind)
            writer.write(b'a' * offset + MAGIC + b'c' * behind + MAGIC)
    writer.close()


def lines(path):
    """`key size crc32`, and for images `flag labels size crc32` of the image."""
    index = path.with_suffix('.idx')
    reader = recordio.MXIndexedRecordIO(str(index), str(path), 'r') if index.exists() else \
        recordio.MXRecordIO(str(path), 'r')
    keys = list(reader.keys) if index.exists() else None
    number = 0
    while keys is None or number < len(keys):
        payload = reader.read() if keys is None else reader.read_idx(keys[number])
        if payload is None:
            break
        line = f'{path.name} {number if keys is None else keys[number]} {len(payload)} {zlib.crc32(payload):08x}'
        if path.name != 'payloads.rec':
            header, image = recordio.unpack(payload)
            labels = [header.label] if header.flag == 0 else list(header.label)
            line += f' {header.flag} {",".join(f"{label:g}" for label in labels)} {len(image)} {zlib.crc32(image):08x}'
        yield line
        number += 1


def main():
    path = pathlib.Path(sys.argv[2])
    if sys.argv[1] == 'list':
        print('\n'.join(lines(path)))
        return
    for write in (insightface, plain, shuffled, unindexed, payloads):
        write(path)
    listed = [line for file in sorted(path.glob('*.rec')) for line in lines(file)]
    (path / 'listed.txt').write_text('\n'.join(listed) + '\n')


main()
