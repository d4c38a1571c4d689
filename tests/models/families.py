#!/usr/bin/env python3
"""Exports one small network of each of many families from PyTorch, by both exporters, and compares with PyTorch.

    families.py [NAME]           needs torch and onnxscript; PYTHONPATH names the nestor package
    families.py --save FOLDER    writes one export of each, without a comparison

Each is exported with opset 17 by the old exporter and with opsets 18 and 23 by the new one, then compiled and run on the
same random inputs.
"""
import contextlib
import io
import logging
import sys
import warnings

import numpy as np
import onnx
import torch
from torch import nn
from torch.nn import functional as F

import nestor

FAMILIES = {}


def family(*shapes, ints=()):
    """The class makes the network; its inputs have these shapes, those named in `ints` are word numbers below 50."""
    def add(make):
        FAMILIES[make.__name__] = (make, shapes, ints)
        return make
    return add


class Then(nn.Module):
    def __init__(self, run, /, **parts):
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)
        self._run = run

    def forward(self, *x):
        return self._run(self, *x)


def conv(a, b, k=3, **more):
    return nn.Sequential(nn.Conv2d(a, b, k, padding=k // 2, bias=False, **more), nn.BatchNorm2d(b), nn.ReLU())


@family((1, 3, 32, 32))
def alexnet():
    return nn.Sequential(nn.Conv2d(3, 8, 5, 2, 2), nn.ReLU(), nn.MaxPool2d(3, 2), nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(), nn.Linear(16, 10))


@family((1, 3, 32, 32))
def resnet():
    return Then(lambda s, x: s.head(F.relu(s.b(s.a(x)) + s.skip(x)).mean((2, 3))), a=conv(3, 8), b=nn.Sequential(conv(8, 8), nn.Conv2d(8, 8, 1)),
                skip=nn.Conv2d(3, 8, 1), head=nn.Linear(8, 10))


@family((1, 3, 32, 32))
def mobilenet():
    return nn.Sequential(conv(3, 8, stride=2), conv(8, 8, groups=8), nn.Conv2d(8, 16, 1), nn.Hardswish(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))


@family((1, 3, 32, 32))
def squeeze_excite():
    return Then(lambda s, x: s.c(x) * s.gate(s.c(x)), c=conv(3, 8), gate=nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(8, 2, 1), nn.SiLU(), nn.Conv2d(2, 8, 1), nn.Sigmoid()))


@family((1, 3, 32, 32))
def densenet():
    return Then(lambda s, x: s.c(torch.cat([x, s.a(x), s.b(torch.cat([x, s.a(x)], 1))], 1)), a=conv(3, 8), b=conv(11, 8), c=conv(19, 4))


@family((1, 8, 16, 16))
def shufflenet():
    return Then(lambda s, x: s.a(x).view(1, 2, 4, 16, 16).transpose(1, 2).reshape(1, 8, 16, 16).chunk(2, 1)[0], a=conv(8, 8, groups=2))


@family((1, 3, 33, 35))
def inception():
    return Then(lambda s, x: torch.cat([s.a(x), s.b(x), s.c(F.avg_pool2d(x, 3, 1, 1))], 1), a=conv(3, 4, 1), b=conv(3, 4, 5), c=conv(3, 4, 1))


@family((1, 3, 32, 32))
def unet():
    def run(s, x):
        a = s.a(x)
        b = s.b(F.max_pool2d(a, 2))
        up = F.interpolate(b, scale_factor=2, mode="bilinear", align_corners=False)
        return s.c(torch.cat([a, up, s.up(b)], 1))
    return Then(run, a=conv(3, 8), b=conv(8, 16), up=nn.ConvTranspose2d(16, 8, 2, 2), c=nn.Conv2d(32, 2, 1))


@family((1, 3, 30, 40))
def deeplab():
    return Then(lambda s, x: F.interpolate(torch.cat([s.a(x), s.b(x), s.g(x).expand(-1, -1, 30, 40)], 1), size=(60, 80), mode="bilinear", align_corners=True),
                a=conv(3, 4, 1), b=nn.Conv2d(3, 4, 3, padding=6, dilation=6), g=nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(3, 4, 1)))


@family((1, 3, 64, 64))
def yolo():
    def run(s, x):
        a = s.a(x)
        box, score = s.head(a).flatten(2).permute(0, 2, 1).split([4, 6], 2)
        grid = torch.stack(torch.meshgrid(torch.arange(32), torch.arange(32), indexing="ij"), -1).reshape(1, -1, 2)
        return torch.cat([(box[..., :2].sigmoid() * 2 - 0.5 + grid) * 2, box[..., 2:].exp(), score.sigmoid()], -1)
    return Then(run, a=nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.SiLU(), nn.MaxPool2d(5, 1, 2)), head=nn.Conv2d(8, 10, 1))


@family((1, 3, 32, 32))
def vision_transformer():
    return Then(lambda s, x: s.t(torch.cat([s.cls.expand(1, -1, -1), s.p(x).flatten(2).transpose(1, 2)], 1) + s.pos)[:, 0], p=nn.Conv2d(3, 16, 8, 8),
                cls=nn.Parameter(torch.randn(1, 1, 16)), pos=nn.Parameter(torch.randn(1, 17, 16)),
                t=nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=True))


@family((1, 8, 8, 16))
def swin():
    def run(s, x):
        y = torch.roll(x, (-2, -2), (1, 2)).view(1, 2, 4, 2, 4, 16).permute(0, 1, 3, 2, 4, 5).reshape(4, 16, 16)
        y = s.a(y, y, y, need_weights=False)[0].view(1, 2, 2, 4, 4, 16).permute(0, 1, 3, 2, 4, 5).reshape(1, 8, 8, 16)
        return x + torch.roll(y, (2, 2), (1, 2))
    return Then(run, a=nn.MultiheadAttention(16, 2, batch_first=True))


@family((1, 3, 32, 32))
def convnext():
    return Then(lambda s, x: s.f(s.n(s.d(s.p(x)).permute(0, 2, 3, 1))).permute(0, 3, 1, 2) * s.g, p=nn.Conv2d(3, 8, 4, 4), d=nn.Conv2d(8, 8, 7, padding=3, groups=8),
                n=nn.LayerNorm(8), f=nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 8)), g=nn.Parameter(torch.rand(8, 1, 1)))


@family((2, 9), ints=(0,))
def transformer_encoder():
    return Then(lambda s, w: s.t(s.e(w) + s.p(torch.arange(9)), src_key_padding_mask=(w == 0)), e=nn.Embedding(50, 16), p=nn.Embedding(9, 16),
                t=nn.TransformerEncoderLayer(16, 2, 32, batch_first=True))


@family((2, 9), ints=(0,))
def transformer_decoder():
    def run(s, w):
        x = s.e(w)
        q, k, v = s.qkv(s.n(x)).view(2, 9, 3, 2, 8).permute(2, 0, 3, 1, 4)
        x = x + F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(2, 9, 16)
        return x @ s.e.weight.T
    return Then(run, e=nn.Embedding(50, 16), qkv=nn.Linear(16, 48), n=nn.LayerNorm(16))


@family((1, 7), ints=(0,))
def llama():
    def run(s, w):
        x = s.e(w)
        h = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * s.g
        q, k, v = (p(h).view(1, 7, -1, 8).transpose(1, 2) for p in (s.q, s.k, s.v))
        at = torch.outer(torch.arange(7).float(), 1 / 10000 ** (torch.arange(0, 8, 2) / 8)).repeat(1, 2)
        turn = lambda t: t * at.cos() + torch.cat([-t[..., 4:], t[..., :4]], -1) * at.sin()  # noqa: E731
        k, v = (t.repeat_interleave(2, 1) for t in (turn(k), v))
        mask = torch.full((7, 7), float("-inf")).triu(1)
        y = ((turn(q) @ k.transpose(-1, -2)) / 8 ** 0.5 + mask).softmax(-1) @ v
        return F.silu(s.up(y.transpose(1, 2).reshape(1, 7, 16))) * s.gate(x)
    return Then(run, e=nn.Embedding(50, 16), g=nn.Parameter(torch.rand(16)), q=nn.Linear(16, 16), k=nn.Linear(16, 8), v=nn.Linear(16, 8),
                up=nn.Linear(16, 32), gate=nn.Linear(16, 32))


@family((2, 6, 8), (2, 5, 8))
def encoder_decoder():
    return Then(lambda s, x, y: s.t(x, y), t=nn.Transformer(8, 2, 1, 1, 16, batch_first=True))


@family((2, 11), ints=(0,))
def lstm_tagger():
    return Then(lambda s, w: s.h(s.l(s.e(w))[0]).log_softmax(-1), e=nn.Embedding(50, 8), l=nn.LSTM(8, 6, 2, batch_first=True, bidirectional=True), h=nn.Linear(12, 5))


@family((2, 11, 8))
def gru():
    return Then(lambda s, x: s.g(x)[1], g=nn.GRU(8, 6, batch_first=True))


@family((1, 8, 40))
def wavenet():
    return Then(lambda s, x: x + torch.tanh(s.a(F.pad(x, (8, 0)))) * torch.sigmoid(s.b(F.pad(x, (8, 0)))), a=nn.Conv1d(8, 8, 3, dilation=4), b=nn.Conv1d(8, 8, 3, dilation=4))


@family((1, 8, 20))
def vits():
    def run(s, x):
        a, b = s.a(x).chunk(2, 1)
        z = a + torch.ones_like(b) * torch.exp(b) * 0.5
        return torch.tanh(s.c(F.leaky_relu(s.up(z), 0.1)))
    return Then(run, a=nn.Conv1d(8, 16, 5, padding=2), up=nn.ConvTranspose1d(8, 4, 8, 4, 2), c=nn.Conv1d(4, 1, 7, padding=3))


@family((1, 16, 8))
def longformer():
    def run(s, x):
        q, k = s.q(x), F.pad(s.k(x), (0, 0, 4, 4)).unfold(1, 9, 1)
        p = torch.einsum("btd,btdw->btw", q, k).softmax(-1)
        return torch.einsum("btw,btdw->btd", p, F.pad(x, (0, 0, 4, 4)).unfold(1, 9, 1))
    return Then(run, q=nn.Linear(8, 8), k=nn.Linear(8, 8))


@family((1, 10, 8))
def mamba():
    def run(s, x):
        step, b, c = F.softplus(s.dt(x)), s.b(x), s.c(x)
        h, out = torch.zeros(1, 8, 4), []
        for t in range(10):
            h = torch.exp(step[:, t, :, None] * s.a) * h + step[:, t, :, None] * b[:, t, None] * x[:, t, :, None]
            out.append((h * c[:, t, None]).sum(-1))
        return torch.stack(out, 1)
    return Then(run, dt=nn.Linear(8, 8), b=nn.Linear(8, 4), c=nn.Linear(8, 4), a=nn.Parameter(-torch.rand(8, 4)))


@family((1, 12, 8))
def fnet():
    def run(s, x):
        n = torch.outer(torch.arange(12).float(), torch.arange(12).float()) * (2 * torch.pi / 12)
        m = torch.outer(torch.arange(8).float(), torch.arange(8).float()) * (2 * torch.pi / 8)
        return s.n(x + n.cos() @ x @ m.cos() - n.sin() @ x @ m.sin())
    return Then(run, n=nn.LayerNorm(8))


@family((1, 3, 16, 16))
def diffusion():
    return Then(lambda s, x: s.c(F.silu(s.n(s.a(x) + s.t(torch.cat([torch.sin(s.w), torch.cos(s.w)]))[None, :, None, None]))), a=nn.Conv2d(3, 8, 3, padding=1),
                n=nn.GroupNorm(4, 8), t=nn.Linear(8, 8), w=nn.Parameter(torch.rand(4)), c=nn.Conv2d(8, 3, 3, padding=1))


@family((1, 3, 24, 24))
def super_resolution():
    return nn.Sequential(nn.Conv2d(3, 12, 3, padding=1), nn.PixelShuffle(2), nn.PReLU(), nn.Upsample(scale_factor=2, mode="nearest"))


@family((2, 5, 6), (2, 5, 5))
def graph_network():
    return Then(lambda s, x, a: F.elu(s.w(torch.bmm((a > 0).float() / (a > 0).float().sum(-1, keepdim=True).clamp(min=1), x))).amax(1), w=nn.Linear(6, 4))


@family((4, 3), (4, 20))
def recommender():
    return Then(lambda s, d, u: (s.m(torch.cat([s.d(d), s.e(u.abs().argmax(1))], 1))).sigmoid(), d=nn.Linear(3, 4), e=nn.Embedding(20, 4), m=nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1)))


def exported(net, inputs, opset, new):
    file = io.BytesIO()
    with torch.no_grad(), contextlib.redirect_stdout(io.StringIO()):
        if new:
            torch.onnx.export(net, inputs, dynamo=True, opset_version=opset, verbose=False).save(file)
        else:
            torch.onnx.export(net, inputs, file, dynamo=False, opset_version=opset)
    return onnx.load_from_string(file.getvalue())


def save(folder):
    for name, (make, shapes, ints) in FAMILIES.items():
        torch.manual_seed(1)
        inputs = tuple(torch.randint(0, 50, s) if i in ints else torch.randn(s) for i, s in enumerate(shapes))
        model = exported(make().eval(), inputs, 18, True)
        for part in [model, model.graph, *model.graph.node, *model.graph.value_info, *model.graph.initializer, *model.graph.input, *model.graph.output]:
            del part.metadata_props[:]
            part.doc_string = ""
        del model.graph.value_info[:]
        onnx.save(model, f"{folder}/{name}.onnx")


def main():
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.backends.mha.set_fastpath_enabled(False)
    if sys.argv[1:2] == ["--save"]:
        return save(sys.argv[2])
    only, failed, count = sys.argv[1] if len(sys.argv) > 1 else "", 0, 0
    for name, (make, shapes, ints) in FAMILIES.items():
        if only not in name:
            continue
        torch.manual_seed(1)
        net = make().eval()
        inputs = tuple(torch.randint(0, 50, s) if i in ints else torch.randn(s) for i, s in enumerate(shapes))
        with torch.no_grad():
            wanted = net(*inputs).numpy()
        for opset, new in ((17, False), (18, True), (23, True)):
            what = f"{name}, {'new' if new else 'old'} exporter, opset {opset}"
            try:
                model = exported(net, inputs, opset, new)
            except Exception as error:
                print(f"{what}: PyTorch can't export it: {str(error).splitlines()[0][:100]}", flush=True)
                continue
            count += 1
            try:
                got = nestor.compile(model, threads=1)(*[i.numpy() for i in inputs])
                apart = float(np.abs(got - wanted).max())
                right = apart <= 1e-4 * max(1, float(np.abs(wanted).max()))
            except Exception as error:
                right, apart = False, str(error)[:400]
            failed += not right
            if not right:
                print(f"{what}: WRONG: {apart}", flush=True)
    print(f"{count} exports of {len(FAMILIES)} families, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
