"""Models of PyTorch by each of its exporters, compared with PyTorch; skipped where it isn't installed."""
import importlib.util
import unittest
import warnings

import numpy as np

import nestor

INSTALLED = {name: importlib.util.find_spec(name) is not None for name in ("torch", "onnx", "onnxscript")}


@unittest.skipUnless(INSTALLED["torch"] and INSTALLED["onnx"], "PyTorch and onnx aren't installed")
class FromTorch(unittest.TestCase):
    def agree(self, module, example):
        """The compiled model's outputs are PyTorch's, by both exporters; returns the last one."""
        import torch

        module.eval()
        args, given = ((), example) if isinstance(example, dict) else (example, {})
        with torch.no_grad():
            expected = module(*args, **given)
        expected = expected if isinstance(expected, tuple) else (expected,)
        for dynamo in (False, True) if INSTALLED["onnxscript"] else (False,):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                m = nestor.from_torch(module, example, dynamo=dynamo, threads=1)
            got = m(*args, **given)
            for y, want in zip(got if isinstance(got, tuple) else (got,), expected):
                np.testing.assert_allclose(y, want.numpy(), rtol=1e-4, atol=1e-5)
        return m

    def test_a_network_with_a_shortcut(self):
        import torch
        from torch import nn

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.norm = nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16)
                self.depthwise, self.last = nn.Conv2d(16, 16, 3, 1, 1, groups=16), nn.Linear(16, 10)

            def forward(self, image):
                x = nn.functional.silu(self.norm(self.first(image)))
                return self.last((x + self.depthwise(x)).mean((2, 3))).softmax(-1)

        m = self.agree(Net(), (torch.randn(2, 3, 33, 32),))
        self.assertEqual(m.inputs[0], ("image", "f32", (2, 3, 33, 32)))

    def test_an_encoder(self):  # in evaluation mode PyTorch runs one operator, which the older exporter doesn't know
        import torch
        from torch import nn

        layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, activation="gelu")
        net = nn.Sequential(nn.Embedding(100, 32), nn.TransformerEncoder(layer, 2), nn.Linear(32, 100))
        self.agree(net, (torch.randint(0, 100, (2, 7)),))

    def test_a_recurrent_network(self):
        import torch
        from torch import nn

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.lstm = nn.LSTM(8, 16, 2, batch_first=True, bidirectional=True)

            def forward(self, x):
                y, (h, _) = self.lstm(x)
                return y[:, -1], h

        self.agree(Net(), (torch.randn(3, 5, 8),))

    def test_keyword_arguments(self):
        import torch

        class Net(torch.nn.Module):
            def forward(self, a, b):
                return a - 2 * b

        net = Net().train()
        self.agree(net, {"a": torch.randn(3, 4), "b": torch.randn(4)})
        net.train()
        m = nestor.from_torch(net, {"b": torch.randn(4), "a": torch.randn(3, 4)}, dynamo=False)
        self.assertEqual([t.name for t in m.inputs], ["a", "b"])
        self.assertTrue(net.training)


if __name__ == "__main__":
    unittest.main()
