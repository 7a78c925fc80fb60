"""plumb.jax, and arrays of JAX, beside jax.lax."""
import numpy as np
import pytest
from reference import arrays, conv

import plumb
from plumb import _plumb

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402

needs_handlers = pytest.mark.skipif(not _plumb._jax_handlers(), reason="built without jaxlib's headers")
IMAGES = {1: (11,), 2: (9, 8), 3: (6, 7, 5)}


def test_arrays_outside_of_jit():
    x, w = arrays(1, (2, 3, 8, 8), (4, 3, 3, 3))
    y = plumb.conv(jnp.asarray(x), jnp.asarray(w), padding=1)
    assert isinstance(y, jax.Array)
    np.testing.assert_array_equal(np.asarray(y), conv(x, w, padding=1))
    half = plumb.conv(jnp.asarray(x, jnp.bfloat16), jnp.asarray(w, jnp.bfloat16), padding=1)
    assert half.dtype == jnp.bfloat16
    np.testing.assert_array_equal(np.asarray(half, "float32"), conv(x, w, padding=1))
    with pytest.raises(plumb.Error, match="an array of JAX, which may not be written"):
        plumb.conv(jnp.asarray(x), jnp.asarray(w), padding=1, out=y)


def test_numpys_bfloat16():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x, w = (array.astype(ml_dtypes.bfloat16) for array in arrays(2, (1, 2, 6, 6), (3, 2, 3, 3)))
    y = plumb.conv(x, w)
    assert isinstance(y, np.ndarray) and y.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(y.astype("float32"), conv(x.astype("float32"), w.astype("float32")))


@needs_handlers
@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("boundary", ["zeros", "periodic", "clamp"])
def test_jit(axes, boundary):
    import plumb.jax as by_plumb
    x, w, bias = arrays(3, (2, 4) + IMAGES[axes], (6, 2) + (3,) * axes, (6,))
    settings = dict(stride=2, padding=1, groups=2, boundary=boundary)
    compiled = jax.jit(lambda x, w, bias: by_plumb.conv(x, w, bias, **settings))
    np.testing.assert_array_equal(compiled(x, w, bias), conv(x, w, bias, **settings))


@needs_handlers
def test_gradients_are_those_of_lax():
    import plumb.jax as by_plumb
    x, w = (jnp.asarray(array) for array in arrays(4, (2, 4, 7, 6), (6, 2, 3, 3)))
    dy = jnp.asarray(arrays(5, (2, 6, 4, 3)))

    def loss_of(function):
        return lambda x, w: jnp.sum(function(x, w) * dy) ** 2

    ours = loss_of(lambda x, w: by_plumb.conv(x, w, stride=2, padding=1, groups=2))
    theirs = loss_of(lambda x, w: jax.lax.conv_general_dilated(x, w, (2, 2), [(1, 1)] * 2, feature_group_count=2))
    with jax.default_matmul_precision("highest"):  # else JAX computes in TF32 on a GPU
        for got, expected in zip(jax.grad(ours, (0, 1))(x, w), jax.grad(theirs, (0, 1))(x, w)):
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-2)
        second = [jax.grad(lambda x: jnp.sum(jax.grad(loss, 1)(x, w)))(x) for loss in (ours, theirs)]
    np.testing.assert_allclose(second[0], second[1], rtol=1e-4, atol=1e-1)


@needs_handlers
def test_vmap():
    import plumb.jax as by_plumb
    x, w = arrays(6, (3, 1, 2, 6, 6), (4, 2, 3, 3))
    mapped = jax.vmap(lambda x: by_plumb.conv(x, w))(jnp.asarray(x))
    np.testing.assert_array_equal(mapped, np.stack([conv(one, w) for one in x]))


@needs_handlers
def test_errors():
    import plumb.jax as by_plumb
    x, w = (jnp.asarray(array) for array in arrays(7, (1, 2, 6, 6), (4, 2, 3, 3)))
    with pytest.raises(plumb.Error, match="boundary is 'mirror'"):
        by_plumb.conv(x, w, boundary="mirror")
    with pytest.raises(plumb.Error, match="x and w have 4 and 3 axes"):
        by_plumb.conv(x, w[0])
    with pytest.raises(Exception, match="expected w to be"):
        jax.block_until_ready(by_plumb.conv(x, w[:, :1]))
