"""The product on one machine without Slack: a stand-in workspace with its page, an embedded broker, this machine as node."""
