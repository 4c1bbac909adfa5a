"""The conversation: Slack, the HTTP interface for nodes, and every store and token.

Judges nothing (that is `playbooks`) and never touches a GPU node (that is `workers`).
"""
