#!/usr/bin/env python3
"""Exports models with open sizes from PyTorch, each by both exporters, for open_sizes.py.

    open_exports.py FOLDER [NAME]        needs torch and onnxscript

Writes FOLDER/NAME.old.onnx and FOLDER/NAME.new.onnx. The weights are random; batch normalization has statistics.
"""
import contextlib
import inspect
import io
import logging
import os
import sys
import warnings

import torch
from torch import nn
from torch.nn import functional as F

MODELS = {}


def model(*inputs):
    """The function makes the network. An input is its open dimensions by axis, and what to export it with."""
    def add(make):
        MODELS[make.__name__] = (make, inputs)
        return make
    return add


def words(batch, length):
    return torch.randint(0, 100, (batch, length))


def images(*shape):
    return torch.randn(*shape)


def conv(a, b, k=3, stride=1, groups=1, act=nn.ReLU):
    return nn.Sequential(nn.Conv2d(a, b, k, stride, k // 2, groups=groups, bias=False), nn.BatchNorm2d(b), act())


class Residual(nn.Module):
    def __init__(self, a, b, stride):
        super().__init__()
        self.a, self.b = conv(a, b, stride=stride), conv(b, b, act=nn.Identity)
        self.skip = conv(a, b, 1, stride, act=nn.Identity) if a != b or stride > 1 else nn.Identity()

    def forward(self, x):
        return F.relu(self.b(self.a(x)) + self.skip(x))


@model(({0: "batch"}, images(2, 3, 96, 96)))
def resnet18():
    blocks = [Residual(a, b, s) for a, b, s in ((64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2),
                                                 (256, 256, 1), (256, 512, 2), (512, 512, 1))]
    return nn.Sequential(conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


@model(({0: "batch", 2: "height", 3: "width"}, images(2, 3, 64, 96)))
def resnet18_images():
    return resnet18()


class Inverted(nn.Module):
    def __init__(self, a, b, stride, wider):
        super().__init__()
        self.add = stride == 1 and a == b
        mid = a * wider
        first = [conv(a, mid, 1, act=nn.ReLU6)] if wider > 1 else []
        self.run = nn.Sequential(*first, conv(mid, mid, 3, stride, mid, act=nn.ReLU6), conv(mid, b, 1, act=nn.Identity))

    def forward(self, x):
        return x + self.run(x) if self.add else self.run(x)


@model(({0: "batch"}, images(2, 3, 96, 96)))
def mobilenetv2():
    layers, a = [conv(3, 32, 3, 2, act=nn.ReLU6)], 32
    for wider, b, count, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
        for i in range(count):
            layers.append(Inverted(a, b, stride if i == 0 else 1, wider))
            a = b
    return nn.Sequential(*layers, conv(320, 1280, 1, act=nn.ReLU6), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000))


class Block(nn.Module):
    """Of a transformer; also gives its keys and values."""
    def __init__(self, width=64, heads=4):
        super().__init__()
        self.heads, self.n1, self.n2 = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, mask=None, causal=False):
        b, t, c = x.shape
        q, k, v = (p.view(b, t, self.heads, c // self.heads).transpose(1, 2) for p in self.qkv(self.n1(x)).split(c, 2))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.n2(x)), approximate="tanh")), k, v


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(100, 64), nn.Embedding(512, 64)
        self.blocks, self.head = nn.ModuleList([Block(), Block()]), nn.Linear(64, 10)

    def forward(self, w, mask=None):
        x = self.words(w) + self.places(torch.arange(w.shape[1]))
        mask = None if mask is None else (mask != 0)[:, None, None]
        for block in self.blocks:
            x = block(x, mask)[0]
        return self.head(x)


@model(({0: "batch", 1: "seq"}, words(2, 9)))
def encoder():
    return Encoder()


@model(({0: "batch", 1: "seq"}, words(2, 9)), ({0: "batch", 1: "seq"}, torch.ones(2, 9, dtype=torch.int64)))
def encoder_masked():
    return Encoder()


@model(({0: "batch", 1: "seq"}, images(2, 9, 64)))
def encoder_layers():
    """PyTorch's own; its old exporter writes the sizes that it saw into the file."""
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, activation="gelu"), 2, enable_nested_tensor=False)


class Crnn(nn.Module):
    """Convolutions, a bidirectional LSTM over the columns where `recurrent`, and a distribution for each column."""
    def __init__(self, recurrent):
        super().__init__()
        self.convs = nn.Sequential(conv(1, 16), nn.MaxPool2d(2), conv(16, 32), nn.MaxPool2d(2), conv(32, 64), nn.MaxPool2d((2, 1)), conv(64, 64))
        self.steps = nn.LSTM(64 * 4, 32, bidirectional=True, batch_first=True) if recurrent else None
        self.head = nn.Linear(64 if recurrent else 256, 37)

    def forward(self, x):
        x = self.convs(x).flatten(1, 2).transpose(1, 2)
        return self.head(self.steps(x)[0] if self.steps is not None else x).log_softmax(-1)


@model(({0: "batch", 3: "width"}, images(2, 1, 32, 100)))
def recogniser():
    return Crnn(False)


@model(({0: "batch", 3: "width"}, images(2, 1, 32, 100)))
def recogniser_lstm():
    return Crnn(True)


@model(({0: "batch"}, images(2, 12, 16)))
def lstm():
    class Lstm(nn.Module):
        def __init__(self):
            super().__init__()
            self.steps, self.head = nn.LSTM(16, 32, 2, batch_first=True, bidirectional=True), nn.Linear(64, 5)

        def forward(self, x):
            return self.head(self.steps(x)[0])
    return Lstm()


@model(({0: "batch", 1: "seq"}, images(2, 12, 16)))
def lstm_lengths():
    return lstm()


class Unet(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = conv(3, 16), conv(16, 32), conv(32, 64)
        self.up2, self.up1 = nn.ConvTranspose2d(64, 32, 2, 2), nn.ConvTranspose2d(32, 16, 2, 2)
        self.d, self.e, self.head = conv(64, 32), conv(32, 16), nn.Conv2d(16, 2, 1)

    def forward(self, x):
        a = self.a(x)
        b = self.b(F.max_pool2d(a, 2))
        c = self.c(F.max_pool2d(b, 2))
        d = self.d(torch.cat([self.up2(c), b], 1))
        return self.head(self.e(torch.cat([self.up1(d), a], 1)))


@model(({0: "batch", 2: "height", 3: "width"}, images(2, 3, 32, 48)))
def unet():
    return Unet()


class Resized(Unet):
    """Any image size: what is scaled up takes the size of what it is joined with."""
    def __init__(self):
        super().__init__()
        self.d, self.e = conv(96, 32), conv(48, 16)

    def forward(self, x):
        a = self.a(x)
        b = self.b(F.max_pool2d(a, 2))
        c = self.c(F.max_pool2d(b, 2))
        d = self.d(torch.cat([F.interpolate(c, size=b.shape[2:], mode="bilinear"), b], 1))
        return self.head(self.e(torch.cat([F.interpolate(d, size=a.shape[2:]), a], 1)))


@model(({0: "batch", 2: "height", 3: "width"}, images(2, 3, 35, 51)))
def unet_resized():
    return Resized()


class Gpt(nn.Module):
    """Prefill: what the words lead to, and the keys and values for later steps."""
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(100, 64), nn.Embedding(512, 64)
        self.blocks, self.norm = nn.ModuleList([Block(), Block()]), nn.LayerNorm(64)

    def forward(self, w):
        x, past = self.words(w) + self.places(torch.arange(w.shape[1])[None]), []
        for block in self.blocks:
            x, k, v = block(x, causal=True)
            past += [k, v]
        return self.norm(x) @ self.words.weight.T, *past


@model(({0: "batch", 1: "seq"}, words(2, 9)))
def gpt():
    return Gpt()


def settled(net):
    """With statistics in batch normalizations that keep the results from vanishing."""
    for part in net.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean.uniform_(-0.1, 0.1)
            part.running_var.uniform_(0.5, 1)
            part.weight.data.uniform_(0.8, 1.2)
    return net.eval()


def export(make, inputs, path, new):
    torch.manual_seed(1)
    net, given = settled(make()), tuple(i for _, i in inputs)
    names = [f"x{i}" for i in range(len(given))]
    with torch.no_grad(), contextlib.redirect_stdout(io.StringIO()):
        if new:
            shapes = tuple(axes for axes, _ in inputs)
            if any(p.kind == p.VAR_POSITIONAL for p in inspect.signature(net.forward).parameters.values()):
                shapes = (shapes,)
            torch.onnx.export(net, given, path, dynamo=True, external_data=False, input_names=names, verbose=False, dynamic_shapes=shapes)
        else:
            torch.onnx.export(net, given, path, dynamo=False, opset_version=17, input_names=names,
                              dynamic_axes={n: axes for n, (axes, _) in zip(names, inputs)})


def main():
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.backends.mha.set_fastpath_enabled(False)
    folder, only = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
    os.makedirs(folder, exist_ok=True)
    for name, (make, inputs) in MODELS.items():
        for new in (False, True) if only in name else ():
            try:
                export(make, inputs, os.path.join(folder, f"{name}.{'new' if new else 'old'}.onnx"), new)
            except Exception as error:
                print(f"{name}, {'new' if new else 'old'} exporter: PyTorch can't export it: {str(error).strip()[:300]}", flush=True)


if __name__ == "__main__":
    main()
