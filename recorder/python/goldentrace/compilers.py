"""What torch.compile needs from a recording, and a recording from torch.compile.

- While it traces, it finds torch.nn.Module.__call__ as it is. A C function in the traced code would
  break the graph, or be an error under `fullgraph=True`.
- What the compiler itself calls is no part of the program.
- A graph that inductor made is opaque: of its calls some are dispatcher calls and the kernels
  between them are not, so none is recorded. Its results are inputs of the program, read by a
  `clone` that stands for the graph; what it changed in place is entered by a `copy_`.

Dynamo and inductor are imported late, by whoever compiles: all of this waits for that."""

import contextlib
import functools

import torch

from goldentrace import native, scopes
from goldentrace.imports import after_import


@contextlib.contextmanager
def _paused():
    native.pause()
    try:
        yield
    finally:
        native.resume()


def _prepare_dynamo(dynamo):
    # What it takes for unpatched is what it found when it was imported.
    for module in (dynamo.utils, dynamo.variables.nn_module):
        module.unpatched_nn_module_call = scopes.original

    # torch.compile keeps the __call__ that the model has then.
    optimized = dynamo.eval_frame.OptimizedModule
    initialize = optimized._initialize

    @functools.wraps(initialize)
    def unwatched_initialize(self, *arguments, **options):
        with scopes.unwatched():
            return initialize(self, *arguments, **options)

    optimized._initialize = unwatched_initialize

    handler = dynamo.callback.CompilationCallbackHandler  # it brackets every compilation
    install_callbacks = handler.install_callbacks

    @contextlib.contextmanager
    def paused_install_callbacks(self, *arguments, **options):
        with _paused(), scopes.unwatched(), install_callbacks(self, *arguments, **options):
            yield

    handler.install_callbacks = paused_install_callbacks


def _prepare_inductor(output_code):
    graph = output_code.CompiledFxGraph
    call = graph.__call__

    @functools.wraps(call)
    def paused_call(self, inputs):
        given = list(inputs)  # the call empties `inputs`
        with _paused():
            results = call(self, inputs)
        with contextlib.suppress(RuntimeError):
            _enter_results(given, self.mutated_input_idxs, results)
        return results

    graph.__call__ = paused_call


def _enter_results(given, changed, results):
    given = {i: tensor for i, tensor in enumerate(given) if isinstance(tensor, torch.Tensor)}
    for tensor in (given[i] for i in changed if i in given):
        with torch.inference_mode(tensor.is_inference()):
            with _paused():
                content = tensor.detach().clone()
            tensor.data.copy_(content)  # by .data: its version counter does not move
    known = {tensor.untyped_storage()._cdata for tensor in given.values()}
    with torch.no_grad():
        for tensor in results:
            if isinstance(tensor, torch.Tensor) and tensor.untyped_storage()._cdata not in known:
                tensor.clone()


# Should one fail: graphs break at the hooks, or a compiled region leaves holes.
after_import("torch._dynamo", _prepare_dynamo)
after_import("torch._inductor.output_code", _prepare_inductor)
