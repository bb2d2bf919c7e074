#!/usr/bin/env python3
"""Times whole PyTorch models on a CUDA GPU, run eagerly or compiled, and keeps what they were made of.

  python3 torch_models.py --out FOLDER                      all cases, as many as fit in --minutes
  python3 torch_models.py --out FOLDER --cases bert,llama     those whose names contain one of these
  python3 torch_models.py --out FOLDER --host               the host's time per operator instead
  python3 torch_models.py --out FOLDER --compile            under torch.compile instead: some of the cases

FOLDER/torch_models.csv gets one row a case: `eager_us` is the wall time of a call when calls are
queued back to back for a second and more, `sync_us` the median of one call and a wait, `graph_us`
that of a replay of the call as a CUDA graph (empty where it cannot be captured; training is not),
`kernel_sum_us` and `kernels` the time and number of a call's device kernels as profiled (medians
over calls), `copies` and `copies_us` those of its memory copies and fills, `operators` how many
operators a call dispatches that no other operator calls, `peak_bytes` the most memory allocated
during a call, `energy_mj` and `graph_energy_mj` the board's energy a call in the two loops, `sm_mhz`
the clock at the end of the eager loop.
FOLDER/torch_models.tar.gz holds of each case its kernels and copies in order (.kernels.csv): start
and duration in us, name, grid, block, stream, bytes (of copies), the operator that launched it and
the outermost one around that, each with the shapes, types and concrete values of its inputs, and
the autograd node or annotation it ran under.
FOLDER/torch_compile.csv and .tar.gz (--compile): as above, one row a case and `mode` of torch.compile
(`default`, or `reduce-overhead`, which queues the call as CUDA graphs), with `step_us` for `eager_us`,
`host_us` the median until a call returns whose queue was empty, `triton` how many of the kernels
Inductor wrote. Modules are compiled, optimisers are not. Cases are compiled side by side before any
is timed.
FOLDER/torch_host.json (--host): wall time per operator of chains of 1,000 tiny ones, queue full.

Weights are random (nothing is downloaded), bfloat16 unless a name says fp32 (then without TF32),
convolutional networks are channels-last. Training is forward, loss, backward, AdamW (foreach) and
zero_grad. Each case runs in a forked process of its own, so that none can spoil the next.
"""
import argparse
import csv
import ctypes
import io
import json
import math
import os
import platform
import signal
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
import traceback

COLUMNS = ["case", "eager_us", "sync_us", "graph_us", "kernel_sum_us", "kernels", "copies", "copies_us", "operators",
           "peak_bytes", "energy_mj", "graph_energy_mj", "sm_mhz", "iters", "case_s"]
COMPILE_COLUMNS = ["case", "mode", "step_us", "sync_us", "host_us", "kernel_sum_us", "kernels", "triton", "copies",
                   "copies_us", "peak_bytes", "energy_mj", "sm_mhz", "iters", "case_s"]
LIST_COLUMNS = ["start_us", "dur_us", "name", "grid", "block", "stream", "bytes", "operator", "dims", "types", "values",
                "outer", "outer_dims", "outer_types", "outer_values", "node"]
CASE_LIMIT_S = 75
COMPILE_LIMIT_S = 150
COMPILED_AT_ONCE = 12
LOOP_S = 1.2
LONGEST_NAME = 240
LONGEST_FIELD = 1500
MARK = "orrery_call_"

# ------------------------------------------------------------------ cases: each returns a function that runs one call


def build(torch, dtype, make):
    """A model made on the GPU in this type: numbers are drawn there, which is fast."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device("cuda"):
            return make()
    finally:
        torch.set_default_dtype(default)


compile_mode = None  # of the case that this process runs


def compiled(model):
    if compile_mode:
        model.compile(mode=compile_mode)
    return model


def training(torch, model, loss_of):
    compiled(model.train())
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-5, foreach=True)

    def call():
        loss = loss_of()
        loss.backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        return loss
    return call


def vision(name, batch, train=False):
    def make(torch):
        import torchvision.models

        model = build(torch, torch.float32, lambda: getattr(torchvision.models, name)(weights=None))
        model = model.to(dtype=torch.bfloat16, memory_format=torch.channels_last)
        x = torch.randn(batch, 3, 224, 224, device="cuda").to(torch.bfloat16)
        x = x.contiguous(memory_format=torch.channels_last)
        if train:
            labels = torch.randint(0, 1000, (batch,), device="cuda")
            return training(torch, model, lambda: torch.nn.functional.cross_entropy(model(x), labels))
        compiled(model.eval())
        return lambda: model(x)
    make.library, make.train = "torchvision", train
    return make


BERT_BASE = ("Bert", {})
BERT_LARGE = ("Bert", dict(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096))
GPT2 = ("GPT2", {})
GPT2_MEDIUM = ("GPT2", dict(n_embd=1024, n_layer=24, n_head=16))
LLAMA3_8B_4L = ("Llama", dict(hidden_size=4096, num_hidden_layers=4, num_attention_heads=32, num_key_value_heads=8,
                              intermediate_size=14336, vocab_size=128256, max_position_embeddings=8192))
MIXTRAL_2L = ("Mixtral", dict(hidden_size=1024, num_hidden_layers=2, num_attention_heads=16, num_key_value_heads=4,
                              intermediate_size=2048, num_local_experts=8, num_experts_per_tok=2, vocab_size=32000,
                              max_position_embeddings=4096, sliding_window=None))
OPT_6L = ("OPT", dict(hidden_size=2048, word_embed_proj_dim=2048, ffn_dim=8192, num_hidden_layers=6,
                      num_attention_heads=32, vocab_size=50272, max_position_embeddings=2048))
T5_SMALL = ("T5", {})
INFERENCE = {"Bert": "BertModel", "GPT2": "GPT2LMHeadModel", "Llama": "LlamaForCausalLM",
             "Mixtral": "MixtralForCausalLM", "OPT": "OPTForCausalLM", "T5": "T5ForConditionalGeneration"}
TRAINING = dict(INFERENCE, Bert="BertForMaskedLM")


def language(kind, batch, tokens, train=False, fp32=False, prefill=False, decode=False):
    """`prefill` computes the last token's logits only; with `decode`, `tokens` are in the cache already."""
    family, settings = kind

    def make(torch):
        import transformers

        transformers.logging.set_verbosity_error()
        if fp32:
            torch.set_float32_matmul_precision("highest")
            torch.backends.cuda.matmul.allow_tf32 = False
            torch.backends.cudnn.allow_tf32 = False
        dtype = torch.float32 if fp32 else torch.bfloat16
        config = getattr(transformers, family + "Config")(**settings)
        maker = getattr(transformers, (TRAINING if train else INFERENCE)[family])
        model = build(torch, dtype, lambda: maker(config))
        floating = next(p for p in model.parameters() if p.is_floating_point())
        if floating.dtype != dtype or not floating.is_cuda:
            print(f"weights were {floating.dtype} on {floating.device}: converted", file=sys.stderr)
            model = model.to(device="cuda", dtype=dtype)
        ids = torch.randint(10, config.vocab_size - 10, (batch, tokens), device="cuda")
        if train:
            if family != "Bert":
                model.config.use_cache = False
            return training(torch, model, lambda: model(input_ids=ids, labels=ids).loss)
        compiled(model.eval())
        if decode:
            return decoding(torch, transformers, model, config, batch, tokens)
        arguments = {"input_ids": ids}
        if family == "T5":
            arguments["decoder_input_ids"] = ids.clone()
        if family != "Bert":
            arguments["use_cache"] = False
        if prefill:
            arguments["logits_to_keep"] = 1
        try:
            model(**arguments)
        except Exception as error:  # perhaps the experts' grouped product, or an argument this version lacks
            print(f"first call failed, once more without extras: {str(error)[:200]}", file=sys.stderr)
            arguments.pop("logits_to_keep", None)
            model.config._experts_implementation = "eager"
        return lambda: model(**arguments)
    make.library, make.train = "transformers", train
    return make


def decoding(torch, transformers, model, config, batch, context):
    """One token over a cache of `context`, which every call finds as the first one did."""
    try:
        cache = transformers.DynamicCache(config=config)
    except TypeError:
        cache = transformers.DynamicCache()
    heads = config.num_key_value_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    kind = next(model.parameters()).dtype
    for layer in range(config.num_hidden_layers):
        one = [0.5 * torch.randn(batch, heads, context, width, device="cuda", dtype=kind) for _ in range(2)]
        cache.update(one[0], one[1], layer)
    token = torch.randint(10, config.vocab_size - 10, (batch, 1), device="cuda")
    if hasattr(cache, "layers"):
        # A step makes new, longer tensors: the first ones are put back, which launches nothing.
        kept = [(layer, layer.keys, layer.values) for layer in cache.layers]

        def call():
            for layer, keys, values in kept:
                layer.keys, layer.values = keys, values
            return model(input_ids=token, past_key_values=cache, use_cache=True).logits
    else:
        def call():
            cache.crop(context)
            return model(input_ids=token, past_key_values=cache, use_cache=True).logits
    call()
    call()
    grown = cache.get_seq_length()
    if grown != context + 1:
        raise RuntimeError(f"the cache holds {grown} tokens after a step from {context}")
    return call


CASES = {
    "resnet18_b1_infer": vision("resnet18", 1),
    "resnet18_b64_infer": vision("resnet18", 64),
    "resnet50_b1_infer": vision("resnet50", 1),
    "resnet50_b8_infer": vision("resnet50", 8),
    "resnet50_b128_infer": vision("resnet50", 128),
    "resnet50_b64_train": vision("resnet50", 64, train=True),
    "mobilenet_v2_b32_infer": vision("mobilenet_v2", 32),
    "vit_b_16_b1_infer": vision("vit_b_16", 1),
    "vit_b_16_b32_infer": vision("vit_b_16", 32),
    "vit_b_16_b32_train": vision("vit_b_16", 32, train=True),
    "convnext_tiny_b32_infer": vision("convnext_tiny", 32),
    "efficientnet_b0_b32_infer": vision("efficientnet_b0", 32),
    "bert_base_b8_s128_infer": language(BERT_BASE, 8, 128),
    "bert_base_b32_s512_infer": language(BERT_BASE, 32, 512),
    "bert_large_b16_s256_infer": language(BERT_LARGE, 16, 256),
    "bert_base_b16_s128_train": language(BERT_BASE, 16, 128, train=True),
    "gpt2_b1_s128_infer": language(GPT2, 1, 128),
    "gpt2_b8_s1024_infer": language(GPT2, 8, 1024),
    "gpt2_medium_b4_s512_train": language(GPT2_MEDIUM, 4, 512, train=True),
    "llama3_8b_4l_b1_s128_prefill": language(LLAMA3_8B_4L, 1, 128, prefill=True),
    "llama3_8b_4l_b2_s1024_prefill": language(LLAMA3_8B_4L, 2, 1024, prefill=True),
    "llama3_8b_4l_b2_s512_train": language(LLAMA3_8B_4L, 2, 512, train=True),
    "llama3_8b_4l_b8_c512_decode": language(LLAMA3_8B_4L, 8, 512, decode=True),
    "mixtral_2l_b1_s256_infer": language(MIXTRAL_2L, 1, 256),
    "opt_6l_b2_s512_infer": language(OPT_6L, 2, 512),
    "t5_small_b4_s128_infer": language(T5_SMALL, 4, 128),
    "bert_base_b8_s128_fp32_infer": language(BERT_BASE, 8, 128, fp32=True),
    "gpt2_b2_s512_fp32_infer": language(GPT2, 2, 512, fp32=True),
}

COMPILED_CASES = [
    "resnet18_b64_infer", "resnet50_b8_infer", "resnet50_b128_infer", "resnet50_b64_train", "mobilenet_v2_b32_infer",
    "vit_b_16_b32_infer", "convnext_tiny_b32_infer", "bert_base_b8_s128_infer", "bert_large_b16_s256_infer",
    "bert_base_b16_s128_train", "gpt2_b1_s128_infer", "gpt2_b8_s1024_infer", "gpt2_medium_b4_s512_train",
    "llama3_8b_4l_b1_s128_prefill", "llama3_8b_4l_b2_s1024_prefill", "llama3_8b_4l_b8_c512_decode",
    "opt_6l_b2_s512_infer", "bert_base_b8_s128_fp32_infer",
]
MODES = ["default", "reduce-overhead"]

# ------------------------------------------------------------------ what the profiler saw


def is_operator(name):
    return "::" in name and not name.startswith(("autograd::", "torch::autograd"))


def external(event):
    arguments = event.get("args", {})
    return arguments.get("External id", arguments.get("external id"))


def nest(events):
    """Gives each event of the host its `parent`: the closest one of its thread that encloses it."""
    threads = {}
    for e in events:
        threads.setdefault((e.get("pid"), e.get("tid")), []).append(e)
    for those in threads.values():
        those.sort(key=lambda e: (e["ts"], -e.get("dur", 0), e.get("args", {}).get("Ev Idx", math.inf)))
        around = []
        for e in those:
            while around and around[-1]["ts"] + around[-1].get("dur", 0) <= e["ts"]:
                around.pop()
            e["parent"] = around[-1] if around else None
            if e["cat"] in ("cpu_op", "user_annotation"):
                around.append(e)


def ancestors(event):
    while event is not None:
        yield event
        event = event.get("parent")


def described(event):
    """Name, and shapes, types and values of the inputs, of an operator."""
    if event is None:
        return ["", "", "", ""]
    arguments = event.get("args", {})
    fields = [event["name"]]
    for field in ("Input Dims", "Input type", "Concrete Inputs"):
        value = arguments.get(field, "")
        fields.append(json.dumps(value, separators=(",", ":"))[:LONGEST_FIELD] if value != "" else "")
    return fields


def digest(events, calls):
    """Of a Chrome trace's events with `calls` marked calls: for each call but the first its device
    events in order, as rows of LIST_COLUMNS with true numbers in the first two, and its operators."""
    events = [e for e in events if e.get("ph") == "X" and "cat" in e and "ts" in e]
    for e in events:
        e["ts"], e["dur"], e["cat"] = float(e["ts"]), float(e.get("dur", 0)), e["cat"].lower()
    host = [e for e in events if e["cat"] in ("cpu_op", "user_annotation", "cuda_runtime", "cuda_driver")]
    nest(host)
    marks = sorted((int(e["name"][len(MARK):]), e["ts"], e["ts"] + e["dur"]) for e in host
                   if e["name"].startswith(MARK) and e["cat"] in ("user_annotation", "cpu_op"))
    if len(marks) != calls:
        raise RuntimeError(f"{len(marks)} marks of {calls} calls in the trace")

    def call_of(stamp):
        return next((i for i, begin, end in marks if begin <= stamp <= end), None)

    launches = {}
    for e in host:
        if e["cat"] in ("cuda_runtime", "cuda_driver"):
            number = e.get("args", {}).get("correlation")
            # A launch through the runtime and the driver under it share a number: keep the outer one.
            if number is not None and (number not in launches or e["ts"] < launches[number]["ts"]):
                launches[number] = e
    by_external = {external(e): e for e in host if e["cat"] == "cpu_op" and external(e) is not None}
    operators = [0] * calls
    for e in host:
        if e["cat"] == "cpu_op" and is_operator(e["name"]) \
                and not any(a["cat"] == "cpu_op" and is_operator(a["name"]) for a in ancestors(e["parent"])):
            call = call_of(e["ts"])
            if call is not None:
                operators[call] += 1
    lists, lost = [[] for _ in range(calls)], 0
    for e in sorted((e for e in events if e["cat"] in ("kernel", "gpu_memcpy", "gpu_memset")), key=lambda e: e["ts"]):
        arguments = e.get("args", {})
        launch = launches.get(arguments.get("correlation"))
        chain = list(ancestors(launch["parent"])) if launch else []
        inside = [a for a in chain if a["cat"] == "cpu_op" and is_operator(a["name"])]
        if not inside:
            found = by_external.get(external(launch) if launch else None) or by_external.get(external(e))
            chain = list(ancestors(found)) if found else chain
            inside = [a for a in chain if a["cat"] == "cpu_op" and is_operator(a["name"])]
        call = call_of(launch["ts"] if launch else inside[0]["ts"] if inside else math.inf)
        if call is None:
            lost += 1
            continue
        node = next((a["name"] for a in chain if not is_operator(a["name"]) and not a["name"].startswith(MARK)), "")
        shape = ["x".join(str(n) for n in arguments.get(field) or []) for field in ("grid", "block")]
        lists[call].append([e["ts"], e["dur"], e["name"][:LONGEST_NAME], *shape, arguments.get("stream", ""),
                            arguments.get("bytes", ""), *described(inside[0] if inside else None),
                            *described(inside[-1] if inside else None), node, e["cat"] == "kernel"])
    if lost:
        print(f"{lost} device events belong to no call", file=sys.stderr)
    return lists[1:], operators[1:]


def summarise(lists, operators):
    """Columns of the table and the list of one call, from those of several."""
    def middle(values):
        return statistics.median(values)

    row = {
        "kernels": int(middle([sum(k[-1] for k in one) for one in lists])),
        "copies": int(middle([sum(not k[-1] for k in one) for one in lists])),
        "kernel_sum_us": middle([sum(k[1] for k in one if k[-1]) for one in lists]),
        "copies_us": middle([sum(k[1] for k in one if not k[-1]) for one in lists]),
        "operators": int(middle(operators)),
    }
    last = lists[-1]
    if any([k[2] for k in one] != [k[2] for k in last] for one in lists):
        print("the calls' kernels differ in order: no medians", file=sys.stderr)
    else:
        last = [[k[0], middle([one[i][1] for one in lists]), *k[2:]] for i, k in enumerate(last)]
        row["kernel_sum_us"] = float(sum(k[1] for k in last if k[-1]))
        row["copies_us"] = float(sum(k[1] for k in last if not k[-1]))
    listing = io.StringIO()
    lines = csv.writer(listing, lineterminator="\n")
    lines.writerow(LIST_COLUMNS)
    for k in last:
        lines.writerow([f"{k[0] - last[0][0]:.3f}", f"{k[1]:.3f}", *k[2:-1]])
    return row, listing.getvalue()


def profiled(torch, call, calls):
    from torch.profiler import ProfilerActivity, profile, record_function

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], record_shapes=True) as p:
            for i in range(calls):
                with record_function(f"{MARK}{i}"):
                    call()
            torch.cuda.synchronize()
        p.export_chrome_trace(path)
        with open(path, errors="replace") as source:
            trace = json.load(source, strict=False)
    return summarise(*digest(trace["traceEvents"], calls))


# ------------------------------------------------------------------ running


def looped(torch, call, estimate, nvml):
    """Seconds and joules a call, the SM clock and the number of calls, over a second and more."""
    count = max(5, math.ceil(LOOP_S / estimate))
    for _ in range(3):
        torch.cuda.synchronize()
        joules, begin = nvml.joules(), time.perf_counter()
        for _ in range(count):
            call()
        clock = nvml.clock()
        torch.cuda.synchronize()
        seconds, joules = time.perf_counter() - begin, nvml.joules() - joules
        if seconds >= 1:
            break
        count = math.ceil(count * LOOP_S / seconds)
    return seconds / count, joules / count, clock, count


def captured(torch, call):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            call()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            call()
    finally:  # a capture that fails may leave its stream the current one
        torch.cuda.set_stream(torch.cuda.default_stream())
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    return graph


def attempt(what, function, *arguments):
    try:
        return function(*arguments)
    except Exception as error:  # what is missing stays empty in the table
        print(f"  {what} failed: {type(error).__name__}: {str(error).splitlines()[0][:300] if str(error) else ''}",
              file=sys.stderr, flush=True)
        return None


def measure(case):
    """The case's row and the text of its list of kernels."""
    import torch

    from kernels import Nvml

    start = time.perf_counter()
    make = CASES[case]
    torch.manual_seed(0)
    torch.set_grad_enabled(make.train)
    call = make(torch)
    nvml = Nvml(0)
    for _ in range(4):
        call()
    torch.cuda.synchronize()
    begin, warm = time.perf_counter(), 0
    while warm < 3 or time.perf_counter() - begin < 0.3:
        call()
        warm += 1
        if warm % 8 == 0:
            torch.cuda.synchronize()
    torch.cuda.synchronize()
    estimate = (time.perf_counter() - begin) / warm
    row = {"case": case}
    seconds, joules, clock, count = looped(torch, call, estimate, nvml)
    row |= {"eager_us": seconds * 1e6, "energy_mj": joules * 1e3, "sm_mhz": clock, "iters": count}
    singles, begin = [], time.perf_counter()
    while len(singles) < 10 or (time.perf_counter() - begin < 0.3 and len(singles) < 300):
        one = time.perf_counter()
        call()
        torch.cuda.synchronize()
        singles.append(time.perf_counter() - one)
    row["sync_us"] = statistics.median(singles) * 1e6
    torch.cuda.reset_peak_memory_stats()
    call()
    torch.cuda.synchronize()
    row["peak_bytes"] = torch.cuda.max_memory_allocated()
    if not make.train:
        graph = attempt("capture", captured, torch, call)
        replays = graph and attempt("replay", looped, torch, graph.replay, estimate, nvml)
        if replays:
            row |= {"graph_us": replays[0] * 1e6, "graph_energy_mj": replays[1] * 1e3}
        del graph
    # The profiler comes last: it may slow what runs after it.
    seen = attempt("profile", profiled, torch, call, calls_to_profile(make))
    row["case_s"] = round(time.perf_counter() - start, 1)
    return {"row": row | (seen[0] if seen else {}), "listing": seen[1] if seen else ""}


def calls_to_profile(make):
    return 5 if make.train else 7


def measure_profile(case):
    """The profile alone, for a case whose process could not make one after a capture that failed."""
    import torch

    make = CASES[case]
    torch.manual_seed(0)
    torch.set_grad_enabled(make.train)
    call = make(torch)
    for _ in range(5):
        call()
    torch.cuda.synchronize()
    row, listing = profiled(torch, call, calls_to_profile(make))
    return {"row": row, "listing": listing}


def prepared(torch, case):
    """A compiled case, called often enough that nothing is compiled or captured any more."""
    global compile_mode
    name, compile_mode = case.split("@")
    make = CASES[name]
    torch.manual_seed(0)
    torch.set_grad_enabled(make.train)
    plain = make(torch)

    def call():
        torch.compiler.cudagraph_mark_step_begin()
        return plain()
    for _ in range(5):
        call()
    torch.cuda.synchronize()
    return make, call


def measure_compiled(case, path):
    """Compiles the case, says so, and times it when told to: compilers of others would disturb it."""
    import torch

    from kernels import Nvml

    start = time.perf_counter()
    make, call = prepared(torch, case)
    nvml = Nvml(0)
    open(path + ".ready", "w").close()
    while not os.path.exists(path + ".go"):
        time.sleep(0.1)
    begin, warm = time.perf_counter(), 0
    while warm < 3 or time.perf_counter() - begin < 0.3:
        call()
        warm += 1
    torch.cuda.synchronize()
    seconds, joules, clock, count = looped(torch, call, (time.perf_counter() - begin) / warm, nvml)
    waits, hosts, begin = [], [], time.perf_counter()
    while len(waits) < 10 or (time.perf_counter() - begin < 0.3 and len(waits) < 300):
        one = time.perf_counter()
        call()
        hosts.append(time.perf_counter() - one)
        torch.cuda.synchronize()
        waits.append(time.perf_counter() - one)
    torch.cuda.reset_peak_memory_stats()
    call()
    torch.cuda.synchronize()
    name, mode = case.split("@")
    row = {"case": name, "mode": mode, "step_us": seconds * 1e6, "energy_mj": joules * 1e3, "sm_mhz": clock,
           "iters": count, "sync_us": statistics.median(waits) * 1e6, "host_us": statistics.median(hosts) * 1e6,
           "peak_bytes": torch.cuda.max_memory_allocated()}
    seen = attempt("profile", profiled, torch, call, calls_to_profile(make))
    if seen:
        del seen[0]["operators"]
        row |= seen[0] | {"triton": sum(k["name"].startswith("triton_") for k in csv.DictReader(io.StringIO(seen[1])))}
    row["case_s"] = round(time.perf_counter() - start, 1)
    return {"row": row, "listing": seen[1] if seen else ""}


# ------------------------------------------------------------------ the host


def host(_):
    """Wall time per operator, queue full; and of the same chain as a CUDA graph: the device's part."""
    import torch
    from torch.nn import functional

    length, device = 1000, "cuda"
    torch.manual_seed(0)
    x, y = torch.randn(64, 64, device=device), torch.randn(64, 64, device=device, requires_grad=True)
    half = x.to(torch.bfloat16)
    linear = torch.nn.Linear(64, 64).to(device=device, dtype=torch.bfloat16)
    norm = torch.nn.LayerNorm(64).to(device=device, dtype=torch.bfloat16)

    class Empty(torch.nn.Module):
        def forward(self, x):
            return x

    empty = Empty()

    def chain(step, first):
        def run():
            value = first
            for _ in range(length):
                value = step(value)
            return value
        return run

    def backward():
        value = x
        for _ in range(length):
            value = value + y
        value.sum().backward()
        y.grad = None

    chains = {
        "add": (chain(lambda v: v + y, x), True),
        "add_inplace": (chain(lambda v: v.add_(1.0), x.clone()), True),
        "relu": (chain(torch.relu, x), True),
        "mm": (chain(lambda v: torch.mm(v, y), x), True),
        "linear": (chain(lambda v: functional.linear(v, linear.weight, linear.bias), half), True),
        "linear_module": (chain(linear, half), True),
        "layernorm": (chain(lambda v: functional.layer_norm(v, (64,), norm.weight, norm.bias), half), True),
        "layernorm_module": (chain(norm, half), True),
        "softmax": (chain(lambda v: torch.softmax(v, -1), x), True),
        "view": (chain(lambda v: v.view(64, 64), x), False),
        "transpose": (chain(lambda v: v.transpose(0, 1), x), False),
        "empty_like": (chain(torch.empty_like, x), False),
        "empty_module": (chain(empty, x), False),
        "python_function": (chain(lambda v: v, x), False),
    }
    with_gradients = {"add", "mm", "linear", "linear_module", "layernorm", "layernorm_module"}
    result = {}

    def timed(run):
        for _ in range(3):
            run()
        torch.cuda.synchronize()
        times, begin = [], time.perf_counter()
        while len(times) < 5 or time.perf_counter() - begin < 0.5:
            one = time.perf_counter()
            for _ in range(4):
                run()
            torch.cuda.synchronize()
            times.append((time.perf_counter() - one) / (4 * length))
        return statistics.median(times) * 1e6

    def replayed(run):
        return timed(captured(torch, run).replay)

    for grad in (False, True):
        with torch.set_grad_enabled(grad):
            for name, (run, _) in chains.items():
                if grad and name not in with_gradients:
                    continue
                us = attempt(name, timed, run)
                if us is not None:
                    result.setdefault(name, {})["grad_us" if grad else "wall_us"] = us
    us = attempt("add and backward", timed, backward)
    if us is not None:
        result["add_forward_backward"] = {"grad_us": us}
    with torch.no_grad():  # last: see measure()
        for name, (run, launches) in chains.items():
            us = attempt(name + " as a graph", replayed, run) if launches else None
            if us is not None:
                result.setdefault(name, {})["graph_us"] = us
    try:
        with open("/proc/cpuinfo") as source:
            cpu = next((line.split(":", 1)[1].strip() for line in source if line.startswith("model name")), "")
    except OSError:
        cpu = ""
    return {"torch": torch.__version__, "python": platform.python_version(), "cpu": cpu,
            "device": torch.cuda.get_device_name(0), "chain": length,
            "note": "us per operator: wall_us under no_grad, grad_us with autograd recording, graph_us replayed",
            "operators": result}


# ------------------------------------------------------------------ a process for each


def driver_untouched():
    """Whether this process may still fork ones that use the GPU: CUDA's driver is not initialised."""
    try:
        count = ctypes.c_int()
        return ctypes.CDLL("libcuda.so.1").cuDeviceGetCount(ctypes.byref(count)) == 3
    except OSError:
        return True


def preload(cases):
    """Imports what the forked processes need, once, without touching the GPU."""
    import torch  # noqa: F401

    attempt("import of the profiler", __import__, "torch.profiler")
    if any(CASES[c].library == "torchvision" for c in cases):
        attempt("import of torchvision", __import__, "torchvision.models")
    if any(CASES[c].library == "transformers" for c in cases):
        def models():
            import transformers

            for name in {*INFERENCE.values(), *TRAINING.values(), "DynamicCache"}:
                attempt(name, getattr, transformers, name)
        attempt("import of transformers", models)


def work(function, case, path):
    """In the process of a case: writes what the function returns, or why it does not."""
    try:
        result = function(case)
    except BaseException as error:
        traceback.print_exc()
        result = {"error": f"{type(error).__name__}: {str(error)[:400]}"}
    with open(path, "w") as sink:
        json.dump(result, sink)


def forked(function, case, path):
    sys.stderr.flush()
    sys.stdout.flush()
    child = os.fork()
    if not child:
        try:
            work(function, case, path)
            sys.stderr.flush()
        finally:
            os._exit(0)
    deadline = time.monotonic() + CASE_LIMIT_S
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            break
        time.sleep(0.05)


FUNCTIONS = {f.__name__: f for f in (measure, measure_profile, host)}


def spawned(function, case, path):
    try:
        subprocess.run([sys.executable, os.path.abspath(__file__), "--out", os.path.dirname(path), "--one",
                        function.__name__, case, path], timeout=CASE_LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        pass


def isolated(function, case, fresh):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "result.json")
        if fresh:
            spawned(function, case, path)
        else:
            forked(function, case, path)
        try:
            with open(path) as source:
                return json.load(source)
        except (OSError, ValueError):
            return {"error": "its process ended without a result"}


def keep_listing(archive, name, listing):
    data = listing.encode()
    info = tarfile.TarInfo(name + ".kernels.csv")
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))


def write_compiled(case, path, writer, archive):
    try:
        with open(path) as source:
            result = json.load(source)
    except (OSError, ValueError):
        result = {"error": "its process ended without a result"}
    if "error" in result:
        print(f"{case} failed: {result['error']}", file=sys.stderr, flush=True)
        return
    row = result["row"]
    writer.writerow({k: f"{v:.3f}" if isinstance(v, float) else v for k, v in row.items()})
    if result["listing"]:
        keep_listing(archive, case.replace("@", "."), result["listing"])
    print(f"{case}: {row['step_us']:.0f} us, host {row['host_us']:.0f} us, {row.get('kernels', 0)} kernels in"
          f" {row.get('kernel_sum_us', math.nan):.0f} us; {row['case_s']:.1f} s", file=sys.stderr, flush=True)


def measure_all_compiled(options, deadline):
    """Compiles several cases at a time, then times them one after another, each in its process:
    a new one, since compilers keep threads and processes, which no fork may copy."""
    wanted = [p for p in options.cases.split(",") if p]
    cases = [f"{c}@{mode}" for mode in MODES for c in COMPILED_CASES]
    cases = [c for c in cases if not wanted or any(p in c for p in wanted)]
    with open(os.path.join(options.out, "torch_compile.csv"), "w", newline="") as sink, \
            tarfile.open(os.path.join(options.out, "torch_compile.tar.gz"), "w:gz") as archive:
        writer = csv.DictWriter(sink, COMPILE_COLUMNS, lineterminator="\n")
        writer.writeheader()
        for first in range(0, len(cases), COMPILED_AT_ONCE):
            if time.monotonic() > deadline:
                print(f"no time left for {', '.join(cases[first:])}", file=sys.stderr)
                break
            with tempfile.TemporaryDirectory() as folder:
                running = []
                for case in cases[first:first + COMPILED_AT_ONCE]:
                    path = os.path.join(folder, case)
                    process = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--out", options.out,
                                                "--one", "measure_compiled", case, path])
                    running.append((case, path, process))
                limit = time.monotonic() + COMPILE_LIMIT_S
                while time.monotonic() < limit and any(process.poll() is None and not os.path.exists(path + ".ready")
                                                       for _, path, process in running):
                    time.sleep(0.1)
                for case, path, process in running:
                    open(path + ".go", "w").close()
                    try:
                        process.wait(CASE_LIMIT_S if os.path.exists(path + ".ready") else 1)
                    except subprocess.TimeoutExpired:
                        process.kill()
                        process.wait()
                    write_compiled(case, path, writer, archive)
                    sink.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="folder to write to")
    parser.add_argument("--minutes", type=float, default=5, help="begin no case after so long (5)")
    parser.add_argument("--cases", default="", help="parts of names, by commas; all unless given")
    parser.add_argument("--host", action="store_true", help="measure the host's time per operator, and no case")
    parser.add_argument("--compile", action="store_true", help="under torch.compile, in two of its modes")
    parser.add_argument("--fresh", action="store_true", help="a new process for each case, not a fork: slower")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # so that imports do not initialise CUDA
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        os.environ.setdefault(name, "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if options.one:
        function, case, path = options.one
        work(FUNCTIONS.get(function, lambda c: measure_compiled(c, path)), case, path)
        return
    deadline = time.monotonic() + 60 * options.minutes
    os.makedirs(options.out, exist_ok=True)
    if options.compile:
        measure_all_compiled(options, deadline)
        return
    wanted = [p for p in options.cases.split(",") if p]
    cases = [] if options.host else [c for c in CASES if not wanted or any(p in c for p in wanted)]
    if not options.fresh:
        preload(cases)
        if not driver_untouched():
            print("an import initialised CUDA: each case gets a new process", file=sys.stderr)
            options.fresh = True
    if options.host:
        result = isolated(host, "host", options.fresh)
        with open(os.path.join(options.out, "torch_host.json"), "w") as sink:
            json.dump(result, sink, indent=1)
            sink.write("\n")
        print(json.dumps(result, indent=1))
        return
    with open(os.path.join(options.out, "torch_models.csv"), "w", newline="") as sink, \
            tarfile.open(os.path.join(options.out, "torch_models.tar.gz"), "w:gz") as archive:
        writer = csv.DictWriter(sink, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for case in cases:
            if time.monotonic() > deadline:
                print(f"no time left for {case}", file=sys.stderr)
                continue
            begin = time.monotonic()
            result = isolated(measure, case, options.fresh)
            if "error" in result:
                print(f"{case} failed: {result['error']}", file=sys.stderr, flush=True)
                continue
            if not result["listing"]:
                more = isolated(measure_profile, case, options.fresh)
                if "error" not in more:
                    result = {"row": result["row"] | more["row"], "listing": more["listing"]}
            row = result["row"]
            writer.writerow({k: f"{v:.3f}" if isinstance(v, float) else v for k, v in row.items()})
            sink.flush()
            if result["listing"]:
                keep_listing(archive, case, result["listing"])
            print(f"{case}: {row['eager_us']:.0f} us, graph {row.get('graph_us', math.nan):.0f} us,"
                  f" {row.get('kernels', 0)} kernels in {row.get('kernel_sum_us', math.nan):.0f} us,"
                  f" {row.get('operators', 0)} operators; took {time.monotonic() - begin:.1f} s",
                  file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
