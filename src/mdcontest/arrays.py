"""Names for the array types used everywhere."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
"""Real numbers."""
Ints = NDArray[np.intp]
"""Indices of states, actions or pairs."""
Mask = NDArray[np.bool_]
"""A set of states or pairs."""
Matrix = Any
"""A float64 array or a scipy.sparse array with the same meaning."""
