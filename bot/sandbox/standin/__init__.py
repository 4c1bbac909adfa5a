"""A local stand-in for a Slack workspace: Web API, Socket Mode, events, and what people do in it.

It knows nothing of the product and shares no code with it: limits, scopes and error shapes stand in `table.yaml`,
written from Slack's reference, so that it refuses what Slack refuses even where the product's own validator errs.
"""
