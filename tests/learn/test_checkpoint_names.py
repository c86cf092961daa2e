"""Checkpoints of one iteration: the newest is the one written last, however often it was written."""

import numpy as np

from mdcontest.learn.checkpoint import KEPT, identity, list_checkpoints, read_checkpoint, write_checkpoint


def test_a_run_that_is_saved_at_the_same_iteration_again_and_again(tmp_path):
    """As one does that is killed before its next checkpoint, several times: none is pruned in place of an older one."""
    for attempt in range(8):
        written = write_checkpoint(tmp_path, 0, {"attempt": attempt, "weights": np.full(3, attempt)})
        assert list_checkpoints(tmp_path)[-1] == written
        assert read_checkpoint(written)["attempt"] == attempt
        assert identity(written).startswith(written.name)
        assert len(list_checkpoints(tmp_path)) == min(attempt + 1, KEPT)
    assert write_checkpoint(tmp_path, 7, {"attempt": 8}).name == "00000007"
    assert [path.name for path in list_checkpoints(tmp_path)] == ["00000000.7", "00000007"]
    assert not list(tmp_path.rglob(".*.tmp"))
