"""What is open and what follows: the case, its checklist, gate and decision. Pure functions over values."""
