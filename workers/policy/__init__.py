"""The node owner's word: what may be started on this node. It wins over the bot; each refusal names its rule."""

from workers.policy.file import NodePolicy, load_policy
from workers.policy.judge import Allowed, allow_inside, allow_launch

__all__ = ["Allowed", "NodePolicy", "allow_inside", "allow_launch", "load_policy"]
