"""What the three versions of the driver say together: does a reboot wait, is the module there at all?"""

from __future__ import annotations

from playbooks.messages import FieldValue
from playbooks.reading.fields import read, value_of
from workers.ports import Facts


def driver_state(host: Facts) -> FieldValue:
    """Return the verdict over loaded, on disk and NVML (docs/reference/fingerprint.md#driver-state)."""
    loaded, on_disk = value_of(host, "driver.loaded"), value_of(host, "driver.on_disk")
    nvml = value_of(host, "nvml.error")
    packages = value_of(host, "driver.packages") or {}
    state: str | None
    if loaded is None:
        state = "module_not_loaded" if on_disk else "module_not_built" if packages else None
    elif (on_disk is not None and on_disk != loaded) or nvml == 18:
        state = "upgrade_pending_reboot"
    elif nvml == 12:
        state = "user_libraries_missing"
    else:
        state = "consistent"
    return read(state, "driver.loaded, driver.on_disk, nvml.error")
