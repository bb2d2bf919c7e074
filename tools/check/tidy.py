"""Runs clang-tidy over the project's own sources, as many at a time as there are cores.

    tidy.py BUILD_FOLDER SOURCE_FOLDER

BUILD_FOLDER holds a finished Ninja build: its compile_commands.json and the headers
each object was seen to include. A file found clean is not looked at again until it, one
of its headers in SOURCE_FOLDER, its compile command, .clang-tidy or clang-tidy itself
changes; what was found clean is remembered in BUILD_FOLDER/tidy.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import subprocess
import sys

TIDY = "clang-tidy"


def sources_with_commands(build, folder):
    """The project's own sources, without tests, each with its compile command."""
    commands = json.loads((build / "compile_commands.json").read_text())
    found = {}
    for entry in commands:
        path = pathlib.Path(entry["file"])
        if path.is_relative_to(folder) and not path.name.endswith("_test.cc"):
            found[path] = entry["command"]
    return found


def included_headers(build, folder):
    """What each source of `folder` includes of it, as Ninja recorded when compiling."""
    listing = subprocess.run(["ninja", "-C", build, "-t", "deps"], check=True, text=True,
                             stdout=subprocess.PIPE).stdout
    headers = {}
    for block in listing.split("\n\n"):
        # "OBJECT: #deps N, ...", then the source and its headers, one a line.
        paths = [(build / line.strip()).resolve() for line in block.splitlines()[1:]]
        if paths:
            headers[paths[0]] = sorted({p for p in paths if p.is_relative_to(folder)})
    return headers


def fingerprint(path, command, headers, constant):
    digest = hashlib.sha256(constant)
    digest.update(command.encode())
    for part in [path, *headers]:
        digest.update(part.read_bytes())
    return digest.hexdigest()


def tidy(build, path):
    done = subprocess.run([TIDY, "-p", build, "--quiet", path], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    # On success stderr holds no more than a count of what was suppressed in system headers.
    return done.returncode == 0, done.stdout + ("" if done.returncode == 0 else done.stderr)


def main():
    build, folder = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    version = subprocess.run([TIDY, "--version"], check=True, stdout=subprocess.PIPE).stdout
    constant = version + pathlib.Path(".clang-tidy").read_bytes()
    sources = sources_with_commands(build, folder)
    headers = included_headers(build, folder)
    clean = build / "tidy"
    clean.mkdir(exist_ok=True)

    waiting = {}
    for path, command in sources.items():
        mark = clean / fingerprint(path, command, headers.get(path, []), constant)
        if not mark.exists():
            waiting[path] = mark

    faults = 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        # The largest first, so that no core is left waiting for one at the end.
        order = sorted(waiting, key=lambda path: -path.stat().st_size)
        for path, (is_clean, output) in zip(order, pool.map(lambda p: tidy(build, p), order)):
            if is_clean:
                waiting[path].touch()
            else:
                faults += 1
                print(output, flush=True)
    print(f"      {len(sources)} files, {len(waiting)} of them new or changed, {faults} with faults")
    return 1 if faults else 0


sys.exit(main())
