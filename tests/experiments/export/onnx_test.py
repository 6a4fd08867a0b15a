"""Compares exported models in other programs with `heddle embed`.

usage: onnx_test.py FOLDER    an empty folder for its files

Small models of every type are trained for two steps on images of noise, so that batch norms have statistics, and their
embeddings must agree to 1e-5 of the largest element. After two steps their lengths differ by up to a factor of eight, so
that embeddings of unit length are compared after they have been multiplied by the lengths of ours.
"""

import json
import os
import pathlib
import sys

import numpy
import onnxruntime
from PIL import Image
from safetensors.numpy import load_file
from script_checks import check, difference, finish, heddle

try:
    import torch
    import torchvision
except ImportError:
    torch = None

TOLERANCE = 1e-5
work = pathlib.Path(sys.argv[1])
os.chdir(work)

LAYERS = [
    {'type': 'conv2d', 'out': 8, 'bias': True, 'stride': 2},
    {'type': 'gelu'},
    {'type': 'layer_norm'},
    {'type': 'average_pool', 'kernel': 3, 'stride': 2, 'padding': 1},
    {'type': 'conv2d', 'name': 'grouped', 'out': 8, 'groups': 4},
    {'type': 'prelu'},
    {'type': 'add', 'inputs': ['prelu_5', 'average_pool_3']},
    {'type': 'max_pool', 'kernel': 2, 'stride': 2},
    {'type': 'flatten'},
    {'type': 'batch_norm'},
    {'type': 'layer_norm'},
    {'type': 'prelu'},
    {'type': 'dropout', 'probability': 0.2},
    {'type': 'linear', 'out': 24},
    {'type': 'sigmoid'},
    {'type': 'linear', 'out': 16},
    {'type': 'tanh'},
]
ATTENTION = [
    {'type': 'conv2d', 'out': 12, 'kernel': 8, 'stride': 8, 'padding': 0},
    {'type': 'tokens', 'name': 'tokens'},
    {'type': 'position_embedding'},
    {'type': 'linear', 'out': 36},
    {'type': 'attention', 'heads': 3},
    {'type': 'relu6'},
    {'type': 'add', 'inputs': ['relu6_5', 'tokens']},
    {'type': 'flatten'},
    {'type': 'linear', 'out': 16},
]
CLASS_TOKEN = [
    {'type': 'conv2d', 'out': 12, 'kernel': 8, 'stride': 8, 'padding': 0},
    {'type': 'tokens'},
    {'type': 'class_token'},
    {'type': 'position_embedding', 'name': 'positions'},
    {'type': 'linear', 'out': 36},
    {'type': 'attention', 'heads': 3},
    {'type': 'add', 'inputs': ['attention_5', 'positions']},
    {'type': 'first_token'},
    {'type': 'linear', 'out': 16},
]
# Ends with a flattened image, to which a vector is added whose elements are in another order; one layer has the name of
# the output, and another one that of an operator.
FLATTENED = [
    {'type': 'conv2d', 'out': 4, 'kernel': 8, 'stride': 8, 'padding': 0},
    {'type': 'batch_norm', 'name': 'norm', 'activation': 'relu'},
    {'type': 'relu', 'name': 'norm.relu'},
    {'type': 'flatten', 'name': 'embedding'},
    {'type': 'linear', 'out': 64},
    {'type': 'add', 'inputs': ['embedding', 'linear_4']},
    {'type': 'prelu'},
    {'type': 'linear', 'out': 64},
    {'type': 'batch_norm', 'inputs': ['linear_7', 'embedding'], 'activation': 'relu'},
    {'type': 'linear', 'out': 64},
    {'type': 'batch_norm', 'inputs': ['embedding', 'linear_9']},
    {'type': 'linear', 'out': 64},
    {'type': 'batch_norm', 'name': 'slopes', 'inputs': ['embedding'], 'activation': 'prelu'},
    {'type': 'add', 'inputs': ['linear_11', 'slopes']},
    {'type': 'linear', 'name': 'last', 'out': 16},
]
# Sixteen tokens of sixteen channels.
NORMED_TOKENS = [
    {'type': 'conv2d', 'out': 16, 'kernel': 8, 'stride': 8, 'padding': 0},
    {'type': 'tokens'},
    {'type': 'batch_norm', 'activation': 'prelu'},
    {'type': 'linear', 'out': 1},
    {'type': 'flatten'},
]
ONLY_FLATTENED = [
    {'type': 'conv2d', 'out': 4, 'kernel': 16, 'stride': 16, 'padding': 0},
    {'type': 'flatten'},
    {'type': 'batch_norm'},
]
# The configuration of a model, the side of its images, and torchvision's model with the same state dict.
MODELS = {
    'mlp': ({'type': 'mlp', 'hidden': [32], 'embedding': 16, 'embedding_norm': True}, 16, None),
    'resnet18': ({'type': 'resnet18', 'embedding': 16}, 64, lambda m: m.resnet18(num_classes=16)),
    'resnet50': ({'type': 'resnet50', 'embedding': 16}, 64, lambda m: m.resnet50(num_classes=16)),
    'resnext': ({'type': 'resnext', 'embedding': 16}, 64, lambda m: m.resnext50_32x4d(num_classes=16)),
    'vgg11': ({'type': 'vgg11', 'embedding': 16, 'hidden': [64, 64]}, 64, None),
    'vgg11_bn': ({'type': 'vgg11', 'embedding': 16, 'norms': True}, 224,
                 lambda m: m.vgg11_bn(num_classes=16)),
    'iresnet18': ({'type': 'iresnet18', 'embedding': 16, 'dropout': 0.4}, 32, lambda m: iresnet18(16, 32)),
    'mobilefacenet': ({'type': 'mobilefacenet', 'embedding': 16}, 112, None),
    'layers': ({'type': 'layers', 'layers': LAYERS}, 32, None),
    'vit': ({'type': 'vit', 'features': 32, 'blocks': 2, 'heads': 4, 'patch': 5, 'qkv_bias': True, 'embedding': 16},
            32, None),
    'masked_vit': ({'type': 'vit', 'features': 32, 'blocks': 2, 'heads': 4, 'patch': 5, 'mask_ratio': 0.3,
                    'embedding': 16}, 32, None),
    'vit_with_class_token': ({'type': 'vit', 'features': 32, 'blocks': 2, 'heads': 4, 'patch': 5, 'mask_ratio': 0.3,
                              'class_token': True, 'embedding': 16}, 32, None),
    'vit_b_16': ({'type': 'vit_b_16', 'embedding': 16}, 32, lambda m: m.vit_b_16(num_classes=16, image_size=32)),
    'attention': ({'type': 'layers', 'layers': ATTENTION}, 32, None),
    'flattened': ({'type': 'layers', 'layers': FLATTENED}, 32, None),
    'only_flattened': ({'type': 'layers', 'layers': ONLY_FLATTENED}, 32, None),
    'normed_tokens': ({'type': 'layers', 'layers': NORMED_TOKENS}, 32, None),
    'class_token': ({'type': 'layers', 'layers': CLASS_TOKEN}, 32, None),
}


def iresnet18(embedding, side):
    """InsightFace's network, by its description (Duta et al. 2020) and the names of its state dict."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, inside, out, stride):
            super().__init__()
            self.bn1 = nn.BatchNorm2d(inside)
            self.conv1 = nn.Conv2d(inside, out, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(out)
            self.prelu = nn.PReLU(out)
            self.conv2 = nn.Conv2d(out, out, 3, stride, 1, bias=False)
            self.bn3 = nn.BatchNorm2d(out)
            self.downsample = None
            if stride != 1 or inside != out:
                self.downsample = nn.Sequential(nn.Conv2d(inside, out, 1, stride, bias=False), nn.BatchNorm2d(out))

        def forward(self, x):
            y = self.conv2(self.prelu(self.bn2(self.conv1(self.bn1(x)))))
            return self.bn3(y) + (x if self.downsample is None else self.downsample(x))

    model = nn.Sequential()
    model.add_module('conv1', nn.Conv2d(3, 64, 3, 1, 1, bias=False))
    model.add_module('bn1', nn.BatchNorm2d(64))
    model.add_module('prelu', nn.PReLU(64))
    inside = 64
    for stage, out in enumerate((64, 128, 256, 512), 1):
        model.add_module(f'layer{stage}', nn.Sequential(Block(inside, out, 2), Block(out, out, 1)))
        inside = out
    model.add_module('bn2', nn.BatchNorm2d(512))
    model.add_module('flatten', nn.Flatten())
    model.add_module('dropout', nn.Dropout(0.4))
    model.add_module('fc', nn.Linear(512 * (side // 16) ** 2, embedding))
    model.add_module('features', nn.BatchNorm1d(embedding))
    return model


def make_images(side):
    folder = work / f'images_{side}'
    noise = numpy.random.default_rng(1)
    for person in 'abcd':
        (folder / person).mkdir(parents=True, exist_ok=True)
        for number in range(4):
            pixels = noise.integers(0, 256, (side, side, 3), dtype=numpy.uint8)
            Image.fromarray(pixels).save(folder / person / f'{number}.png')
    return folder


def pixels_of(listing):
    """[n, 3, side, side] from 0 to 255."""
    images = [numpy.asarray(Image.open(path), dtype=numpy.float32) for path in listing.read_text().splitlines()]
    return numpy.stack(images).transpose(0, 3, 1, 2).copy()


def in_onnxruntime(file, images):
    session = onnxruntime.InferenceSession(str(file), providers=['CPUExecutionProvider'])
    return session.run(['embedding'], {'input': images})[0]


def test_model(name, model, side, make_torch):
    images = make_images(side)
    experiment = {
        'name': name, 'threads': 1, 'mesh': {'dp': 2},
        'data': {'type': 'image_folder', 'path': str(images), 'image': [3, side, side], 'train_per_identity': 3,
                 'preprocessing': {'mean': [0.4, 0.5, 0.6], 'scale': [2, 3, 4], 'colour': 'bgr'}},
        'model': model, 'head': {'classes': 4}, 'train': {'batch': 8, 'steps': 2, 'optimizer': {'lr': 0.01}},
        'evaluation': {},
    }
    (work / f'{name}.json').write_text(json.dumps(experiment))
    heddle('run', f'{name}.json')
    results = f'results/{name}'
    heddle('embed', results, images, '--out', f'{name}.npy')
    heddle('export', results, '--format', 'onnx', '--out', f'{name}.onnx')
    heddle('export', results, '--format', 'onnx', '--out', f'{name}_pixels.onnx', '--preprocessing', '--normalize')
    heddle('export', results, '--format', 'safetensors', '--out', name, '--with-head')

    ours = numpy.load(work / f'{name}.npy')
    pixels = pixels_of(work / f'{name}.txt')
    mean = 255 * numpy.array([0.4, 0.5, 0.6], dtype=numpy.float32).reshape(1, 3, 1, 1)
    scale = numpy.array([2, 3, 4], dtype=numpy.float32).reshape(1, 3, 1, 1) / 255
    inputs = (pixels[:, ::-1] - mean) * scale
    check(f'{name}: shape', ours.shape == (16, 16), ours.shape)
    apart = difference(ours, in_onnxruntime(work / f'{name}.onnx', inputs))
    print(f'{name}: onnxruntime differs by {apart:.1e}')
    check(f'{name}: onnxruntime gives the same', apart < TOLERANCE, apart)
    unit = in_onnxruntime(work / f'{name}_pixels.onnx', pixels)
    lengths = numpy.linalg.norm(unit, axis=1)
    check(f'{name}: onnxruntime gives unit length', abs(lengths - 1).max() < 1e-6, lengths)
    apart = difference(ours, unit * numpy.linalg.norm(ours, axis=1, keepdims=True))
    check(f'{name}: onnxruntime gives the same from pixels, with unit length', apart < TOLERANCE, apart)

    state = load_file(work / name / 'model.safetensors')
    head = state.pop('head.weight')
    check(f'{name}: the head', head.shape == (4, 16), head.shape)
    if torch is None or make_torch is None:
        return
    torch_model = make_torch(torchvision.models)
    torch_model.load_state_dict({key: torch.from_numpy(value.copy()) for key, value in state.items()}, strict=True)
    with torch.no_grad():
        apart = difference(ours, torch_model.eval()(torch.from_numpy(inputs.copy())).numpy())
    print(f'{name}: torchvision differs by {apart:.1e}')
    check(f'{name}: torchvision gives the same', apart < TOLERANCE, apart)


for model_name, arguments in MODELS.items():
    test_model(model_name, *arguments)
if torch is None:
    print('not run: torchvision: there is no torch')
finish()
