"""Runs clang-tidy over the project's own sources, as many at a time as there are cores.

    tidy.py BUILD_FOLDER SOURCE_FOLDER

BUILD_FOLDER holds a finished Ninja build: its compile_commands.json and the headers
each object was seen to include. A file found clean is not looked at again until it, one
of its headers in SOURCE_FOLDER, its compile command, .clang-tidy or clang-tidy itself
changes; what was found clean is remembered in BUILD_FOLDER/tidy.

Most of clang-tidy's time goes to headers, so it is shown several sources in one file that
includes them. Where it complains, each of them is looked at by itself, and that counts.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

import batches

TIDY = "clang-tidy"
BATCH = 8
# Headers that GCC has precompiled, which clang-tidy cannot read.
PRECOMPILED = re.compile(r" -Winvalid-pch| -include \S+/cmake_pch\.hxx")
# misc-unused-alias-decls, misc-unused-using-decls and readability-redundant-preprocessor
# look for these in the main file alone.
ASKED_OF_MAIN_FILE = re.compile(r"^\s*(?:namespace \w+ =|using [\w:]+;|#\s*if)", re.M)


def sources_with_commands(build, folder):
    """The project's own sources, without tests, each with its entry."""
    commands = json.loads((build / "compile_commands.json").read_text())
    found = {}
    for entry in commands:
        path = pathlib.Path(entry["file"])
        if path.is_relative_to(folder) and not path.name.endswith("_test.cc"):
            found[path] = {**entry, "command": PRECOMPILED.sub("", entry["command"])}
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


def flags(entry):
    """What a source has in common with those compiled alike."""
    return re.sub(r" -o \S+ -c \S+$", "", entry["command"])


def in_batches(sources, waiting):
    alone = [path for path in waiting if ASKED_OF_MAIN_FILE.search(path.read_text())]
    alike = {}
    for path in sorted(set(waiting) - set(alone)):
        alike.setdefault(flags(sources[path]), []).append(path)
    found = [[path] for path in alone]
    for paths in alike.values():
        found += batches.batches(paths, BATCH)
    return found


def tidy(folder, path):
    """Whether clang-tidy finds nothing, and what it says; `folder` has the compile commands."""
    done = subprocess.run([TIDY, "-p", folder, "--quiet", path], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    # On success stderr holds no more than a count of what was suppressed in system headers.
    return done.returncode == 0, done.stdout + ("" if done.returncode == 0 else done.stderr)


def tidy_batch(folder, batch, together):
    """Each source of the batch with whether it is clean and what was said of it."""
    if len(batch) > 1 and tidy(folder, together)[0]:
        return [(path, True, "") for path in batch]
    return [(path, *tidy(folder, path)) for path in batch]


def main():
    build, folder = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    version = subprocess.run([TIDY, "--version"], check=True, stdout=subprocess.PIPE).stdout
    constant = version + pathlib.Path(".clang-tidy").read_bytes()
    sources = sources_with_commands(build, folder)
    headers = included_headers(build, folder)
    clean = build / "tidy"
    clean.mkdir(exist_ok=True)

    waiting = {}
    for path, entry in sources.items():
        mark = clean / fingerprint(path, entry["command"], headers.get(path, []), constant)
        if not mark.exists():
            waiting[path] = mark

    # The largest first, so that no core is left waiting for one at the end.
    order = sorted(in_batches(sources, waiting),
                   key=lambda batch: -sum(path.stat().st_size for path in batch))
    entries = list(sources.values())
    together = []
    for number, batch in enumerate(order):
        file = clean / f"batch_{number}.cc"
        file.write_text("".join(
            f'#include "{path}"  // NOLINT(bugprone-suspicious-include)\n' for path in batch))
        together.append(file)
        entry = sources[batch[0]]
        entries.append({"directory": entry["directory"], "file": str(file),
                        "command": f"{flags(entry)} -c {file}"})
    (clean / "compile_commands.json").write_text(json.dumps(entries))

    faults = 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for looked_at in pool.map(lambda b, t: tidy_batch(clean, b, t), order, together):
            for path, is_clean, output in looked_at:
                if is_clean:
                    waiting[path].touch()
                else:
                    faults += 1
                    print(output, flush=True)
    print(f"      {len(sources)} files, {len(waiting)} of them new or changed, {faults} with faults")
    return 1 if faults else 0


sys.exit(main())
