"""``onnx:FILE``: a network in an ONNX file, run by onnxruntime; a model keeps the bytes of the file."""

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pucl.encoders.frozen.onnx_file import takes_other_files
from pucl.encoders.shapes import Shape
from pucl.errors import Described, InputError, bad_argument, how_to_install, one_line
from pucl.weights import need

TYPES = ("tensor(float)", "tensor(double)", "tensor(float16)", "tensor(uint8)")


class OnnxNetwork(nn.Module):
    """The file as one buffer of bytes. Images are resized to the size that the graph asks for, if it asks for one."""

    takes_bytes = True
    file: Tensor

    def __init__(self, file: Tensor, name: str) -> None:
        super().__init__()
        self.owner = f"encoder 'onnx:{name}'"
        self.register_buffer("file", file)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "session"}

    @cached_property
    def session(self) -> Any:
        """The graph, ready to run on the CPU."""
        runtime = need("onnxruntime", "encoder onnx:FILE", how_to_install("export"))
        options = runtime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = torch.get_num_threads()
        options.add_session_config_entry("session.load_model_format", "ONNX")  # not its own, which is no protobuf
        data = self.file.cpu().numpy().tobytes()
        try:
            outside = takes_other_files(data)
        except ValueError as error:
            raise InputError(f"the file cannot be read as ONNX: {error}", owner=self.owner) from None
        if outside:
            got = Described("one with numbers in other files (onnx.save(onnx.load(FILE), NEW) makes one file of them)")
            raise bad_argument(self.owner, "the graph", "one that needs no other file", got)
        try:
            session = runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
            inputs = [(each.name, each.type) for each in session.get_inputs()]
        except Exception as error:
            raise InputError(f"onnxruntime cannot read the file: {one_line(error)}", owner=self.owner) from None
        if len(inputs) != 1 or inputs[0][1] not in TYPES:
            got = Described(", ".join(f"{name}: {kind}" for name, kind in inputs))
            raise bad_argument(self.owner, "the graph", f"one with one input of {', '.join(TYPES)}", got)
        return session

    def forward(self, x: Tensor) -> Tensor:
        """Rows (n, …) → (n, k): the first output of the graph."""
        session = self.session
        try:
            wanted = session.get_inputs()[0]
            rows = self._sized(x, wanted.shape)
            array = self._typed(rows, wanted.type)
            pieces = np.split(array, len(array)) if wanted.shape and wanted.shape[0] == 1 else [array]
            parts = [session.run(None, {wanted.name: piece})[0] for piece in pieces]
            return torch.from_numpy(np.concatenate(parts).astype(np.float32)).to(x.device)
        except Exception as error:
            problem = f"the graph cannot take rows of shape {tuple(x.shape[1:])}: {one_line(error)}"
            raise InputError(problem, owner=self.owner) from None

    def _sized(self, x: Tensor, shape: list[Any]) -> Tensor:
        """Images in the size of the graph; grey ones as three channels where it wants these."""
        if x.ndim != 4 or len(shape) != 4:
            return x
        size = tuple(side if isinstance(side, int) else here for side, here in zip(shape[2:], x.shape[2:], strict=True))
        if size != tuple(x.shape[2:]):
            scale = 255.0 if x.dtype == torch.uint8 else 1.0
            resized = F.interpolate(x.float() / scale, size=size, mode="bilinear", antialias=True)
            x = (resized * 255).round().to(torch.uint8) if x.dtype == torch.uint8 else resized
        return x.expand(-1, 3, -1, -1) if x.shape[1] == 1 and shape[1] == 3 else x

    def _typed(self, x: Tensor, wanted: str) -> Any:
        """Floats within [0, 1], or bytes where the graph takes these."""
        array = x.cpu().numpy()
        if wanted == "tensor(uint8)":
            return array if array.dtype == np.uint8 else (array * 255).round().clip(0, 255).astype(np.uint8)
        array = array.astype(np.float32) / 255 if array.dtype == np.uint8 else array
        return array.astype({"tensor(double)": np.float64, "tensor(float16)": np.float16}.get(wanted, np.float32))


def load(target: str, input_shape: Shape, *, owner: str, download: bool) -> tuple[nn.Module, dict[str, Any]]:  # noqa: ARG001
    """The network in the file `target`."""
    try:
        data = Path(target).read_bytes()
    except OSError as error:
        got = Described(f"{target} ({error.strerror or error})")
        raise bad_argument(owner, "encoder", "onnx:FILE with a file that can be read", got) from None
    network = OnnxNetwork(torch.from_numpy(np.frombuffer(data, dtype=np.uint8).copy()), Path(target).name)
    _ = network.session  # what cannot be run is refused now
    return network, {"size": len(data)}


def build(target: str, input_shape: Shape, *, size: int) -> nn.Module:  # noqa: ARG001
    """The module without the bytes of its file, which are loaded later."""
    return OnnxNetwork(torch.zeros(size, dtype=torch.uint8), target)
