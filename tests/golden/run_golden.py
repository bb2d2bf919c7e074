"""Runs what the documentation shows, and compares it with what the program prints.

    run_golden.py docs [--update] [FILE...]    console blocks of README.md and docs/**/*.md
    run_golden.py cases [--update] [FILE...]   tests/golden/cases/*.txt, mostly errors

with --program PATH for the program to run (build/run/orrery unless given). README.md
beside this file tells how both are written. --update writes what the program prints
into the files. Exits with 1 when something differs.
"""

import argparse
import difflib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
LEFT_OUT = "…"
SECONDS = 60


def lines_of(text):
    return text.split("\n")[:-1] if text.endswith("\n") else text.split("\n")


def matches(expected, actual):
    """Whether `actual` is `expected`, where a line `…` stands for any lines left out."""
    if LEFT_OUT not in (line.strip() for line in expected):
        return expected == actual
    pattern = "".join(
        r"(?:.*\n)*?" if line.strip() == LEFT_OUT else re.escape(line) + r"\n"
        for line in expected)
    return re.fullmatch(pattern, "".join(line + "\n" for line in actual)) is not None


def shortened(expected, actual):
    """`actual`, with the one `…` of `expected` as many lines from its start and its end."""
    elided = [i for i, line in enumerate(expected) if line.strip() == LEFT_OUT]
    if len(elided) != 1:
        return actual
    first, last = elided[0], len(expected) - elided[0] - 1
    if len(actual) <= first + last:
        return actual
    return actual[:first] + [expected[first]] + actual[len(actual) - last:]


def difference(expected, actual):
    return "\n".join("    " + line for line in difflib.unified_diff(
        expected, actual, "expected", "printed", lineterm="", n=2))


class Runner:
    """Runs shell commands at the root of the project, with the program first in $PATH."""

    def __init__(self, program, python_path):
        self.folder = tempfile.TemporaryDirectory()
        os.symlink(program, pathlib.Path(self.folder.name) / "orrery")
        self.python_path = python_path
        self.environment = {
            **os.environ,
            "PATH": self.folder.name + os.pathsep + os.environ["PATH"],
            "PYTHONPATH": python_path or "",
            "PYTHONDONTWRITEBYTECODE": "1",
            "LC_ALL": "C.UTF-8",
            "COLUMNS": "100",
        }
        self.environment.pop("ORRERY_DATA", None)

    def runs(self, command):
        """Whether this is for us to run: the program, or Python where it was built."""
        first = command.split()[0] if command.split() else ""
        return first in ("orrery", "./run") or (first == "python3" and bool(self.python_path))

    def run(self, command, merged):
        command = re.sub(r"(^|[|;&(]\s*)\./run(?=\s|$)", r"\1orrery", command)
        return subprocess.run(
            ["bash", "-c", command], cwd=ROOT, env=self.environment, timeout=SECONDS,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merged else subprocess.PIPE, encoding="utf-8")


class Tally:
    def __init__(self, update):
        self.update = update
        self.passed = self.failed = self.updated = self.not_run = 0

    def judge(self, where, command, expected, actual):
        """What the file should hold: `expected`, or what was printed where it is to be updated."""
        if matches(expected, actual):
            self.passed += 1
            return expected
        if self.update:
            self.updated += 1
            return shortened(expected, actual)
        self.failed += 1
        print(f"{where}: {command}\n{difference(expected, actual)}")
        return expected

    def finish(self):
        print(f"{self.passed} as written, {self.failed} differ, {self.updated} updated, "
              f"{self.not_run} not run")
        return 1 if self.failed else 0


def console_commands(lines, start):
    """(line number, command, first and last line of its output) in a block at `start`.

    A command may go on over lines that end in a backslash.
    """
    at = start
    commands = []
    while at < len(lines) and not lines[at].startswith("```"):
        if lines[at].startswith("$ "):
            first = at
            command = lines[at][2:]
            while command.endswith("\\"):
                at += 1
                command = command[:-1] + lines[at].lstrip()
            output = at + 1
            while not (lines[output].startswith("```") or lines[output].startswith("$ ")):
                output += 1
            commands.append((first + 1, command, at + 1, output))
            at = output
        else:
            at += 1
    if at == len(lines):
        raise SystemExit(f"line {start}: a console block that does not end")
    return commands, at


def check_document(path, runner, tally):
    lines = lines_of(path.read_text(encoding="utf-8"))
    written = []
    copied = 0
    at = 0
    while at < len(lines):
        if lines[at].strip() != "```console":
            at += 1
            continue
        commands, at = console_commands(lines, at + 1)
        for number, command, first, last in commands:
            written += lines[copied:first]
            copied = last
            expected = lines[first:last]
            where = f"{os.path.relpath(path, ROOT)}:{number}"
            if not runner.runs(command):
                print(f"{where}: not run: {command}")
                tally.not_run += 1
                written += expected
                continue
            actual = lines_of(runner.run(command, merged=True).stdout)
            if actual == [""]:
                actual = []
            written += tally.judge(where, command, expected, actual)
        at += 1
    written += lines[copied:]
    if tally.update and written != lines:
        path.write_text("\n".join(written) + "\n", encoding="utf-8")


def case_parts(text):
    """The comment, the command, the exit code, and what goes to stdout and to stderr."""
    match = re.fullmatch(
        r"((?:#.*\n)*)\$ (.*)\nexit (\d+)\n--- stdout\n((?:.*\n)*?)--- stderr\n((?:.*\n)*)", text)
    if match is None:
        raise SystemExit("expected: # comments, '$ COMMAND', 'exit N', '--- stdout', '--- stderr'")
    return match.groups()


def check_case(path, runner, tally):
    text = path.read_text(encoding="utf-8")
    comment, command, _, _, _ = case_parts(text)
    done = runner.run(command, merged=False)
    actual = (f"{comment}$ {command}\nexit {done.returncode}\n"
              f"--- stdout\n{done.stdout}--- stderr\n{done.stderr}")
    wanted = tally.judge(os.path.relpath(path, ROOT), command, lines_of(text), lines_of(actual))
    if tally.update and wanted != lines_of(text):
        path.write_text("\n".join(wanted) + "\n", encoding="utf-8")


def main():
    arguments = argparse.ArgumentParser(description=__doc__,
                                        formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("what", choices=["docs", "cases"])
    arguments.add_argument("files", nargs="*", type=pathlib.Path)
    arguments.add_argument("--program", type=pathlib.Path, default=ROOT / "build/run/orrery")
    arguments.add_argument("--python-path", help="where the Python package lies")
    arguments.add_argument("--update", action="store_true")
    given = arguments.parse_intermixed_args()
    if shutil.which(given.program) is None:
        raise SystemExit(f"no program at {given.program}; build it with ./run --version")

    runner = Runner(given.program.resolve(), given.python_path)
    tally = Tally(given.update)
    if given.what == "docs":
        files = [file.resolve() for file in given.files] or [
            *ROOT.glob("README.md"), *sorted(ROOT.glob("docs/**/*.md")),
            *sorted(ROOT.glob("examples/*.md"))]
        for path in files:
            check_document(path, runner, tally)
    else:
        files = [file.resolve() for file in given.files] or sorted(
            (ROOT / "tests/golden/cases").glob("*.txt"))
        for path in files:
            check_case(path, runner, tally)
    if not tally.passed + tally.failed + tally.updated:
        raise SystemExit("nothing was run")
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
