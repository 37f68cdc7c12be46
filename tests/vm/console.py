"""What a kernel log must not contain. `scan(text)` returns the offending lines, each once."""

import re

BAD = re.compile(
    r"BUG[: ]|WARNING: |\bOops\b|Kernel panic|general protection fault|unable to handle|Call Trace:"
    r"|blocked for more than|soft lockup|hard LOCKUP|rcu\w*:.*(stall|detected)|DEADLOCK"
    r"|possible (circular|recursive) locking|inconsistent lock state|lock held when returning|suspicious RCU usage"
    r"|UBSAN|KASAN|KCSAN|KMSAN|kmemleak|refcount_t:|list_(add|del) corruption|slab.*corrupt|Object already free"
    r"|scheduling while atomic|sleeping function called|nobody cared|page allocation failure|Out of memory: "
    r"|\bsegfault at\b|traps: |NETDEV WATCHDOG|stack-protector|invoked oom-killer")

# Lines of a healthy boot that look bad.
FINE = re.compile(r"Speculative Return Stack|unprivileged eBPF|rcu: .*(Hierarchical|Offload)|RCU.*stall.*timeout"
                  r"|hardware-managed|Spectre|MDS CPU bug|x86/bugs")

STAMP = re.compile(r"^(?:<\d+>)?\[\s*\d+\.\d+\](?:\[\s*\w+\])?\s?")
HITS_MAX = 50


def scan(text):
    seen = []
    for line in text.splitlines():
        plain = STAMP.sub("", line).strip()
        if BAD.search(plain) and not FINE.search(plain) and plain not in seen:
            seen.append(plain)
            if len(seen) == HITS_MAX:
                break
    return seen
