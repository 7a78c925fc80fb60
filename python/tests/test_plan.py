"""plumb.Plan, the operators, and what the library says of itself."""
import pickle
import subprocess
import sys

import numpy as np
import pytest
from reference import arrays, conv

import plumb


def test_execute_and_pack():
    x, w, bias = arrays(1, (2, 8, 9, 9), (16, 8, 3, 3), (16,))
    plan = plumb.Plan(x, w, bias, padding=1, stride=2, activation="relu")
    expected = np.maximum(conv(x, w, bias, padding=1, stride=2), 0)
    np.testing.assert_array_equal(plan.execute(x, w, bias), expected)
    packed = plan.pack(w)
    assert packed.nbytes >= w.nbytes
    out = np.empty(plan.shape, "float32")
    assert plan.execute(x, packed, bias, out) is out
    np.testing.assert_array_equal(out, expected)
    with pytest.raises(plumb.Error, match="x is"):
        plan.execute(x[:, :, 1:], w, bias)
    with pytest.raises(plumb.Error, match="bias"):
        plan.execute(x, w)


def test_of_shapes():
    plan = plumb.Plan((4, 3, 20), (5, 3, 4), dtype="float64", padding=2)
    x, w = arrays(2, (4, 3, 20), (5, 3, 4), dtype="float64")
    np.testing.assert_array_equal(plan.execute(x, w), conv(x, w, padding=2))
    assert (plan.dtype, plan.device, plan.shape) == ("float64", "cpu", (4, 5, 21))
    assert np.dtype("float64") == plumb.Plan((1, 1, 4), (1, 1, 2), dtype=np.float64).dtype
    with pytest.raises(plumb.Error, match="dtype is"):
        plumb.Plan((1, 1, 4), (1, 1, 2), dtype="int8")


def test_explain_is_a_table():
    plan = plumb.Plan((1, 1, 32, 32), (1, 1, 3, 3), padding=1)
    table = plan.explain()
    chosen = [row for row in table if row["chosen"]]
    assert [row["algorithm"] for row in chosen] == [plan.algorithm]
    lines = repr(table).splitlines()
    assert len(lines) == len(table) + 1
    assert [line for line in lines if line.startswith("* " + plan.algorithm)]
    page = table._repr_html_()
    assert page.count("<tr") == len(table) + 1 and plan.algorithm in page and "bold" in page
    assert plan.algorithm in repr(plan)


def test_filters_that_nothing_packed():
    x, w = arrays(7, (1, 2, 9, 9), (3, 2, 3, 3))
    with pytest.raises(plumb.Error, match="PackedFilters without filters"):
        plumb.Plan(x, w).execute(x, plumb.PackedFilters.__new__(plumb.PackedFilters))
    with pytest.raises(plumb.Error, match="the filters were packed for"):
        plumb.Plan(x, w).execute(x, plumb.Plan(x, w[:2]).pack(w[:2]))


def test_operators():
    x = arrays(3, (2, 3, 6, 8))
    windows = x.reshape(2, 3, 3, 2, 4, 2)
    np.testing.assert_array_equal(plumb.max_pool(x, 2), windows.max(axis=(3, 5)))
    np.testing.assert_allclose(plumb.avg_pool(x, 2), windows.mean(axis=(3, 5)), rtol=1e-6)
    assert plumb.max_pool(x, (3, 2), stride=1, padding=(1, 0)).shape == (2, 3, 6, 7)
    assert plumb.avg_pool(np.ones((1, 1, 4), "f"), 2, padding=1)[0, 0, 0] == 0.5  # as PyTorch counts padding
    assert plumb.avg_pool(np.ones((1, 1, 4), "f"), 2, padding=1, count_include_pad=False)[0, 0, 0] == 1
    a, b, bias = arrays(4, (5, 7), (3, 7), (3,))
    np.testing.assert_array_equal(plumb.linear(a, b, bias), a @ b.T + bias)
    np.testing.assert_array_equal(plumb.relu(x), np.maximum(x, 0))
    soft = np.exp(a) / np.exp(a).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(plumb.softmax(a), soft, rtol=1e-5)
    np.testing.assert_array_equal(plumb.resize_bilinear(x, (6, 8)), x)
    assert plumb.resize_bilinear(x, (12, 4)).shape == (2, 3, 12, 4)
    with pytest.raises(plumb.Error, match=r"expected \[N, C\] and \[K, C\]"):
        plumb.linear(x, b)
    in_place = x.copy()
    assert plumb.relu(in_place, out=in_place) is in_place
    np.testing.assert_array_equal(in_place, np.maximum(x, 0))


def test_devices():
    rows = plumb.devices()
    assert [row for row in rows if row["device"] == "cpu" and row["units"] >= 1]
    assert all(row["sentence"] for row in rows if row["reason"] != "none")


def test_validate_and_tune():
    plan = plumb.Plan((1, 2, 9, 9), (3, 2, 3, 3), padding=1)
    verdicts = plumb.validate(plan, algorithm=plan.algorithm)
    assert {row["tier"] for row in verdicts} == {"exact", "bounded", "repeatable", "attested", "reproducible"}
    assert {row["verdict"] for row in verdicts} == {"pass"}
    times = plumb.tune("mb1ic1ih9oc1kh3ph1", seconds=0.01, write=False)
    assert [row for row in times if row["seconds"] and row["seconds"] > 0]
    with pytest.raises(plumb.Error, match="has none of that name"):
        plumb.validate(plan, algorithm="cpu.conv.none")
    with pytest.raises(plumb.Error):
        plumb.validate("mb1ic")
    for call in (plumb.validate, plumb.tune):
        with pytest.raises(plumb.Error, match="problem is 5; expected a Plan, or text"):
            call(5)
    for seconds in (0, -1, float("nan"), float("inf")):
        with pytest.raises(plumb.Error, match="expected more than 0"):
            plumb.tune(plan, seconds=seconds)


def test_providers_are_named():
    with pytest.raises(plumb.Error, match="providers has 'mkl'; expected cudnn and onednn"):
        plumb.Plan((1, 2, 9, 9), (3, 2, 3, 3), providers="mkl")
    x, w = arrays(5, (1, 2, 9, 9), (3, 2, 3, 3))
    dy = plumb.conv(x, w)
    calls = (lambda **kw: plumb.conv(x, w, **kw), lambda **kw: plumb.conv_backward_data(dy, w, **kw),
             lambda **kw: plumb.conv_backward_weights(x, dy, w.shape, **kw),
             lambda **kw: plumb.conv_transpose(dy, w, **kw), lambda **kw: plumb.tune("ic2ih9oc3kh3", **kw),
             lambda **kw: plumb.validate("ic2ih9oc3kh3", **kw), lambda **kw: plumb.Plan(x, w, **kw))
    for call in calls:
        with pytest.raises(plumb.Error, match=r"providers is \['onednn'\]; expected None or a str"):
            call(providers=["onednn"])
        with pytest.raises(plumb.Error, match="providers has 'onednm'.*did you mean 'onednn'"):
            call(providers="onednm")
    names = {row["provider"]: row for row in plumb.providers()}
    assert set(names) == {"cudnn", "onednn"}
    assert all(bool(row["sentence"]) == (row["reason"] != "none") for row in names.values())


def test_a_provider_runs_where_it_is_the_faster_one(tmp_path, monkeypatch):
    monkeypatch.setenv("PLUMB_TUNE_CACHE", str(tmp_path / "cache"))
    described = dict(x=(2, 16, 12, 12), w=(16, 16, 3, 3), padding=1)
    ours = plumb.Plan(**described)
    assert ours.provider == "" and not [row for row in ours.explain() if row["provider"]]
    rows = [row for row in plumb.Plan(**described, providers="onednn").explain() if row["provider"]]
    assert {row["provider"] for row in rows} == {"onednn"} and not any(row["chosen"] for row in rows)
    if {row["reason"] for row in rows} != {"not_measured"}:
        pytest.skip(rows[0]["sentence"])
    theirs = plumb.Plan(**described, providers="onednn", algorithm="onednn.conv.nchw")
    assert theirs.provider == "onednn"
    x, w = arrays(6, described["x"], described["w"])
    np.testing.assert_allclose(theirs.execute(x, w), ours.execute(x, w), rtol=1e-4, atol=1e-4)
    verdicts = plumb.validate(theirs, algorithm="onednn.conv.nchw", providers="onednn")
    assert {row["verdict"] for row in verdicts} == {"pass"} and all("oneDNN" in row["provider"] for row in verdicts)
    times = plumb.tune(theirs, seconds=0.01, write=False, providers="onednn")
    assert [row for row in times if row["algorithm"] == "onednn.conv.nchw" and row["seconds"]]


def test_errors_are_pickled():
    error = plumb.Error("a sentence", "unsupported", "none")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.code, again.reason) == ("a sentence", "unsupported", "none")


def test_a_device_that_is_not_there():
    with pytest.raises(plumb.Error) as raised:
        plumb.Plan((1, 1, 4, 4), (1, 1, 3, 3), device="cuda:77")
    assert raised.value.code == "device_unavailable"
    assert raised.value.reason not in ("none", "unknown_backend")


def test_import_brings_no_framework():
    loaded = "import sys, plumb; print([m for m in ('torch', 'jax', 'cupy', 'scipy') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True).stdout.strip() == "[]"
