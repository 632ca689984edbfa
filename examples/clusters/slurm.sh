#!/bin/bash
# sbatch examples/clusters/slurm.sh FOLDER STEPS
#SBATCH --job-name=train
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
# Two minutes before the time is over, and when the job is preempted, all processes save.
#SBATCH --signal=TERM@120

srun --kill-on-bad-exit=1 python examples/clusters/resumable.py "$1" "$2" || exit
if [ ! -e "$1/ended" ]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
