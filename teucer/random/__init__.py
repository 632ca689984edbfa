"""Random numbers: keys, and samples of distributions that are functions of a key."""
from teucer.random._keys import PRNGKey, clone, fold_in, key, key_data, key_dtype, key_impl, split, wrap_key_data
from teucer.random._uniform import bernoulli, bits, rademacher, randint, uniform
