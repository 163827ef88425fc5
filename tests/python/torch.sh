#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Backend tutti of torch.distributed, under torchrun and after a death.
only=$*
. "${TT_SRC:-$(dirname "$0")/../..}/tests/sh.inc"
suite torch
unset TUTTI_RANK TUTTI_NRANKS

[ -f "$TT_BUILD/python/_torch.so" ] ||
	skip_all "built without PyTorch (python3-torch, libtorch-dev)"
python=$(make -s -C "$TT_BUILD" print-python)
mkdir "$tmp/site" && cp -R "$TT_SRC/python/tutti" "$tmp/site/" && chmod -R u+w "$tmp/site" &&
	cp "$TT_BUILD/python/_torch.so" "$tmp/site/tutti/" || skip_all "no room in $tmp"
PYTHONPATH=$tmp/site LD_LIBRARY_PATH=$TT_BUILD/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
export PYTHONPATH LD_LIBRARY_PATH PYTHONDONTWRITEBYTECODE OMP_NUM_THREADS

# torchrun N CASE...: at a free port
# -r and -t: the defaults fail with Python 3.11, and there is no rank 9
torchrun()
{
	n=$1
	shift
	port=$("$python" -c 'import socket
with socket.socket() as one:
    one.bind(("localhost", 0))
    print(one.getsockname()[1])')
	timeout -k 10 280 "$python" -m torch.distributed.run --rdzv_backend c10d \
		--rdzv_endpoint "localhost:$port" --rdzv_id "$$" -r 9:1 -t 9:1 \
		--nnodes 1 --nproc_per_node "$n" \
		"$TT_SRC/tests/python/torch_cases.py" "$@"
}

# Two ranks: all cases; the others: those that depend on the number of ranks.
test_ranks()
{
	torchrun "$@" >"$tmp/ranks" 2>&1 ||
		die "$(grep -v -e Warning -e launcher "$tmp/ranks" | head -n 200)"
	[ "$(grep -c '^ok strided$' "$tmp/ranks")" -ge 1 ] || die "$(tail -n 60 "$tmp/ranks")"
}

# The survivors of a killed rank get tutti's text, within the time-out.
test_death()
{
	cat >"$tmp/death.py" <<'END'
import os, signal, sys
import torch, torch.distributed as dist
import tutti.torch
rank = int(sys.argv[1])
dist.init_process_group("tutti", init_method="file://" + sys.argv[2], rank=rank, world_size=3)
tensor = torch.ones(1000)
dist.all_reduce(tensor)
if rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    while True:
        dist.all_reduce(tensor, dist.ReduceOp.MAX)
except RuntimeError as error:
    assert "tutti" in str(error) and "rank 1 on host" in str(error), str(error)
    print("survived", flush=True)
work = None
try:
    dist.all_reduce(tensor, async_op=True).get_future().wait()
except RuntimeError as error:
    assert "rank 1" in str(error), str(error)
    print("future", flush=True)
END
	for rank in 0 1 2; do
		timeout -k 5 120 "$python" "$tmp/death.py" "$rank" "$tmp/store" \
			>"$tmp/death.$rank" 2>&1 &
		eval "pid_$rank=\$!"
	done
	wait "$pid_0" || die "rank 0: $(cat "$tmp/death.0")"
	wait "$pid_2" || die "rank 2: $(cat "$tmp/death.2")"
	! wait "$pid_1" || die "rank 1 has not died"
	for rank in 0 2; do
		grep -q '^survived$' "$tmp/death.$rank" && grep -q '^future$' "$tmp/death.$rank" ||
			die "$(cat "$tmp/death.$rank")"
	done
}

# Vectors of more than 2^31 elements; for make soak.
test_large()
{
	room=$(awk '/^MemAvailable/ { print int($2 / 1048576) }' /proc/meminfo)
	[ "$room" -ge 16 ] || skip "16 GiB of memory are needed, $room are free"
	TT_LARGE=2147487744 torchrun 2 large >"$tmp/large" 2>&1 || die "$(tail -n 60 "$tmp/large")"
	[ "$(grep -c '^ok large$' "$tmp/large")" = 1 ] || die "$(tail -n 60 "$tmp/large")"
}

run ranks_2 test_ranks 2
run ranks_3 test_ranks 3 reductions messages groups threads errors
run ranks_4 test_ranks 4 movement groups ddp
run death test_death
if [ "${only:-}" = large ]; then
	run large test_large
fi
finish
