"""Does the golden runner tell what differs? Python's own unittest."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import run_golden  # noqa: E402


class Matches(unittest.TestCase):
    def test_whole(self):
        self.assertTrue(run_golden.matches(["a", "b"], ["a", "b"]))
        self.assertFalse(run_golden.matches(["a"], ["a", "b"]))
        self.assertFalse(run_golden.matches(["a "], ["a"]))
        self.assertFalse(run_golden.matches([], ["a"]))

    def test_lines_left_out(self):
        self.assertTrue(run_golden.matches(["a", "…", "d"], ["a", "b", "c", "d"]))
        self.assertTrue(run_golden.matches(["a", "…"], ["a"]))
        self.assertTrue(run_golden.matches(["…"], []))
        self.assertFalse(run_golden.matches(["a", "…", "d"], ["a", "b", "c"]))
        self.assertFalse(run_golden.matches(["a", "…", "d"], ["x", "a", "d"]))

    def test_dots_inside_a_line_are_dots(self):
        self.assertFalse(run_golden.matches(["a … b"], ["a x b"]))
        self.assertFalse(run_golden.matches(["a.b"], ["axb"]))

    def test_an_update_keeps_what_was_left_out(self):
        self.assertEqual(run_golden.shortened(["a", "…", "d"], ["1", "2", "3", "4"]), ["1", "…", "4"])
        self.assertEqual(run_golden.shortened(["a", "…"], ["1", "2"]), ["1", "…"])
        self.assertEqual(run_golden.shortened(["a", "…", "d"], ["1"]), ["1"])


class Documents(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        program = pathlib.Path(self.folder.name) / "program"
        program.write_text("#!/bin/sh\necho said \"$@\"\necho fault >&2\n")
        program.chmod(0o755)
        self.runner = run_golden.Runner(program, None)
        self.addCleanup(self.runner.folder.cleanup)

    def check(self, text, update=False):
        path = pathlib.Path(self.folder.name) / "page.md"
        path.write_text(text)
        tally = run_golden.Tally(update)
        run_golden.check_document(path, self.runner, tally)
        return tally, path.read_text()

    def test_what_it_prints_is_compared(self):
        page = "```console\n$ ./run one \\\n  two\nsaid one two\nfault\n$ orrery x\nsaid x\nfault\n```\n"
        tally, _ = self.check(page)
        self.assertEqual((tally.passed, tally.failed), (2, 0))

    def test_a_difference_fails_and_an_update_mends_it(self):
        page = "before\n```console\n$ orrery one\nsaid two\n```\nafter\n"
        self.assertEqual(self.check(page)[0].failed, 1)
        tally, text = self.check(page, update=True)
        self.assertEqual(tally.updated, 1)
        self.assertEqual(text, "before\n```console\n$ orrery one\nsaid one\nfault\n```\nafter\n")

    def test_other_blocks_and_commands_are_let_be(self):
        tally, _ = self.check("```sh\n$ orrery x\n```\n```console\n$ git clone x\nCloning\n```\n")
        self.assertEqual((tally.passed, tally.failed, tally.not_run), (0, 0, 1))


if __name__ == "__main__":
    unittest.main(verbosity=2)
