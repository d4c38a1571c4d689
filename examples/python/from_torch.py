"""Compiles a PyTorch model, compares it with PyTorch, and saves it as one shared object for C."""

import sys

try:
    import onnx  # noqa: F401: torch.onnx needs it
    import torch
except ImportError as e:
    print(f"skipped: {e}", file=sys.stderr)
    sys.exit(77)

import nestor

net = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(),
                          torch.nn.Linear(16 * 16 * 16, 10)).eval()
x = torch.randn(1, 3, 32, 32)
m = nestor.from_torch(net, x, threads=1)
y = torch.from_numpy(m(x))
with torch.no_grad():
    torch.testing.assert_close(y, net(x), rtol=1e-4, atol=1e-4)
m.save("net.so")
print("net.so:", m)
