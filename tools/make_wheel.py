#!/usr/bin/env python3
"""make_wheel.py - packs python/weft and a library into a wheel.

    tools/make_wheel.py LIBRARY LICENSES OUT      (tools/wheel.sh makes the library; LICENSES has those of what is linked in)

The tag py3-none-manylinux_2_N: any Python, and the newest symbol of glibc that the library asks for. A library that
needs another one than glibc's, or exports a name that is not of weft.h, is refused.
"""
import base64
import hashlib
import os
import platform
import re
import subprocess
import sys
import time
import zipfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
GLIBC = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


def output(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, universal_newlines=True).stdout


def tag(library):
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", library))) - GLIBC
    if needed:
        sys.exit(f"{library}: needs {', '.join(sorted(needed))}; expected only glibc; link them statically (tools/wheel.sh)")
    exported = [line.split()[-1] for line in output("nm", "-D", "--defined-only", library).splitlines()]
    strange = [name for name in exported if not name.startswith("weft_")]
    if strange:
        sys.exit(f"{library}: exports {', '.join(strange[:5])}; expected only names of weft.h")
    newest = max(tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_(\d+\.\d+)", output("objdump", "-T", library)))
    return f"py3-none-manylinux_{newest[0]}_{newest[1]}_{platform.machine()}"


def metadata(version):
    with open(os.path.join(ROOT, "docs", "PYTHON.md")) as f:
        text = re.sub(r"\[([^]]*)\]\((?!https?:)[^)]*\)", r"\1", f.read())  # other pages are not on a package index
    with open(os.path.join(ROOT, "LICENSE")) as f:
        license_name = f.readline().strip()
    return f"""Metadata-Version: 2.1
Name: weft
Version: {version}
Summary: Transformers on CPUs: generate, chat, embed, classify, train, explain
License: {license_name}
Requires-Python: >=3.8
Provides-Extra: numpy
Requires-Dist: numpy; extra == 'numpy'
Classifier: Operating System :: POSIX :: Linux
Classifier: Typing :: Typed
Description-Content-Type: text/markdown

{text}"""


def main(library, licenses, out):
    with open(os.path.join(ROOT, "include", "weft.h")) as f:
        version = re.search(r'#define WEFT_VERSION\s+"(.*)"', f.read()).group(1)
    name = tag(library)
    package = os.path.join(ROOT, "python", "weft")
    files = {f"weft/{n}": open(os.path.join(package, n), "rb").read() for n in os.listdir(package) if n.endswith((".py", ".typed"))}
    files["weft/libweft.so.1"] = open(library, "rb").read()
    info = f"weft-{version}.dist-info"
    files[f"{info}/METADATA"] = metadata(version).encode()
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: weft\nRoot-Is-Purelib: false\nTag: {name}\n".encode()
    files[f"{info}/licenses/LICENSE"] = open(os.path.join(ROOT, "LICENSE"), "rb").read()
    for n in os.listdir(licenses):
        files[f"{info}/licenses/{n}"] = open(os.path.join(licenses, n), "rb").read()
    record = [f"{path},sha256={digest(data)},{len(data)}" for path, data in sorted(files.items())]
    files[f"{info}/RECORD"] = ("\n".join(record + [f"{info}/RECORD,,"]) + "\n").encode()
    date = time.gmtime(max(315532800, int(os.environ.get("SOURCE_DATE_EPOCH", 0))))[:6]
    os.makedirs(out, exist_ok=True)
    path = os.path.join(out, f"weft-{version}-{name}.whl")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data in sorted(files.items(), key=lambda item: (".dist-info" in item[0], item[0])):
            entry = zipfile.ZipInfo(name, date)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            wheel.writestr(entry, data)
    print(f"{path} ({os.path.getsize(path)} bytes)")


def digest(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


if __name__ == "__main__":
    if len(sys.argv) != 4:
        print(__doc__.strip())
        sys.exit(2)
    main(*sys.argv[1:])
