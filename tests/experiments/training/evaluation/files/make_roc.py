#!/usr/bin/env python3
"""Writes roc.txt: squared distances of pairs, and the curves that scikit-learn makes of their negatives.

usage: python3 make_roc.py > roc.txt    with scikit-learn 1.9.1 and numpy 2.4.6; the file then changes only with them
"""

import numpy as np
from sklearn.metrics import auc, roc_curve


def draw(name, genuine, impostors, digits):
    """Distances that overlap; `digits` makes equal ones, also of both kinds."""
    random = np.random.default_rng(len(name))
    distance = np.concatenate([random.normal(1.0, 0.35, genuine), random.normal(1.6, 0.3, impostors)])
    same = np.concatenate([np.ones(genuine, int), np.zeros(impostors, int)])
    order = random.permutation(len(same))
    return np.round(np.clip(distance, 0, 4)[order], digits), same[order]


def write(name, distance, same):
    print("set", name)
    for d, s in zip(distance, same):
        print("pair", repr(float(d)), s)
    for points, drops in (("all", False), ("corners", True)):
        far, tar, score = roc_curve(same, -distance, drop_intermediate=drops)
        for f, t, s in zip(far, tar, score):
            print(points, repr(float(-s)), repr(float(f)), repr(float(t)))
        if not drops:
            print("area", repr(float(auc(far, tar))))


write("distinct", *draw("distinct", 60, 60, 15))
write("ties", *draw("ties", 70, 40, 1))
write("few genuine", *draw("few genuine", 3, 120, 2))
write("one each", np.array([1.5, 0.5]), np.array([1, 0]))
write("all equal", np.array([1.0, 1.0, 1.0]), np.array([1, 0, 0]))
