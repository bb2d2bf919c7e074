"""Does the page that `orrery predict --html` writes work in a real browser?

    report_test.py PROGRAM [-v]

Exits with 77, saying so, where no Chromium is installed. Prints how long the page of a
training step of 30,000 launches takes to load; that decides nothing.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import chromium

HOSTILE = """module {
  func.func public @main(%a: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %0 = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("</script><img src=x onerror=boom()>/<b>bold/dot")
    return %0 : tensor<64x64xf32>
  }
}
"""
TRAINING = ["bert-base", "--on", "h200", "--phase", "train", "--batch", "32", "--seq", "512"]
LARGE = ["llama3-405b", "--on", "h200", "--phase", "train", "--seq", "512", "--stack", "torch-eager"]

program = None


class ReportTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="orrery-report-")
        cls.training, cls.answer = cls.predict("training", TRAINING)
        cls.browser = chromium.Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.__exit__()
        cls.folder.cleanup()

    @classmethod
    def predict(cls, name, arguments):
        """The page's address and the answer as JSON."""
        page = os.path.join(cls.folder.name, name + ".html")
        said = subprocess.run([program, "predict", *arguments, "--html", page, "--json"],
                              check=True, capture_output=True, text=True)
        return pathlib.Path(page).as_uri(), json.loads(said.stdout)

    def open(self, url, **how):
        page = self.browser.open(url, **how)
        self.addCleanup(page.close)
        page.settle()
        return page

    def check_quiet(self, page):
        self.assertEqual(page.complaints(), [])

    def text(self, page, selector):
        return page.value(f"document.querySelector({json.dumps(selector)}).textContent")

    def rows(self, page):
        """The cells of the rows that are drawn."""
        return page.value("[...document.querySelectorAll('#table tbody tr:not(.spacer)')]"
                          ".map((r) => [...r.cells].map((c) => c.textContent))")

    def column(self, page, title):
        titles = page.value("[...document.querySelectorAll('#table th')].map((h) => h.textContent)")
        return titles.index(title)

    def cell(self, name):
        """The icicle's cell with that text, as a script."""
        return (f"[...document.querySelectorAll('#icicle button')]"
                f".find((c) => c.textContent === {json.dumps(name)})")

    def test_loads_without_complaint_in_light_and_dark_and_on_a_phone(self):
        grounds = {}
        for name, how in {"light": {}, "dark": {"theme": "dark"},
                          "phone": {"width": 390, "height": 844, "mobile": True}}.items():
            with self.subTest(name):
                page = self.open(self.training, **how)
                self.check_quiet(page)
                self.assertEqual(page.requests(), [self.training])
                width = page.value("innerWidth")
                self.assertLessEqual(page.value("document.documentElement.scrollWidth"), width)
                self.assertIn("bert-base", self.text(page, "h1"))
                self.assertIn("90 % within", self.text(page, "#headline"))
                self.assertGreater(len(self.rows(page)), 10)
                grounds[name] = page.value("getComputedStyle(document.body).backgroundColor")
        self.assertEqual(grounds["light"], "rgb(255, 255, 255)")
        self.assertEqual(grounds["phone"], grounds["light"])
        self.assertNotEqual(grounds["dark"], grounds["light"])

    def test_the_button_changes_the_theme(self):
        page = self.open(self.training)
        page.click("document.getElementById('theme')")
        page.settle()
        self.assertEqual(page.value("document.documentElement.dataset.theme"), "dark")
        page.click("document.getElementById('theme')")
        self.assertEqual(page.value("document.documentElement.dataset.theme"), "light")
        self.check_quiet(page)

    def test_headline_figures_are_the_answers(self):
        page = self.open(self.training)
        shown = self.text(page, "#headline .figure")
        self.assertAlmostEqual(float(shown.split()[0]), self.answer["latency_s"] * 1e3, delta=0.06)
        self.assertTrue(shown.endswith(" ms"), shown)
        self.assertEqual(page.value("document.querySelectorAll('#gaps li').length"),
                         len(self.answer["gaps"]))
        self.assertTrue(self.text(page, "#trust").startswith(self.answer["trust"]["verdict"]))

    def test_the_table_has_a_row_for_every_launch(self):
        page = self.open(self.training)
        self.assertEqual({row[0] for row in self.rows(page)} - {k["name"] for k in self.answer["kernels"]},
                         set())
        self.assertEqual(self.rows(page)[0][0], self.answer["kernels"][0]["name"])
        page.click("document.getElementById('rows-launches')")
        launches = int(self.answer["launches"])
        self.assertIn(f"{launches:,} launches", self.text(page, "#row-count"))
        self.assertEqual(page.value("document.getElementById('table').getAttribute('aria-rowcount')"),
                         str(launches + 1))
        self.check_quiet(page)

    def test_a_click_on_a_header_sorts(self):
        page = self.open(self.training)
        at = self.column(page, "count")
        counts = lambda: [int(row[at].replace(",", "")) for row in self.rows(page)]
        most = max(k["count"] for k in self.answer["kernels"])
        header = f"document.querySelectorAll('#table th')[{at}].firstChild"
        page.click(header)
        self.assertEqual(counts(), sorted(counts(), reverse=True))
        self.assertEqual(counts()[0], most)
        self.assertEqual(page.value(f"{header}.parentElement.ariaSort"), "descending")
        page.click(header)
        self.assertEqual(counts(), sorted(counts()))
        self.assertEqual(counts()[0], 1)
        name = f"document.querySelectorAll('#table th')[{self.column(page, 'kernel')}].firstChild"
        page.click(name)
        names = [row[0] for row in self.rows(page)]
        self.assertEqual(names, sorted(names))
        self.check_quiet(page)

    def test_words_filter_the_table(self):
        page = self.open(self.training)
        page.write("document.getElementById('filter')", "GEMM compute")
        expected = {k["name"] for k in self.answer["kernels"]
                    if k["kind"] == "gemm" and k["bound"] == "compute"}
        self.assertGreater(len(expected), 1)
        self.assertLess(len(expected), len(self.answer["kernels"]))
        self.assertEqual({row[0] for row in self.rows(page)}, expected)
        page.write("document.getElementById('filter')", " nosuchword")
        self.assertEqual(self.rows(page), [])
        self.assertIn("0 kernels", self.text(page, "#row-count"))
        self.check_quiet(page)

    def test_a_click_on_a_part_zooms_and_the_table_follows(self):
        page = self.open(self.training)
        width = page.value("document.getElementById('icicle').clientWidth")
        before = page.value(f"{self.cell('layer.3')}.getBoundingClientRect().width")
        self.assertLess(before, width / 10)
        page.click(self.cell("layer.3"))
        page.settle()
        self.assertAlmostEqual(page.value(f"{self.cell('layer.3')}.getBoundingClientRect().width"),
                               width, delta=1)
        self.assertEqual(self.text(page, "#way"), "step›encoder›layer.3")
        self.assertIn(" in layer.3", self.text(page, "#row-count"))
        page.click("document.getElementById('rows-launches')")
        part = self.column(page, "part")
        self.assertTrue(all("encoder / layer.3" in row[part] for row in self.rows(page)))
        page.click("document.querySelector('#way button')")
        self.assertEqual(self.text(page, "#way"), "step")
        self.assertIn(f"{int(self.answer['launches']):,} launches", self.text(page, "#row-count"))
        self.check_quiet(page)

    def test_the_icicle_by_operator(self):
        page = self.open(self.training)
        page.click("document.getElementById('by-operator')")
        page.click(self.cell("gemm"))
        page.settle()
        self.assertEqual(self.text(page, "#way"), "step›gemm")
        self.assertEqual({row[0] for row in self.rows(page)},
                         {k["name"] for k in self.answer["kernels"] if k["kind"] == "gemm"})
        self.check_quiet(page)

    def test_points_of_the_roofline_tell_what_they_are(self):
        page = self.open(self.training)
        spot = page.value("""(() => {
            const canvas = document.getElementById("roofline");
            canvas.scrollIntoView({block: "center", behavior: "instant"});
            const {width, height} = canvas;
            const pixels = canvas.getContext("2d").getImageData(0, 0, width, height).data;
            const box = canvas.getBoundingClientRect();
            // A point of a product: #4e79a7 at 75 %.
            for (let y = 0; y < height; ++y)
              for (let x = 0; x < width; ++x) {
                const [red, , , alpha] = pixels.slice(4 * (y * width + x), 4 * (y * width + x) + 4);
                if (Math.abs(alpha - 191) < 5 && Math.abs(red - 0x4e) < 4) return [box.x + x, box.y + y];
              }
            return null;
        })()""")
        self.assertIsNotNone(spot)
        page.call("Input.dispatchMouseEvent", type="mouseMoved", x=spot[0], y=spot[1])
        page.settle()
        self.assertEqual(page.value("getComputedStyle(document.getElementById('tip')).visibility"),
                         "visible")
        self.assertRegex(self.text(page, "#tip"), r"dot_general.*\n.*of the step.*\n.*FLOP/s at ")
        self.check_quiet(page)

    def test_names_are_text_and_never_markup(self):
        path = os.path.join(self.folder.name, "<i>&amp;.mlir")
        pathlib.Path(path).write_text(HOSTILE, encoding="utf-8")
        url, _ = self.predict("hostile", [path, "--on", "h200"])
        page = self.open(url)
        self.check_quiet(page)
        self.assertEqual(page.value("document.querySelectorAll('img, main b:not(.legend b), i:not(.legend i)').length"), 0)
        self.assertTrue(self.text(page, "h1").endswith("<i>&amp;.mlir"))
        self.assertIn("<i>&amp;.mlir", page.value("document.title"))
        page.click("document.getElementById('rows-launches')")
        self.assertIn("onerror=boom()", self.rows(page)[0][self.column(page, "part")])
        self.check_quiet(page)

    def open_with_memory(self, time, held):
        """The page as it were, did the answer hold this of memory over time."""
        source = pathlib.Path(self.folder.name, "training.html").read_text(encoding="utf-8")
        other, changes = re.subn(r'"held":{[^}]*}', json.dumps({"held": {"time": time, "bytes": held}})[1:-1],
                                 source)
        self.assertEqual(changes, 1)
        path = pathlib.Path(self.folder.name, "memory.html")
        path.write_text(other, encoding="utf-8")
        return self.open(path.as_uri())

    def test_memory_over_time_is_drawn_where_it_is_known(self):
        page = self.open_with_memory([], [])
        self.assertFalse(page.value("Boolean(document.getElementById('memory'))"))
        self.assertIn("was not planned", self.text(page, "#memory-note"))
        self.check_quiet(page)
        page = self.open_with_memory([1e-6, 0.01], [1e9, 4e9])
        self.assertNotIn("was not planned", self.text(page, "#memory-note"))
        x, y = page.value("""(() => {
            const canvas = document.getElementById("memory");
            canvas.scrollIntoView({block: "center", behavior: "instant"});
            const box = canvas.getBoundingClientRect();
            return [box.x + 0.9 * box.width, box.y + box.height / 2];
        })()""")
        page.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        page.settle()
        self.assertIn("4.00 GB at", self.text(page, "#tip"))
        self.check_quiet(page)

    def test_thirty_thousand_launches(self):
        url, answer = self.predict("large", LARGE)
        size = os.path.getsize(os.path.join(self.folder.name, "large.html"))
        self.assertGreater(answer["launches"], 30000)
        self.assertLess(size, 3_000_000)
        page = self.open(url)
        print(f"{int(answer['launches']):,} launches: {size / 1e6:.2f} MB, "
              f"load event after {page.load_event_ms:.0f} ms")
        page.click("document.getElementById('rows-launches')")
        drawn = page.value("document.querySelectorAll('#table tbody tr').length")
        self.assertLess(drawn, 200)
        page.value("document.getElementById('scroller').scrollTop = 1e9")
        page.settle()
        last = page.value("[...document.querySelectorAll('#table tbody tr:not(.spacer)')].pop()"
                          ".getAttribute('aria-rowindex')")
        self.assertEqual(int(last), int(answer["launches"]) + 1)
        # Layers too short to be seen are one part that can be zoomed into.
        layer = "Boolean(document.querySelector('#icicle button[aria-label^=\"layers.7,\"]'))"
        shorter = "[...document.querySelectorAll('#icicle button')].find((c) => / shorter$/.test(c.textContent))"
        if not page.value(layer):
            page.click(shorter)
            page.settle()
        self.assertTrue(page.value(layer))
        self.check_quiet(page)


if __name__ == "__main__":
    if chromium.program() is None:
        print("skipped: no Chromium is installed (Debian's package is chromium)")
        sys.exit(77)
    program = os.path.abspath(sys.argv.pop(1))
    unittest.main()
