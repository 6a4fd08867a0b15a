"""Walks from photographs to exported models, a search, a larger head and a comparison.

usage: walk_test.py FOLDER [FACES [EXPERIMENT]]    an empty folder for its files; one folder of photographs per person; an
                                                   experiment file with grey images, of which mesh, threads, model, head,
                                                   train and augmentation are taken, but no variants

A network is trained on all people but ten. Its embeddings must be the same in onnxruntime, PyTorch and `heddle embed`;
a search must find the ten people, of whom it has never seen a photograph; then they are added to its head, and both runs
are compared on a page.
"""

import collections
import json
import pathlib
import re
import shutil
import sys

import numpy
import onnxruntime
from PIL import Image
from safetensors.numpy import load_file
from script_checks import check, difference, finish, heddle

try:
    import torch
except ImportError:
    torch = None

TOLERANCE = 1e-5
NEW_PEOPLE = 10
MIN_PEOPLE = 20
MIN_PHOTOGRAPHS = 4
MIN_FOUND = 0.9  # of the photographs of people who were not trained
MORE_STEPS = 1.4  # as a factor: to learn the people who are added
FEATURES = 64
CHANNELS = (32, 64, 128)
work = pathlib.Path(sys.argv[1])


def small_network():
    layers = []
    for i, channels in enumerate(CHANNELS, 1):
        layers += [{'type': 'conv2d', 'name': f'conv{i}', 'out': channels, 'stride': 2},
                   {'type': 'batch_norm', 'name': f'norm{i}', 'activation': 'relu'}]
    layers += [{'type': 'flatten'}, {'type': 'linear', 'name': 'fc', 'out': FEATURES},
               {'type': 'batch_norm', 'name': 'features'}]
    return {
        'threads': 1,
        'data': {'image': [1, 56, 48], 'augmentation': {'flip': 0.5, 'shift': 3, 'brightness': 0.2, 'contrast': 0.2}},
        'model': {'type': 'layers', 'layers': layers},
        'head': {'margin': {'m2': 0.3, 'scale': 16}},
        'train': {'batch': 40, 'steps': 200,
                  'optimizer': {'type': 'sgd', 'lr': 0.05, 'momentum': 0.9, 'weight_decay': 0.0005},
                  'schedule': {'type': 'polynomial', 'warm_up': 20}},
    }


is_small_network = len(sys.argv) < 4
settings = small_network() if is_small_network else json.loads(pathlib.Path(sys.argv[3]).read_text())
channels_of_images, HEIGHT, WIDTH = settings['data']['image']
if channels_of_images != 1:
    sys.exit(f'{sys.argv[3]}: expected images of one channel, got {channels_of_images}')


def draw_faces():
    """Grey images of 30 people: smooth patterns that are moved, lit and disturbed in each photograph."""
    random = numpy.random.default_rng(1)
    border = 4
    for person in range(30):
        coarse = Image.fromarray(random.integers(0, 256, (7, 6), dtype=numpy.uint8))
        pattern = numpy.asarray(coarse.resize((WIDTH + 2 * border, HEIGHT + 2 * border), Image.Resampling.BICUBIC), float)
        folder = work / 'drawn' / f'person{person}'
        folder.mkdir(parents=True)
        for photograph in range(8):
            y, x = random.integers(0, 2 * border + 1, 2)
            pixels = pattern[y:y + HEIGHT, x:x + WIDTH] * random.uniform(0.6, 1) + random.uniform(-30, 60)
            pixels += random.normal(0, 15, pixels.shape)
            Image.fromarray(pixels.clip(0, 255).astype(numpy.uint8)).save(folder / f'{photograph}.png')
    return work / 'drawn'


def people_in(faces):
    """The folders of people with their photographs, in the order of their names."""
    people = {}
    for folder in sorted(path for path in faces.iterdir() if path.is_dir()):
        photographs = sorted(path for path in folder.iterdir() if path.suffix in ('.pgm', '.ppm', '.png', '.jpg', '.jpeg'))
        if len(photographs) >= MIN_PHOTOGRAPHS:
            people[folder.name] = photographs
    if len(people) < MIN_PEOPLE:
        sys.exit(f'{faces}: expected at least {MIN_PEOPLE} folders of {MIN_PHOTOGRAPHS} photographs, found {len(people)}')
    return people


def copy_photographs(people, folder):
    for name, photographs in people.items():
        (folder / name).mkdir(parents=True)
        for path in photographs:
            shutil.copy(path, folder / name)
    return folder


def experiment(people):
    data = {key: settings['data'][key] for key in ('image', 'augmentation') if key in settings['data']}
    chosen = {key: settings[key] for key in ('mesh', 'threads', 'model', 'train') if key in settings}
    return chosen | {
        'name': 'walk', 'seed': 1,
        'data': data | {'type': 'image_folder', 'path': str(work / 'people'), 'split': 'share', 'train_share': 0.75},
        'head': settings['head'] | {'classes': people},
        'evaluation': {'pairs': 1000},
    }


def torch_network():
    nn = torch.nn
    layers = collections.OrderedDict()
    inside, height, width = 1, HEIGHT, WIDTH
    for i, channels in enumerate(CHANNELS, 1):
        layers[f'conv{i}'] = nn.Conv2d(inside, channels, 3, 2, 1, bias=False)
        layers[f'norm{i}'] = nn.BatchNorm2d(channels)
        layers[f'relu{i}'] = nn.ReLU()
        inside, height, width = channels, (height + 1) // 2, (width + 1) // 2
    layers['flatten'] = nn.Flatten()
    layers['fc'] = nn.Linear(inside * height * width, FEATURES)
    layers['features'] = nn.BatchNorm1d(FEATURES)
    return nn.Sequential(layers).eval()


def evaluated(results):
    return json.loads((results / 'summary.json').read_text())['variants'][0]['evaluation']


def check_rows(results, name, head, names):
    """The row of a person in the head is the nearest one to the photographs of that person which were trained."""
    heddle('embed', results, work / 'people', '--out', work / f'{name}_people.npy')
    embeddings = numpy.load(work / f'{name}_people.npy')
    rows = head / numpy.linalg.norm(head, axis=1, keepdims=True)
    nearest = (embeddings @ rows.T).argmax(axis=1)
    paths = (work / f'{name}_people.txt').read_text().splitlines()
    right = sum(names[str(row)] == pathlib.Path(path).parent.name for row, path in zip(nearest, paths))
    check(f'{name}: the names are those of the rows', right >= MIN_FOUND * len(paths), f'{right} of {len(paths)}')


def export(results, name, people):
    """The models of a checkpoint; returns the state dict of its backbone."""
    heddle('export', results, '--format', 'onnx', '--out', work / f'{name}.onnx')
    heddle('export', results, '--format', 'safetensors', '--out', work / name, '--with-head')
    state = load_file(work / name / 'model.safetensors')
    head = state.pop('head.weight')
    check(f'{name}: the head has the weights of all people', head.shape[0] == len(people), head.shape)
    config = json.loads((work / name / 'config.json').read_text())
    check(f'{name}: config.json has the people', sorted(config['id2label'].values()) == sorted(people) and
          all(config['label2id'][person] == int(i) for i, person in config['id2label'].items()), config.get('id2label'))
    check_rows(results, name, head, config['id2label'])
    return state


def compare_embeddings(results, name, state, images):
    heddle('embed', results, images, '--out', work / f'{name}.npy')
    ours = numpy.load(work / f'{name}.npy')
    photographs = [Image.open(path).convert('L') for path in (work / f'{name}.txt').read_text().splitlines()]
    if any(photograph.size != (WIDTH, HEIGHT) for photograph in photographs):
        sys.exit('the photographs that are embedded must have the size of the network')
    pixels = numpy.stack([numpy.asarray(photograph, numpy.float32) for photograph in photographs])[:, None]
    inputs = (pixels / 255 - numpy.float32(0.5)) / numpy.float32(0.5)
    session = onnxruntime.InferenceSession(str(work / f'{name}.onnx'), providers=['CPUExecutionProvider'])
    apart = difference(ours, session.run(['embedding'], {'input': inputs})[0])
    print(f'{name}: {len(ours)} embeddings in onnxruntime differ by {apart:.1e}')
    check(f'{name}: onnxruntime gives the same embeddings', apart < TOLERANCE, apart)
    if torch is None or not is_small_network:
        return
    network = torch_network()
    network.load_state_dict({key: torch.from_numpy(value.copy()) for key, value in state.items()}, strict=True)
    with torch.no_grad():
        apart = difference(ours, network(torch.from_numpy(inputs)).numpy())
    print(f'{name}: {len(ours)} embeddings in PyTorch {torch.__version__} differ by {apart:.1e}')
    check(f'{name}: PyTorch gives the same embeddings', apart < TOLERANCE, apart)


def search(results, name, gallery, probes):
    found = json.loads(heddle('search', results, gallery, probes, '--top', 2, '--flip', '--json'))['results']
    right = [result for result in found
             if result['nearest'][0]['person'] == pathlib.Path(result['probe']).parent.name]
    own = numpy.mean([result['nearest'][0]['similarity'] for result in right])
    other = numpy.mean([result['nearest'][1]['similarity'] for result in right])
    matches = sum(result['nearest'][0]['match'] is True for result in right)
    print(f'{name}: finds {len(right)} of {len(found)} photographs, {matches} above the threshold; mean similarity to the '
          f'right person {own:.2f}, to the next one {other:.2f}')
    check(f'{name}: people are found', len(right) >= MIN_FOUND * len(found), f'{len(right)} of {len(found)}')


def main():
    faces = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else draw_faces()
    people = people_in(faces)
    known, new = dict(list(people.items())[:-NEW_PEOPLE]), dict(list(people.items())[-NEW_PEOPLE:])
    folder = copy_photographs(known, work / 'people')
    gallery = copy_photographs({name: paths[::2] for name, paths in new.items()}, work / 'gallery')
    probes = copy_photographs({name: paths[1::2] for name, paths in new.items()}, work / 'probes')
    resized = work / 'resized'  # so that no other program's resizing is compared
    resized.mkdir()
    for path in sorted(probes.rglob('*.*')):
        Image.open(path).convert('L').resize((WIDTH, HEIGHT)).save(resized / f'{path.parent.name}_{path.stem}.png')

    (work / 'walk.json').write_text(json.dumps(experiment(len(known))))
    heddle('run', work / 'walk.json', '--out', work / 'before')
    print(f'before: {len(known)} people are trained, rank-1 accuracy {evaluated(work / "before")["rank1"]:.3f}')
    compare_embeddings(work / 'before', 'before', export(work / 'before', 'before', known), resized)
    search(work / 'before', 'before', gallery, probes)

    copy_photographs(new, folder)
    shutil.copytree(work / 'before', work / 'after')
    heddle('run', work / 'walk.json', '--out', work / 'after', '--resume', '--grow-head', '--set',
           f'head.classes={len(people)}', '--set', f'train.steps={round(MORE_STEPS * settings["train"]["steps"])}')
    rank1 = evaluated(work / 'after')['rank1']
    print(f'after: {len(people)} people are trained, rank-1 accuracy {rank1:.3f}')
    check('after: all people are recognised', rank1 >= MIN_FOUND, rank1)
    compare_embeddings(work / 'after', 'after', export(work / 'after', 'after', people), resized)
    search(work / 'after', 'after', gallery, probes)

    (work / 'compared').mkdir()
    heddle('compare', work / 'before', work / 'after', '--html', work / 'compared' / 'page.html')
    files = list((work / 'compared').iterdir())
    page = files[0].read_text()
    check('the comparison is one file', len(files) == 1, files)
    check('the comparison names both runs', 'before' in page and 'after' in page)
    check('the comparison shows what differs', '/head/classes' in page and '/train/steps' in page)
    check('the comparison needs no network', not re.search(r'(src|href)="(?!#|data:)|https?://(?!www\.w3\.org)', page))
    if torch is None or not is_small_network:
        print('not run: PyTorch:', 'this Python has no torch' if torch is None else 'only the small network is written in it')
    finish()


main()
