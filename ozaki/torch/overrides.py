"""PyTorch's own operators, replaced: this library's kernels under the names `aten::mm` and so on.

They are registered once for the process, when the mode is first entered. Outside of the mode, and for
arguments that are not this library's, they call the kernels that they replaced.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from ozaki.torch import (
    attention,
    convolutions,
    draws,
    elementwise,
    layers,
    lists,
    losses,
    norms,
    optimizers,
    pooling,
    products,
    reductions,
    sparse,
)
from ozaki.torch.independent import by_machine, floating, instead_of, varies, watched
from ozaki.torch.notes import both
from ozaki.torch.products import delivered
from ozaki.torch.settings import REPLACEABLE, Settings, active

_DEVICES = ("CPU", "CUDA") if torch.version.cuda else ("CPU",)

_LAYERS = {"CPU": "mkldnn_rnn_layer", "CUDA": "_cudnn_rnn"}
_RECURRENT = {device: (name, f"{name}_backward") for device, name in _LAYERS.items()}
RECURRENT = {name for names in _RECURRENT.values() for name in names}
"""PyTorch's fused recurrent layers, whose calls are counted as native."""

_OTHERS = (
    *("_linalg_solve_ex", "linalg_inv_ex", "linalg_lstsq"),
    *("linalg_lu_solve", "linalg_ldl_solve", "linalg_solve_triangular"),
    *("cholesky_solve", "cholesky_inverse", "triangular_solve"),
)
_SPARSE = {"Sparse": ("addmm",), "SparseCsr": ("addmm", "mv", "sparse_sampled_addmm")}
"""Products of sparse tensors, by layout; PyTorch makes nearly all others of these."""

SPARSE = {f"sparse {name}" for names in _SPARSE.values() for name in names}
"""Operators that are replaced but for products of two sparse tensors, whose calls are counted as native."""

NEVER_REPLACED = {*_OTHERS}
"""Operators whose calls are counted as native, in every dtype."""

CONVOLUTIONS = convolutions.KERNELS.keys()
"""Operators that a mode of everything replaces, and whose calls are counted as native in others."""

_OF_EVERYTHING = {
    **elementwise.KERNELS,
    **layers.KERNELS,
    **losses.KERNELS,
    **norms.KERNELS,
    **pooling.KERNELS,
}
"""What computes the operators that a mode of everything replaces, by the name of the overload."""

_FUNCTIONS = {
    name.partition(".")[0].rstrip("_") for name in _OF_EVERYTHING if name not in elementwise.STEPWISE
}
"""Their names without overloads, of those that it replaces in the dtypes that it is asked to."""

_COMPOSED: dict[str, Callable[..., Any]] = {
    "scaled_dot_product_attention": attention.composed,
    "dropout": draws.dropout,
}
"""Operators that are taken apart before PyTorch differentiates them: it fuses them on some devices."""

_lock = threading.Lock()
"""Held while overrides are made or taken back."""
_libraries: list[torch.library.Library] = []
"""What is registered: the kernels of products and sums, then those of everything else."""


def register(everything: bool = False) -> None:
    """Register the kernels, or those of everything, unless they are registered."""
    with _lock:
        for makers in ((_kernels, _others) if everything else (_kernels,))[len(_libraries) :]:
            library = torch.library.Library("aten", "IMPL")
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "(?s).*previously registered kernel", UserWarning)
                for name, key, kernel in list(makers()):  # which looks up what is replaced first
                    library.impl(name, kernel, key, with_keyset=True)
            _libraries.append(library)
            if makers is _others:
                register_optimizer_step_pre_hook(optimizers.refuse_other_formulas)


def _kernels() -> Iterator[tuple[str, str, Callable[..., Any]]]:
    """Yield the operators with kernels of ours, the dispatch key of each, and the kernel."""
    registered = set()
    for name, key, kernel in _replacing():
        registered.add((name, key))
        yield name, key, kernel
    for device in _DEVICES:
        for name in watched(device):
            if (name, device) not in registered:
                yield name, device, _in_everything(name, device, _watching(name, device))


def _others() -> Iterator[tuple[str, str, Callable[..., Any]]]:
    """Yield the operators that concern a mode of everything alone: others were overridden before.

    An operator is overridden once: PyTorch refuses it a second time.
    """
    known = {*torch._C._dispatch_get_all_op_names()}  # not every function has every form
    for device in _DEVICES:
        machines = {*by_machine(device)}
        names = (_OF_EVERYTHING.keys() | draws.KERNELS.keys() | machines) - {*watched(device)}
        if device == "CPU":
            names -= elementwise.ON_GPUS
        for name in sorted(n for n in names if f"aten::{n}" in known):
            if torch._C._dispatch_has_computed_kernel_for_dispatch_key(f"aten::{name}", device):
                native = torch.library.get_kernel(f"aten::{name}", device).call_boxed
                otherwise = _watching(name, device) if name in machines else native
                yield name, device, _in_everything(name, device, otherwise)


def _in_everything(name: str, device: str, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel that computes what a mode of everything replaces, and else calls another one."""
    if name in draws.KERNELS:
        return _drawing(name, device, otherwise)
    if name in optimizers.KERNELS:
        return _of_lists(name, optimizers.KERNELS[name], otherwise)
    if name.startswith("_foreach_"):
        return _of_lists(name, lists.one_by_one(name), otherwise)
    if name not in _OF_EVERYTHING:
        return otherwise
    kernel = _replaced(name, otherwise)
    return _adding(name, kernel, otherwise) if name in _ADDITIONS else kernel


def _replaced(name: str, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """Return an operator's kernel: in a mode of everything this library's, else what `otherwise` returns."""
    compute, operator, tensors = _OF_EVERYTHING[name], _operator(name), _tensors(name)
    in_place, stepwise = name.partition(".")[0].endswith("_"), name in elementwise.STEPWISE
    promoted = operator in elementwise.UNARY and not in_place
    target = "grad_input" if name.endswith(".grad_input") else "out"

    def kernel(keys: Any, *arguments: Any, **options: Any) -> Any:
        arguments = _wrapped(arguments, tensors)
        first, settings = arguments[0], active()
        if settings is None or not settings.everything:
            return otherwise(keys, *arguments, **options)
        dtype = first.dtype
        if promoted and not (dtype.is_floating_point or dtype.is_complex):
            dtype = torch.get_default_dtype()
            first = first.to(dtype)
            arguments = (first, *arguments[1:])
        if not dtype.is_floating_point or not (stepwise or dtype in settings.dtypes):
            return otherwise(keys, *arguments, **options)
        given, out = options, None
        if options and target in options:
            given = options.copy()
            out = given.pop(target)
        result = compute(settings, *arguments, **given)
        if result is None:
            return otherwise(keys, *arguments, **options)
        settings.count(operator)
        if in_place:
            return _written(settings, first, result)
        return result if out is None else delivered(result, out)

    return kernel


def _written(settings: Settings, first: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
    """Return a tensor with a result copied into it, which is what was noted of the result."""
    if result is first:  # written as it was computed
        return first
    terms = settings.part and settings.part.notes.terms(result)
    first.copy_(result)
    return settings.note(first, terms) if terms else first


_ADDITIONS = {f"{operator}{form}.Tensor" for operator in ("add", "sub") for form in ("", "_")}
"""Operators of which only x ± αy is computed otherwise."""


def _adding(name: str, scaled: Callable[..., Any], otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """Return the kernel of an addition: PyTorch's own but with alpha, which is an option.

    A sum of two gradients has the terms of both: uses of a parameter are added so.
    """
    notes_terms = name.startswith("add")

    def kernel(keys: Any, x: Any, y: Any, **options: Any) -> Any:
        if options:
            return scaled(keys, x, y, **options)
        x, y = _wrapped((x, y), [0, 1])
        settings = active() if notes_terms else None
        if settings is None or settings.part is None or x.shape != y.shape:
            return otherwise(keys, x, y)
        first, second = map(settings.part.notes.terms, (x, y))  # now: one may be written to
        result = otherwise(keys, x, y)
        if first and second:
            settings.note(result, both(first, second))
        return result

    return kernel


def _drawing(name: str, device: str, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """Return the kernel of an operator that draws random numbers, of any dtype."""
    compute, operator = draws.KERNELS[name], _operator(name)
    native = torch.library.get_kernel(f"aten::{name}", device)

    def kernel(keys: Any, *arguments: Any, **options: Any) -> Any:
        settings = active()
        if settings is None or not settings.everything:
            return otherwise(keys, *arguments, **options)
        result = compute(settings, *arguments, **options)
        if result is None:
            native.call_boxed(keys, *arguments, **options)  # raises PyTorch's error of what does not fit
            given = (*arguments, *options.values())
            dtype = next(x.dtype for x in given if isinstance(x, torch.Tensor))
            raise RuntimeError(_refused(operator, dtype, settings))
        settings.count(operator)
        return result

    return kernel


def _of_lists(name: str, compute: Callable[..., Any], otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """Return the kernel of an operator of lists, which in a mode of everything is made of others."""
    operator = _operator(name)

    def kernel(keys: Any, *arguments: Any, **options: Any) -> Any:
        settings = active()
        if settings is None or not settings.everything:
            return otherwise(keys, *arguments, **options)
        result = compute(settings, *arguments, **options)
        if result is NotImplemented:
            return otherwise(keys, *arguments, **options)
        settings.count(operator)
        return result

    return kernel


def _operator(name: str) -> str:
    return name.partition(".")[0].rstrip("_")


def _tensors(name: str) -> list[int]:
    """Return which arguments of an operator are tensors."""
    base, _, overload = name.partition(".")
    schema = getattr(getattr(torch.ops.aten, base), overload or "default")._schema
    return [i for i, argument in enumerate(schema.arguments) if str(argument.type) == "Tensor"]


def _replacing() -> Iterator[tuple[str, str, Callable[..., Any]]]:
    """Yield the operators that are replaced, the dispatch key of each, and the kernel."""
    for device in _DEVICES:
        for name, compute in products.KERNELS.items():
            yield name, device, _kernel(name, device, compute, counted=True, product=True)
        for name, compute in reductions.KERNELS.items():
            yield name, device, _kernel(name, device, compute, counted=True, varying=True)
        for name, compute in convolutions.KERNELS.items():
            yield name, device, _kernel(name, device, compute, counted=True, product=True)
        for name, compose in _COMPOSED.items():
            for key in (device, f"Autograd{device}"):
                yield name, key, _kernel(name, device, compose)
        native = [(name, device) for name in (*attention.FUSED[device], *_RECURRENT[device], *_OTHERS)]
        for name, key in native:
            if torch._C._dispatch_has_computed_kernel_for_dispatch_key(f"aten::{name}", key):
                yield name, key, _kernel(name, key, lambda *_, **__: None, product=True)
        for name, key in ((name, f"{layout}{device}") for layout, names in _SPARSE.items() for name in names):
            if torch._C._dispatch_has_computed_kernel_for_dispatch_key(f"aten::{name}", key):
                yield name, key, _kernel(name, key, sparse.KERNELS[name], counted=True, product=True)


def _kernel(
    name: str,
    key: str,
    compute: Callable[..., Any],
    *,
    counted: bool = False,
    product: bool = False,
    varying: bool = False,
) -> Callable[..., Any]:
    """Return an operator's kernel: in the mode what `compute` returns, else what the replaced kernel returns.

    counted: whether calls computed here are counted; product, varying: whether those that PyTorch computes
    are, as its products or as operators that vary.
    """
    native = torch.library.get_kernel(f"aten::{name}", key)
    operator = "sparse " * key.startswith("Sparse") + _operator(name)
    always = name in products.KERNELS
    halves = key in _DEVICES and (always or name in reductions.KERNELS)

    def kernel(keys: Any, first: torch.Tensor, *arguments: Any, **options: Any) -> Any:
        settings, dtype = active(), first.dtype
        replaced = settings is not None and (
            dtype in settings.dtypes or (halves and dtype in settings.halves)
        )
        if settings is not None and replaced:
            result = compute(settings, first, *arguments, **options)
            if result is not None:
                if counted:
                    settings.count(operator)
                return result
        if settings is None or not (first.is_floating_point() or first.is_complex()):
            return native.call_boxed(keys, first, *arguments, **options)
        refused = (product or varying) and settings.strict
        ours = counted and replaced and (settings.everything or always)
        if refused and not ours:
            raise RuntimeError(_refused(operator, dtype, settings))
        result = native.call_boxed(keys, first, *arguments, **options)  # or PyTorch's error
        if ours and _has_empty((first, *arguments)):
            return result
        if refused:
            raise RuntimeError(_refused(operator, dtype, settings))
        if product:
            settings.count_native(operator, dtype)
        elif varying:
            settings.count_varying(operator)
        return result

    return kernel


def _has_empty(arguments: Iterable[Any]) -> bool:
    """Return whether one of some arguments is a tensor without elements, of which nothing is summed."""
    return any(isinstance(x, torch.Tensor) and not x.numel() for x in arguments)


def _watching(name: str, key: str) -> Callable[..., Any]:
    """Return the kernel of an operator that is PyTorch's, and counted in the mode if its bits may vary."""
    native, operator, tensors = (
        torch.library.get_kernel(f"aten::{name}", key),
        _operator(name),
        _tensors(name),
    )

    def kernel(keys: Any, *arguments: Any, **options: Any) -> Any:
        arguments = _wrapped(arguments, tensors)
        settings = active()
        if settings is None or not any(isinstance(x, torch.Tensor | list) for x in arguments):
            return native.call_boxed(keys, *arguments, **options)
        dtype, result = floating(arguments), None
        if dtype is None or (settings.everything and name in _OF_EVERYTHING):
            result = native.call_boxed(keys, *arguments, **options)  # or PyTorch's error
            dtype = dtype or floating([result])  # of integers, too, some operators make such numbers
        if dtype is not None and varies(operator, dtype, arguments, options, settings.everything):
            if settings.strict:
                raise RuntimeError(_refused(operator, dtype, settings))
            settings.count_varying(operator)
        return native.call_boxed(keys, *arguments, **options) if result is None else result

    return kernel


def _wrapped(arguments: tuple[Any, ...], tensors: list[int]) -> tuple[Any, ...]:
    """Return arguments in which numbers are tensors again: PyTorch hands a kernel in Python their values."""
    numbers = []
    for i in tensors:  # others are given by name
        if i < len(arguments) and not isinstance(arguments[i], torch.Tensor):
            numbers.append(i)
    if not numbers:
        return arguments
    (like, *_) = [x for x in arguments if isinstance(x, torch.Tensor)]
    wrapped = list(arguments)
    for i in numbers:
        x = wrapped[i]
        real = like.is_floating_point() and not isinstance(x, complex)
        wrapped[i] = torch.scalar_tensor(x, dtype=like.dtype if real else torch.result_type(like, x))
    return tuple(wrapped)


def _refused(operator: str, dtype: torch.dtype, settings: Settings) -> str:
    """Return what is said of an operator that `strict=True` does not let pass."""
    advice = instead_of(operator)
    functions = _REAL if settings.everything and operator in _FUNCTIONS else ()
    on_request = REPLACEABLE if operator in products.KERNELS or operator in ("sum", "mean") else functions
    if dtype in on_request and dtype not in settings.dtypes | settings.halves:
        advice = f"dtypes={_listed(settings.dtypes | settings.halves | {dtype})}"
    elif settings.everything and dtype.itemsize == 2 and dtype.is_floating_point:
        advice = f"x.float(), and round the result with .to({dtype}),"
    elif operator in RECURRENT:
        advice = "torch.backends.mkldnn.flags(enabled=False), or cudnn's"
    write = f"; write {advice} instead" if advice else ""
    machine, mode = ("the machine, ", "everything") if settings.everything else ("", "strict")
    return (
        f"within ozaki.torch.reproducible({mode}=True) {operator} of {dtype} was called, whose bits may vary "
        f"with {machine}threads, the cut of a batch or the order of its samples{write}"
    )


_REAL = (torch.float32, torch.float64)


def _listed(dtypes: Iterable[torch.dtype]) -> str:
    """Return dtypes as `reproducible` takes them.

    >>> _listed({torch.float64}), _listed({torch.float64, torch.float32})
    ('torch.float64', '(torch.float32, torch.float64)')
    """
    names = sorted(map(str, dtypes))
    return names[0] if len(names) == 1 else f"({', '.join(names)})"
