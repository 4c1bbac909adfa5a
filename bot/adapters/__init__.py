"""Where the bot meets the world: Slack, broker, incident store, artifact files. Only here are vendor libraries imported."""
