"""The hands on a GPU node: container engine, processes, NVML, HTTP to the inference engine.

Takes signed requests, returns facts, judges nothing and holds no Slack token.
"""
