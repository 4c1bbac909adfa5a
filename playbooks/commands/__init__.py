"""Commands of the core's `baseline`: one module per idea, each with `register(app)`; heavy imports stay inside them."""
