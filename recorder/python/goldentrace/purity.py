"""Whether a model runs the code that its modules' authors wrote, and nothing in its place.

The reference is torch's and transformers' own code for their classes; a class of anyone else's is
its own reference. `force_reference` keeps other packages' kernels out before they can get in, and
`inspect_model` names, module by module, what runs and what was put in its place. Only what can be
read off Python objects is seen: a kernel that was registered with the dispatcher is not."""

import functools
import sys
import types

import torch
from torch.nn.modules import module as module_hooks

# Packages whose kernels take the place of modelling code where they can be imported, most of them
# without asking: transformers tries `import fla` and `import causal_conv1d` on any device.
KERNEL_PACKAGES = (
    "apex", "causal_conv1d", "causal_conv1d_cuda", "cut_cross_entropy", "deep_gemm", "deepspeed",
    "fast_hadamard_transform", "fbgemm_gpu", "fla", "flag_gems", "flash_attn", "flash_attn_2_cuda",
    "flash_attn_3", "flash_attn_interface", "flash_mla", "flashinfer", "flute", "grouped_gemm",
    "kernels", "liger_kernel", "mamba_ssm", "mambapy", "megablocks", "natten", "quack",
    "sageattention", "scattermoe", "selective_scan_cuda", "sonicmoe", "transformer_engine",
    "unsloth", "vllm", "xformers", "xlstm")

# Where reference code may call into: torch, transformers, and what those need for other things
# than arithmetic.
_REFERENCE = {"torch", "transformers"}
_HARMLESS = {"accelerate", "filelock", "goldentrace", "huggingface_hub", "jinja2", "numpy",
             "packaging", "regex", "safetensors", "tokenizers", "tqdm", "typing_extensions", "yaml"}
_PLAIN_ATTENTION = {"eager", "sdpa", "paged|eager", "paged|sdpa"}
_KERNEL_EXPERTS = {"deepgemm", "sonicmoe"}
# Code of transformers that computes; the rest (utilities, generation) is not looked into.
_COMPUTING = ("transformers.activations", "transformers.cache_utils", "transformers.integrations.",
              "transformers.masking_utils", "transformers.modeling_", "transformers.models.",
              "transformers.pytorch_utils")
ROOT = "(root)"  # the model itself, whose path is ""


def force_reference():
    """From now on no kernel package can be imported, whatever is on the Python path.

    Call it before transformers is imported: it asks for these packages once, then decides."""
    for name in [*KERNEL_PACKAGES, *sys.modules]:
        if _root(name) in KERNEL_PACKAGES:
            sys.modules[name] = None  # importing it fails, and find_spec answers None


def _root(name):
    return (name or "").partition(".")[0]


def _foreign(origin):
    root = _root(origin)
    return bool(root) and root not in _REFERENCE | _HARMLESS and root not in sys.stdlib_module_names


def _origin(function):
    """The module that a callable's code stands in; functools.wraps does not deceive it."""
    if isinstance(function, types.FunctionType):
        return function.__globals__.get("__name__") or function.__module__
    if isinstance(function, (type, types.BuiltinFunctionType)):
        return function.__module__
    return type(function).__module__


def _name(function):
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", None)
    return f"{_origin(function)}.{name or type(function).__qualname__}"


def _class_name(cls):
    return f"{cls.__module__}.{cls.__qualname__}"


def _links(function):
    """`function` and every callable that it wraps: decorated, bound, partial or in its closure."""
    found, waiting = [], [function]
    while waiting:
        link = waiting.pop()
        if isinstance(link, functools.partial):
            waiting.append(link.func)
            continue
        if isinstance(link, types.MethodType):
            waiting.append(link.__func__)
            continue
        if isinstance(link, (type, torch.nn.Module)) or not callable(link):
            continue
        if any(link is other for other in found):
            continue
        found.append(link)
        waiting.append(getattr(link, "__wrapped__", None))
        for cell in getattr(link, "__closure__", None) or ():
            try:
                waiting.append(cell.cell_contents)
            except ValueError:  # not filled yet
                pass
    return found


def _names_in(code):
    """Global and attribute names in a function's code and in that of the functions inside it."""
    for name in code.co_names:
        yield name
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names_in(constant)


def _compiled(link):
    return (getattr(link, "_torchdynamo_orig_callable", None) is not None
            and not getattr(link, "_torchdynamo_disable", False))


def _custom_operator(link):
    """"namespace::name" of a dispatcher operator that is neither torch's nor transformers' own."""
    name = getattr(link, "_qualified_op_name", None) or getattr(link, "_name", None)
    if type(link).__module__ != "torch._ops" or not isinstance(name, str):
        return None
    own = ("aten", "prims", "prim", "torch", "transformers", "quantized")
    return None if name.partition("::")[0] in own else name


class _Inspection:
    """One walk over a model, with what was found out about functions and classes on the way."""

    def __init__(self):
        self._reached = {}
        self._classes = {}

    def substitutes(self, function, cls):
        """Names of what `function`, code of the reference class `cls`, runs that is not reference
        code, and the names that its code uses."""
        wrong, used, waiting, seen = [], set(), [function], set()
        while waiting:
            for link in _links(waiting.pop()):
                if id(link) in seen:
                    continue
                seen.add(id(link))
                origin = _origin(link)
                operator = _custom_operator(link)
                if isinstance(link, torch.jit.ScriptFunction):
                    wrong.append(f"{link.name} (torch.jit)")
                elif operator is not None:
                    wrong.append(f"torch.ops.{operator}")
                elif _compiled(link):
                    inner = vars(link).get("__wrapped__", link)
                    wrong.append(f"a compiled region, {_name(inner)}")
                elif _foreign(origin):
                    wrong.append(_name(link))
                elif isinstance(link, types.FunctionType) and origin.startswith(_COMPUTING):
                    names, next_ones = self._reach(link, cls)
                    used |= names
                    waiting += next_ones
        return list(dict.fromkeys(wrong)), used

    def _reach(self, function, cls):
        """(names, callables) that the code of `function` refers to, as globals or as methods."""
        key = (id(function), cls)
        if key not in self._reached:
            names, callables = set(_names_in(function.__code__)), []
            for name in names:
                value = function.__globals__.get(name)
                if isinstance(value, types.ModuleType):
                    if _root(value.__name__) in KERNEL_PACKAGES:
                        members = (getattr(value, member, None) for member in names)
                        callables += [member for member in members if callable(member)]
                elif isinstance(value, types.FunctionType) or (
                        callable(value) and not isinstance(value, type)):
                    callables.append(value)
                for owner in cls.__mro__:
                    if owner is torch.nn.Module or name not in vars(owner):
                        continue
                    method = vars(owner)[name]
                    method = getattr(method, "__func__", method)  # static and class methods
                    if isinstance(method, types.FunctionType):
                        callables.append(method)
                    break
            self._reached[key] = names, callables
        return self._reached[key]

    def replaced(self, forward, cls):
        """What stands in place of the forward of `cls`, in words, or None: its own code is
        somewhere in `forward`, and for a reference class nothing but reference code is."""
        own = {owner.__module__ for owner in cls.__mro__}
        links = _links(forward)
        if any(_compiled(link) for link in links):
            return "a compiled region (torch.compile)"
        if _root(cls.__module__) in _REFERENCE:
            for link in links:
                if _foreign(_origin(link)) and _origin(link) not in own:
                    return _name(link)
            if any(_origin(link) in own for link in links):
                return None
        elif any(_root(_origin(link)) in map(_root, own) for link in links):
            return None
        return _name(links[0]) if links else _name(forward)

    def of_class(self, cls):
        """(what its code runs that is not its own, names used by forward) for a class as such."""
        if cls not in self._classes:
            answer = [], set()
            forward = cls.forward
            replaced = self.replaced(forward, cls)
            if replaced is not None:
                answer = [replaced], set()
            elif _root(cls.__module__) in _REFERENCE:
                answer = self.substitutes(forward, cls)
            self._classes[cls] = answer
        return self._classes[cls]


def _choice(module, used):
    """(" attention=eager" and the like for modules that look their implementation up, impurity)."""
    config = getattr(module, "config", None)
    for interface, kind, field in (("ALL_ATTENTION_FUNCTIONS", "attention", "_attn_implementation"),
                                   ("experts_interface", "experts", "_experts_implementation")):
        if config is None or not hasattr(config, field):
            continue
        table = None
        for link in _links(type(module).forward):
            cells = dict(zip(link.__code__.co_freevars, link.__closure__ or ())
                         ) if isinstance(link, types.FunctionType) else {}
            if interface in cells:
                table = cells[interface].cell_contents
        if table is None and interface in used:
            table = vars(sys.modules[type(module).__module__]).get(interface)
        if table is None:
            continue
        chosen = getattr(config, field) or "eager"
        function = table.get(chosen) if chosen in table else None
        wrong = None
        if kind == "attention" and chosen not in _PLAIN_ATTENTION or chosen in _KERNEL_EXPERTS:
            wrong = f"runs {kind} {chosen}"
        elif function is not None:
            other = next((link for link in _links(function)
                          if _foreign(_origin(link)) or _compiled(link)), None)
            wrong = other and f"runs {kind} {chosen}, {_name(other)}"
        return f" {kind}={chosen}", wrong
    return "", None


def _hooks(pre_hooks, hooks):
    for kind, table in (("pre-hook", pre_hooks), ("hook", hooks)):
        for hook in table.values():
            yield kind, hook


def _wrong_hooks(module, cls):
    own = {_root(owner.__module__) for owner in cls.__mro__} - _REFERENCE
    for kind, hook in _hooks(module._forward_pre_hooks, module._forward_hooks):
        for link in _links(hook) or [hook]:
            if _foreign(_origin(link)) and _root(_origin(link)) not in own:
                yield f"forward {kind} {_name(link)}"
                break


def _inspect_module(module, parent, inspection):
    """(implementation, [what is not pure]) of one module, its children left out."""
    cls = type(module)
    name, wrong = _class_name(cls), []
    if isinstance(module, torch.jit.ScriptModule):
        return name, ["runs TorchScript (torch.jit)"]
    if cls.__module__.startswith("torch._dynamo"):
        return name, ["runs a compiled region (torch.compile)"]
    root = _root(cls.__module__)
    if root in KERNEL_PACKAGES:
        wrong.append(f"runs {name}")
    elif (_foreign(cls.__module__) and parent is not None
          and _root(parent.__module__) == "transformers"):
        wrong.append(f"runs {name}, which transformers does not put there")
    own_forward = vars(module).get("forward")
    if own_forward is not None:
        replaced = inspection.replaced(own_forward, cls)
        if replaced is not None:
            name += f", forward by {replaced}"
            wrong.append(f"runs {replaced}")
    if own_forward is None or not wrong:
        substitutes, used = inspection.of_class(cls)
        if substitutes:
            name += f", with {', '.join(substitutes)}"
            wrong += [f"runs {substitute}" for substitute in substitutes]
        choice, impurity = _choice(module, used)
        name += choice
        wrong += [impurity] if impurity else []
    call = module._compiled_call_impl
    if call is not None and any(map(_compiled, _links(call))):
        wrong.append("runs a compiled region (torch.compile)")
    if root in _REFERENCE:
        for attribute, value in vars(module).items():
            if attribute == "forward" or isinstance(value, type) or not callable(value):
                continue
            for substitute in inspection.substitutes(value, cls)[0]:
                name += f", {attribute} by {substitute}"
                wrong.append(f"{attribute} runs {substitute}")
    for table in (module._parameters, module._buffers):
        for key, tensor in table.items():
            if tensor is not None and _foreign(type(tensor).__module__):
                wrong.append(f"{key} is a {_class_name(type(tensor))}")
    wrong += _wrong_hooks(module, cls)
    return name, wrong


def _process_impurities():
    """What was put in place of torch's own functions, or runs around every module or call."""
    places = (("torch", torch), ("torch.nn.functional", torch.nn.functional),
              ("torch.Tensor", torch.Tensor), ("torch.nn.Module", torch.nn.Module))
    for place, namespace in places:
        for name, value in vars(namespace).items():
            if isinstance(value, types.FunctionType):
                for link in _links(value):
                    if _foreign(_origin(link)):
                        yield f"{place}.{name}: runs {_name(link)}"
                        break
    for kind, hook in _hooks(module_hooks._global_forward_pre_hooks,
                             module_hooks._global_forward_hooks):
        for link in _links(hook):
            if _foreign(_origin(link)):
                yield f"(every module): forward {kind} {_name(link)}"
    from torch.overrides import _get_current_function_mode_stack
    from torch.utils._python_dispatch import _get_current_dispatch_mode_stack
    for mode in (*_get_current_function_mode_stack(), *_get_current_dispatch_mode_stack()):
        if _foreign(type(mode).__module__):
            yield f"(every call): goes through {_class_name(type(mode))}"


def inspect_model(model):
    """({path: implementation}, ["path: why it is not pure"]) of every module of `model`.

    An implementation is "module.QualifiedClass", then what it looks up (" attention=eager"), then
    what runs in its place or within it that is not its own. Runs no operator."""
    inspection, answers = _Inspection(), {}
    modules, impurities, classes = {}, list(_process_impurities()), {}
    for path, module in model.named_modules(remove_duplicate=False):
        classes[path] = type(module)
        if id(module) not in answers:
            try:
                answer = _inspect_module(module, _owner(path, classes), inspection)
            except Exception as error:  # noqa: BLE001  a module may be anything; the run goes on
                answer = _class_name(type(module)), [f"can't be inspected: {error!r}"]
            answers[id(module)] = answer
        modules[path], wrong = answers[id(module)]
        impurities += [f"{path or ROOT}: {why}" for why in wrong]
    return modules, impurities


def _owner(path, classes):
    """The class of the module that holds the one at `path`, lists of modules left out."""
    while path:
        path = path.rpartition(".")[0]
        if _root(classes[path].__module__) != "torch":
            return classes[path]
    return None


# ---- warnings -----------------------------------------------------------------------------------

# Kinds that are told, but make nothing of the oracle doubtful.
HARMLESS_KINDS = ("unexpected",)


def note(model, warning):
    """Adds "kind: path: text" to what every recording of `model` will warn of."""
    vars(model).setdefault("goldentrace_warnings", []).append(warning)


def _state_warnings(model):
    """Training mode and active dropout."""
    training, dropping = [], []
    for path, module in model.named_modules():
        if not module.training:
            continue
        training.append(path or ROOT)
        rates = [value for name, value in vars(module).items() if name.endswith("dropout")]
        if isinstance(module, torch.nn.modules.dropout._DropoutNd):
            rates.append(module.p)
        if any(isinstance(rate, (int, float)) and rate > 0 for rate in rates):
            dropping.append(path or ROOT)
    for kind, what, paths in (("training", "training mode is on", training),
                              ("dropout", "dropout is active", dropping)):
        if paths:
            more = f", and in {len(paths) - 1} modules more" if len(paths) > 1 else ""
            yield f"{kind}: {paths[0]}: {what}{more}"


def warnings_of(model, impurities):
    """All warnings of a model that is about to be recorded, each "kind: path: text"."""
    return [*(f"impure: {impurity}" for impurity in impurities), *_state_warnings(model),
            *vars(model).get("goldentrace_warnings", ())]


def refusals(warnings):
    """Those that `strict` refuses."""
    return [text for text in warnings if text.partition(":")[0] not in HARMLESS_KINDS]
