"""One module per Slack surface: decode, call a flow, ack. No rule and no block is made here; `slack_app` binds them."""
