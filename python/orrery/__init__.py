"""How long a machine-learning workload takes on hardware you may not own.

    >>> import orrery
    >>> answer = orrery.predict("llama3-8b", on="h200", phase="decode", batch=8, context=4096)
    >>> answer["latency_s"], answer["memory"]["fits"]

A workload is a file (StableHLO, HLO text, ONNX, a Hugging Face ``config.json``) or a name
that ``orrery.zoo()`` lists; a device is a name that ``orrery.hardware()`` lists or a YAML
file of your own. Every function returns the dictionary that the command of the same name
prints with ``--json``; docs/json.md tells what each field means and its unit. What goes
wrong raises ``orrery.Error``.
"""

from __future__ import annotations

import json
import os
from typing import Any, Mapping, Optional, Sequence, Union

__all__ = [
    "Error", "calibrate", "capacity", "collective", "compare", "hardware", "inspect", "kernel", "models",
    "plan", "predict", "replay", "serving", "train", "validate", "zoo", "__version__",
]

Answer = dict[str, Any]
PathOrName = Union[str, "os.PathLike[str]"]


class Error(Exception):
    """What ends a request. ``str(error)`` is the whole message, "FILE:LINE:COLUMN: …".

    message    the message without its place
    kind       "usage" (the request is wrong), "input" (a file is malformed or not
               supported), "infeasible" (it cannot be met) or "internal" (our fault)
    exit_code  what the command line would exit with: 2, 3, 4, 70
    file       the file at fault, "" where none is
    line       in that file, counted from 1; 0 where it is not known
    column     in that line, counted from 1; 0 where it is not known
    """

    message: str = ""
    kind: str = "internal"
    exit_code: int = 70
    file: str = ""
    line: int = 0
    column: int = 0


# Below Error, which the native half raises.
from . import _native  # noqa: E402

__version__: str = _native.__version__


def _call(command: str, **fields: Any) -> Answer:
    request = {name: value for name, value in fields.items() if value is not None}
    return json.loads(_native.call(json.dumps({"command": command, **request})))


def predict(
    workload: PathOrName,
    *,
    on: PathOrName,
    stack: Optional[str] = None,
    kernel_model: Optional[str] = None,
    fit: Optional[PathOrName] = None,
    set: Optional[Mapping[str, str]] = None,
    regime: Optional[str] = None,
    sm_mhz: Optional[float] = None,
    phase: Optional[str] = None,
    batch: Optional[int] = None,
    seq: Optional[int] = None,
    context: Optional[int] = None,
    dtype: Optional[str] = None,
    choose: Optional[Mapping[str, str]] = None,
    bind: Optional[Mapping[str, int]] = None,
    trip_count: Optional[int] = None,
) -> Answer:
    """Time, memory and energy of one step of a workload on a device.

        >>> orrery.predict("model.mlir", on="h200")["latency_s"]
        >>> orrery.predict("resnet-50", on="a100-sxm-80gb", phase="train", batch=64)
        >>> orrery.predict("model.mlir", on="h100-sxm", set={"memory.bandwidth": "6 TB/s"})

    workload      a file, or a name of the zoo
    on            the device: a name of the catalogue, or a YAML file
    stack         the software that runs it ("xla" unless given; see ``orrery.models()``)
    kernel_model  how kernels are timed ("auto" unless given: the best there is for the device)
    fit           a file that ``orrery.calibrate`` wrote, instead of what is shipped
    set           what-ifs: figures of the device by path, each with its unit
    regime        the clock: "burst" (cool, full) or "sustained" (at the power limit)
    sm_mhz        the clock, fixed to this many MHz

    Of a model description (the zoo, a ``config.json``) only:

    phase         "forward", "prefill", "decode" or "train"
    batch         sequences or images
    seq           new tokens a sequence
    context       tokens in the cache, for decode
    dtype         "bf16", "fp16", "fp32" …; its own unless given
    choose        questions the model leaves open, e.g. {"logits": "all"}

    Of a file:

    bind          sizes of open dimensions by name; "?" for those without one
    trip_count    times to run loops whose count cannot be inferred
    """
    return _call(
        "predict", workload=os.fspath(workload), on=os.fspath(on), stack=stack,
        kernel_model=kernel_model, fit=fit and os.fspath(fit), set=set and dict(set),
        regime=regime, sm_mhz=sm_mhz, phase=phase, batch=batch, seq=seq, context=context,
        dtype=dtype, choose=choose and dict(choose), bind=bind and dict(bind),
        trip_count=trip_count,
    )


def compare(
    workload: PathOrName,
    *,
    on: Sequence[PathOrName],
    stack: Optional[str] = None,
    kernel_model: Optional[str] = None,
    fit: Optional[PathOrName] = None,
    set: Optional[Mapping[str, str]] = None,
    regime: Optional[str] = None,
    sm_mhz: Optional[float] = None,
    phase: Optional[str] = None,
    batch: Optional[int] = None,
    seq: Optional[int] = None,
    context: Optional[int] = None,
    dtype: Optional[str] = None,
    choose: Optional[Mapping[str, str]] = None,
    bind: Optional[Mapping[str, int]] = None,
    trip_count: Optional[int] = None,
) -> Answer:
    """One workload on several devices, and what makes the difference from the first.

        >>> orrery.compare("resnet-50", on=["h200", "l4"], batch=64)["on"][1]["ratio"]
        >>> orrery.compare("model.mlir", on=["h200", "h200:memory.bandwidth=6TB/s"])
        >>> orrery.compare("model.mlir", on=["h200", "h200:stack=torch-eager"])

    on  two devices or more; what holds for one alone follows it behind colons

    Everything else is as for ``orrery.predict`` and holds for all.
    """
    return _call(
        "compare", workload=os.fspath(workload), on=[os.fspath(each) for each in on], stack=stack,
        kernel_model=kernel_model, fit=fit and os.fspath(fit), set=set and dict(set),
        regime=regime, sm_mhz=sm_mhz, phase=phase, batch=batch, seq=seq, context=context,
        dtype=dtype, choose=choose and dict(choose), bind=bind and dict(bind),
        trip_count=trip_count,
    )


def kernel(
    rows: Sequence[Mapping[str, Any]],
    *,
    on: PathOrName,
    kernel_model: Optional[str] = None,
    fit: Optional[PathOrName] = None,
    set: Optional[Mapping[str, str]] = None,
    regime: Optional[str] = None,
    sm_mhz: Optional[float] = None,
) -> Answer:
    """How long single operators take on a device, many at a time.

        >>> rows = [{"op": "gemm", "dtype": "bf16", "params": {"m": 512, "n": 4096, "k": 4096}}]
        >>> orrery.kernel(rows, on="h200")["kernels"][0]["predicted_us"]

    Each row is a dictionary of ``op``, ``dtype``, ``params`` and perhaps ``sm_mhz``;
    ``orrery kernel --help`` lists the operators and their parameters.
    """
    return _call(
        "kernel", rows=[dict(row) for row in rows], on=os.fspath(on), kernel_model=kernel_model,
        fit=fit and os.fspath(fit), set=set and dict(set), regime=regime, sm_mhz=sm_mhz,
    )


def calibrate(
    on: PathOrName,
    tables: Sequence[PathOrName],
    *,
    stack: Optional[str] = None,
    seed: Optional[int] = None,
    node_us: Optional[float] = None,
    prior: Optional[PathOrName] = None,
    out: Optional[PathOrName] = None,
) -> Answer:
    """Fits kernel times to measurements of a device, and writes the fit.

        >>> orrery.calibrate("h200", ["measured.csv"], out="my-h200.json")["all"]["mean_error"]
        >>> orrery.predict("model.mlir", on="h200", fit="my-h200.json")

    on       the device that was measured, or "generic": one fit for any, from several
    tables   CSV files: ``op``, ``dtype``, ``params``, ``us`` and perhaps ``sm_mhz``; for
             "generic", "DEVICE=FILE"
    stack    whose kernels were measured: a stack or its family ("torch" unless given)
    seed     of the folds that rows are held out in
    node_us  time of an empty launch on the machine to predict for
    prior    a fit over other devices to begin from, or "none"; what is shipped unless given
    out      where the fit goes; DEVICE.STACK.json unless given
    """
    return _call(
        "calibrate", on=os.fspath(on), **{"from": [os.fspath(table) for table in tables]},
        stack=stack, seed=seed, node_us=node_us, prior=prior and os.fspath(prior),
        out=out and os.fspath(out),
    )


def validate(
    table: PathOrName,
    *,
    on: PathOrName,
    stack: Optional[str] = None,
    kernel_model: Optional[str] = None,
    fit: Optional[PathOrName] = None,
    set: Optional[Mapping[str, str]] = None,
    regime: Optional[str] = None,
) -> Answer:
    """How far predictions are from measurements of kernels.

        >>> orrery.validate("measured.csv", on="h200")["models"][0]["all"]["mean_error"]

    table   a CSV as ``orrery.calibrate`` takes it
    regime  only rows measured in a "burst" or "sustained"; all unless given

    The other arguments are those of ``orrery.predict``.
    """
    return _call(
        "validate", table=os.fspath(table), on=os.fspath(on), stack=stack,
        kernel_model=kernel_model, fit=fit and os.fspath(fit), set=set and dict(set),
        regime=regime,
    )


def collective(
    kind: str,
    bytes: float = 0,
    ranks: int = 2,
    *,
    on: PathOrName,
    stride: int = 1,
    dtype: Optional[str] = None,
    library: Optional[str] = None,
    algorithm: Optional[str] = None,
    protocol: Optional[str] = None,
    network: Optional[str] = None,
    exact: Optional[bool] = None,
    slow_links: Optional[Sequence[str]] = None,
    stragglers: Optional[Sequence[str]] = None,
    background: Optional[float] = None,
    routing: Optional[str] = None,
    set: Optional[Mapping[str, str]] = None,
) -> Answer:
    """How long ranks of a cluster take for a collective.

        >>> orrery.collective("all-reduce", 2**26, 8, on="dgx-h100")["latency_s"]

    kind       "all-reduce", "all-gather", "reduce-scatter", "all-to-all" …
    bytes      as nccl-tests count them
    on         a cluster of the catalogue, or a YAML file
    stride     from one rank of the group to the next
    library    "nccl", "vllm-custom" … (``orrery.models()``)
    algorithm  forced, as NCCL_ALGO does; protocol likewise
    network    "analytic", "flow" or "packet": simulate the fabric instead (docs/networks.md)
    exact      every transfer by itself
    slow_links ["3-nvlink.0=0.5"]; stragglers ["3=2ms", "4=0.5x"]; background 0.2
    routing    of fat trees: "destination" or "hash"
    set        what-ifs: {"fabric.nvlink.bandwidth": "900 GB/s"}
    """
    return _call(
        "collective", kind=kind, bytes=bytes, ranks=ranks, on=os.fspath(on), stride=stride,
        dtype=dtype, library=library, algorithm=algorithm, protocol=protocol, network=network,
        exact=exact, slow_links=slow_links and list(slow_links),
        stragglers=stragglers and list(stragglers), background=background, routing=routing,
        set=set and dict(set),
    )


def train(
    model: PathOrName,
    *,
    on: PathOrName,
    global_batch: int,
    framework: Optional[str] = None,
    gpus: Optional[int] = None,
    tp: int = 1,
    pp: int = 1,
    vpp: int = 1,
    dp: Optional[int] = None,
    cp: int = 1,
    ep: int = 1,
    sp: bool = False,
    micro_batch: int = 1,
    seq: int = 2048,
    dtype: Optional[str] = None,
    recompute: Optional[str] = None,
    schedule: Optional[str] = None,
    zero: Optional[int] = None,
    attention: Optional[str] = None,
    layers: Optional[str] = None,
    gradients: Optional[str] = None,
    moments: Optional[str] = None,
    weights: Optional[str] = None,
    loss: Optional[str] = None,
    dispatch: Optional[str] = None,
    fused_router: Optional[bool] = None,
    overlap_tensor: Optional[bool] = None,
    overlap_experts: Optional[bool] = None,
    overlap_gradients: Optional[bool] = None,
    plain_first: int = 0,
    plain_last: int = 0,
    mtp: int = 0,
    graphs: Optional[bool] = None,
    stragglers: Optional[Sequence[str]] = None,
    slow_nodes: Optional[Sequence[str]] = None,
    set: Optional[Mapping[str, str]] = None,
) -> Answer:
    """One training step of a model on a cluster under a strategy.

        >>> orrery.train("llama3-8b", on="dgx-h100", dp=8, global_batch=128, seq=8192)["step_s"]

    model      a language model of the zoo, or a Hugging Face config.json
    framework  whose defaults hold: "megatron-core", "megatron-2022", "megatron-2021",
               "megatron-fsdp", "fsdp", "torchtitan", "maxtext"
    stragglers devices at a part of their speed: ["12=0.8", "0-7=0.9"]
    slow_nodes nodes with a part of the network's bandwidth: ["3=0.5"]
    The rest is as ``orrery train --help`` has it.
    """
    return _call(
        "train", model=os.fspath(model), on=os.fspath(on), global_batch=global_batch,
        framework=framework, gpus=gpus, tp=tp, pp=pp, vpp=vpp, dp=dp, cp=cp, ep=ep, sp=sp,
        micro_batch=micro_batch, seq=seq, dtype=dtype, recompute=recompute, schedule=schedule,
        zero=zero, attention=attention, layers=layers, gradients=gradients, moments=moments,
        weights=weights, loss=loss, dispatch=dispatch,
        fused_router=fused_router, overlap_tensor=overlap_tensor,
        overlap_experts=overlap_experts, overlap_gradients=overlap_gradients,
        plain_first=plain_first, plain_last=plain_last, mtp=mtp, graphs=graphs,
        stragglers=stragglers and list(stragglers), slow_nodes=slow_nodes and list(slow_nodes),
        set=set and dict(set),
    )


def plan(
    model: PathOrName,
    *,
    on: PathOrName,
    gpus: Union[int, Sequence[int]],
    global_batch: int,
    seq: int = 2048,
    dtype: Optional[str] = None,
    framework: Optional[str] = None,
    schedule: Optional[str] = None,
    attention: Optional[str] = None,
    layers: Optional[str] = None,
    gradients: Optional[str] = None,
    moments: Optional[str] = None,
    weights: Optional[str] = None,
    loss: Optional[str] = None,
    dispatch: Optional[str] = None,
    fused_router: Optional[bool] = None,
    overlap_tensor: Optional[bool] = None,
    overlap_experts: Optional[bool] = None,
    overlap_gradients: Optional[bool] = None,
    plain_first: Optional[int] = None,
    plain_last: Optional[int] = None,
    mtp: Optional[int] = None,
    graphs: Optional[bool] = None,
    top: Optional[int] = None,
    set: Optional[Mapping[str, str]] = None,
) -> Answer:
    """The quickest strategies to train a model on so many devices.

        >>> orrery.plan("llama3-8b", on="dgx-h100", gpus=8, global_batch=128)["best"][0]["step_s"]
    """
    return _call(
        "plan", model=os.fspath(model), on=os.fspath(on),
        gpus=gpus if isinstance(gpus, int) else list(gpus), global_batch=global_batch, seq=seq,
        dtype=dtype, framework=framework, schedule=schedule, attention=attention, layers=layers,
        gradients=gradients, moments=moments, weights=weights, loss=loss,
        dispatch=dispatch, fused_router=fused_router, overlap_tensor=overlap_tensor,
        overlap_experts=overlap_experts, overlap_gradients=overlap_gradients, plain_first=plain_first,
        plain_last=plain_last, mtp=mtp, graphs=graphs, top=top, set=set and dict(set),
    )


def serving(
    model: PathOrName,
    *,
    on: Optional[PathOrName] = None,
    pools: Optional[Sequence[Mapping[str, Any]]] = None,
    rate: Optional[float] = None,
    concurrency: Optional[int] = None,
    requests: Optional[PathOrName] = None,
    isl: Union[int, str, None] = None,
    osl: Union[int, str, None] = None,
    slo: Optional[Mapping[str, float]] = None,
    set: Optional[Mapping[str, str]] = None,
    **options: Any,
) -> Answer:
    """What users of a served model wait for. Other options are those of ``orrery serving``, with
    ``_`` for ``-``: ``tp``, ``scheduler``, ``count``, ``seed``; ``prefill`` and ``decode`` with
    ``workers``, ``tp`` … split prompts from answers. In place of ``on``, ``pools`` lists engines of
    several kinds, each with ``on``, ``replicas``, ``tp`` …, and ``role``. ``price`` is a number or
    one for each device.

        >>> orrery.serving("llama3-8b", on="h100-sxm", rate=5, osl=200)["ttft"]["p99_s"]
    """
    return _call(
        "serving", model=os.fspath(model), on=on and os.fspath(on),
        pools=pools and [dict(pool) for pool in pools], rate=rate, concurrency=concurrency,
        requests=requests and os.fspath(requests), isl=isl, osl=osl, slo=slo and dict(slo),
        set=set and dict(set), **options,
    )


def capacity(
    model: PathOrName,
    *,
    on: Union[PathOrName, Sequence[str]],
    slo: Mapping[str, float],
    rate: Union[float, str, None] = None,
    concurrency: Union[int, str, None] = None,
    devices: Optional[int] = None,
    quantile: Optional[float] = None,
    disaggregate: Optional[bool] = None,
    isl: Union[int, str, None] = None,
    osl: Union[int, str, None] = None,
    set: Optional[Mapping[str, str]] = None,
    **options: Any,
) -> Answer:
    """The most load that keeps a promise, or the cheapest engines for ``rate`` requests a second,
    ``concurrency`` users or the table ``requests`` at ``speed`` times its rate; ``"most"`` in place
    of a number finds the most. ``on`` may list several kinds of devices. ``slo`` has ``ttft_s``,
    ``tpot_s`` and ``e2e_s``; other options are those of ``serving``.

        >>> orrery.capacity("llama3-8b", on="h100-sxm", slo={"ttft_s": 1, "tpot_s": 0.05})["most"]
    """
    return _call(
        "capacity", model=os.fspath(model),
        on=os.fspath(on) if isinstance(on, (str, os.PathLike)) else list(on), slo=dict(slo),
        rate=rate, concurrency=concurrency, devices=devices, quantile=quantile, disaggregate=disaggregate, isl=isl, osl=osl,
        set=set and dict(set), **options,
    )


def inspect(
    workload: PathOrName,
    *,
    phase: Optional[str] = None,
    batch: Optional[int] = None,
    seq: Optional[int] = None,
    context: Optional[int] = None,
    dtype: Optional[str] = None,
    choose: Optional[Mapping[str, str]] = None,
    bind: Optional[Mapping[str, int]] = None,
    trip_count: Optional[int] = None,
) -> Answer:
    """What is in a workload: operations, parameters, FLOPs, bytes, collectives.

        >>> orrery.inspect("model.mlir")["flops"]

    The arguments are those of ``orrery.predict``.
    """
    return _call(
        "inspect", workload=os.fspath(workload), phase=phase, batch=batch, seq=seq,
        context=context, dtype=dtype, choose=choose and dict(choose), bind=bind and dict(bind),
        trip_count=trip_count,
    )


def replay(
    prefix: PathOrName,
    *,
    network: PathOrName,
    system: PathOrName,
    groups: Optional[PathOrName] = None,
    congestion: Optional[str] = None,
    ranks: Optional[int] = None,
    exact: Optional[bool] = None,
    write: Optional[PathOrName] = None,
) -> Answer:
    """Plays Chakra execution traces on a cluster, with ASTRA-sim's inputs and answers.

        >>> orrery.replay("step", network="network.yml", system="system.json")["total_ns"]

    ``prefix``: traces are ``PREFIX.0.et``, ``PREFIX.1.et`` …
    ``network``, ``system``, ``groups``: ASTRA-sim's network YAML, system JSON and communicator
    groups. ``congestion``: ``"aware"`` (unless given) or ``"unaware"``.
    ``ranks``: how many to play, more than were traced where all of those do the same.
    ``exact``: simulate every rank, even where one tells of all.
    ``write``: prefix to write the traces played to.
    """
    return _call(
        "replay", prefix=os.fspath(prefix), network=os.fspath(network), system=os.fspath(system),
        groups=groups and os.fspath(groups), congestion=congestion, ranks=ranks, exact=exact,
        write=write and os.fspath(write),
    )


def hardware(name: Optional[PathOrName] = None, *, set: Optional[Mapping[str, str]] = None) -> Answer:
    """The devices known, or one of them with the source of every figure.

        >>> [device["name"] for device in orrery.hardware()["devices"]]
        >>> orrery.hardware("h200")["figures"]
    """
    return _call("hardware", name=name and os.fspath(name), set=set and dict(set))


def models() -> Answer:
    """Readers, kernel models, stacks and collectives, with their equations and sources."""
    return _call("models")


def zoo() -> Answer:
    """Models that can be had by name, with the choices each leaves open."""
    return _call("zoo")
