#!/usr/bin/env python
"""Writes small verification sets as pickles, by the interpreter that runs it: images that contain every byte, and what
else an escape could break, as strings, bytes, bytearrays and NumPy arrays.

usage: python make_bins.py FOLDER    written by Python 2.7.18 with numpy 1.16.6, by Python 3.8.18 with numpy 1.24.4
                                     (--only-arrays), and by Python 3.11.7 with numpy 2.4.6
"""

import os
import pickle
import sys

import numpy as np

folder = sys.argv[1]
is_old = sys.version_info[0] == 2
every_byte = bytes(bytearray(range(256)))
images = [every_byte, b"", b"\x89PNG\r\n\x1a\n'\"\\\\u0041\\x41", b"\xff\xd8" + every_byte[::-1]]
labels = [True, False]


def write(name, value, protocol):
    interpreter = "py{}_np{}".format(sys.version_info[0], np.__version__.split(".")[0])
    with open(os.path.join(folder, "{}_p{}_{}.bin".format(interpreter, protocol, name)), "wb") as file:
        file.write(pickle.dumps(value, protocol))


arrays = [np.frombuffer(image, np.uint8) for image in images]
only_arrays = "--only-arrays" in sys.argv
for protocol in range(4 if only_arrays else 0, pickle.HIGHEST_PROTOCOL + 1):
    write("array", (arrays, labels), protocol)
    if only_arrays:
        continue
    write("bytes", (images, labels), protocol)
    if protocol in (0, pickle.HIGHEST_PROTOCOL):
        write("numpy_labels", [images, np.array(labels)], protocol)
        write("scalar_labels", (tuple(images), [np.bool_(True), np.int64(0)]), protocol)
    if not is_old and protocol in (2, 5):
        write("bytearray", ([bytearray(image) for image in images], tuple(labels)), protocol)
