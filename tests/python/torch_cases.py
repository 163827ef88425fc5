# SPDX-License-Identifier: BSD-3-Clause
"""torch_cases.py [CASE...]: cases of backend tutti, in each rank that torchrun has started.

The oracle computes every result from the inputs of all ranks, which each rank knows."""

import os
import sys
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

import tutti.torch
from tutti.torch import CodecState, codec_hook

DTYPES = [torch.uint8, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32,
          torch.float64, torch.complex64]
SIZES = [1, 7, 1000, 100000]


def data(rank, n, dtype=torch.float32):
    """The input of a rank: small whole numbers, so that sums are exact."""
    return ((torch.arange(n) * 7 + rank * 3) % 5).to(dtype)


def everyone(n, dtype=torch.float32):
    """The inputs of all ranks."""
    return [data(rank, n, dtype) for rank in range(dist.get_world_size())]


def same(left, right):
    """Equal in shape, type and every element."""
    assert left.dtype == right.dtype and torch.equal(left, right), (left, right)


def case_reductions():
    """all_reduce, reduce, reduce_scatter; operators; blocking, async and by future."""
    rank, size = dist.get_rank(), dist.get_world_size()
    for dtype in DTYPES:
        for n in SIZES:
            expected = sum(everyone(n, dtype)[1:], everyone(n, dtype)[0])
            tensor = data(rank, n, dtype)
            dist.all_reduce(tensor)
            same(tensor, expected)
            tensor = data(rank, n, dtype)
            work = dist.all_reduce(tensor, async_op=True)
            future = work.get_future()
            assert len(future.wait()) == 1
            same(tensor, expected)
            assert work.is_completed() and work.is_success()
            for root in range(size):
                tensor = data(rank, n, dtype)
                dist.reduce(tensor, root)
                if rank == root:
                    same(tensor, expected)
            whole = data(rank, n * size, dtype)
            total = sum(everyone(n * size, dtype)[1:], everyone(n * size, dtype)[0])
            part = torch.empty(n, dtype=dtype)
            dist.reduce_scatter(part, list(whole.chunk(size)))
            same(part, total[rank * n:(rank + 1) * n])
            dist.reduce_scatter(part, [one.clone() for one in whole.chunk(size)])
            same(part, total[rank * n:(rank + 1) * n])
            part.zero_()
            dist._reduce_scatter_base(part, whole)
            same(part, total[rank * n:(rank + 1) * n])
    stack = torch.stack(everyone(50, torch.int64))
    for op, expected in ((dist.ReduceOp.PRODUCT, stack.prod(0)), (dist.ReduceOp.MIN, stack.amin(0)),
                         (dist.ReduceOp.MAX, stack.amax(0)), (dist.ReduceOp.AVG,
                         torch.div(stack.sum(0), size, rounding_mode="trunc"))):
        tensor = data(rank, 50, torch.int64)
        dist.all_reduce(tensor, op)
        same(tensor, expected)
    tensor = torch.tensor([float(rank == 0), 1.0, 2.0])
    scaled = dist._make_nccl_premul_sum(rank + 1.0)  # PREMUL_SUM: each rank has its own factor
    dist.all_reduce(tensor, scaled)
    total = size * (size + 1) / 2
    same(tensor, torch.tensor([1.0, total, 2 * total]))
    tensor, part = data(rank, 4 * size, torch.int32), torch.empty(4, dtype=torch.int32)
    factor = dist._make_nccl_premul_sum([torch.tensor([rank + 1])])
    dist.reduce_scatter(part, list(tensor.chunk(size)), factor)
    same(part, sum((r + 1) * data(r, 4 * size, torch.int32) for r in range(size))[rank * 4:][:4])
    tensor = torch.tensor([rank == 0, False, True])
    dist.all_reduce(tensor, dist.ReduceOp.MAX)
    same(tensor, torch.tensor([True, False, True]))
    tensors = [data(rank, 5), data(rank, 9)]
    dist.all_reduce_coalesced(tensors)
    same(tensors[0], sum(everyone(5)))
    same(tensors[1], sum(everyone(9)))


def case_movement():
    """broadcast, all_gather, gather, scatter, all_to_all, barrier."""
    rank, size = dist.get_rank(), dist.get_world_size()
    for dtype in DTYPES:
        for n in SIZES:
            inputs = everyone(n, dtype)
            for root in range(size):
                tensor = inputs[root].clone() if rank == root else torch.empty(n, dtype=dtype)
                dist.broadcast(tensor, root)
                same(tensor, inputs[root])
                lists = [torch.empty(n, dtype=dtype) for _ in range(size)]
                dist.gather(inputs[rank], lists if rank == root else None, root)
                assert rank != root or all(map(torch.equal, lists, inputs))
                tensor = torch.empty(n, dtype=dtype)
                dist.scatter(tensor, inputs if rank == root else None, root)
                same(tensor, inputs[rank])
            lists = [torch.empty(n, dtype=dtype) for _ in range(size)]
            dist.all_gather(lists, inputs[rank])
            assert all(map(torch.equal, lists, inputs))
            whole = torch.empty(size * n, dtype=dtype)
            dist.all_gather(list(whole.chunk(size)), inputs[rank])
            same(whole, torch.cat(inputs))
            whole.zero_()
            dist._all_gather_base(whole, inputs[rank])
            same(whole, torch.cat(inputs))
            send = torch.cat([data(rank * size + other, n, dtype) for other in range(size)])
            wanted = torch.cat([data(other * size + rank, n, dtype) for other in range(size)])
            whole = torch.empty(size * n, dtype=dtype)
            dist.all_to_all_single(whole, send)
            same(whole, wanted)
            lists = [torch.empty(n, dtype=dtype) for _ in range(size)]
            dist.all_to_all(lists, [one.clone() for one in send.chunk(size)])
            same(torch.cat(lists), wanted)
    sent, received = [rank + 1] * size, [other + 1 for other in range(size)]
    recv = torch.empty(sum(received), 3)
    dist.all_to_all_single(recv, torch.full((sum(sent), 3), float(rank)), received, sent)
    same(recv[:, 0], torch.cat([torch.full((other + 1,), float(other)) for other in range(size)]))
    sizes = [(rank + other) % 2 * 5 for other in range(size)]  # some empty, as rank 0's first
    lists = [torch.empty(n) for n in sizes]
    dist.all_to_all(lists, [data(rank * size + other, n) for other, n in enumerate(sizes)])
    assert all(torch.equal(one, data(other * size + rank, n))
               for other, (one, n) in enumerate(zip(lists, sizes)))
    dist.barrier()
    dist.barrier(async_op=True).wait()
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": other} for other in range(size)]


def case_strided():
    """Tensors with gaps are read and written where their elements are."""
    rank, size = dist.get_rank(), dist.get_world_size()
    square = torch.zeros(6, 6)
    square[:, 2] = data(rank, 6)
    dist.all_reduce(square[:, 2])
    same(square[:, 2].contiguous(), sum(everyone(6)))
    assert square.sum() == sum(everyone(6)).sum()
    outputs = [torch.zeros(6, 6).t()[1] for _ in range(size)]
    dist.all_gather(outputs, data(rank, 6))
    assert all(map(torch.equal, outputs, everyone(6)))
    leaf = torch.empty_strided((4, 3), (1, 4)).fill_(rank).requires_grad_()
    dist.broadcast(leaf, 0)  # a parameter that is not contiguous
    same(leaf.detach(), torch.zeros(4, 3))
    dist.broadcast(leaf, 0, async_op=True).get_future().wait()  # in a thread of its own
    # views that conjugate or negate what is in memory
    values = torch.tensor([1 + 2j, 3 - 1j])
    for view, wanted in ((values.conj(), [1 - 2j, 3 + 1j]), (values[:1].conj().imag, [-2.0])):
        wanted = torch.tensor(wanted, dtype=view.dtype)
        tensor = view if rank == 0 else torch.zeros_like(wanted)
        dist.broadcast(tensor, 0)
        same(tensor.clone(), wanted)


def case_messages():
    """send, recv, isend, irecv, batches and any source."""
    rank, size = dist.get_rank(), dist.get_world_size()
    after, before = (rank + 1) % size, (rank - 1) % size
    for n in (1, 1000, 300000):
        tensor = torch.empty(n)
        work = dist.isend(data(rank, n), after, tag=3)
        dist.recv(tensor, before, tag=3)
        work.wait()
        same(tensor, data(before, n))
        requests = dist.batch_isend_irecv([
            dist.P2POp(dist.isend, data(rank, n), after), dist.P2POp(dist.irecv, tensor, before)])
        for request in requests:
            request.wait()
        same(tensor, data(before, n))
        dist.isend(data(rank, n), after)  # nothing waits for its end
        tensor.zero_()
        assert dist.recv(tensor) == before
        same(tensor, data(before, n))
        future = dist.irecv(tensor, before, tag=9).get_future()
        dist.send(data(rank, n), after, tag=9)
        same(future.wait()[0], data(before, n))


def case_overdue():
    """A receive whose message has begun to come goes on after its deadline."""
    store, overdue = dist.distributed_c10d._get_default_store(), False
    if dist.get_rank() == 1:
        work = dist.isend(data(1, 1 << 22), 0)
        dist.send(torch.ones(1), 0, tag=1)
        store.wait(["overdue"])  # without any progress of the first message
        work.wait()
    elif dist.get_rank() == 0:
        tensor = torch.zeros(1 << 22)
        work = dist.irecv(tensor, 1)
        dist.recv(torch.zeros(1), 1, tag=1)  # so the first message has matched
        try:
            work.wait(timedelta(milliseconds=1))
        except RuntimeError as error:
            assert "timed out" in str(error), error
            overdue = True
        store.set("overdue", "1")
        work.wait()
        same(tensor, data(1, 1 << 22))
        print("overdue", overdue, flush=True)


def case_groups():
    """Sub-groups, also overlapping ones, on one context."""
    rank, size = dist.get_rank(), dist.get_world_size()
    halves = [dist.new_group([other for other in range(size) if other % 2 == half] or [0])
              for half in range(2)]
    for half, group in enumerate(halves):
        members = [other for other in range(size) if other % 2 == half] or [0]
        if rank in members:
            tensor = data(rank, 100)
            dist.all_reduce(tensor, group=group)
            same(tensor, sum(data(other, 100) for other in members))
            tensor = torch.full((3,), float(rank))
            dist.broadcast(tensor, members[-1], group=group)
            assert (tensor == members[-1]).all()
    groups = [dist.new_group() for _ in range(3)]
    works = [dist.all_reduce(data(rank, 1000), group=group, async_op=True) for group in groups]
    for work in reversed(works):
        work.wait()
        same(work.result()[0], sum(everyone(1000)))
    # a future of one group does not wait for an earlier one of another, which rank 0 holds up
    if rank == 0:
        late = dist.all_reduce(data(rank, 10), group=groups[0], async_op=True).get_future()
    early = dist.all_reduce(data(rank, 10), group=groups[1], async_op=True).get_future()
    same(early.wait()[0], sum(everyone(10)))
    dist.barrier(groups[2])
    if rank != 0:
        late = dist.all_reduce(data(rank, 10), group=groups[0], async_op=True).get_future()
    same(late.wait()[0], sum(everyone(10)))
    for group in groups:
        dist.destroy_process_group(group)


def case_freed():
    """Threads that ended operations of a group end with it, also those of dropped works."""
    rank, threads = dist.get_rank(), lambda: len(os.listdir("/proc/self/task"))

    def names():
        """Of the threads, for the text of a failure."""
        return [open(f"/proc/self/task/{thread}/comm", encoding="ascii").read().strip()
                for thread in os.listdir("/proc/self/task")]

    before = threads()
    for turn in range(20):
        group = dist.new_group()
        work = dist.all_reduce(data(rank, 1000), group=group, async_op=True)
        if turn % 2:
            same(work.get_future().wait()[0], sum(everyone(1000)))
        dist.destroy_process_group(group)
        del group, work  # the thread of a work that runs frees the group
    for _ in range(500):
        if threads() <= before + 1:
            break
        time.sleep(0.01)
    assert threads() <= before + 1, f"{names()}, {before} threads before 20 groups"


def case_threads():
    """Works that threads wait for at once, test, drop while they run, or want the future of."""
    rank, size = dist.get_rank(), dist.get_world_size()
    wanted, failures = sum(everyone(3000)), []

    def use(work, how):
        try:
            if how == 0:
                work.wait(timedelta(seconds=30))
            elif how == 1:
                work.wait()
            elif how == 2:
                assert work.get_future().wait()[0].numel() == 3000
            else:
                while not work.is_completed():
                    time.sleep(0)
        except Exception as error:  # pylint: disable=broad-except
            failures.append(error)

    for turn in range(60):
        tensor = data(rank, 3000)
        work = dist.all_reduce(tensor, async_op=True)
        threads = [threading.Thread(target=use, args=(work, (turn + one) % 4)) for one in range(5)]
        for thread in threads:
            thread.start()
        if turn % 2:
            del work
        for thread in threads:
            thread.join()
        same(tensor, wanted)
        assert not failures, failures
        dist.all_reduce(data(rank, 3000), async_op=True)  # dropped while it runs
    # while one thread waits without a limit, another one's limit passes, and the work goes on
    if size > 1:
        late = torch.zeros(3000)
        if rank == 0:
            work = dist.irecv(late, 1)
            waiting = threading.Thread(target=use, args=(work, 1))
            waiting.start()
            time.sleep(0.2)
            try:
                work.wait(timedelta(milliseconds=50))
                raise AssertionError("a wait without a message has ended")
            except RuntimeError as error:
                assert "tutti: the operation has not ended in 50 ms" in str(error), error
            dist.barrier()
            waiting.join()
            same(late, data(1, 3000))
        else:
            dist.barrier()
            if rank == 1:
                dist.send(data(rank, 3000), 0)
    assert not failures, failures


def model(seed=1):
    """A small model, the same in all ranks."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(20, 300), nn.ReLU(), nn.Linear(300, 10))


def batch(rank, step):
    """The examples of a rank in a step."""
    generator = torch.Generator().manual_seed(100 * step + rank)
    return torch.randn(8, 20, generator=generator), torch.randn(8, 10, generator=generator)


def alone(steps, optimizer_of):
    """The oracle: one process that sees the batches of all ranks."""
    net = model()
    optimizer = optimizer_of(net.parameters())
    for step in range(steps):
        optimizer.zero_grad()
        losses = [nn.functional.mse_loss(net(x), y) for x, y in
                  (batch(rank, step) for rank in range(dist.get_world_size()))]
        (sum(losses) / len(losses)).backward()
        optimizer.step()
    return net


def train(net, optimizer, steps=4):
    """Steps of this rank."""
    for step in range(steps):
        optimizer.zero_grad()
        inputs, wanted = batch(dist.get_rank(), step)
        nn.functional.mse_loss(net(inputs), wanted).backward()
        optimizer.step()


def close(net, oracle, tolerance):
    """Equal parameters up to rounding, and the same bits on all ranks."""
    for mine, theirs in zip(net.parameters(), oracle.parameters()):
        assert torch.allclose(mine, theirs, atol=tolerance), (mine - theirs).abs().max()
        lists = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
        dist.all_gather(lists, mine.detach())
        assert all(torch.equal(lists[0], one) for one in lists)


def case_ddp():
    """DistributedDataParallel: plain, hooks of PyTorch, codecs as hooks, several buckets."""
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    def sgd(parameters):
        return torch.optim.SGD(parameters, lr=0.05)

    oracle = alone(4, sgd)
    for megabytes in (25, 0.005):
        net = DistributedDataParallel(model(), bucket_cap_mb=megabytes)
        train(net, sgd(net.parameters()))
        close(net, oracle, 1e-6)
    for hook, tolerance in ((default_hooks.allreduce_hook, 1e-6),
                            (default_hooks.fp16_compress_hook, 1e-2)):
        net = DistributedDataParallel(model())
        net.register_comm_hook(None, hook)
        train(net, sgd(net.parameters()))
        close(net, oracle, tolerance)
    net = DistributedDataParallel(model(), bucket_cap_mb=0.005)
    net.register_comm_hook(powerSGD_hook.PowerSGDState(
        None, matrix_approximation_rank=10, start_powerSGD_iter=2), powerSGD_hook.powerSGD_hook)
    train(net, sgd(net.parameters()))
    close(net, oracle, 1e-1)
    for codec, tolerance in (("fp16", 1e-4), ("int8", 1e-2)):
        net = DistributedDataParallel(model(), bucket_cap_mb=0.005)
        net.register_comm_hook(CodecState(codec), codec_hook)
        train(net, sgd(net.parameters()))
        close(net, oracle, tolerance)


def case_zero():
    """ZeroRedundancyOptimizer: the parameters of an optimizer that is not sharded."""
    oracle = alone(4, lambda parameters: torch.optim.Adam(parameters, lr=0.01))
    net = DistributedDataParallel(model())
    optimizer = ZeroRedundancyOptimizer(net.parameters(), torch.optim.Adam, lr=0.01)
    train(net, optimizer)
    close(net, oracle, 1e-5)
    optimizer.consolidate_state_dict(to=0)  # states of all ranks, as objects
    if dist.get_rank() == 0:
        assert len(optimizer.state_dict()["state"]) == 4


class Examples(torch.utils.data.Dataset):
    """Numbers that forked workers make."""

    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.full((20,), float(index)), os.getpid()


def case_loader():
    """A DataLoader with two forked workers while memory of this rank is registered."""
    bucket = data(dist.get_rank(), 1 << 18)
    with tutti.torch.register(bucket):
        dist.all_reduce(bucket)
        seen, makers = [], set()
        for turn, (values, maker) in enumerate(torch.utils.data.DataLoader(
                Examples(), batch_size=8, num_workers=2, multiprocessing_context="fork",
                timeout=60)):
            seen += values[:, 0].tolist()
            makers.update(maker.tolist())
            bucket.copy_(data(dist.get_rank() + turn, 1 << 18))
            dist.all_reduce(bucket)
            same(bucket, sum(data(rank + turn, 1 << 18) for rank in range(dist.get_world_size())))
    assert seen == [float(index) for index in range(64)]
    assert len(makers) == 2 and os.getpid() not in makers


def case_errors():
    """Errors carry tutti's text; the group goes on after refused arguments."""
    rank, size = dist.get_rank(), dist.get_world_size()
    group = dist.distributed_c10d._get_default_group()
    for call, text in (
            (lambda: dist.all_reduce(torch.zeros(3).to_sparse()), "dense"),
            (lambda: dist.all_gather([torch.zeros(2)] * size, torch.zeros(3)), "differ"),
            (lambda: dist.all_reduce(torch.zeros(3), dist.ReduceOp.BAND), "tutti"),
            (lambda: dist.all_reduce(torch.zeros(3, dtype=torch.bool),
                                     dist._make_nccl_premul_sum(2.0)), "truth values"),
            (lambda: dist.all_reduce_multigpu([torch.zeros(2)] * 2), "2 tensors on one device"),
            (lambda: dist.broadcast(torch.zeros(3, dtype=torch.complex32), 0), "cannot travel"),
            (lambda: dist.all_to_all_single(torch.zeros(size + 1), torch.zeros(size + 1),
                                            [1] * size, [1] * size), "split sizes"),
            (lambda: dist.all_to_all_single(torch.zeros(size), torch.zeros(size),
                                            [-1] + [1] * (size - 2) + [3], [1] * size),
             "negative"),
            (lambda: dist.all_to_all_single(torch.tensor(1.0), torch.tensor(1.0)), "dimensions"),
            (lambda: group.alltoall_base(torch.zeros(size, dtype=torch.float64),
                                         torch.zeros(size), [], []), "differ in type"),
            (lambda: group.alltoall([torch.zeros(1, dtype=torch.float64)] * size,
                                    [torch.zeros(1)] * size), "differ in type"),
            (lambda: group.allgather_coalesced([[torch.zeros(1)]] * size, [torch.zeros(9)]),
             "differ in type or size"),
            (lambda: group.allgather([], [torch.zeros(1)]), "a list of tensors is empty"),
            (lambda: group.reduce_scatter([torch.zeros(1)], []), "a list of tensors is empty"),
            (lambda: dist.all_reduce_coalesced([]), "a list of tensors is empty")):
        try:
            call()
        except (RuntimeError, ValueError) as error:
            assert text in str(error), str(error)
        else:
            raise AssertionError("no error: " + text)
    tensor = data(rank, 10)
    dist.all_reduce(tensor)
    same(tensor, sum(everyone(10)))
    group.monitored_barrier()
    group = dist.new_group()
    if size > 1:
        try:
            dist.all_reduce(torch.zeros(4 + (rank == 1)), group=group)
            dist.barrier(group=group)
        except RuntimeError as error:
            assert "count" in str(error) and "tutti" in str(error), str(error)
        else:
            raise AssertionError("ranks that differ in a count got no error")
    dist.barrier()


LARGE = int(os.environ.get("TT_LARGE", 10**4))  # elements, divisible by twice the ranks
# Elements with values of their own: the others are all alike.
MARKS = sorted({0, 1, LARGE // 2 - 1, LARGE // 2, *range(2**31 - 1, min(2**31 + 2, LARGE)),
                LARGE - 1})


def large(value, dtype=torch.int8):
    """A vector of LARGE elements: value, and in mark i value + i."""
    tensor = torch.full((LARGE,), value, dtype=dtype)
    for i, mark in enumerate(MARKS):
        tensor[mark] += i
    return tensor


def check_large(part, value, factor, begin=0):
    """As large, from element begin on, but mark i has value + factor * i."""
    marks = {mark - begin: i for i, mark in enumerate(MARKS) if 0 <= mark - begin < len(part)}
    for mark, i in marks.items():
        assert part[mark].item() == value + factor * i, (mark, part[mark])
    others = sum((piece != value).sum().item() for piece in part.split(1 << 27))
    assert others == sum(i > 0 for i in marks.values()), others


def case_large():
    """Vectors of TT_LARGE elements; soak has more than 2**31."""
    rank, size = dist.get_rank(), dist.get_world_size()
    total, last, share = size * (size + 1) // 2, size - 1, LARGE // size
    mine = slice(rank * share, (rank + 1) * share)
    for dtype in (torch.int8, torch.bfloat16):
        tensor = large(rank + 1, dtype)
        dist.all_reduce(tensor)
        check_large(tensor, total, size)
    tensor = large(9) if rank == 0 else torch.zeros(LARGE, dtype=torch.int8)
    dist.broadcast(tensor, 0)
    check_large(tensor, 9, 1)
    if rank == 0:
        dist.send(tensor, last)
    elif rank == last:
        dist.recv(tensor.zero_(), 0)
    check_large(tensor, 9, 1)
    part = tensor[mine].clone()
    dist._all_gather_base(tensor.zero_(), part)
    check_large(tensor, 9, 1)
    dist.gather(part, list(tensor.zero_().chunk(size)) if rank == last else None, last)
    if rank == last:
        check_large(tensor, 9, 1)
    dist._reduce_scatter_base(part, large(rank + 1))
    check_large(part, total, size, mine.start)
    dist.all_to_all_single(tensor, large(9))
    for block in tensor.chunk(size):
        check_large(block, 9, 1, mine.start)


CASES = ["reductions", "movement", "strided", "messages", "overdue", "groups", "freed", "threads",
         "ddp", "zero", "loader", "errors", "large"]


def main():
    """All cases, or those that are named; twice through init and destroy."""
    torch.set_num_threads(1)
    for names in (sys.argv[1:] or CASES, ["strided"]):
        dist.init_process_group("tutti", timeout=timedelta(seconds=90))
        assert dist.get_backend() == "tutti"
        for name in names:
            globals()["case_" + name]()
            if dist.get_rank() == 0:
                print("ok", name, flush=True)
        dist.destroy_process_group()
    dist.init_process_group("tutti", timeout=timedelta(seconds=90))
    # an operation that runs at the exit, and whose work lives until the interpreter's end
    return dist.all_reduce(data(dist.get_rank(), 1 << 20), async_op=True)


LAST = main()
