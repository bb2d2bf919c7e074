"""Does the Python package give what the command line gives? Run by ctest, which says
where both lie: PYTHONPATH, and ORRERY_PROGRAM for the program. Python's own unittest."""

import inspect
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest

# The package beside this file lacks its native half: the one to test is in PYTHONPATH.
HERE = pathlib.Path(__file__).resolve().parent
sys.path = [entry for entry in sys.path if pathlib.Path(entry).resolve() != HERE]

import orrery  # noqa: E402

ROOT = HERE.parent
GEMM = str(ROOT / "examples" / "gemm.mlir")


def command_line(*arguments):
    """The exit code and the JSON that the program prints."""
    done = subprocess.run([os.environ["ORRERY_PROGRAM"], *arguments, "--json"],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return done.returncode, json.loads(done.stdout)


class SameAnswers(unittest.TestCase):
    maxDiff = None

    def assert_same(self, answer, *arguments):
        self.assertEqual((0, answer), command_line(*arguments))

    def test_predict_a_file(self):
        answer = orrery.predict(GEMM, on="h200")
        self.assert_same(answer, "predict", GEMM, "--on", "h200")
        # 2 · 4096³, whatever the path the number took.
        self.assertEqual(answer["flops"], 2 * 4096**3)

    def test_predict_takes_paths(self):
        device = ROOT / "examples" / "my-device.yaml"
        self.assert_same(orrery.predict(pathlib.Path(GEMM), on=device),
                         "predict", GEMM, "--on", str(device))

    def test_predict_a_zoo_model_with_every_option(self):
        answer = orrery.predict(
            "bert-base", on="h100-sxm", stack="torch-eager", kernel_model="roofline",
            set={"memory.bandwidth": "6 TB/s"}, regime="sustained", sm_mhz=1500, phase="train",
            batch=4, seq=128, dtype="fp16", choose={"optimizer": "sgd"})
        self.assert_same(
            answer, "predict", "bert-base", "--on", "h100-sxm", "--stack", "torch-eager",
            "--kernel-model", "roofline", "--set", "memory.bandwidth=6 TB/s", "--regime",
            "sustained", "--sm-mhz", "1500", "--phase", "train", "--batch", "4", "--seq", "128",
            "--dtype", "fp16", "--choose", "optimizer=sgd")

    def test_inspect(self):
        self.assert_same(orrery.inspect("resnet-50", batch=2), "inspect", "resnet-50", "--batch", "2")

    def test_train_with_stragglers(self):
        answer = orrery.train(
            "llama3-8b", on="dgx-h100", tp=2, pp=4, dp=2, sp=True, global_batch=32, seq=4096,
            stragglers=["5=0.8"], slow_nodes=["1=0.5"])
        self.assert_same(
            answer, "train", "llama3-8b", "--on", "dgx-h100", "--tp", "2", "--pp", "4", "--dp", "2",
            "--sp", "--global-batch", "32", "--seq", "4096", "--straggler", "5=0.8", "--slow-node",
            "1=0.5")
        self.assertGreater(answer["stragglers"]["cost_s"], 0)

    def test_train_by_operators_or_fused(self):
        run = dict(on="dgx-h100", dp=8, global_batch=16, micro_batch=2, seq=4096, framework="fsdp",
                   recompute="operators", moments="bf16")
        eager = orrery.train("llama3-8b", **run)
        fused = orrery.train("llama3-8b", layers="fused", loss="compiled", **run)
        self.assert_same(
            fused, "train", "llama3-8b", "--on", "dgx-h100", "--dp", "8", "--global-batch", "16",
            "--micro-batch", "2", "--seq", "4096", "--framework", "fsdp", "--recompute", "operators",
            "--moments", "bf16", "--layers", "fused", "--loss", "compiled")
        # A quarter longer, as torchtitan without and with torch.compile.
        self.assertGreater(eager["step_s"], 1.1 * fused["step_s"])
        self.assertGreater(eager["memory"]["working_bytes"], fused["memory"]["working_bytes"])
        with self.assertRaisesRegex(Exception, "fused or operators"):
            orrery.train("llama3-8b", layers="some", **run)

    def test_train_with_experts(self):
        run = dict(on="dgx-h100", pp=8, dp=32, ep=32, global_batch=256, seq=4096, recompute="full")
        answer = orrery.train("deepseek-v3", dispatch="all-to-all", fused_router=True, **run)
        self.assert_same(
            answer, "train", "deepseek-v3", "--on", "dgx-h100", "--pp", "8", "--dp", "32", "--ep", "32",
            "--global-batch", "256", "--seq", "4096", "--recompute", "full", "--dispatch", "all-to-all",
            "--fused-router")
        plain = orrery.train("deepseek-v3", **run)
        self.assertGreater(
            answer["communication"]["experts"]["total"], 1.5 * plain["communication"]["experts"]["total"])
        with self.assertRaisesRegex(Exception, "by-node or all-to-all"):
            orrery.train("deepseek-v3", dispatch="once", **run)

    def test_replay(self):
        chakra = ROOT / "examples/chakra"
        answer = orrery.replay(
            chakra / "step", network=chakra / "network.yml", system=chakra / "system.json",
            congestion="unaware", ranks=64)
        self.assert_same(
            answer, "replay", str(chakra / "step"), "--network", str(chakra / "network.yml"),
            "--system", str(chakra / "system.json"), "--congestion", "unaware", "--ranks", "64")

    def test_bind_and_trip_count(self):
        with tempfile.NamedTemporaryFile("w", suffix=".mlir") as file:
            file.write("""func.func @main(%a: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %0 = stablehlo.add %a, %a : tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}
""")
            file.flush()
            answer = orrery.inspect(file.name, bind={"?": 16}, trip_count=3)
            self.assert_same(answer, "inspect", file.name, "--bind", "?=16", "--trip-count", "3")
            self.assertEqual(answer["flops"], 16 * 8)

    def test_lists(self):
        self.assert_same(orrery.hardware(), "hardware")
        self.assert_same(orrery.models(), "models")
        self.assert_same(orrery.zoo(), "zoo")

    def test_one_device(self):
        self.assert_same(orrery.hardware("h200", set={"memory.bandwidth": "6 TB/s"}),
                         "hardware", "h200", "--set", "memory.bandwidth=6 TB/s")

    def test_compare(self):
        self.assert_same(
            orrery.compare("bert-base", on=["h200", "l4:memory.bandwidth=600GB/s"], seq=128,
                           kernel_model="roofline"),
            "compare", "bert-base", "--on", "h200,l4:memory.bandwidth=600GB/s", "--seq", "128",
            "--kernel-model", "roofline")

    def test_kernels(self):
        rows = [
            {"op": "gemm", "dtype": "bf16", "params": {"m": 512, "n": 4096, "k": 4096}},
            {"op": "add", "dtype": "fp32", "params": {"shape": [1024, 1024]}, "sm_mhz": 1200},
        ]
        with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
            file.write("op,dtype,params,sm_mhz\n")
            for row in rows:
                params = json.dumps(row["params"]).replace('"', '""')
                file.write(f'{row["op"]},{row["dtype"]},"{params}",{row.get("sm_mhz", "")}\n')
            file.flush()
            self.assert_same(orrery.kernel(rows, on="h200"),
                             "kernel", "--on", "h200", "--batch", file.name)

    def test_calibrate_and_validate(self):
        table = str(ROOT / "examples" / "h200_kernels.csv")
        with tempfile.TemporaryDirectory() as folder:
            fit = pathlib.Path(folder) / "fit.json"
            answer = orrery.calibrate("h200", [table], seed=2, node_us=1.5, out=fit)
            self.assert_same(answer, "calibrate", "h200", "--from", table, "--seed", "2",
                             "--node-us", "1.5", "--out", str(fit))
            self.assert_same(orrery.validate(table, on="h200", fit=fit),
                             "validate", table, "--on", "h200", "--fit", str(fit))


class Errors(unittest.TestCase):
    def assert_same_error(self, call, *arguments):
        with self.assertRaises(orrery.Error) as caught:
            call()
        error = caught.exception
        exit_code, answer = command_line(*arguments)
        self.assertEqual(exit_code, error.exit_code)
        self.assertEqual(answer["error"], {
            "kind": error.kind, "exit_code": error.exit_code, "message": error.message,
            "file": error.file, "line": error.line, "column": error.column})
        return error

    def test_usage(self):
        error = self.assert_same_error(lambda: orrery.predict(GEMM, on="h20"),
                                       "predict", GEMM, "--on", "h20")
        self.assertEqual(("usage", 2, ""), (error.kind, error.exit_code, error.file))
        self.assertIn("h200", str(error))

    def test_input_has_its_place(self):
        with tempfile.NamedTemporaryFile("w", suffix=".mlir") as file:
            file.write("module {\n  func.func @main() -> tensor<4xq7> {\n  }\n}\n")
            file.flush()
            error = self.assert_same_error(lambda: orrery.inspect(file.name), "inspect", file.name)
            self.assertEqual(("input", 3, file.name, 2),
                             (error.kind, error.exit_code, error.file, error.line))
            self.assertTrue(str(error).startswith(f"{file.name}:2:{error.column}: "))

    def test_wrong_types_are_refused(self):
        for call in (lambda: orrery.predict(GEMM, on="h200", batch="two"),
                     lambda: orrery.predict(GEMM, on="h200", set={"memory.bandwidth": 6}),
                     lambda: orrery.kernel([{"op": "gemm", "dtype": "bf16"}], on="h200")):
            with self.assertRaises(orrery.Error) as caught:
                call()
            self.assertEqual("usage", caught.exception.kind)


class Package(unittest.TestCase):
    def test_collective_counts_as_nccl_tests_do(self):
        answer = orrery.collective("all-reduce", 2**26, 8, on="dgx-h100")
        self.assertAlmostEqual(
            answer["bus_bandwidth_bytes_per_s"] * answer["latency_s"] / 2**26, 1.75)

    def test_version_is_the_programs(self):
        done = subprocess.run([os.environ["ORRERY_PROGRAM"], "--version"], stdout=subprocess.PIPE,
                              text=True)
        self.assertEqual(f"orrery {orrery.__version__}\n", done.stdout)

    def test_everything_public_explains_itself(self):
        for name in orrery.__all__:
            if name != "__version__":
                self.assertTrue(inspect.getdoc(getattr(orrery, name)), name)

    def test_threads_at_once_agree(self):
        answers = [None] * 4

        def ask(i):
            answers[i] = orrery.predict(GEMM, on="h200")

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(answers))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([orrery.predict(GEMM, on="h200")] * 4, answers)


if __name__ == "__main__":
    unittest.main(verbosity=2)
