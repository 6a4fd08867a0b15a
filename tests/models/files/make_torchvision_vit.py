"""Writes torchvision_vit.safetensors: a small vision transformer of torchvision, with an output and its gradients.

    python make_torchvision_vit.py torchvision_vit.safetensors
It needs torch, torchvision and safetensors. All values are f64. Names without a prefix are parameters; `image`,
`output` and `output_gradient` belong to one pass in training mode, `gradient.NAME` is the gradient of a parameter.
"""

import sys

import torch
import torchvision
from safetensors.torch import save_file
from torch import nn

IMAGE = (4, 3, 12, 12)  # samples, channels, height, width


def main():
    torch.manual_seed(1)
    model = torchvision.models.VisionTransformer(
        image_size=IMAGE[2], patch_size=4, num_layers=2, num_heads=2, hidden_dim=8, mlp_dim=32, num_classes=5).double()
    for parameter in model.parameters():  # torchvision's are so small, and the last ones 0, that errors would not show
        nn.init.normal_(parameter, std=0.7)
    image = torch.randn(IMAGE, dtype=torch.float64)
    output = model(image)
    output_gradient = torch.randn_like(output)
    output.backward(output_gradient)
    tensors = {'image': image, 'output': output.detach(), 'output_gradient': output_gradient}
    for name, parameter in model.named_parameters():
        tensors[name] = parameter.detach()
        tensors['gradient.' + name] = parameter.grad
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, sys.argv[1])


main()
