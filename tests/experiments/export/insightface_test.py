"""Lets InsightFace's class ArcFaceONNX read exported models, and compares its embeddings and similarities with ours.

usage: insightface_test.py FOLDER    an empty folder for its files

An iResNet is trained for two steps on images of noise, so that batch norms have statistics. ArcFaceONNX scales pixels itself unless the
first nodes of a model are named Sub and Mul; the model is exported in both ways.
"""

import json
import os
import pathlib
import sys

import numpy
import onnxruntime
from insightface.model_zoo.arcface_onnx import ArcFaceONNX
from PIL import Image
from script_checks import check, difference, finish, heddle

TOLERANCE = 1e-5
SIDE = 112
work = pathlib.Path(sys.argv[1])


def make_images(folder):
    noise = numpy.random.default_rng(1)
    for person in 'abcd':
        (folder / person).mkdir(parents=True)
        for number in range(4):
            pixels = noise.integers(0, 256, (SIDE, SIDE, 3), dtype=numpy.uint8)
            Image.fromarray(pixels).save(folder / person / f'{number}.png')


def compare(name, ours, images):
    file = str(work / f'{name}.onnx')
    session = onnxruntime.InferenceSession(file, providers=['CPUExecutionProvider'])
    theirs = ArcFaceONNX(file, session)
    check(f'{name}: the size of images', theirs.input_size == (SIDE, SIDE), theirs.input_size)
    features = theirs.get_feat(images)
    apart = difference(ours, features)
    print(f'{name}: pixels less {theirs.input_mean}, by {theirs.input_std}; ArcFaceONNX differs by {apart:.1e}')
    check(f'{name}: the embeddings', apart < TOLERANCE, apart)
    unit = ours / numpy.linalg.norm(ours, axis=1, keepdims=True)
    apart = max(abs(theirs.compute_sim(features[0], features[i]) - unit[0] @ unit[i]) for i in range(len(ours)))
    check(f'{name}: the similarities', apart < TOLERANCE, apart)


os.chdir(work)
make_images(pathlib.Path('images'))
experiment = {
    'name': 'faces', 'threads': 1,
    'data': {'type': 'image_folder', 'path': 'images', 'image': [3, SIDE, SIDE], 'train_per_identity': 3},
    'model': {'type': 'iresnet18', 'embedding': 64}, 'head': {'classes': 4}, 'train': {'batch': 8, 'steps': 2}}
pathlib.Path('faces.json').write_text(json.dumps(experiment))
heddle('run', 'faces.json')
heddle('embed', 'results/faces', 'images', '--out', 'faces.npy')
heddle('export', 'results/faces', '--format', 'onnx', '--out', 'network.onnx')
heddle('export', 'results/faces', '--format', 'onnx', '--out', 'pixels.onnx', '--preprocessing')
embeddings = numpy.load(work / 'faces.npy')
# As OpenCV reads them: blue, green, red.
bgr = [numpy.asarray(Image.open(work / path))[:, :, ::-1].copy() for path in (work / 'faces.txt').read_text().splitlines()]
compare('network', embeddings, bgr)
compare('pixels', embeddings, bgr)
finish()
