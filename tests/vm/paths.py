"""Where things are: the project, its build folder, and what the guest harness keeps there."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
# Kernels, initrds and logs. Set UBLKD_VM_DIR to share them between checkouts.
VM = Path(os.environ.get("UBLKD_VM_DIR") or BUILD / "vm")
PYTHON = "/usr/bin/python3"
