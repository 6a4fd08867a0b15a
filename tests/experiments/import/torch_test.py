"""Starts trainings from torchvision's weights.

usage: torch_test.py FOLDER    an empty folder for its files

A model of torchvision is saved by torch.save, imported, and trained for one step that is too small to change a weight.
The exported weights must be torchvision's, up to that step.
"""

import json
import pathlib
import subprocess
import sys

import numpy
import torch
import torchvision
from PIL import Image
from safetensors.numpy import load_file

work = pathlib.Path(sys.argv[1])
failed = 0
# The configuration of a model, the side of its images, and torchvision's model.
MODELS = {
    'resnet18': ({'type': 'resnet18'}, 64, lambda m: m.resnet18(num_classes=16)),
    'resnet50': ({'type': 'resnet50'}, 64, lambda m: m.resnet50(num_classes=16)),
    'resnext': ({'type': 'resnext'}, 64, lambda m: m.resnext50_32x4d(num_classes=16)),
    'vgg11_bn': ({'type': 'vgg11', 'norms': True}, 224, lambda m: m.vgg11_bn(num_classes=16)),
}


def heddle(*arguments):
    return subprocess.run(['./heddle', *map(str, arguments)], capture_output=True, text=True)


def report(name, is_right, text=''):
    global failed
    failed += not is_right
    print('ok  ' if is_right else 'FAIL', name, text, flush=True)


def experiment(name, model, side, weights):
    faces = work / f'faces{side}'
    noise = numpy.random.default_rng(3)
    for person in range(2):
        for number in range(2):
            path = faces / f'p{person}' / f'{number}.png'
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(noise.integers(0, 256, (side, side, 3), dtype=numpy.uint8)).save(path)
    path = work / f'{name}.json'
    path.write_text(json.dumps({
        'name': name,
        'data': {'type': 'image_folder', 'path': str(faces), 'image': [3, side, side]},
        'model': {**model, 'embedding': 16, 'weights': str(weights)},
        'mesh': {'dp': 2},
        'head': {'classes': 2},
        'train': {'batch': 4, 'steps': 1, 'optimizer': {'type': 'sgd', 'lr': 1e-30}}}))
    return path


for name, (model, side, make) in MODELS.items():
    torch.manual_seed(1)
    theirs = make(torchvision.models)
    torch.save({'epoch': 1, 'state_dict': torch.nn.DataParallel(theirs).state_dict()}, work / 'model.pth')
    weights = work / 'weights.safetensors'
    imported = heddle('import', work / 'model.pth', '--out', weights)
    results = work / 'results' / name
    run = heddle('run', experiment(name, model, side, weights), '--out', results)
    exported = heddle('export', results, '--format', 'safetensors', '--out', work / 'exported')
    report(name, not (imported.returncode or run.returncode or exported.returncode),
           imported.stderr + run.stderr + exported.stderr if run.returncode else '')
    if exported.returncode:
        continue
    ours = load_file(work / 'exported' / 'model.safetensors')
    different = [key for key, value in theirs.state_dict().items()
                 if 'running' not in key and 'num_batches' not in key and not numpy.allclose(ours[key], value.numpy(), rtol=0, atol=1e-25)]
    report(f'{name}: {len(ours)} tensors', not different, str(different[:3]) if different else '')

theirs = torchvision.models.resnet18(num_classes=1000)
torch.save(theirs.state_dict(), work / 'model.pth')
weights = work / 'weights.safetensors'
heddle('import', work / 'model.pth', '--out', weights)
path = experiment('classifier', {'type': 'resnet18'}, 64, weights)
strict = heddle('run', path, '--out', work / 'results' / 'classifier')
report('the classifier of ImageNet is refused', strict.returncode == 2 and 'fc.weight' in strict.stderr, strict.stderr)
loose = heddle('run', path, '--out', work / 'results' / 'classifier', '--set', 'model.weights_strict=false')
report('and left out if the file is not strict', loose.returncode == 0 and 'fc.weight' in loose.stderr, loose.stderr)
sys.exit(failed > 0)
