# SPDX-License-Identifier: BSD-3-Clause
"""bench.py STORE [OPTION...]: backend tutti beside gloo, in each rank of one job.

Both backends have a group of the same processes. Each cell is measured in rounds in which the two
take turns, the first one changing: the time of a round is that of the slowest rank. Rank 0 prints
medians, and the time of gloo over that of tutti."""

import argparse
import math
import os
import statistics
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import tutti.torch  # pylint: disable=unused-import

KINDS = ["all_reduce", "all_gather", "broadcast", "reduce_scatter", "ddp"]


def options():
    """The command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("store")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--min", type=int, default=1 << 10)
    parser.add_argument("--max", type=int, default=64 << 20)
    parser.add_argument("--by", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.03, help="of one backend in a round")
    parser.add_argument("--line", type=float, default=0, help="rate of a host's link, bits/s")
    parser.add_argument("--name", default="")
    return parser.parse_args()


def call_of(kind, nbytes, group, backend):
    """A call of that kind on tensors of its own, and a check of its result."""
    size, rank = dist.get_world_size(), dist.get_rank()
    n = max(nbytes // 4 // size, 1) * size
    whole, part = torch.zeros(n), torch.zeros(n // size)
    parts, mine = list(whole.chunk(size)), slice(rank * (n // size), (rank + 1) * (n // size))

    def reduce_scatter():
        if backend == "tutti":
            dist.reduce_scatter(part, parts, group=group)
        else:  # gloo has none
            dist.all_reduce(whole, group=group)
            part.copy_(whole[mine])

    def check():
        whole.fill_(rank + 1.0)
        part.fill_(rank + 1.0)
        call()
        total = size * (size + 1) / 2
        good = {"all_reduce": lambda: (whole == total).all(),
                "reduce_scatter": lambda: (part == total).all(),
                "broadcast": lambda: (whole == 1).all(),
                "all_gather": lambda: all((one == other + 1).all()
                                          for other, one in enumerate(parts))}[kind]()
        assert good, (kind, nbytes, backend)
        whole.zero_()
        part.zero_()

    call = {"all_reduce": lambda: dist.all_reduce(whole, group=group),
            "all_gather": lambda: dist.all_gather(parts, part, group=group),
            "broadcast": lambda: dist.broadcast(whole, 0, group=group),
            "reduce_scatter": reduce_scatter}[kind]
    check()
    return call


def step_of(group):
    """A step of DistributedDataParallel with 25 million parameters, on 4 examples."""
    torch.manual_seed(1)
    layers = [layer for _ in range(5) for layer in (nn.Linear(2236, 2236), nn.ReLU())]
    net = DistributedDataParallel(nn.Sequential(*layers), process_group=group)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    inputs = torch.randn(4, 2236)

    def step():
        optimizer.zero_grad(set_to_none=False)
        net(inputs).square().mean().backward()
        optimizer.step()

    return step


def slowest(seconds, group):
    """The longest of all ranks."""
    tensor = torch.tensor([seconds], dtype=torch.float64)
    dist.all_reduce(tensor, dist.ReduceOp.MAX, group=group)
    return tensor.item()


def timed(call, times, group, main):
    """Seconds of a call."""
    dist.barrier(group=group)
    begin = time.perf_counter()
    for _ in range(times):
        call()
    return slowest((time.perf_counter() - begin) / times, main)


def measure(calls, groups, args):
    """The median seconds of each backend."""
    main, times = groups["tutti"], {}
    for name, call in calls.items():
        call()
        once = timed(call, 2, groups[name], main)
        times[name] = max(1, min(2000, int(args.seconds / max(once, 1e-7))))
    found = {name: [] for name in calls}
    for turn in range(args.rounds):
        for name in sorted(calls, reverse=turn % 2 == 1):
            found[name].append(timed(calls[name], times[name], groups[name], main))
    return {name: statistics.median(values) for name, values in found.items()}


def at_line(kind, nbytes, seconds, rate):
    """The share of the link's rate at which bytes that must pass one host's link have passed."""
    size = dist.get_world_size()
    passing = {"all_reduce": 2 * (size - 1) / size, "ddp": 2 * (size - 1) / size,
               "all_gather": (size - 1) / size, "broadcast": 1.0,
               "reduce_scatter": (size - 1) / size}[kind] * nbytes
    return passing * 8 / rate / seconds


def row(kind, nbytes, found, args):
    """Print a line of the table: the ratio."""
    ratio = found["gloo"] / found["tutti"]
    line = kind != "ddp" and args.line and min(
        at_line(kind, nbytes, found[name], args.line) for name in found) >= 0.85
    good = ratio >= (0.98 if line else 1)
    if dist.get_rank() == 0:
        print(f"| {args.name} | {kind} | {nbytes} | {found['tutti'] * 1e6:.1f} | "
              f"{found['gloo'] * 1e6:.1f} | {ratio:.2f} | {'line' if line else ''}"
              f"{'' if good else ' BEHIND'} |", flush=True)
    return ratio, good


def main():
    """All cells."""
    args = options()
    torch.set_num_threads(1)
    rank, size = int(os.environ["TUTTI_RANK"]), int(os.environ["TUTTI_NRANKS"])
    dist.init_process_group("tutti", init_method="file://" + args.store, rank=rank,
                            world_size=size, timeout=timedelta(seconds=100))
    groups = {"tutti": dist.distributed_c10d._get_default_group(),
              "gloo": dist.new_group(backend="gloo", timeout=timedelta(seconds=100))}
    results = []
    for kind in args.kinds.split(","):
        nbytes = 25 * 10**6 * 4 if kind == "ddp" else args.min
        while nbytes <= args.max or kind == "ddp":
            calls = {name: step_of(group) if kind == "ddp" else call_of(kind, nbytes, group, name)
                     for name, group in groups.items()}
            results.append(row(kind, nbytes, measure(calls, groups, args), args))
            if kind == "ddp":
                break
            nbytes *= args.by
    mean = math.exp(statistics.mean(math.log(ratio) for ratio, _ in results))
    if rank == 0:
        behind = sum(not good for _, good in results)
        print(f"# {args.name}: {len(results)} cells, geometric mean {mean:.2f}, {behind} behind",
              flush=True)
    dist.barrier()


main()
