"""Writes mixed.safetensors with the Python library: every type the reader converts, scalars,
empty tensors and names that JSON has to escape."""
import sys
import torch
from safetensors.torch import save_file

ramp = torch.arange(-6, 6, dtype=torch.float64).reshape(3, 4) / 7
save_file({
    "z.f32": ramp.float(), "a.f64": ramp, "half": ramp.half(), "brain": ramp.bfloat16(),
    "half.special": torch.tensor([0.0, -0.0, 6e-8, -6.1e-5, 65504.0, float("inf")], dtype=torch.float16),
    "scalar": torch.tensor(7, dtype=torch.int64), "empty": torch.zeros(0, 5),
    "bytes": torch.arange(5, dtype=torch.uint8), "flags": torch.tensor([True, False]),
    'quote " back\\slash \n tab\t ä': torch.ones(1),
}, sys.argv[1], metadata={"format": "pt"})
