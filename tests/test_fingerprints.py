"""Fingerprints of dictionaries, sequences and objects with a state: of names, dtypes, shapes and bits."""

import subprocess
import sys
from collections import OrderedDict

import numpy as np
import pytest

import ozaki

MODEL = {
    "layers": [{"weight": np.ones((2, 3), np.float32), "bias": np.zeros(2, np.float32)}, None],
    "betas": (0.9, 0.999),
    "name": "a",
    0: {"step": 3, "on": True},
}


def changed(*path, to):
    """The model with one value changed, deep inside."""

    def copied(x, path):
        if not path:
            return to
        kind = dict(x) if isinstance(x, dict) else list(x)
        kind[path[0]] = copied(kind[path[0]], path[1:])
        return kind

    return copied(MODEL, path)


def test_a_model_has_one_fingerprint():
    assert ozaki.fingerprint(MODEL) == "a7c3b91e336e62bf"
    assert ozaki.fingerprint(OrderedDict(reversed(MODEL.items()))) == ozaki.fingerprint(MODEL)
    assert ozaki.fingerprint(changed("betas", to=[0.9, 0.999])) == ozaki.fingerprint(MODEL)


def test_names_dtypes_shapes_bits_and_nesting_tell():
    weight = np.ones((2, 3), np.float32)
    others = [
        changed("layers", 0, "weight", to=weight.astype(float)),
        changed("layers", 0, "weight", to=weight.reshape(3, 2)),
        changed("layers", 0, "weight", to=np.nextafter(weight, 2)),
        changed("layers", 0, "bias", to=np.full(2, -0.0, np.float32)),
        changed("layers", 1, to="None"),
        changed("layers", 1, to=""),
        changed("layers", 1, to=b""),
        changed("name", to="b"),
        changed("betas", to=(0.999, 0.9)),
        changed("betas", to=[[0.9, 0.999]]),
        changed(0, "on", to=1),
        {"a" if k == "name" else k: v for k, v in MODEL.items()},
        {str(k): v for k, v in MODEL.items()},
        list(MODEL.values()),
        [MODEL],
    ]
    found = {ozaki.fingerprint(x) for x in (MODEL, *others)}
    assert len(found) == len(others) + 1


def test_sequences_of_numbers_are_arrays_and_of_arrays_are_not():
    x = np.arange(6.0).reshape(2, 3)
    assert ozaki.fingerprint(x.tolist()) == ozaki.fingerprint(x)
    assert ozaki.fingerprint(list(x)) != ozaki.fingerprint(x)
    assert ozaki.fingerprint([x[0].astype(np.float32), x[1]]) != ozaki.fingerprint(list(x))


def test_an_object_with_a_state_has_that_of_its_dictionary():
    class Model:
        def state_dict(self):
            return MODEL

    assert ozaki.fingerprint(Model()) == ozaki.fingerprint(MODEL)


@pytest.mark.parametrize(
    ("x", "said"),
    [
        ("a", "x must be an array"),
        ({"a": [1, {"b": object()}]}, r"x\['a'\]\[1\]\['b'\] must be an array of numbers, got object"),
        ([np.array(["a"])], r"x\[0\] must be a numeric array"),
        ({"a": [2**53 + 1, 0.5]}, r"x\['a'\] .*cannot hold exactly"),
        ({object(): 1}, "a key of x must be an array of numbers, got object"),
    ],
)
def test_what_is_not_numeric_is_named(x, said):
    with pytest.raises(TypeError, match=said):
        ozaki.fingerprint(x)


def test_no_library_of_tensors_is_imported():
    code = "import ozaki, sys; ozaki.fingerprint({'a': [1.0]}); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_tensors_have_the_fingerprints_of_their_arrays():
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    state = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    found = ozaki.fingerprint(model)
    assert found == ozaki.fingerprint(model.state_dict()) == ozaki.fingerprint(state)
    assert ozaki.fingerprint(model[0].weight) == ozaki.fingerprint(state["0.weight"])
    assert ozaki.fingerprint(list(model.parameters())) == ozaki.fingerprint(
        [p.detach().numpy() for p in model.parameters()]
    )
    halves = ozaki.fingerprint(model.bfloat16())  # of PyTorch alone
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(5, 3, dtype=torch.bfloat16)).sum().backward()
    before = ozaki.fingerprint(optimizer)
    optimizer.step()
    assert len({found, halves, ozaki.fingerprint(model.float())}) == 3
    assert ozaki.fingerprint(optimizer) == ozaki.fingerprint(optimizer.state_dict()) != before
    with pytest.raises(TypeError, match=r"x\['a'\] must be a strided tensor, got torch.sparse_coo"):
        ozaki.fingerprint({"a": torch.eye(3).to_sparse()})
