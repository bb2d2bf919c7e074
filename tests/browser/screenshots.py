"""Writes the pictures of docs/images:  screenshots.py PROGRAM FOLDER"""

import os
import pathlib
import subprocess
import sys
import tempfile

import chromium

COMPARED = ["bert-base", "--on", "h200,h200:stack=torch-eager,l40s", "--phase", "train", "--batch", "16",
            "--seq", "128"]
STEP = ["llama3-8b", "--on", "dgx-h100", "--tp", "2", "--pp", "4", "--dp", "4", "--global-batch", "64",
        "--straggler", "29=0.8"]
TRAINING = ["bert-base", "--on", "h200", "--phase", "train", "--batch", "32", "--seq", "512"]


def main(program, folder):
    with tempfile.TemporaryDirectory() as work, chromium.Browser() as browser:
        report = os.path.join(work, "report.html")
        subprocess.run([program, "predict", *TRAINING, "--html", report], check=True,
                       stdout=subprocess.DEVNULL)
        comparison = os.path.join(work, "compare.html")
        subprocess.run([program, "compare", *COMPARED, "--html", comparison], check=True,
                       stdout=subprocess.DEVNULL)
        step = os.path.join(work, "train.html")
        subprocess.run([program, "train", *STEP, "--html", step], check=True, stdout=subprocess.DEVNULL)

        def take(name, into_view=None, path=report, **how):
            page = browser.open(pathlib.Path(path).as_uri(), **how)
            if into_view:
                page.value(f"document.querySelector('{into_view}').closest('section')"
                           ".scrollIntoView({behavior: 'instant'})")
            page.settle()
            page.screenshot(os.path.join(folder, name))
            page.close()

        take("report-light.png", width=1200, height=1000)
        take("report-dark.png", into_view="#roofline", width=1200, height=1000, theme="dark")
        take("report-phone.png", width=390, height=844, mobile=True)
        take("compare.png", path=comparison, width=1100, height=1150)
        take("train.png", path=step, width=1100, height=860)


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]), sys.argv[2])
