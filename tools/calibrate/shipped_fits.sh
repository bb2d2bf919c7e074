#!/bin/sh
# Makes data/kernels/*.json again: tools/calibrate/shipped_fits.sh PROGRAM [SHARED_DATA]
#
# h200.torch is fitted to our own measurements (data/measured), those timed in graphs and those that a
# profiler timed and tools/calibrate/profiled_rows.py put on the same scale, moved to the launch time
# of the machine that h200/calibration.json of the shared data describes. The .xla fits are made from the
# kernels of our own programs (tools/calibrate/xla_rows.py makes their table). The .vllm fits are made from
# public tables that are not part of this project (see docs/validation.md); one row in five is
# held out of them. Other devices' .torch fits are of NeuSight's public tables, in fp32 and timed
# from Python: one over all five GPUs that it was trained on, which tells each of them better than a
# fit of its own (tables for testing are of other runs); the P4's single products ran at a
# fraction of its clock, which calibrate sees by the rest and leaves out. The generic fits are for
# devices that have none of their own: one for each protocol, since tables that were measured in
# different ways are not to be mixed. b200.vllm is of 264 rows of aiconfigurator's B200 (Apache-2.0,
# campaign_checkpoints/b200_sxm at commits 8367b792, 019f1a1e and 77a06bf6: products in bf16, attention,
# and a part of the experts' table), begun from the generic fit; it is made again where they lie in
# the folder of public tables as b200_sxm_*.csv.
set -eu
program=$1
tables=${2:-../shared/data}/gpu/silicon
"$program" calibrate h200 --from data/measured/h200_kernels.csv.gz \
  --from data/measured/h200_kernels_profiled.csv.gz --stack torch --node-us 0.9535 \
  --out data/kernels/h200.torch.json
"$program" calibrate generic --from h200=data/measured/h200_kernels.csv.gz --stack torch \
  --node-us 0.9535 --out data/kernels/generic.torch.json
"$program" calibrate h200 --from data/measured/h200_xla_kernels.csv.gz --stack xla \
  --out data/kernels/h200.xla.json
"$program" calibrate generic --from h200=data/measured/h200_xla_kernels.csv.gz --stack xla \
  --out data/kernels/generic.xla.json
neusight=${2:-../shared/data}/gpu/neusight
if [ -d "$neusight" ]; then
  set --
  for table in add bmm gelu linear ln softmax; do set -- "$@" --from "$neusight/train_$table.csv"; done
  "$program" calibrate generic "$@" --stack torch --out \
    data/kernels/a100-pcie-40gb+a100-pcie-80gb+p100+p4+t4+v100-pcie-32gb.torch.json
  for pair in mi100:MI100 mi210:MI210; do
    of=AMD_Instinct_${pair##*:}.csv
    "$program" calibrate "${pair%%:*}" --from "$neusight/amd_bmm_$of" \
      --from "$neusight/amd_linear_$of" --stack torch --prior none \
      --out "data/kernels/${pair%%:*}.torch.json"
  done
fi
[ -d "$tables" ] || { echo "no public tables in $tables: the .vllm fits stay as they are"; exit 0; }
set --
for pair in a100-sxm-80gb:a100_sxm h100-sxm:h100_sxm h200:h200_sxm l40s:l40s; do
  device=${pair%%:*}
  prefix=$tables/${pair##*:}
  "$program" calibrate "$device" --from "${prefix}_gemm.csv" \
    --from "${prefix}_context_attention.csv" --from "${prefix}_generation_attention.csv" \
    --from "${prefix}_moe.csv" --stack vllm --hold-out 5 --out "data/kernels/$device.vllm.json"
  for table in gemm context_attention generation_attention moe; do
    set -- "$@" --from "$device=${prefix}_$table.csv"
  done
done
"$program" calibrate generic "$@" --stack vllm --hold-out 5 --out data/kernels/generic.vllm.json
if [ -e "${tables}/b200_sxm_gemm.csv" ]; then
  "$program" calibrate b200 --from "${tables}/b200_sxm_gemm.csv" \
    --from "${tables}/b200_sxm_context_attention.csv" \
    --from "${tables}/b200_sxm_generation_attention.csv" --from "${tables}/b200_sxm_moe.csv" \
    --stack vllm --hold-out 5 --out data/kernels/b200.vllm.json
fi
