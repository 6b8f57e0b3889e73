#!/usr/bin/env bash
# An archive on Slurm: one Ray node per machine of the allocation, the driver on the first.
#   sbatch deploy/slurm.sh /share/exams /share/archive
# When the time is up, submit it again: it goes on where it stopped.
#SBATCH --job-name=dice-ce-archive
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --mem-per-cpu=2G
#SBATCH --time=24:00:00
#SBATCH --signal=B:TERM@120
set -euo pipefail

if [ $# -lt 2 ]; then
    echo "usage: sbatch slurm.sh SOURCE ARCHIVE [OPTION…]" >&2
    exit 2
fi
source_folder=$1
archive=$2
shift 2

export RAY_USAGE_STATS_ENABLED=0
cores=${SLURM_CPUS_PER_TASK:-1}
mapfile -t machines < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
head=${machines[0]}
address=$(srun --nodes=1 --ntasks=1 --nodelist="$head" hostname --ip-address | awk '{print $1}'):6379
common=(--num-cpus="$cores" --object-store-memory=100000000 --block)

srun --nodes=1 --ntasks=1 --nodelist="$head" \
    ray start --head --port=6379 --include-dashboard=false "${common[@]}" &
if [ "${#machines[@]}" -gt 1 ]; then
    others=$(IFS=,; echo "${machines[*]:1}")
    # shellcheck disable=SC2016  # the inner shell expands them
    srun --nodes=$((${#machines[@]} - 1)) --ntasks-per-node=1 --nodelist="$others" \
        bash -c 'until ray start --address="$0" "${@}"; do sleep 2; done' "$address" "${common[@]}" &
fi
until ray status --address="$address" > /dev/null 2>&1; do sleep 2; done

# The driver gets Slurm's signal two minutes before the end, and stops as for Ctrl-C. Not SIGINT: Bash has programs in
# the background ignore that.
dice-ce archive run "$source_folder" --out "$archive" --engine ray --ray-address "$address" "$@" &
driver=$!
trap 'kill -TERM "$driver"' INT TERM
code=0
wait "$driver" || wait "$driver" || code=$? # the first returns at once when the signal comes
exit "$code"
