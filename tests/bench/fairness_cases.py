"""The cases of the fairness bench, as data: who shares a pool, and what load each device gets at the same time.

A layout is a pool of tags and its devices, made of null_blk or of ublkd; a case has one or more runs on its layout; a
run is fio with one job per load. How they are judged is in fairness_figures.py.
"""

from dataclasses import dataclass, field

MS = 1_000_000  # ns
LETTERS = "ABCDEFGH"


@dataclass(frozen=True)
class Tenant:
    """A device of a pool: its letter, how long its requests take, its weight."""
    name: str
    service_ns: int = MS
    weight: int = 1


@dataclass(frozen=True)
class Layout:
    """`null_blk`: the kernel's driver can be this pool."""
    name: str
    depth: int
    tenants: tuple
    null_blk: bool = True


@dataclass(frozen=True)
class Load:
    """A job of fio on one device: random 4 KiB reads at a depth, submitted and reaped in batches of at most `batch`.

    `job` names it where a device has several. `measured`: it runs all the time, so that its rate means something.
    """
    tenant: str
    depth: int
    batch: int = 1
    words: tuple = ()
    measured: bool = True
    job: str = ""

    @property
    def name(self):
        return self.job or self.tenant


@dataclass(frozen=True)
class Run:
    """Loads that run at the same time. Times are virtual seconds; what happens before `ramp_s` does not count."""
    name: str
    loads: tuple
    seconds: float = 2.3
    ramp_s: float = 0.3


@dataclass(frozen=True)
class Case:
    name: str
    title: str
    layout: Layout
    runs: tuple
    not_for: dict = field(default_factory=dict)   # system not measured -> what its column says instead


def heavy(tenant):
    return Load(tenant, 128, 32)


def once(tenant):
    """One read at the moment the others begin, then idle."""
    return Load(tenant, 1, words=("time_based=0", "number_ios=1"), measured=False)


def at_odd_times(device, pause_us):
    """Four readers, each with its own pause between two reads, so that requests begin and end at all times."""
    return tuple(Load(device, 1, words=(f"thinktime={pause_us + 97 * number}us",), job=f"{device}{number}")
                 for number in range(4))


def together(device, *words):
    """Thirty-two reads at once, and again when all are done."""
    return (Load(device, 32, 32, ("iodepth_batch_complete_min=32", "iodepth_batch_complete_max=32", *words)),)


def tenants(count, **more):
    return tuple(Tenant(name, **more) for name in LETTERS[:count])


FOUR = Layout("four", 32, tenants(4))
WEIGHTED = Layout("weighted", 32, tuple(Tenant(name, weight=weight) for name, weight in zip("ABCD", (1, 2, 4, 8))),
                  null_blk=False)
EIGHT = Layout("eight", 4, tenants(8))
UNLIKE = Layout("unlike", 32, (Tenant("A", 100 * MS), Tenant("B", MS // 10)), null_blk=False)
LATE = Layout("late", 32, (Tenant("A"), Tenant("B", 0)), null_blk=False)

B_DEPTH_4 = Load("B", 4)
B_SOMETIMES = Load("B", 1, words=("rate_iops=100",))
B_FAST = Load("B", 8)
SELDOM = Load("B", 1, words=("thinktime=4s",), measured=False)

CASES = (
    Case("a", "A alone at depth 128", FOUR, (Run("main", (heavy("A"),), 3.3),)),
    Case("b", "four devices at depth 128", FOUR, (Run("main", tuple(map(heavy, "ABCD"))),)),
    Case("c", "B, C, D read once, A at 128", FOUR,
         (Run("main", (once("B"), once("C"), once("D"), heavy("A")), 9, 0),), {"none": "-"}),
    Case("c2", "as c, B reads every 4 s", FOUR,
         (Run("main", (SELDOM, once("C"), once("D"), heavy("A")), 15, 0),), {"none": "-"}),
    Case("d", "A at 128, B at 4", FOUR, (Run("solo", (B_DEPTH_4,)), Run("main", (heavy("A"), B_DEPTH_4)))),
    Case("e", "A at 128, B every 10 ms", FOUR,
         (Run("solo", (B_SOMETIMES,), 10.3), Run("main", (heavy("A"), B_SOMETIMES), 5.3))),
    Case("f", "weights 1:2:4:8, all at 128", WEIGHTED, (Run("main", tuple(map(heavy, "ABCD")), 3.3),),
         {"null_blk": "cannot"}),
    Case("g", "depths 4, 16, 64, 128", FOUR,
         (Run("solo", (Load("A", 4),)),
          Run("main", (Load("A", 4), Load("B", 16, 16), Load("C", 64, 32), heavy("D")), 3.3))),
    Case("h", "pool of 4, eight at depth 16", EIGHT,
         (Run("main", tuple(Load(name, 16, 16) for name in LETTERS), 3.3),)),
    Case("i", "A takes 100 ms at 64, B 0.1 ms at 8", UNLIKE,
         (Run("solo", (B_FAST,), 1.3), Run("main", (Load("A", 64, 32), B_FAST), 2.3, 0.5)),
         {"null_blk": "n/a"}),
    Case("late", "delay lateness", LATE,
         (Run("one", (Load("A", 1),), 6.1, 0.1), Run("one_base", (Load("B", 1, words=("thinktime=1ms",)),), 6.1, 0.1),
          Run("deep", together("A"), 6.3), Run("deep_base", together("B", "thinktime=1ms", "thinktime_blocks=32"), 6.3),
          Run("odd", at_odd_times("A", 2000)), Run("odd_base", at_odd_times("B", 3000))),
         {"null_blk": "n/a", "none": "-", "equal": "-"}),
)


def chosen(names):
    """The cases that are named, all without names; `a` always, since most limits are multiples of it."""
    return [case for case in CASES if not names or case.name in names or case.name == "a"]


def key(system, case, run):
    """Names one run of one system, in files too."""
    return f"{system}-{case.name}-{run.name}"
