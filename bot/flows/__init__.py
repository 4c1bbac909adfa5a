"""Use cases, one per file: plain synchronous functions over the store, called alike by Slack, HTTP routes and timers."""
