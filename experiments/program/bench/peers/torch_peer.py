"""The work of `heddle bench` in PyTorch, for its column `peer`.

    torch_peer.py version
    torch_peer.py matmul M N K DTYPE DEVICE THREADS
    torch_peer.py step MODEL BATCH DTYPE DEVICE THREADS        a training step of 3 x 112 x 112, channels_last
    torch_peer.py head CLASSES DIMENSION BATCH MICRO_BATCHES RATE DTYPE RANKS DEVICE
                                                               InsightFace's PartialFC, with ArcFace's margin

DTYPE is f32 or bf16 (autocast), DEVICE cpu or cuda. Prints one line: {"torch": its version, "seconds": of one call}.
"""
import json
import os
import signal
import statistics
import sys
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

SIDE = 112


class Block(nn.Module):
    """A residual unit of InsightFace's iresnet, or (basic) of ResNet."""

    def __init__(self, inner, outer, stride, basic):
        super().__init__()
        conv = lambda i, o, s: nn.Conv2d(i, o, 3, s, 1, bias=False)
        if basic:
            self.body = nn.Sequential(conv(inner, outer, stride), nn.BatchNorm2d(outer), nn.ReLU(),
                                      conv(outer, outer, 1), nn.BatchNorm2d(outer))
        else:
            self.body = nn.Sequential(nn.BatchNorm2d(inner), conv(inner, outer, 1), nn.BatchNorm2d(outer),
                                      nn.PReLU(outer), conv(outer, outer, stride), nn.BatchNorm2d(outer))
        self.shortcut = nn.Identity() if stride == 1 and inner == outer else nn.Sequential(
            nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))
        self.end = nn.ReLU() if basic else nn.Identity()

    def forward(self, x):
        return self.end(self.body(x) + self.shortcut(x))


def resnet(depths, basic):
    if basic:
        layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    else:
        layers = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.PReLU(64)]
    inner = 64
    for i, depth in enumerate(depths):
        for j in range(depth):
            layers.append(Block(inner, 64 << i, 2 if j == 0 and (i > 0 or not basic) else 1, basic))
            inner = 64 << i
    if basic:
        layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 512)]
    else:
        layers += [nn.BatchNorm2d(512), nn.Flatten(), nn.Linear(512 * 49, 512), nn.BatchNorm1d(512)]
    return nn.Sequential(*layers)


class VitBlock(nn.Module):
    def __init__(self, features, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(features), nn.LayerNorm(features)
        self.qkv, self.proj = nn.Linear(features, 3 * features, bias=False), nn.Linear(features, features)
        self.mlp = nn.Sequential(nn.Linear(features, 4 * features), nn.ReLU6(), nn.Linear(4 * features, features))

    def forward(self, x):
        batch, tokens, features = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, tokens, 3, self.heads, features // self.heads)
        mixed = F.scaled_dot_product_attention(*qkv.permute(2, 0, 3, 1, 4))
        x = x + self.proj(mixed.transpose(1, 2).reshape(batch, tokens, features))
        return x + self.mlp(self.norm2(x))


class Vit(nn.Module):
    """InsightFace's vision transformer for faces, without drop path."""

    def __init__(self, features, blocks, heads=8, patch=9):
        super().__init__()
        tokens = (SIDE // patch) ** 2
        self.patches = nn.Conv2d(3, features, patch, patch)
        self.position = nn.Parameter(torch.zeros(1, tokens, features))
        self.blocks = nn.Sequential(*[VitBlock(features, heads) for _ in range(blocks)], nn.LayerNorm(features))
        self.feature = nn.Sequential(nn.Flatten(), nn.Linear(features * tokens, features, bias=False),
                                     nn.BatchNorm1d(features), nn.Linear(features, 512, bias=False),
                                     nn.BatchNorm1d(512))

    def forward(self, x):
        return self.feature(self.blocks(self.patches(x).flatten(2).transpose(1, 2) + self.position))


MODELS = {
    "resnet18": lambda: resnet((2, 2, 2, 2), True),
    "iresnet18": lambda: resnet((2, 2, 2, 2), False),
    "iresnet50": lambda: resnet((3, 4, 14, 3), False),
    "vit_t": lambda: Vit(256, 12),
    "vit_s": lambda: Vit(512, 12),
}


def shortest(call, device, budget):
    """The shortest time of one call. On a GPU many are queued at once, so that the time to launch them is hidden."""
    together = 10 if device == "cuda" else 1

    def calls():
        for _ in range(together):
            call()
        if device == "cuda":
            torch.cuda.synchronize()

    calls()
    best, count, begin = float("inf"), 0, time.perf_counter()
    while count < 3 or time.perf_counter() - begin < budget:
        start = time.perf_counter()
        calls()
        best, count = min(best, (time.perf_counter() - start) / together), count + 1
    return best


def matmul(m, n, k, dtype, device, threads):
    torch.set_num_threads(int(threads))
    m, n, k = int(m), int(n), int(k)
    narrow = torch.bfloat16 if dtype == "bf16" else torch.float32
    a, b = torch.randn(m, k, device=device, dtype=narrow), torch.randn(n, k, device=device, dtype=narrow)
    c = torch.empty(m, n, device=device, dtype=narrow)
    return shortest(lambda: torch.mm(a, b.t(), out=c), device, 1)


def step(model, batch, dtype, device, threads):
    torch.set_num_threads(int(threads))
    net = MODELS[model]().to(device).to(memory_format=torch.channels_last).train()
    optimizer = torch.optim.SGD(net.parameters(), 1e-9, 0.9, fused=device == "cuda")
    images = torch.randn(int(batch), 3, SIDE, SIDE, device=device).contiguous(memory_format=torch.channels_last)

    def one():
        with torch.autocast(device, dtype=torch.bfloat16, enabled=dtype == "bf16"):
            y = net(images)
        (y.float().square().sum() / 2).backward()
        optimizer.step()
        optimizer.zero_grad()

    return shortest(one, device, 5)


class PartialFC:
    """One rank's classes: exact with rate 1, else a sample of them with the labels' own. The gradient of the softmax
    is written down, as in InsightFace's DistCrossEntropy."""

    MARGIN, SCALE, DECAY, MOMENTUM = 0.5, 64.0, 5e-4, 0.9

    def __init__(self, rank, ranks, classes, dimension, rate, narrow, device):
        self.count = classes // ranks + (rank < classes % ranks)
        self.begin = classes // ranks * rank + min(rank, classes % ranks)
        self.rate, self.narrow, self.device = rate, narrow, device
        self.weight = torch.randn(self.count, dimension, device=device) * 0.01
        self.velocity = torch.zeros_like(self.weight)

    def local(self, labels):
        mine = (labels >= self.begin) & (labels < self.begin + self.count)
        return torch.where(mine, labels - self.begin, -1)

    def sampled(self, labels):
        positive = torch.unique(labels[labels >= 0])
        priority = torch.rand(self.count, device=self.device)
        priority[positive] = 2.0
        return torch.topk(priority, max(int(self.rate * self.count), len(positive)))[1].sort()[0]

    def step(self, parts):
        """`parts`: embeddings and labels of each micro-batch, on all ranks alike."""
        chosen = self.sampled(self.local(torch.cat([labels for _, labels in parts]))) if self.rate < 1 else None
        weight = (self.weight if chosen is None else self.weight[chosen]).requires_grad_()
        total = sum(len(labels) for _, labels in parts)
        for embeddings, labels in parts:
            local = self.local(labels)
            if chosen is not None:
                local = torch.where(local >= 0, torch.searchsorted(chosen, local.clamp(min=0)), -1)
            self.micro_batch(embeddings.clone().requires_grad_(), weight, local, total)
        with torch.no_grad():
            velocity = self.velocity if chosen is None else self.velocity[chosen]
            velocity.mul_(self.MOMENTUM).add_(weight.grad.add_(weight, alpha=self.DECAY))
            moved = weight.sub_(velocity, alpha=1e-9)
            if chosen is not None:
                self.weight[chosen], self.velocity[chosen] = moved, velocity
        weight.grad = None
        self.weight = self.weight.detach()

    def micro_batch(self, embeddings, weight, local, total):
        with torch.autocast(self.device, dtype=torch.bfloat16, enabled=self.narrow):
            cosines = F.linear(F.normalize(embeddings), F.normalize(weight))
        logits = cosines.float().clamp(-1, 1)
        rows = torch.where(local >= 0)[0]
        with torch.no_grad():
            targets = torch.cos(torch.acos(logits[rows, local[rows]]) + self.MARGIN)
        logits = logits * self.SCALE
        with torch.no_grad():
            p = logits.detach().clone()
            p[rows, local[rows]] = self.SCALE * targets
            largest = p.max(1, keepdim=True)[0]
            dist.all_reduce(largest, dist.ReduceOp.MAX)
            p.sub_(largest).exp_()
            sums = p.sum(1, keepdim=True)
            dist.all_reduce(sums)
            p.div_(sums)
            p[rows, local[rows]] -= 1
            p.div_(total)
        logits.backward(p)
        dist.all_reduce(embeddings.grad)


def head_rank(rank, ranks, meeting, classes, dimension, batch, micro_batches, rate, dtype, device):
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    dist.init_process_group("nccl" if device == "cuda" else "gloo", init_method=f"file://{meeting}", rank=rank,
                            world_size=ranks)
    head = PartialFC(rank, ranks, classes, dimension, rate, dtype == "bf16", device)

    def together():
        dist.barrier()
        if device == "cuda":
            torch.cuda.synchronize()

    shared = torch.Generator().manual_seed(0)
    seconds = []
    for _ in range(4):
        parts = [(torch.randn(batch // micro_batches, dimension, generator=shared).to(device),
                  torch.randint(0, classes, (batch // micro_batches,), generator=shared).to(device))
                 for _ in range(micro_batches)]
        together()
        begin = time.perf_counter()
        head.step(parts)
        together()
        seconds.append(time.perf_counter() - begin)
    if rank == 0:
        print_result(statistics.median(seconds[1:]))


def head(classes, dimension, batch, micro_batches, rate, dtype, ranks, device):
    with tempfile.TemporaryDirectory() as folder:
        arguments = (int(ranks), os.path.join(folder, "meeting"), int(classes), int(dimension), int(batch),
                     int(micro_batches), float(rate), dtype, device)
        children = []
        for rank in range(int(ranks)):
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    head_rank(rank, *arguments)
                    code = 0
                finally:
                    sys.stdout.flush()
                    os._exit(code)
            children.append(child)
        if any(os.waitpid(child, 0)[1] for child in children):
            sys.exit("a rank failed")


def print_result(seconds):
    print(json.dumps({"torch": torch.__version__, "seconds": seconds}), flush=True)


if __name__ == "__main__":
    signal.alarm(1800)  # nobody waits for ever, for a rank that is gone either
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    name, arguments = sys.argv[1], sys.argv[2:]
    if name == "version":
        print_result(0)
    elif name == "head":
        head(*arguments)
    else:
        print_result({"matmul": matmul, "step": step}[name](*arguments))
