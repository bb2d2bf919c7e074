"""Is every field of every answer in docs/json.md, and does every field there exist?

    json_fields.py PROGRAM

Under the heading of each schema ("## `orrery.predict/1`") the document has a table whose
first column names fields by their path: `memory.peak_bytes`, `kernels[].name`; `.*` stands
for keys that are names themselves (`breakdown.*`).
"""

import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Together they show every field.
COMMANDS = [
    "predict examples/gemm.mlir --on h200 --set memory.bandwidth=6TB/s",
    "predict bert-base --on tpu-v4 --phase train --stack torch-eager",
    "compare examples/gemm.mlir --on h200,h200:memory.bandwidth=6TB/s,l4",
    "kernel --on h200 --batch examples/kernels.csv --sm-mhz 1500",
    "kernel --on h200 --batch tests/golden/files/clocks.csv",
    "plan llama3-8b --on dgx-h100 --gpus 8 --global-batch 64 --seq 4096 --top 2",
    "train llama3-8b --on dgx-h100 --tp 2 --sp --dp 8 --global-batch 64 --seq 8192 "
    "--straggler 3=0.8 --slow-node 1=0.5",
    "serving llama3-8b --on h100-sxm --rate 5 --count 50 --price 2",
    "serving llama3-8b --on h100-sxm --rate 5 --count 50 --kv-host-memory 8GB --lora-rank 16 "
    "--lora-adapters 4",
    "capacity llama3-70b --on h100-sxm --devices 4 --slo ttft=1s,tpot=50ms --count 300 --price 2",
    "capacity llama3-8b --on h100-sxm --devices 2 --slo ttft=1s,tpot=50ms --count 300 --scheduler sarathi",
    "calibrate h200 --from examples/h200_kernels.csv --out /dev/null",
    "validate examples/h200_kernels.csv --on h200",
    "validate tests/golden/files/two_regimes.csv --on h200 --regime burst",
    "inspect examples/moe_8dev.mlir",
    "inspect examples/gemm_8dev.hlo",
    "inspect resnet-50",
    "inspect examples/chakra/step.0.et",
    "replay examples/chakra/step --network examples/chakra/network.yml "
    "--system examples/chakra/system.json",
    "hardware",
    "hardware h200",
    "hardware dgx-h100",
    "collective all-reduce --bytes 64MiB --ranks 8 --on dgx-h100 --algorithm ring --protocol simple",
    "collective all-reduce --bytes 64MiB --ranks 32 --on dgx-h100 --network flow",
    "collective --fit dgx-h100=tests/golden/files/collectives.csv --out /dev/null",
    "models",
    "zoo",
    "predict examples/gemm.mlir --on nowhere",
    "inspect tests/golden/files/bad_type.mlir",
]


def documented():
    """Fields by schema, in order."""
    schemas, schema = {}, None
    for line in (ROOT / "docs/json.md").read_text(encoding="utf-8").splitlines():
        if heading := re.fullmatch(r"## `(orrery\.[a-z]+/\d+)`.*", line):
            schema = schemas.setdefault(heading[1], [])
        elif line.startswith("## "):
            schema = None
        elif schema is not None and (row := re.match(r"\| `([^`]+)` \|", line)):
            schema.append(row[1])
    return schemas


def fields(value, path=""):
    if isinstance(value, dict):
        for key, inner in value.items():
            here = f"{path}.{key}" if path else key
            yield here
            yield from fields(inner, here)
    elif isinstance(value, list):
        for inner in value:
            yield from fields(inner, path + "[]")


def pattern(field):
    return re.compile(re.escape(field).replace(r"\.\*", r"\..+") + r"\Z")


def main():
    program = sys.argv[1]
    schemas = documented()
    seen = {schema: set() for schema in schemas}
    faults = []
    for command in COMMANDS:
        done = subprocess.run([program, *command.split(), "--json"], cwd=ROOT,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        answer = json.loads(done.stdout)
        schema = answer["schema"]
        if schema not in schemas:
            faults.append(f"docs/json.md has no section for {schema} (orrery {command})")
            continue
        for field in dict.fromkeys(fields(answer)):
            described = [d for d in schemas[schema] if pattern(d).match(field)]
            seen[schema].update(described)
            if not described:
                faults.append(f"{schema}: '{field}' is not in docs/json.md (orrery {command})")
    for schema, described in schemas.items():
        for field in described:
            if field not in seen[schema]:
                faults.append(f"{schema}: '{field}' of docs/json.md is in no answer")
    print("\n".join(faults) or f"{sum(map(len, seen.values()))} fields, all documented")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
