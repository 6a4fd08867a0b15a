"""Writes vit.safetensors: a small vision transformer of InsightFace's form in PyTorch, with an output and its gradients.

    python make_vit.py vit.safetensors
It needs torch and safetensors. All values are f64. Names without a prefix are parameters; `image`, `output` and
`output_gradient` belong to one pass in training mode, `gradient.NAME` is the gradient of a parameter.
"""

import sys

import torch
from safetensors.torch import save_file
from torch import nn

FEATURES, BLOCKS, HEADS, PATCH, EMBEDDING = 8, 2, 2, 4, 5
IMAGE = (4, 3, 10, 9)  # samples, channels, height, width: the last pixels do not fill a patch


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(FEATURES, 3 * FEATURES, bias=True)
        self.proj = nn.Linear(FEATURES, FEATURES)

    def forward(self, x):
        samples, tokens, _ = x.shape
        parts = self.qkv(x).reshape(samples, tokens, 3, HEADS, FEATURES // HEADS).permute(2, 0, 3, 1, 4)
        scores = parts[0] @ parts[1].transpose(-2, -1) * (FEATURES // HEADS) ** -0.5
        mixed = scores.softmax(-1) @ parts[2]
        return self.proj(mixed.transpose(1, 2).reshape(samples, tokens, FEATURES))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(FEATURES, 4 * FEATURES)
        self.fc2 = nn.Linear(4 * FEATURES, FEATURES)

    def forward(self, x):
        return self.fc2(nn.functional.relu6(self.fc1(x)))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(FEATURES)
        self.attn = Attention()
        self.norm2 = nn.LayerNorm(FEATURES)
        self.mlp = Mlp()

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class PatchEmbedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Conv2d(IMAGE[1], FEATURES, PATCH, PATCH)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


class VisionTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        tokens = (IMAGE[2] // PATCH) * (IMAGE[3] // PATCH)
        self.patch_embed = PatchEmbedding()
        self.pos_embed = nn.Parameter(torch.zeros(1, tokens, FEATURES))
        self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))
        self.norm = nn.LayerNorm(FEATURES)
        self.feature = nn.Sequential(
            nn.Linear(tokens * FEATURES, FEATURES, bias=False),
            nn.BatchNorm1d(FEATURES, eps=2e-5),
            nn.Linear(FEATURES, EMBEDDING, bias=False),
            nn.BatchNorm1d(EMBEDDING, eps=2e-5),
        )

    def forward(self, x):
        x = self.patch_embed(x) + self.pos_embed
        for block in self.blocks:
            x = block(x)
        return self.feature(self.norm(x).flatten(1))


def main():
    torch.manual_seed(1)
    model = VisionTransformer().double()
    for parameter in model.parameters():  # so large that ReLU6 is cut off at both ends
        nn.init.normal_(parameter, std=0.7)
    image = torch.randn(IMAGE, dtype=torch.float64)
    output = model(image)
    output_gradient = torch.randn_like(output)
    output.backward(output_gradient)
    tensors = {"image": image, "output": output.detach(), "output_gradient": output_gradient}
    for name, parameter in model.named_parameters():
        tensors[name] = parameter.detach()
        tensors["gradient." + name] = parameter.grad
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, sys.argv[1])


main()
