"""What the tests of the schedule share: an executor in memory, and ways for a job to end."""

from mdcontest.experiments.jobs import Ending

KILLED = Ending("its process was killed by signal 9", died=True)
BROKEN = Ending("the robot fell over")


class Fake:
    """Ends jobs in the order they were started, each as the next entry of its plan says."""

    def __init__(self, slots=2, plans=None):
        self.slots, self.plans = slots, {key: list(plan) for key, plan in (plans or {}).items()}
        self.started, self.running, self.most, self.log = [], [], 0, []
        self.interrupt_after = None
        """Raise KeyboardInterrupt after so many calls of ended."""

    def start(self, job):
        assert job.label not in [one.label for one in self.running], "it runs already"
        self.started.append(job.label)
        self.running.append(job)
        self.most = max(self.most, len(self.running))
        assert len(self.running) <= self.slots

    def ended(self, timeout):
        self.log.append("ended")
        if self.interrupt_after is not None and len(self.log) > self.interrupt_after:
            self.interrupt_after = None
            raise KeyboardInterrupt
        if not self.running:
            return []
        job = self.running.pop(0)
        plan = self.plans.get(job.label, [])
        step = plan.pop(0) if plan else Ending()
        return [(job, step(job) if callable(step) else step)]

    def interrupt(self):
        self.log.append("interrupt")

    def close(self):
        self.log.append("close")


def silent(entries, changed):
    pass


def states(entries):
    return {entry.job.label: entry.state for entry in entries}
