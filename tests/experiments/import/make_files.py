#!/usr/bin/env python3
"""Writes the files of torch.save that import_test.cpp reads: tests/experiments/import/make_files.py FOLDER

Element i of a tensor is ((7 * i) % 13 - 6) / 16, which every floating-point type holds exactly.
"""
import collections
import os
import pathlib
import sys
import zipfile

import torch


def values(*shape):
    count = torch.Size(shape).numel()
    return (((7 * torch.arange(count)) % 13 - 6) / 16).reshape(shape)


def state_dict():
    """The tensors of the model that tests/support/program/trained.h trains."""
    state = collections.OrderedDict()
    state['conv.weight'] = values(4, 1, 3, 3).half()
    state['norm.weight'] = values(4).double()
    state['norm.bias'] = values(4).bfloat16()
    state['norm.running_mean'] = values(4)
    state['norm.running_var'] = values(4).abs() + 1
    state['norm.num_batches_tracked'] = torch.tensor(9)
    # Not contiguous: the transpose of a matrix, of which the first rows are left out.
    whole = torch.zeros(258, 5)
    whole[2:] = values(5, 256).t()
    state['fc.weight'] = torch.nn.Parameter(whole[2:].t())
    state['fc.bias'] = values(5)
    return state


class Evil:
    def __reduce__(self):
        return os.system, ('true',)


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    wrapped = {'module.' + name: tensor for name, tensor in state_dict().items()}
    torch.save({'epoch': 3, 'state_dict': wrapped, 'lr': 0.1, 'best': [0.5, None, True],
                'optimizer': {'state': {}, 'param_groups': [{'lr': 0.1, 'params': [0, 1]}]}}, folder / 'wrapped.pt')
    with zipfile.ZipFile(folder / 'wrapped.pt') as stored, \
            zipfile.ZipFile(folder / 'deflated.pt', 'w', zipfile.ZIP_DEFLATED) as deflated:
        for member in stored.namelist():
            deflated.writestr(member, stored.read(member))
    torch.save({'state_dict_backbone': {'backbone.w': values(3)}, 'state_dict_softmax_fc': {'weight': values(2, 2)}},
               folder / 'two.pt')
    torch.save({'epoch': 3, 'best_acc1': torch.tensor(71.5), 'state_dict': {'w': values(3), 'b': values(2)}},
               folder / 'best.pt')
    torch.save({'state_dict_backbone': {'w': values(3), 'b': values(2), 'norm._extra_state': None},
                'state_dict_softmax_fc': {'weight': values(2, 2)}}, folder / 'extra_state.pt')
    torch.save({'w': torch.tensor([1.0, float('nan')])}, folder / 'nan.pt')
    torch.save({'w': torch.tensor([True, False])}, folder / 'bool.pt')
    torch.save({'w': values(3), 'x': Evil()}, folder / 'evil.pt')
    torch.save({'w': values(3)}, folder / 'former.pt', _use_new_zipfile_serialization=False)
    torch.save([values(3)], folder / 'list.pt')
    torch.save({'w': values(1).expand(3)}, folder / 'expanded.pt')
    with zipfile.ZipFile(folder / 'nan.pt') as stored, zipfile.ZipFile(folder / 'oversized.pt', 'w') as oversized:
        for member in stored.namelist():
            is_storage = member.endswith('/data/0')
            oversized.writestr(member.replace('nan/', 'oversized/'), bytes(4096) if is_storage else stored.read(member),
                               zipfile.ZIP_DEFLATED if is_storage else zipfile.ZIP_STORED)


if __name__ == '__main__':
    main(pathlib.Path(sys.argv[1]))
