"""What a full disk does, in place of any operation on files."""

import errno


def full(*args, **options):
    raise OSError(errno.ENOSPC, "No space left on device")
