"""PyTorch's figures on a GPU for what `heddle bench gpu` measures, as its rows: matrix products and training steps
(channels_last; autocast for bf16). Called by gpu_check.sh where torch is importable."""
import json
import time

import torch
from torch import nn


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


def backbone(depths, basic):
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


def shortest(call, budget=3.0):
    together = 10

    def calls():
        for _ in range(together):
            call()
        torch.cuda.synchronize()

    calls()
    best, begin = float("inf"), time.perf_counter()
    while best == float("inf") or time.perf_counter() - begin < budget:
        start = time.perf_counter()
        calls()
        best = min(best, (time.perf_counter() - start) / together)
    return best


def step_rate(name, depths, basic, narrow, batch=128):
    net = backbone(depths, basic).cuda().to(memory_format=torch.channels_last).train()
    optimizer = torch.optim.SGD(net.parameters(), 1e-9, 0.9, fused=True)
    images = torch.randn(batch, 3, 112, 112, device="cuda").contiguous(memory_format=torch.channels_last)

    def step():
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=narrow):
            y = net(images)
        (y.float().square().sum() / 2).backward()
        optimizer.step()
        optimizer.zero_grad()

    row(f"{name} step, 112 x 112, batch {batch}, {'bf16' if narrow else 'f32'}", batch / shortest(step), "images/s")


def row(name, value, unit):
    rows.append({"name": name, "value": value, "unit": unit})


rows = []
torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False
for dtype, word in ((torch.float32, "f32"), (torch.bfloat16, "bf16")):
    for m, n, k in ((4096, 4096, 4096), (8192, 8192, 8192), (512, 32768, 512)):
        a, b = torch.ones(m, k, device="cuda", dtype=dtype), torch.ones(n, k, device="cuda", dtype=dtype)
        c = torch.empty(m, n, device="cuda", dtype=dtype)
        seconds = shortest(lambda: torch.mm(a, b.t(), out=c), 1.0)
        row(f"matmul {m} x {n} x {k}, {word}", 2 * m * n * k / seconds / 1e12, "TFLOP/s")
for narrow in (False, True):
    step_rate("resnet18", (2, 2, 2, 2), True, narrow)
    step_rate("iresnet50", (3, 4, 14, 3), False, narrow)
print(json.dumps({"torch": torch.__version__, "rows": rows}))
