#!/usr/bin/env python3
"""Writes small images of each kind that the decoders read, as other programs write them.

usage: make_images.py FOLDER

Made with Python 3.11.7, pillow 13.0.0 and pypng 0.20220715.0.
"""

import pathlib
import sys

import png
from PIL import Image

HEIGHT, WIDTH = 9, 13


def pixel(x, y, channel):
    return (x * 19 + y * 27 + channel * 80) % 256


def image(mode):
    channels = len(Image.new(mode, (1, 1)).getbands())
    data = bytes(pixel(x, y, c) for y in range(HEIGHT) for x in range(WIDTH) for c in range(channels))
    return Image.frombytes(mode, (WIDTH, HEIGHT), data)


def write_png(path, values, **kind):
    with open(path, 'wb') as file:
        png.Writer(WIDTH, HEIGHT, **kind).write(file, values)


def main():
    folder = pathlib.Path(sys.argv[1])
    gray, rgb, cmyk = image('L'), image('RGB'), image('CMYK')
    exif = Image.Exif()
    exif[0x0112] = 6  # turned
    gray.save(folder / 'gray.jpg', quality=80)
    rgb.save(folder / 'baseline.jpg', quality=80, subsampling=2, exif=exif)
    rgb.save(folder / 'restarts.jpg', quality=90, subsampling=0, restart_marker_blocks=1)
    rgb.save(folder / 'progressive.jpg', quality=80, progressive=True)
    cmyk.save(folder / 'cmyk.jpg', quality=80)
    rgb.save(folder / 'rgb.png', exif=exif)
    image('RGBA').save(folder / 'rgba.png')
    rgb.quantize(7).save(folder / 'palette.png', transparency=2)
    for depth in (1, 2, 4, 16):
        values = [[pixel(x, y, 0) * (257 if depth == 16 else 1) >> max(0, 8 - depth) for x in range(WIDTH)]
                  for y in range(HEIGHT)]
        write_png(folder / f'gray{depth}.png', values, greyscale=True, bitdepth=depth)
    write_png(folder / 'interlaced.png', [[pixel(x, y, c) for x in range(WIDTH) for c in range(3)]
                                          for y in range(HEIGHT)], greyscale=False, interlace=True)
    gray.save(folder / 'binary.pgm')
    rgb.save(folder / 'binary.ppm')
    for name, magic, channels in (('text.pgm', 'P2', 1), ('text.ppm', 'P3', 3)):
        rows = (' '.join(str(pixel(x, y, c)) for x in range(WIDTH) for c in range(channels)) for y in range(HEIGHT))
        (folder / name).write_text(f'{magic}\n# a comment\n{WIDTH} {HEIGHT}\n255\n' + '\n'.join(rows) + '\n')


main()
