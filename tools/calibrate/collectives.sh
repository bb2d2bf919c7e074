#!/bin/sh
# Makes data/collectives again from the public tables:
#     tools/calibrate/collectives.sh build/release/orrery ../shared/data/comm
set -eu
program=$1
tables=$2
out=$(dirname "$0")/../../data/collectives
mkdir -p "$out"

fit() {  # FILE LIBRARY CLUSTER=TABLE...
  file=$1 library=$2
  shift 2
  arguments=
  for pair in "$@"; do arguments="$arguments --fit ${pair%%=*}=$tables/${pair#*=}"; done
  # shellcheck disable=SC2086
  "$program" collective $arguments --library "$library" --out "$out/$file"
}

fit a100-sxm-80gb.nvlink.nccl.json nccl dgx-a100=nccl_a100_sxm.csv
fit h100-sxm.nvlink.nccl.json nccl dgx-h100=nccl_h100_sxm.csv
fit h200.nvlink.nccl.json nccl dgx-h200=nccl_h200_sxm.csv
fit l40s.pcie.nccl.json nccl l40s-node=nccl_l40s.csv
fit generic.nvlink.nccl.json nccl dgx-h100=nccl_h100_sxm.csv dgx-h200=nccl_h200_sxm.csv
fit a100-sxm-80gb.nvlink.vllm.json vllm-custom dgx-a100=custom_allreduce_vllm_a100_sxm.csv
fit h100-sxm.nvlink.vllm.json vllm-custom dgx-h100=custom_allreduce_vllm_h100_sxm.csv
fit h200.nvlink.vllm.json vllm-custom dgx-h200=custom_allreduce_vllm_h200_sxm.csv
fit l40s.pcie.vllm.json vllm-custom l40s-node=custom_allreduce_vllm_l40s.csv
fit generic.nvlink.vllm.json vllm-custom dgx-h100=custom_allreduce_vllm_h100_sxm.csv \
  dgx-h200=custom_allreduce_vllm_h200_sxm.csv

# From public logs that are part of this repository: B200 and RTX PRO 6000 inside a node, then what
# several nodes add.
# (b200.nvlink.vllm.json is of a table that is not in the folder: see data/collectives/README.md.)
logs=$out/logs
"$program" collective --fit "dgx-b200=$logs/b200_one_node.csv" --out "$out/b200.nvlink.nccl.json"
"$program" collective --fit "rtx-pro-6000-server-node=$logs/rtx_pro_6000_behind_root.csv" \
  --out "$out/rtx-pro-6000-server.pcie.nccl.json"
"$program" collective --fit "dgx-h100=$logs/h100_two_nodes.csv" \
  --fit "dgx-b200=$logs/b200_two_nodes.csv" --out "$out/generic.network.json"
"$program" collective --fit "dgx-h100=$logs/h100_two_nodes.csv" --out "$out/h100-sxm.network.json"
"$program" collective --fit "dgx-b200=$logs/b200_two_nodes.csv" --out "$out/b200.network.json"
