"""The bot's HTTP interface: decode, call a flow, answer. No rule lives here."""
