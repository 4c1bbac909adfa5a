"""Text to facts: engine logs, nvidia-smi, docker output, kernel logs, metrics, launch commands, recipes. No verdicts."""
