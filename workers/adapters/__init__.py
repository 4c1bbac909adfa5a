"""Vendor libraries and the operating system, behind the ports: the bot's HTTP, processes, Docker, NVML."""
