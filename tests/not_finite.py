"""What is no number, or no finite one."""

NAN, INF = float("nan"), float("inf")
