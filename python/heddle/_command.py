"""The command `heddle`: the program that was built into this package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

# Debian 12's packages of the libraries that the program is linked with, unless the wheel brings them along.
_PACKAGES = {
    "libcrypto.so": "libssl3",
    "libdnnl.so": "libdnnl2",
    "libfmt.so": "libfmt9",
    "libgomp.so": "libgomp1",
    "libjpeg.so": "libjpeg62-turbo",
    "libonnx_proto.so": "libonnx1",
    "libprotobuf.so": "libprotobuf32",
    "libturbojpeg.so": "libturbojpeg0",
}


def missing_libraries(program: Path) -> list[str]:
    """The libraries that the loader does not find, each with the Debian package that has it."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    names = [line.split()[0] for line in listed.splitlines() if line.endswith("=> not found")]
    packages = {name: _PACKAGES.get(name.partition(".so")[0] + ".so") for name in names}
    return [f"{name} (Debian package {package})" if package else name for name, package in packages.items()]


def main() -> None:
    package = Path(__file__).parent
    program = package / "bin" / "heddle"
    if not program.is_file():
        sys.exit(f"heddle: this package was installed without the program: expected {program}")
    if not package.with_name("heddle.libs").is_dir() and (missing := missing_libraries(program)):
        sys.exit("heddle: these libraries are missing: " + ", ".join(missing))
    os.execv(program, ["heddle", *sys.argv[1:]])
