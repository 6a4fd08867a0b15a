"""The checks of the tests that are scripts of Python, and calls of the program."""

import pathlib
import subprocess
import sys

passed = failed = 0
_PROGRAM = pathlib.Path('heddle').resolve()


def check(what, is_right, detail=''):
    global passed, failed
    passed += bool(is_right)
    failed += not is_right
    if not is_right:
        print(f'FAILED: {what}: {detail}' if detail != '' else f'FAILED: {what}', flush=True)


def difference(ours, theirs):
    """The largest difference of two arrays, relative to the largest element."""
    return float(abs(ours - theirs).max() / abs(ours).max())


def heddle(*arguments):
    """What the program prints; ends the test if it fails."""
    words = [str(word) for word in arguments]
    called = subprocess.run([_PROGRAM, *words], capture_output=True, text=True)
    if called.returncode:
        sys.exit(f'heddle {" ".join(words)}: exit code {called.returncode}\n{called.stderr}')
    return called.stdout


def error_of(*arguments):
    """What the program says when it refuses its input."""
    called = subprocess.run([_PROGRAM, *map(str, arguments)], capture_output=True, text=True)
    check(f'exit code of {arguments[0]}', called.returncode == 2, called.returncode)
    return called.stderr


def finish():
    print(f'{passed} passed, {failed} failed')
    sys.exit(failed > 0)
