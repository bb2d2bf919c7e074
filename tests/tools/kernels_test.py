"""What tools/measure/kernels.py asks of PyTorch and writes, with a PyTorch that only notes what it is asked."""
import contextlib
import csv
import io
import json
import math
import os
import sys
import tempfile
import types
import unittest
from unittest import mock

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "tools", "measure"))
sys.dont_write_bytecode = True
import kernels  # noqa: E402


class Type:
    def __init__(self, size):
        self.size = size


class Tensor:
    def __init__(self, shape, element):
        self.shape, self.element = list(shape), element

    def numel(self):
        return math.prod(self.shape)

    def element_size(self):
        return self.element.size

    def view(self, *shape):
        shape = shape[0] if isinstance(shape[0], list) else shape
        assert math.prod(shape) == self.numel(), f"{self.shape} seen as {shape}"
        return Tensor(shape, self.element)

    def __getitem__(self, part):
        return Tensor([len(range(*part.indices(self.shape[0])))], self.element)

    def permute(self, *order):
        order = order[0] if isinstance(order[0], list) else order
        return Tensor([self.shape[i] for i in order], self.element)

    def transpose(self, a, b):
        shape = list(self.shape)
        shape[a], shape[b] = shape[b], shape[a]
        return Tensor(shape, self.element)

    def t(self):
        return self.transpose(0, 1)

    def to(self, element):
        return Tensor(self.shape, element)

    def contiguous(self):
        return self

    clone = contiguous

    def index_add_(self, *_, **__):
        return self


class Event:
    def record(self):
        pass

    def query(self):
        return True

    def elapsed_time(self, _):
        return 100.0


class Graph:
    def replay(self):
        pass


def stub(calls, missing=(), memory=80 * 2**30, without_gqa=False):
    """A PyTorch that adds (name, shapes and numbers, named arguments) to `calls` for each operator."""

    def operator(name):
        def call(*arguments, **named):
            if name == "scaled_dot_product_attention" and without_gqa and "enable_gqa" in named:
                raise TypeError("scaled_dot_product_attention(): got an unexpected keyword argument 'enable_gqa'")
            calls.append((name, [a.shape if isinstance(a, Tensor) else a for a in arguments], named))

        return call

    cuda = types.SimpleNamespace(
        Event=lambda **_: Event(), CUDAGraph=Graph, graph=lambda *_, **__: contextlib.nullcontext(),
        graph_pool_handle=lambda: None, synchronize=lambda: None, device_count=lambda: 2, set_device=lambda _: None,
        _sleep=lambda _: None,
        get_device_properties=lambda index: types.SimpleNamespace(
            name=f"card {index}", multi_processor_count=100, L2_cache_size=2**20, total_memory=memory))
    functional = types.SimpleNamespace(**{name: operator(name) for name in (
        "linear", "conv2d", "scaled_dot_product_attention", "embedding", "layer_norm", "rms_norm", "relu", "gelu",
        "silu") if name not in missing})
    torch = types.ModuleType("torch")
    torch.__version__, torch.version = "0", types.SimpleNamespace(cuda="0")
    torch.cuda, torch.nn = cuda, types.SimpleNamespace(functional=functional)
    setting = types.SimpleNamespace(allow_tf32=False)
    torch.backends = types.SimpleNamespace(cudnn=setting, cuda=types.SimpleNamespace(matmul=setting))
    sizes = {"bfloat16": 2, "float16": 2, "float32": 4, "float8_e4m3fn": 1, "int8": 1, "int32": 4}
    for name, size in sizes.items():
        if name not in missing:
            setattr(torch, name, Type(size))
    for name in ("bmm", "_grouped_mm", "_scaled_mm", "_int_mm", "add", "mul", "div", "pow", "exp", "tanh", "sum", "amax",
                 "softmax", "topk", "sort", "cumsum", "index_select"):
        if name not in missing:
            setattr(torch, name, operator(name))
    torch.clone = operator("copy")

    def empty(shape, dtype=None, device=None):
        return Tensor([shape] if isinstance(shape, int) else shape, dtype)

    torch.empty = torch.ones = torch.randn = empty
    torch.randint = lambda low, high, shape, dtype=None, device=None: empty(shape, dtype)
    torch.tensor = lambda values, dtype=None, device=None: Tensor([len(values)], dtype)
    torch.cat = lambda parts: Tensor([sum(p.numel() for p in parts)], parts[0].element)
    return torch


class Meter:
    """In the place of NVML."""

    def __init__(self, index):
        pass

    def clock(self):
        return 1500

    def power(self):
        return 300.0


class KernelsTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.out = os.path.join(self.folder.name, "out.csv")
        kernels.told.clear()

    def write(self, rows, name="table.csv"):
        path = os.path.join(self.folder.name, name)
        with open(path, "w", newline="") as sink:
            writer = csv.writer(sink)
            writer.writerow(["op", "dtype", "params"])
            writer.writerows([op, dtype, json.dumps(params)] for op, dtype, params in rows)
        return path

    def run_script(self, *arguments, **of_torch):
        """(what PyTorch was asked for, what was said)."""
        calls, said = [], io.StringIO()
        with mock.patch.dict(sys.modules, {"torch": stub(calls, **of_torch)}), \
                mock.patch.object(kernels, "Nvml", Meter), contextlib.redirect_stderr(said), \
                mock.patch.object(sys, "argv", ["kernels.py", "--out", self.out, "--pass-ms", "1", *arguments]):
            kernels.main()
        return calls, said.getvalue()

    def measure(self, rows, **of_torch):
        return self.run_script("--from", self.write(rows), **of_torch)

    def text(self):
        with open(self.out, newline="") as source:
            return source.read()

    def rows(self):
        with open(self.out, newline="") as source:
            return list(csv.DictReader(source))

    def only(self, calls, name):
        """The arguments of an operator, which are the same at each launch."""
        found = [(arguments, named) for called, arguments, named in calls if called == name]
        self.assertTrue(found, f"{name} was not called")
        for one in found:
            self.assertEqual(one, found[0])
        return found[0]

    # ---------------------------------------------------------- going on

    def test_goes_on_without_measuring_again(self):
        table = self.write([("relu", "bf16", {"shape": [64, 64]}), ("gelu", "bf16", {"shape": [64, 64]})])
        self.run_script("--from", table)
        before = self.text()
        self.assertEqual([r["op"] for r in self.rows()], ["relu", "gelu"])
        self.run_script("--from", table)
        self.assertEqual(self.text(), before)

    def test_interrupted_in_the_first_block_has_one_header(self):
        table = self.write([("relu", "bf16", {"shape": [64, 64]})])
        with mock.patch.object(kernels, "made", side_effect=KeyboardInterrupt), self.assertRaises(KeyboardInterrupt):
            self.run_script("--from", table)
        self.assertEqual(self.text().splitlines(), [",".join(kernels.COLUMNS)])
        self.run_script("--from", table)
        self.assertEqual([r["op"] for r in self.rows()], ["relu"])

    def test_killed_before_the_header_and_in_a_row(self):
        table = self.write([("relu", "bf16", {"shape": [64, 64]}), ("gelu", "bf16", {"shape": [64, 64]})])
        open(self.out, "w").close()
        self.run_script("--from", table)
        whole = self.text()
        with open(self.out, "w", newline="") as sink:
            sink.write(whole[:-20])
        _, said = self.run_script("--from", table)
        self.assertIn("its last row is not whole", said)
        self.assertEqual([r["op"] for r in self.rows()], ["relu", "gelu"])

    def test_operators_of_another_spacing_are_excluded(self):
        other = os.path.join(self.folder.name, "other.csv")
        with open(other, "w") as sink:
            sink.write('op,dtype,params\nrelu,bf16,"{""shape"":[64,64]}"\n')
        table = self.write([("relu", "bf16", {"shape": [64, 64]}), ("gelu", "bf16", {"shape": [64, 64]})])
        self.run_script("--from", table, "--exclude", other)
        self.assertEqual([r["op"] for r in self.rows()], ["gelu"])

    # ---------------------------------------------------------- what PyTorch lacks

    def test_what_an_old_version_lacks_is_left_out(self):
        grouped = {"experts": 4, "tokens": 64, "n": 128, "k": 128}
        attention = {"b": 1, "h": 8, "s": 64, "d": 64}
        _, said = self.measure(
            [("grouped_gemm", "bf16", grouped), ("grouped_gemm", "bf16", {**grouped, "tokens": 128}),
             ("rmsnorm", "bf16", {"shape": [64, 64]}), ("gemm", "fp8", {"m": 64, "n": 64, "k": 64}),
             ("sdpa", "bf16", attention), ("sdpa", "bf16", {**attention, "kv": 2}),
             ("relu", "bf16", {"shape": [64, 64]})],
            missing=("_grouped_mm", "rms_norm", "float8_e4m3fn"), without_gqa=True)
        self.assertEqual([(r["op"], json.loads(r["params"]).get("kv")) for r in self.rows()],
                         [("sdpa", None), ("relu", None)])
        self.assertEqual(said.count("_grouped_mm"), 1)  # once for all of them
        for lacking in ("rms_norm", "float8_e4m3fn", "enable_gqa"):
            self.assertIn(lacking, said)

    def test_a_lost_device_ends_the_run(self):
        def lost(_):
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

        with contextlib.redirect_stderr(io.StringIO()), self.assertRaises(RuntimeError):
            kernels.made([("relu", "bf16", {"shape": [1]})], lost)

    def test_pools_follow_the_memory(self):
        small, large = (kernels.Operators(stub([]), 1, gib << 30) for gib in (12, 141))
        self.assertEqual(small.pool(small.element("bf16")).numel() * 2, 2**30)
        self.assertEqual(large.pool(large.element("fp8")).numel(), 3 * 2**30)

    # ---------------------------------------------------------- --from

    def test_a_table_of_examples_runs_whole(self):
        calls, said = self.run_script("--from", os.path.join(ROOT, "examples", "kernels.csv"))
        with open(os.path.join(ROOT, "examples", "kernels.csv"), newline="") as source:
            wanted = [(r["op"], r["params"]) for r in csv.DictReader(source)]
        self.assertEqual([(r["op"], r["params"]) for r in self.rows()], wanted)
        self.assertNotIn("left out", said)
        (x, w), named = self.only(calls, "conv2d")
        self.assertEqual((x, w, named), ([32, 64, 56, 56], [64, 64, 3, 3], {"stride": 1, "padding": 1, "groups": 1}))

    def test_defaults_are_those_of_orrery(self):
        calls, _ = self.measure([("conv2d", "bf16", {"n": 2, "c": 8, "h": 14, "w": 14, "k": 16, "r": 3})])
        self.assertEqual(self.only(calls, "conv2d"),
                         ([[2, 8, 14, 14], [16, 8, 3, 3]], {"stride": 1, "padding": 0, "groups": 1}))
        calls, _ = self.measure([("sdpa", "bf16", {"b": 2, "h": 4, "s": 128, "d": 64, "dv": 32})])
        self.assertEqual(self.only(calls, "scaled_dot_product_attention"),
                         ([[2, 4, 128, 64], [2, 4, 128, 64], [2, 4, 128, 32]], {"is_causal": False}))
        # The one query of a decoding step is the last token: it sees all.
        calls, _ = self.measure([("sdpa", "bf16", {"b": 2, "h": 4, "kv": 2, "s": 1, "t": 64, "d": 64, "causal": True})])
        self.assertEqual(self.only(calls, "scaled_dot_product_attention")[1], {"is_causal": False, "enable_gqa": True})
        calls, _ = self.measure([("reduce_max", "bf16", {"shape": [8, 16, 32], "axis": 1}),
                                 ("reduce_sum", "bf16", {"shape": [8, 16, 32]}),
                                 ("topk", "bf16", {"shape": [8, 4]}), ("div", "fp32", {"shape": [8, 16]}),
                                 ("div_scalar", "fp32", {"shape": [8, 16]}),
                                 ("index_select", "bf16", {"rows": 64, "shape": [4, 8, 32]})])
        self.assertEqual(self.only(calls, "amax")[0], [[8, 16, 32], 1])
        self.assertEqual(self.only(calls, "sum")[0], [[8, 16, 32], -1])
        self.assertEqual(self.only(calls, "topk")[0], [[8, 4], 4, -1])
        self.assertEqual([a for name, a, _ in calls if name == "div"][0], [[8, 16], [8, 16]])
        self.assertEqual([a for name, a, _ in calls if name == "div"][-1], [[8, 16], 1.5])
        self.assertEqual(self.only(calls, "index_select")[0], [[64, 32], 0, [32]])

    def test_what_cannot_be_run_is_told_of_and_left_out(self):
        attention = {"b": 1, "h": 8, "s": 64, "d": 64}
        image = {"n": 2, "c": 8, "h": 14, "w": 14, "k": 16, "r": 3}
        table = [
            ("moe", "bf16", {"tokens": 8, "hidden": 64, "inter": 64, "topk": 2, "experts": 4}, "moe"),
            ("pow_scalar", "bf16", {"shape": [8, 8]}, "pow_scalar"),
            ("gemm", "fp4", {"m": 8, "n": 8, "k": 8}, "fp4"),
            ("gemm", "int8", {"m": 16, "n": 64, "k": 64}, "more than 16 rows"),
            ("gemm", "bf16", {"m": 8, "n": 8}, "gemm needs 'k'"),
            ("gemm", "bf16", {"m": 8, "n": 8, "k": 0}, "'k' cannot be 0"),
            ("gemm", "bf16", {"m": 8, "n": 8, "k": 8, "aligned": 8}, "takes no 'aligned'"),
            ("grouped_gemm", "int4_weight", {"experts": 4, "tokens": 64, "n": 128, "k": 128}, "four bits"),
            ("sdpa", "bf16", {**attention, "window": 16}, "'window'"),
            ("sdpa", "bf16", {**attention, "paged": True}, "'paged'"),
            ("sdpa", "bf16", {**attention, "kv_dtype": "fp8"}, "keys of fp8"),
            ("sdpa", "bf16", {**attention, "kv": 3}, "multiple"),
            ("sdpa", "bf16", {**attention, "t": 128, "causal": True}, "first of the tokens"),
            ("conv2d", "bf16", {**image, "gradient": "filter"}, "gradients"),
            ("conv2d", "bf16", {**image, "layout": "chwn"}, "'layout'"),
            ("reduce_max", "bf16", {"shape": [8, 8], "axis": 2}, "'axis'"),
            ("permute", "bf16", {"shape": [8, 8], "order": [0, 0]}, "'order'"),
            ("permute", "bf16", {"shape": [8, 1, 8], "order": [1, 0, 2]}, "no kernel"),
            ("transpose", "bf16", {"shape": [8, 1]}, "no kernel"),
        ]
        _, said = self.measure([row[:3] for row in table] + [("relu", "bf16", {"shape": [8, 8]})])
        self.assertEqual([r["op"] for r in self.rows()], ["relu"])
        told = [line for line in said.splitlines() if "left out" in line]
        self.assertEqual(len(told), len(table), said)
        for number, ((*_, reason), line) in enumerate(zip(table, told), start=2):
            self.assertIn(f"table.csv:{number}: left out: ", line)
            self.assertIn(reason, line)

    def test_no_designed_sample_needs_more_than_it_has(self):
        stream = kernels.sample(1, kernels.FAMILIES, math.inf)
        refused = set()
        for _ in range(4000):
            op, dtype, params = next(stream)
            try:
                kernels.complete(op, dtype, params)
            except kernels.CannotRun as error:
                refused.add((op, str(error)))
        self.assertLessEqual(refused, {("gemm", "PyTorch's int8 product needs more than 16 rows"),
                                       ("transpose", "no kernel is launched"), ("permute", "no kernel is launched")})

    # ---------------------------------------------------------- --device

    def test_the_device_asked_for(self):
        asked = []
        with mock.patch.object(Meter, "__init__", lambda self, index: asked.append(index)):
            _, said = self.run_script("--from", self.write([]), "--device", "1")
        self.assertIn("card 1, 100 SMs", said)
        self.assertEqual(asked, [1])
        with self.assertRaisesRegex(SystemExit, "sees 2 CUDA devices, none of them 2"):
            self.run_script("--from", self.write([]), "--device", "2")

    def test_nvml_reads_the_card_that_cuda_means(self):
        asked = []

        class Library:
            def __getattr__(self, name):
                def call(*arguments):
                    if name == "cuDeviceGetPCIBusId":
                        arguments[0].value = b"0000:3B:00.0"
                    if name == "nvmlDeviceGetHandleByPciBusId_v2":
                        asked.append(arguments[0])
                    return 0

                return call

        with mock.patch.object(kernels.ctypes, "CDLL", lambda _: Library()):
            kernels.Nvml(0)
        self.assertEqual(asked, [b"0000:3B:00.0"])


if __name__ == "__main__":
    unittest.main()
