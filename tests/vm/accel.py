"""Which accelerator the guests get: KVM where a tiny probe boot shows that it works, else emulation (TCG).

/dev/kvm being there says little: some machines' KVM kills a stock kernel at once. The answer is kept until the machine
restarts. UBLKD_VM_ACCEL=kvm or tcg overrides it.
"""

import os
from pathlib import Path

from paths import VM
from progress import Failure, say

PROBE_TIMEOUT_S = 10


def boot_id():
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()


def choose(probe):
    """Returns "kvm" or "tcg"; `probe(timeout_s)` boots a guest with KVM and says whether that worked."""
    wanted = os.environ.get("UBLKD_VM_ACCEL", "")
    if wanted:
        if wanted not in ("kvm", "tcg"):
            raise Failure(f"UBLKD_VM_ACCEL={wanted}: want kvm or tcg")
        return wanted
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg"
    remembered = VM / "accel"
    if remembered.exists():
        when, _, answer = remembered.read_text(encoding="utf-8").strip().partition(" ")
        if when == boot_id() and answer in ("kvm", "tcg"):
            return answer
    answer = "kvm" if probe(PROBE_TIMEOUT_S) else "tcg"
    say(f"guests use {'KVM' if answer == 'kvm' else 'emulation: the KVM of this machine did not boot a guest'}")
    VM.mkdir(parents=True, exist_ok=True)
    remembered.write_text(f"{boot_id()} {answer}\n", encoding="utf-8")
    return answer
